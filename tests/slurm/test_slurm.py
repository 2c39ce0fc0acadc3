"""The workflow on a real SLURM cluster: as a local run gives it, and whatever ends its jobs."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

PROFILE = Path("workflow/profiles/slurm")
# Long enough to be struck: a ResNet. Its table is the test's last target.
TRAINED = "images/w_sigma_F0"
HISTORY = f"results/smoke/{TRAINED}/history/0.csv"
TABLE = "results/smoke/images/tables/history.csv"
LOG = f"results/smoke/logs/train/{TRAINED}/0.log"
HOLDER = f"results/smoke/logs/train/{TRAINED}/.0.log.lock"
# Jobs that may wait in the queue on their own.
ALONE = {"train", "ridge", "students"}


@dataclass
class Submission:
    """A Snakemake that submits its jobs to the test's cluster, and what it says."""

    folder: Path
    process: subprocess.Popen

    def said(self):
        return (self.folder / "terminal.log").read_text()

    def logs_of_failed_jobs(self):
        """What the cluster wrote of the jobs that failed, in the files that Snakemake named."""
        return "\n".join(Path(name).read_text() for name in re.findall(r"log: .*, (/\S+\.log) \(check", self.said()))

    def ended(self, seconds):
        """Exit status; what Snakemake said is the failure's message if it does not end in time."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"Snakemake did not end in {seconds} s:\n{self.said()[-5000:]}")


@pytest.fixture
def submit(cluster):
    """Calls Snakemake with the shipped profile; what is still running when the test ends is stopped with its jobs."""
    running = []

    def submit_one(project, *arguments):
        running.append(submission(project, *arguments))
        return running[-1]

    yield submit_one
    for one in running:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGINT)
            one.process.wait(timeout=60)


def submission(project, *arguments):
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
    return Submission(project.folder, process)


@pytest.fixture
def untrained(finished, cluster):
    """The finished smoke run without one network and without the table that its history goes into."""
    for name in (TABLE, HISTORY, f"results/smoke/{TRAINED}/models/0.safetensors", LOG, HOLDER):
        (finished.folder / name).unlink()
    cluster.wait(lambda: cluster.node_state() == "idle", "idle: the node")
    yield finished
    if cluster.node_state() != "idle":
        cluster.set_node("resume")


def log_of_training(project):
    path = project.folder / LOG
    return path.read_text() if path.exists() else ""


def hold_training(project, cluster):
    """Waits until training has taken its first steps, stops it there, and returns the cluster's id of its job.

    SLURM wakes what it is about to end, so the time that it takes to strike does not count.
    """
    cluster.wait(lambda: "epoch 1/" in log_of_training(project), "training")
    holder = (project.folder / HOLDER).read_text()
    os.kill(int(re.search(r"process (\d+)", holder).group(1)), signal.SIGSTOP)
    (job,) = cluster.jobs()
    return job


def assert_trained_as_before(project, finished_run):
    """The rest of the run, without SLURM, ends with the table and the network of the run that nothing disturbed."""
    result = project.snakemake(TABLE)
    assert result.returncode == 0, result.stderr[-5000:]
    project.assert_same_results(finished_run, f"{TRAINED}/[hm]*/*")
    project.assert_same_results(finished_run, "images/tables/history.csv")


def report_of(project):
    return project.folder / "results/smoke/report.html"


def test_snakemake_takes_every_key_of_the_profile_and_no_rule_is_left_out(fresh):
    result = subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "all", "--configfile", str(fresh.config)),
            *("--profile", "profiles/slurm", "--workflow-profile", "none"),
        ],
        cwd=fresh.folder,
        env=fresh.environment(),
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    rules = {
        rule
        for path in (fresh.folder / "workflow/rules").glob("*.smk")
        for rule, body in re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        if "localrule: True" not in body
    }
    grouped = yaml.safe_load((fresh.folder / PROFILE / "config.yaml").read_text())["groups"]
    assert set(grouped) | ALONE == rules and not set(grouped) & ALONE


def test_the_smoke_preset_gives_what_a_local_run_gives(fresh, finished_run, cluster, submit):
    run = submit(fresh, "all")
    assert run.ended(1500) == 0, run.said()[-5000:]
    fresh.assert_same_results(finished_run)
    titles = [re.search("<title>.*</title>", path.read_text())[0] for path in map(report_of, (fresh, finished_run))]
    assert titles[0] == titles[1]
    jobs = cluster.states(re.search(r"SLURM run ID: (\S+)", run.said())[1])
    assert set(jobs.values()) == {"COMPLETED"}
    steps = int(re.findall(r"of (\d+) steps \(100%\)", run.said())[-1])
    assert len(jobs) < steps / 3
    # Logs of the cluster's jobs are for those that failed.
    assert not list((fresh.folder / ".snakemake/slurm_logs").rglob("*.log"))


def test_a_cancelled_job_on_a_gpu_is_tried_again_and_goes_on_where_it_was(untrained, finished_run, cluster, submit):
    # It asks for a GPU and computes without: the preset says device: cpu.
    run = submit(untrained, HISTORY, "--set-resources", "train:gpu=1")
    job = hold_training(untrained, cluster)
    described = cluster.describe(job)
    assert described["Partition"] == "gpu" and described["TresPerJob"].endswith("gpu:1")
    cluster.ask("scancel", job)
    assert run.ended(150) == 0, run.said()[-5000:]
    assert cluster.states()[job] == "CANCELLED" and f"SLURM-job '{job}' failed" in run.said()
    assert "going on at" in log_of_training(untrained)
    assert_trained_as_before(untrained, finished_run)


def test_a_drained_node_ends_its_job_and_a_failed_one_hands_it_back(untrained, finished_run, cluster, submit):
    run = submit(untrained, HISTORY, "--retries", "0")
    job = hold_training(untrained, cluster)
    cluster.set_node("drain")
    assert cluster.node_state() == "draining" and cluster.states()[job] == "RUNNING"
    cluster.set_node("down")
    cluster.wait(lambda: cluster.states()[job] == "PENDING", "in the queue again")
    # SLURM waits two minutes before it starts a job again, so that nothing of it is left on the node by then.
    cluster.wait(lambda: not cluster.is_on_node(job), "off the node")
    cluster.set_node("resume")
    cluster.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    assert run.ended(150) == 0, run.said()[-5000:]
    assert cluster.states()[job] == "COMPLETED" and "Error" not in run.said()
    assert "going on at" in log_of_training(untrained)
    assert_trained_as_before(untrained, finished_run)


def test_a_job_over_its_memory_is_tried_again_with_more(untrained, finished_run, cluster, submit):
    run = submit(untrained, HISTORY, "--set-resources", "train:mem_mb=250 * 8 ** (attempt - 1)")
    assert run.ended(150) == 0, run.said()[-5000:]
    assert "SLURM status is: 'FAILED'" in run.said() and "exceeded memory limit" in run.logs_of_failed_jobs()
    assert_trained_as_before(untrained, finished_run)


def test_a_job_over_its_time_fails_with_its_log_and_the_next_run_goes_on(untrained, finished_run, cluster, submit):
    run = submit(untrained, HISTORY, "--retries", "0")
    job = hold_training(untrained, cluster)
    cluster.ask("scontrol", "update", f"jobid={job}", "endtime=now+1second")
    assert run.ended(150) == 1
    assert "SLURM status is: 'TIMEOUT'" in run.said() and "DUE TO TIME LIMIT" in run.logs_of_failed_jobs()
    assert "Training was stopped at" in log_of_training(untrained)
    assert not (untrained.folder / HISTORY).exists()
    run = submit(untrained, HISTORY)
    assert run.ended(150) == 0, run.said()[-5000:]
    assert "going on at" in log_of_training(untrained)
    assert_trained_as_before(untrained, finished_run)
