"""The workflow on a real SLURM cluster: as a local run gives it, and whatever ends its jobs."""

import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

PROFILE = Path("profiles/slurm")


@dataclass
class Submission:
    """A Snakemake that submits its jobs to the test's cluster, and what it says."""

    folder: Path
    process: subprocess.Popen
    cluster: Any

    def said(self):
        return (self.folder / "terminal.log").read_text()

    def logs_of_failed_jobs(self):
        """What the cluster wrote of the jobs that failed, in the files that Snakemake named."""
        return "\n".join(Path(name).read_text() for name in re.findall(r"log: .*, (/\S+\.log) \(check", self.said()))

    def ended(self, seconds):
        """Exit status; what Snakemake and the cluster say is the failure's message if it does not end in time."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            queue = self.cluster.ask("squeue", "--states=all", "--format=%i %T %r %S %R")
            nodes = self.cluster.ask("sinfo", "--Node", "--long")
            said = "\n".join((self.said()[-3000:], queue, nodes, self.cluster.log()))
            pytest.fail(f"Snakemake did not end in {seconds} s:\n{said}")


@pytest.fixture
def submit(cluster):
    """Calls Snakemake with the shipped profile; what is still running when the test ends is stopped with its jobs."""
    running = []

    def submit_one(project, *arguments):
        running.append(submission(cluster, project, *arguments))
        return running[-1]

    yield submit_one
    for one in running:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGINT)
            one.process.wait(timeout=60)


def submission(cluster, project, *arguments):
    command = [sys.executable, "-m", "snakemake", *arguments, "--configfile", str(project.config)]
    # The shipped profile, whose partitions are those of the test's cluster; that one keeps no accounting database.
    command += ["--workflow-profile", "profiles/slurm", "--slurm-status-command", "squeue"]
    command += ["--slurm-init-seconds-before-status-checks", "1"]
    with (project.folder / "terminal.log").open("w") as terminal:
        process = subprocess.Popen(
            command,
            cwd=project.folder,
            # Nothing of an activated environment: neither its folder of programs nor its library.
            env=project.environment(PATH="/usr/bin:/bin"),
            stdout=terminal,
            stderr=subprocess.STDOUT,
        )
    return Submission(project.folder, process, cluster)


@pytest.fixture
def waiting(untrained, cluster):
    """A clone that has prepared its data and trained nothing."""
    untrained.project.run("results/tiny/data/digits.safetensors")
    cluster.wait(lambda: cluster.node_state() == "idle", "idle: the node")
    yield untrained
    if cluster.node_state() != "idle":
        cluster.set_node("resume")


def hold_training(training, cluster):
    """Waits until training has written a checkpoint, stops it there, and returns the cluster's id of its job.

    SLURM wakes what it is about to end, so the time that it takes to strike does not count.
    """
    cluster.wait(lambda: "checkpoint at" in training.log(), "training", 150)
    (script,) = training.scripts()
    script.suspend()
    (job,) = cluster.jobs()
    return job


def assert_trained_as_before(training, trained):
    """Training that was disturbed has gone on where it was, and ends as the one that nothing has disturbed."""
    assert "going on at" in training.log()
    training.assert_same(trained)


def test_snakemake_takes_every_key_of_the_profile_and_the_groups_are_those_of_the_rules(fresh):
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "all", "--configfile", str(fresh.config)]
    result = subprocess.run(
        [*command, "--profile", str(PROFILE), "--workflow-profile", "none"],
        cwd=fresh.folder,
        env=fresh.environment(),
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    rules = "".join(path.read_text() for path in (fresh.folder / "workflow/rules").glob("*.smk"))
    groups = set(re.findall(r'group:\s+"(\w+)"', rules))
    assert set(yaml.safe_load((fresh.folder / PROFILE / "config.yaml").read_text())["group-components"]) <= groups


def test_the_tiny_preset_gives_what_a_local_run_gives(fresh, finished_run, cluster, submit):
    run = submit(fresh, "all")
    assert run.ended(1500) == 0, run.said()[-5000:]
    fresh.assert_same_results(finished_run)
    jobs = cluster.states(re.search(r"SLURM run ID: (\S+)", run.said())[1])
    assert set(jobs.values()) == {"COMPLETED"}
    steps = int(re.findall(r"of (\d+) steps \(100%\)", run.said())[-1])
    assert len(jobs) < steps * 2 / 3
    # Logs of the cluster's jobs are for those that failed.
    assert not list((fresh.folder / ".snakemake/slurm_logs").rglob("*.log"))


def test_a_cancelled_job_on_a_gpu_is_tried_again_and_goes_on_where_it_was(waiting, trained, cluster, submit):
    # It asks for a GPU and computes without: the preset says device: cpu.
    run = submit(waiting.project, waiting.models, "--set-resources", "train:gpu=1")
    job = hold_training(waiting, cluster)
    described = cluster.describe(job)
    assert described["Partition"] == "gpu" and described["TresPerJob"].endswith("gpu:1")
    cluster.ask("scancel", job)
    assert run.ended(150) == 0, run.said()[-5000:]
    assert cluster.states()[job] == "CANCELLED" and f"SLURM-job '{job}' failed" in run.said()
    assert_trained_as_before(waiting, trained)


def test_a_drained_node_ends_its_job_and_a_failed_one_hands_it_back(waiting, trained, cluster, submit):
    run = submit(waiting.project, waiting.models, "--retries", "0")
    job = hold_training(waiting, cluster)
    cluster.set_node("drain")
    assert cluster.node_state() == "draining" and cluster.states()[job] == "RUNNING"
    cluster.set_node("down")
    cluster.wait(lambda: cluster.states()[job] == "PENDING", "in the queue again")
    cluster.wait(lambda: not cluster.is_on_node(job), "off the node")
    cluster.restart_node(job)
    cluster.set_node("resume")
    cluster.wait(lambda: cluster.node_state() == "idle", "idle: the node", 120)
    cluster.wait(lambda: cluster.is_hurried(job), "started again", 120)
    assert run.ended(300) == 0, run.said()[-5000:]
    assert cluster.states()[job] == "COMPLETED" and "Error" not in run.said()
    assert_trained_as_before(waiting, trained)


def test_a_job_over_its_memory_is_tried_again_with_more(waiting, trained, cluster, submit):
    run = submit(waiting.project, waiting.models, "--set-resources", "train:mem_mb=250 * 8 ** (attempt - 1)")
    assert run.ended(150) == 0, run.said()[-5000:]
    assert "SLURM status is: 'FAILED'" in run.said() and "exceeded memory limit" in run.logs_of_failed_jobs()
    waiting.assert_same(trained)


def test_a_job_over_its_time_fails_with_its_log_and_the_next_run_goes_on(waiting, trained, cluster, submit):
    run = submit(waiting.project, waiting.models, "--retries", "0")
    job = hold_training(waiting, cluster)
    cluster.ask("scontrol", "update", f"jobid={job}", "endtime=now+1second")
    assert run.ended(150) == 1
    assert "SLURM status is: 'TIMEOUT'" in run.said() and "DUE TO TIME LIMIT" in run.logs_of_failed_jobs()
    # Training may not come to say that it was stopped: srun is told to end with it, and kills it at once.
    assert not (waiting.project.folder / waiting.models).exists()
    run = submit(waiting.project, waiting.models)
    assert run.ended(150) == 0, run.said()[-5000:]
    assert_trained_as_before(waiting, trained)
