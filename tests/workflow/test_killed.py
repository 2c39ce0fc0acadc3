"""A run that is killed at any moment, and taken up again, ends with the results of an undisturbed one."""

import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

SEEDS = range(20)
# Put before the program of every Python process of the run: see tests/workflow/killer/sitecustomize.py.
KILLER = Path(__file__).parent / "killer"
PHASES = ("begun", "written", "renamed")


def scripts_of(process):
    """The workflow scripts that a Snakemake runs just now."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if any(".snakemake/scripts/" in word for word in child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def end(process, how=signal.SIGKILL):
    """Send a signal to Snakemake alone, and wait until its jobs have noticed that it is gone."""
    scripts = scripts_of(process)
    process.send_signal(how)
    process.wait(timeout=60)
    psutil.wait_procs(scripts, timeout=60)


def test_snakemake_killed_at_20_moments(fresh, finished_run):
    for seed in SEEDS:
        process = fresh.start("all")
        try:
            process.wait(timeout=random.Random(seed).uniform(1, 8))
        except subprocess.TimeoutExpired:
            end(process)
    result = fresh.snakemake("all")
    assert result.returncode == 0, result.stdout + result.stderr
    fresh.assert_same_results(finished_run)
    assert "Nothing to be done" in fresh.snakemake("all").stderr


def test_scripts_killed_at_20_moments_of_their_writing(fresh, finished_run, tmp_path_factory):
    """At the beginning of a write, after it, or before the rename, of an output or of the record beside it."""
    written = [
        path.relative_to(finished_run.folder).as_posix()
        for path in finished_run.results("*/**/*")
        if path.is_file() and path.suffix not in (".log", ".lock", ".tsv")
    ]
    victims = tmp_path_factory.mktemp("victims")
    rng = random.Random(0)
    for number, path in zip(SEEDS, rng.sample(written, len(SEEDS)), strict=True):
        (victims / str(number)).write_text(f"{rng.choice(PHASES)} {path} {rng.uniform(0, 0.004)}")
    # No job can be a victim more often than there are victims.
    result = fresh.snakemake("all", "--retries", "20", PYTHONPATH=str(KILLER), SYMLAB_TEST_VICTIMS=str(victims))
    assert not list(victims.iterdir()), "some writes were not met"
    assert result.returncode == 0, result.stdout + result.stderr
    fresh.assert_same_results(finished_run)
    left = [path for path in fresh.results("**/.*") if ".part" in path.name]
    assert not left, left


VARIANTS = ("standard", "w_sigma_F1")
MODELS = [f"results/smoke/digits/{variant}/models/0.safetensors" for variant in VARIANTS]


@pytest.fixture(scope="module")
def trained(clone, tmp_path_factory):
    """A run whose training takes a while and may write checkpoints several times a second."""

    def longer(config):
        config["checkpoint_minutes"] = 0.005
        config["studies"]["digits"]["recipe"]["epochs"] = 100

    project = clone(tmp_path_factory.mktemp("trained"))
    project.edit_config(longer)
    result = project.snakemake(*MODELS)
    assert result.returncode == 0, result.stdout + result.stderr
    return project


@pytest.fixture
def untrained(clone, tmp_path, trained):
    project = clone(tmp_path)
    shutil.copy(trained.folder / trained.config, project.folder / project.config)
    return project


def training_jobs(process):
    return [script for script in scripts_of(process) if any("train.py" in word for word in script.cmdline())]


def wait_for(found, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.02)
    raise AssertionError(f"nothing of this kind in {seconds} seconds")


def epochs_of(project, pid):
    """Epochs that a process has trained since it started."""
    for lock in project.results("logs/train/**/.*.lock"):
        if lock.read_text().startswith(f"process {pid} "):
            log = lock.with_name(lock.name.removeprefix(".").removesuffix(".lock"))
            return len(re.findall(r"epoch \d+/", log.read_text())) if log.exists() else 0
    return 0


def test_training_jobs_killed_at_20_moments(untrained, trained):
    # Snakemake takes up a failed job at once, so that one run sees all kills.
    process = untrained.start(*MODELS, "--retries", "20")
    seen = set()
    for seed in SEEDS:
        script = wait_for(lambda: [job for job in training_jobs(process) if job.pid not in seen])[0]
        seen.add(script.pid)
        rng = random.Random(seed)
        if seed % 2:
            time.sleep(rng.uniform(0, 2))
        else:
            # 400 epochs of four networks are far more than ten times eight: it cannot end before it is killed.
            epochs = rng.randint(1, 8)
            wait_for(lambda pid=script.pid, epochs=epochs: epochs_of(untrained, pid) >= epochs)
            time.sleep(rng.uniform(0, 0.05))
        script.kill()
    assert process.wait(timeout=300) == 0, (untrained.folder / "terminal.log").read_text()
    untrained.assert_same_results(trained, "digits/*/*/*")
    assert not untrained.results("checkpoints/**/*.safetensors")


def test_a_training_job_told_to_stop_goes_on_where_it_was(untrained, trained):
    log = untrained.folder / "results/smoke/logs/train/digits/standard/0.log"
    process = untrained.start(MODELS[0])
    wait_for(lambda: log.exists() and "epoch 20/100" in log.read_text())
    script = training_jobs(process)[0]
    script.terminate()
    assert process.wait(timeout=60) != 0
    last = (untrained.folder / "terminal.log").read_text().split("1 job failed:")[1]
    assert "Train digits/standard, block 0" in last and "Training was stopped at replica 0, epoch" in last
    assert untrained.results("checkpoints/**/*.safetensors") and not untrained.results("digits/standard/models/*")
    result = untrained.snakemake(MODELS[0])
    assert result.returncode == 0, result.stderr
    assert "going on at replica 0, epoch" in log.read_text() and "epoch 10/100" not in log.read_text()
    untrained.assert_same_results(trained, "digits/standard/*/*")
