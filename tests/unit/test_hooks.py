"""The last lines on the terminal after a failure, and one run at a time in a results folder."""

import logging
import subprocess
import sys

import pytest

from symlab import hooks
from symlab.errors import UserError
from symlab.hooks import Jobs, hold_results


@pytest.fixture
def failures():
    finished = []
    handler, logger = Jobs(finished.append), logging.getLogger("test of failures")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def say(event, **values):
        logger.info("", extra={"event": event, **values})

    handler.seen = finished
    return handler, say


def fail(say, jobid, *logs, rule="train", message="Train digits/standard, block 0"):
    say("job_info", jobid=jobid, rule_msg=message, rule_name=rule, output=[f"out/{jobid}"])
    say("job_error", jobid=jobid, rule_name=rule, log=list(logs))


def test_a_sentence_is_repeated_with_job_and_log(failures, tmp_path):
    handler, say = failures
    log = tmp_path / "0.log"
    log.write_text("10:00:00 starts\n10:00:01 Error: Training diverged: lower recipe.lr.\n")
    fail(say, 3, log)
    assert handler.summary().splitlines()[:4] == [
        "1 job failed:",
        "  Train digits/standard, block 0",
        "    Error: Training diverged: lower recipe.lr.",
        f"    log: {log}",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10:00:00 epoch 3/5\n", "killed from outside (memory, time, a signal); its log ends with: 10:00:00 epoch 3/5"),
        ("10:00:00 done\n", "Its work was done, but Snakemake could not take it over"),
        ("", "It did not run: it was refused or ended before it began"),
        (None, "It did not run: it was refused or ended before it began"),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'y'\n", "A fault of the program: KeyError: 'y'"),
        ("10:00:00 Training was stopped at replica 0, epoch 2, batch 3; the next run goes on there.\n",
         "Training was stopped at replica 0, epoch 2, batch 3; the next run goes on there."),
    ],
)  # fmt: skip
def test_jobs_that_said_nothing_or_broke(failures, tmp_path, text, told):
    handler, say = failures
    log = tmp_path / "0.log"
    if text is not None:
        log.write_text(text)
    fail(say, 1, log)
    assert told in handler.summary()


def test_a_cluster_s_log_is_read_too(failures, tmp_path):
    handler, say = failures
    fail(say, 1, tmp_path / "never_written.log", tmp_path / "slurm.log", message=None)
    (tmp_path / "slurm.log").write_text("Error: device is cuda, but torch sees no GPU here.\n")
    assert "rule train" in handler.summary() and "torch sees no GPU here" in handler.summary()


def test_what_slurm_says_of_a_kill_is_told(failures, tmp_path):
    handler, say = failures
    (tmp_path / "job.log").write_text("10:00:00 epoch 3/5\n")
    (tmp_path / "slurm.log").write_text(
        "slurmstepd: error: *** STEP 7.0 ON node CANCELLED AT 2026-11-21T20:00:00 DUE TO TIME LIMIT ***\nsrun: ended\n"
    )
    fail(say, 1, tmp_path / "job.log", tmp_path / "slurm.log")
    assert "The cluster ended it: *** STEP 7.0 ON node CANCELLED AT" in handler.summary()


def test_jobs_of_a_group_get_the_group_s_log(failures, tmp_path):
    handler, say = failures
    slurm = tmp_path / "slurm.log"
    slurm.write_text("slurmstepd: error: StepId=7.0 exceeded memory limit (9 > 8), being killed\n")
    (tmp_path / "1.log").write_text("10:00:00 Error: k is too large.\n")
    say("group_error", groupid="tables", aux_logs=[slurm], job_error_info=[{"jobid": 1}, {"jobid": 2}])
    fail(say, 1, tmp_path / "1.log")
    fail(say, 2, tmp_path / "2.log")
    lines = handler.summary().splitlines()
    assert lines[2:4] == ["    Error: k is too large.", f"    log: {tmp_path / '1.log'}, {slurm}"]
    assert "The cluster ended it: StepId=7.0 exceeded memory limit (9 > 8), being killed" in lines[5]


def test_a_job_that_succeeds_in_a_later_try_did_not_fail(failures, tmp_path):
    handler, say = failures
    fail(say, 1, tmp_path / "1.log")
    fail(say, 2, tmp_path / "2.log", message="Claims")
    fail(say, 2, tmp_path / "2.log", message="Claims")
    say("job_finished", job_id=1)
    assert handler.seen == [["out/1"]]
    assert list(handler.failed) == [2] and "Claims (2 tries)" in handler.summary()


def test_a_finished_run_names_its_report_and_counts_verdicts(tmp_path):
    (tmp_path / "claims.csv").write_text('figure,verdict,detail\n4,held,"a, b"\n5,failed,\n6,held,\n')
    assert hooks.outcome(str(tmp_path)) == f"{tmp_path}/report.html: 1 failed, 2 held"


def test_nothing_is_told_when_nothing_failed(failures, monkeypatch):
    monkeypatch.setattr(hooks.atexit, "register", lambda function: pytest.fail("has something to tell"))
    failures[0].tell_at_exit()


def test_one_run_at_a_time(tmp_path):
    code = "import sys; from symlab.hooks import hold_results; hold_results(sys.argv[1]); print('held'); input()"
    other = subprocess.Popen(
        [sys.executable, "-u", "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=rf"is being written by another run \(process {other.pid} on .*Wait until"):
        hold_results(str(tmp_path))
    other.kill()
    other.wait()
    hold_results(str(tmp_path))


def test_a_file_in_the_folder_s_place(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(UserError, match="results cannot be written: "):
        hold_results(str(tmp_path / "results"))
