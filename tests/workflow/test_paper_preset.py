"""The paper's study of some six hundred jobs: planning it, and finding that nothing is to be done, takes seconds."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

PAPER = Path("workflow/presets/paper.yaml")
# Of the processor: other tests may run beside this one.
SECONDS = 10
# Snakemake waits a tenth of a second after each file that it touches.
TOUCH = "import sys, time; time.sleep = lambda seconds: None; from snakemake.cli import main; main(sys.argv[1:])"


@pytest.fixture
def paper(fresh):
    fresh.config = PAPER
    return fresh


def timed(project, *arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = project.snakemake("all", *arguments)
    assert result.returncode == 0, result.stderr[-3000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, result.stdout + result.stderr


def test_planning_and_a_run_with_nothing_to_do_take_seconds(paper):
    seconds, said = timed(paper, "--dry-run", "--quiet", "host")
    assert "train" in said and seconds < SECONDS
    summary = paper.snakemake("all", "--summary").stdout
    outputs = [line.partition("\t")[0] for line in summary.splitlines() if line.startswith("results/")]
    assert len(outputs) > 800
    for name in outputs:
        path = paper.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("stands for an output\n")
    command = [sys.executable, "-c", TOUCH, "all", "--touch", "--forceall", "--cores", "600", "--resources", "gpu=600"]
    touched = subprocess.run(
        [*command, "--configfile", str(PAPER)],
        cwd=paper.folder,
        env=paper.environment(),
        capture_output=True,
        text=True,
    )
    assert touched.returncode == 0, touched.stderr[-3000:]
    seconds, said = timed(paper)
    assert "Nothing to be done" in said and seconds < SECONDS
