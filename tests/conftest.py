"""A copy of the project in a temporary folder, and one finished smoke run that tests of the workflow start from."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yaml
from filelock import FileLock
from safetensors import safe_open

from symlab.artifacts import read_header, read_table

ROOT = Path(__file__).parents[1]
SMOKE = Path("workflow/presets/smoke.yaml")


@dataclass
class Project:
    """A project folder in which snakemake can be called as a user would."""

    folder: Path
    config: Path = SMOKE

    def command(self, *arguments):
        return [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", "--configfile", str(self.config)]

    def environment(self, **variables):
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SYMLAB_DATA")}
        return kept | variables

    def snakemake(self, *arguments, data_dir=None, **variables):
        environment = self.environment(**variables, **({"SYMLAB_DATA": str(data_dir)} if data_dir else {}))
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, env=environment, text=True, capture_output=True, timeout=1800
        )

    def start(self, *arguments, **variables):
        """Snakemake in the background, in a process group of its own, its output in terminal.log."""
        with (self.folder / "terminal.log").open("w") as terminal:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment(**variables),
                start_new_session=True,
                stdout=terminal,
                stderr=subprocess.STDOUT,
            )

    def planned(self, *targets):
        """Jobs of each rule that a run would execute now."""
        result = self.snakemake(*targets, "--dry-run", "--quiet", "host")
        assert result.returncode == 0, result.stderr
        output = result.stdout + result.stderr
        if "Nothing to be done" in output:
            return {}
        stats = output.split("Job stats:")[-1].split("total")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", stats, flags=re.MULTILINE)}

    def edit_config(self, change):
        path = self.folder / self.config
        config = yaml.safe_load(path.read_text())
        change(config)
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    def results(self, pattern):
        return sorted((self.folder / "results" / "smoke").glob(pattern))

    def assert_same_results(self, other, pattern="**/*"):
        """Every table and tensor file of the other project is here with the same values (times apart)."""
        names = [
            path.relative_to(other.folder)
            for path in other.results(pattern)
            if path.suffix in (".csv", ".parquet", ".safetensors") and "checkpoints" not in path.parts
        ]
        assert names
        for name in names:
            here, there = self.folder / name, other.folder / name
            if name.suffix == ".safetensors":
                kind = json.loads(safe_open(there, framework="numpy").metadata()["symlab"])["kind"]
                assert read_header(here, kind)["content_sha256"] == read_header(there, kind)["content_sha256"], name
            else:
                tables = [read_table(path).drop(columns="time_s", errors="ignore") for path in (here, there)]
                pd.testing.assert_frame_equal(*tables, check_exact=True, obj=str(name))


def copy_project(folder):
    for name in ("Snakefile", "config.yaml", "envs", "profiles", "workflow"):
        source = ROOT / name
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name, follow_symlinks=False)
    return Project(folder)


@pytest.fixture(scope="session")
def clone():
    """Makes a copy of the project, as cloned, in a folder."""
    return copy_project


@pytest.fixture
def fresh(tmp_path):
    """The project as cloned."""
    return copy_project(tmp_path)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The project after a smoke run, which all processes of the tests share; not to be changed (use ``finished``)."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            result = copy_project(folder).snakemake("all")
            if result.returncode != 0:
                # The other processes shall not take it for finished.
                shutil.rmtree(folder)
                pytest.fail(result.stderr[-5000:])
    return Project(folder)


@pytest.fixture
def finished(finished_run, tmp_path):
    """A copy of the finished run with its timestamps and Snakemake's records."""
    shutil.copytree(finished_run.folder, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy")
