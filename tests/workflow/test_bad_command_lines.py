"""Bad configs through the real command line: one sentence, exit status not 0, nothing written, nothing run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "workflow", folder / "workflow", ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
    return folder


def default(old, new):
    text = (ROOT / "config.yaml").read_text()
    assert old in text
    return text.replace(old, new, 1)


# The first two are told by Snakemake itself, before it reads a line of symlab.
CASES = {
    "no such file": (None, "No such file or directory: 'my.yaml'"),
    "a tag that runs code": ("results: !!python/object/apply:os.mkdir [ran]\n", "not valid JSON or YAML"),
    "a key twice": (
        default("    seeds: 8\n", "    seeds: 8\n    seeds: 10\n"),
        "the key 'seeds' comes twice, first in line",
    ),
    "a wrong value": (default("epochs: 60", "epochs: sixty"), "studies.digits.recipe.epochs = 'sixty' is not allowed"),
    "a figure without its variant": (
        default("      standard:\n        scheme: {name: standard}\n", ""),
        "asks for figure 16, which needs a variant with scheme.name: standard",
    ),
}


@pytest.mark.parametrize(("content", "words"), CASES.values(), ids=CASES)
def test_snakemake_says_it(content, words, project):
    if content is not None:
        (project / "my.yaml").write_text(content)
    before = {path for path in project.rglob("*") if ".snakemake" not in path.parts and "__pycache__" not in path.parts}
    result = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "all", "--quiet", "host", "--configfile", "my.yaml"],
        cwd=project,
        env={key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SYMLAB_DATA")},
        text=True,
        capture_output=True,
        timeout=120,
    )
    output = result.stdout + result.stderr
    assert result.returncode != 0 and output.count(words) == 1, output
    # Snakemake (9.27) shows where in its own code a missing file was noticed.
    assert content is None or "Traceback" not in output
    after = {path for path in project.rglob("*") if ".snakemake" not in path.parts and "__pycache__" not in path.parts}
    assert after == before
