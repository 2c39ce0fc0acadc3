"""The tutorials' commands, as they stand there, do what the tutorials say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from symlab.artifacts import read_table

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorial"


def commands(name):
    """What a tutorial has its reader type, in order."""
    return re.findall(r"^\$ (.*)$", (TUTORIALS / name).read_text(), flags=re.MULTILINE)


def run(command, folder, environment):
    """Run a command in this environment; what it says."""
    program, *arguments = command.split()
    module = [] if program == "python" else ["-m", program]
    result = subprocess.run(
        [sys.executable, *module, *arguments], cwd=folder, env=environment, text=True, capture_output=True, timeout=900
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_two_checkpoints_are_aligned_and_merged(fresh):
    enter, *rest = commands("checkpoints.md")
    assert enter == "cd examples/align"
    shutil.copytree(ROOT / "examples", fresh.folder / "examples", dirs_exist_ok=True)
    folder = fresh.folder / "examples" / "align"
    for command in rest:
        run(command, folder, fresh.environment())
    barriers = read_table(folder / "aligned" / "barriers.csv").set_index("aligned")["drop_max_pp"]
    assert barriers[True] < 10 < barriers[False]
    scores = read_table(folder / "merged" / "scores.csv").set_index("network")["accuracy"]
    assert scores["merged"] > 0.85 > scores["plain average"]


def test_a_study_of_one_s_own_is_run_and_grows(fresh):
    text = (TUTORIALS / "first-study.md").read_text()
    make, _, dry, whole = commands("first-study.md")
    assert make == "make demo"
    (fresh.folder / "mine.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    two = " --cores 2"
    assert "train" in run(dry + two, fresh.folder, fresh.environment())
    run(whole + two, fresh.folder, fresh.environment())
    results = fresh.folder / "results" / "mine"
    tables = results / "tags" / "tables"
    assert (results / "report.html").exists()
    barriers = read_table(tables / "barriers.csv")
    assert barriers["variant"].nunique() == 4 and barriers["pair"].nunique() == 2
    before, after = re.findall(r"`(sigma_F: \[[^`]*\])`", text)
    fresh.edit("mine.yaml", lambda config: config.replace(before, after))
    planned = run(dry + two, fresh.folder, fresh.environment())
    assert re.search(r"^train +1$", planned, flags=re.MULTILINE)
    run(whole + two, fresh.folder, fresh.environment())
    assert read_table(tables / "barriers.csv")["variant"].nunique() == 5
