"""A run that is killed at any moment, and taken up again, ends with the results of an undisturbed one."""

import random
import re
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow

SEEDS = range(3)
# Put before the program of every Python process of the run: see tests/workflow/killer/sitecustomize.py.
KILLER = Path(__file__).parent / "killer"


def wait_for(found, seconds=180):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.02)
    raise AssertionError(f"nothing of this kind in {seconds} seconds")


def find_scripts(process, word="scripts/"):
    """The workflow scripts that a Snakemake runs just now."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        lines = [(child, " ".join(child.cmdline())) for child in children]
    except psutil.NoSuchProcess:
        return []
    return [child for child, line in lines if ".snakemake/scripts/" in line and word in line]


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
    chosen["results/tiny/checkpoints/students/teacher_student.widths/M4_d4_m4_lr0.5.safetensors"] = "after"
    for path, when in chosen.items():
        (victims / path.replace("/", "%")).write_text(when)
    fresh.run("all", "--retries", "4", PYTHONPATH=str(KILLER), SYMLAB_TEST_VICTIMS=str(victims))
    assert not list(victims.iterdir()), "some writes were not met"
    fresh.assert_same_results(finished_run)
    assert not [path for path in fresh.find("**/.*") if ".part" in path.name]


MODELS = "results/tiny/digits/w_sigma_F1/models/0.safetensors"


def train_longer(project):
    """Training that takes a while and may write checkpoints several times a second."""

    def change(config):
        config["checkpoint_minutes"] = 0.002
        config["studies"]["digits"]["recipe"]["epochs"] = 100

    project.edit_config(change)
    return project


@pytest.fixture(scope="module")
def trained(clone, tmp_path_factory):
    project = train_longer(clone(tmp_path_factory.mktemp("trained")))
    project.run(MODELS)
    yield project
    shutil.rmtree(project.folder)


@pytest.fixture
def untrained(fresh):
    return train_longer(fresh)


def log_of(project):
    path = project.results / "logs/train/digits/w_sigma_F1/0.log"
    return path.read_text() if path.exists() else ""


def test_training_killed_at_three_moments(untrained, trained):
    # Snakemake takes up a failed job at once, so that one run sees all kills.
    process = untrained.start(MODELS, "--retries", str(len(SEEDS)))
    seen = set()
    for seed in SEEDS:
        # The log begins anew with each try.
        wait_for(lambda: [job for job in find_scripts(process, "train.py") if job.pid not in seen])
        wait_for(lambda: untrained.find("checkpoints/**/*.safetensors") and re.search(r"epoch \d+/", log_of(untrained)))
        time.sleep(random.Random(seed).uniform(0, 0.1))
        (script,) = find_scripts(process, "train.py")
        seen.add(script.pid)
        script.kill()
        psutil.wait_procs([script], timeout=30)
        wait_for(lambda: "epoch" not in log_of(untrained) or "going on" in log_of(untrained))
    assert process.wait(timeout=300) == 0, (untrained.folder / "terminal.log").read_text()
    assert "going on at" in log_of(untrained)
    untrained.assert_same_results(trained, "digits/*/*/*")
    assert not untrained.find("checkpoints/**/*.safetensors")


def test_training_told_to_stop_goes_on_where_it_was(untrained, trained):
    process = untrained.start(MODELS)
    wait_for(lambda: "epoch 20/100" in log_of(untrained))
    (script,) = find_scripts(process, "train.py")
    script.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert "Training was stopped at replica 0, epoch" in (untrained.folder / "terminal.log").read_text()
    assert untrained.find("checkpoints/**/*.safetensors") and not untrained.find("digits/*/models/*")
    untrained.run(MODELS)
    assert "going on at replica 0, epoch" in log_of(untrained) and "epoch 10/100" not in log_of(untrained)
    untrained.assert_same_results(trained, "digits/*/*/*")
