"""A run that is killed at any moment, and taken up again, ends with the results of an undisturbed one."""

import random
import re
import time
from pathlib import Path

import psutil
import pytest

from ..conftest import wait_for

pytestmark = pytest.mark.slow

SEEDS = range(3)
# Put before the program of every Python process of the run: see tests/workflow/killer/sitecustomize.py.
KILLER = Path(__file__).parent / "killer"


def find_scripts(process):
    """The workflow scripts that a Snakemake runs just now."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if any(".snakemake/scripts/" in word for word in child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def test_snakemake_killed_at_three_moments(fresh, finished_run):
    jobs = len(finished_run.find("logs/**/*.log"))
    for seed, begun in zip(SEEDS, sorted(random.Random(0).sample(range(1, jobs), len(SEEDS))), strict=True):
        process = fresh.start("all")
        wait_for(lambda begun=begun: len(fresh.find("logs/**/*.log")) >= begun)
        time.sleep(random.Random(seed).uniform(0, 2))
        scripts = find_scripts(process)
        process.kill()
        process.wait(timeout=60)
        # Its jobs notice that it is gone, and end.
        assert not psutil.wait_procs(scripts, timeout=60)[1]
        # A Snakemake that is killed leaves its lock, which the next one asks to remove.
        fresh.run("--unlock")
    fresh.run("all")
    fresh.assert_same_results(finished_run)
    assert fresh.plan() == {}


def test_scripts_killed_while_they_write(fresh, finished_run, tmp_path):
    """Before or after the rename of an output, and after an experiment has kept a point."""
    written = [
        path.relative_to(finished_run.folder).as_posix()
        for path in finished_run.find("*/**/*")
        if path.suffix in (".csv", ".parquet", ".safetensors", ".json")
    ]
    victims = tmp_path / "victims"
    victims.mkdir()
    rng = random.Random(0)
    chosen = {path: rng.choice(("before", "after")) for path in rng.sample(written, len(SEEDS))}
    point, *_ = finished_run.find("students/points/teacher_student.widths/*")
    chosen[point.relative_to(finished_run.folder).as_posix()] = "after"
    for path, when in chosen.items():
        (victims / path.replace("/", "%")).write_text(when)
    fresh.run("all", "--retries", "4", PYTHONPATH=str(KILLER), SYMLAB_TEST_VICTIMS=str(victims))
    assert not list(victims.iterdir()), "some writes were not met"
    fresh.assert_same_results(finished_run)
    assert not [path for path in fresh.find("**/.*") if ".part" in path.name]


def test_training_killed_at_three_moments(untrained, trained):
    # Snakemake takes up a failed job at once, so that one run sees all kills.
    process = untrained.project.start(untrained.models, "--retries", str(len(SEEDS)))
    for seed in SEEDS:
        wait_for(lambda: untrained.checkpoints() and re.search(r"epoch \d+/", untrained.log()))
        time.sleep(random.Random(seed).uniform(0, 0.1))
        (script,) = untrained.scripts()
        script.kill()
        psutil.wait_procs([script], timeout=30)
        untrained.log_path.unlink(missing_ok=True)
    assert process.wait(timeout=300) == 0, (untrained.project.folder / "terminal.log").read_text()
    assert "going on at" in untrained.log() and not untrained.checkpoints()
    untrained.assert_same(trained)


def test_training_told_to_stop_goes_on_where_it_was(untrained, trained):
    process = untrained.project.start(untrained.models)
    wait_for(lambda: "epoch 20/100" in untrained.log())
    (script,) = untrained.scripts()
    script.terminate()
    assert process.wait(timeout=60) != 0
    said = (untrained.project.folder / "terminal.log").read_text()
    assert "Training was stopped at replica 0, epoch" in said
    assert untrained.checkpoints() and not untrained.project.find("digits/*/models/*")
    untrained.project.run(untrained.models)
    assert "going on at replica 0, epoch" in untrained.log() and "epoch 10/100" not in untrained.log()
    untrained.assert_same(trained)
