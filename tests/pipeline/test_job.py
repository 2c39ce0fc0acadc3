"""What a script does around its work: inputs checked, outputs recorded, every end told."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from symlab.artifacts import write_text
from symlab.errors import Interrupted, UserError
from symlab.job import run
from symlab.records import record_path, write_record

ORIGIN = {"settings": "s", "code": "c"}


@pytest.fixture(autouse=True)
def handlers():
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def job(tmp_path):
    """What Snakemake hands to a script that makes b out of a."""
    a, b, log = (str(tmp_path / name) for name in ("a.txt", "b.txt", "logs/job.log"))
    write_text(a, "a")
    write_record(a, ORIGIN)
    params = {"origins": {a: ORIGIN, b: ORIGIN}}
    return SimpleNamespace(input=[a], output=[b], log=[log], params=params)


def log_of(job):
    with open(job.log[0]) as file:
        return file.read()


def make(job, report):
    report("working")
    write_text(job.output[0], "b")


def test_a_job_records_what_it_wrote(job):
    run(make, job)
    assert [line[9:] for line in log_of(job).splitlines()] == ["working", "done"]
    assert record_path(job.output[0]).exists()
    run(make, SimpleNamespace(**vars(job) | {"input": job.output, "output": job.input}))


def test_an_input_that_is_not_what_was_written_stops_the_job_before_it_begins(job, capsys):
    with open(job.input[0], "a") as file:
        file.write("more")
    with pytest.raises(SystemExit) as stopped:
        run(lambda job, report: pytest.fail("began"), job)
    assert stopped.value.code == 1
    assert "a.txt is not what symlab wrote there" in capsys.readouterr().err
    assert "Error: " in log_of(job) and "a.txt is not what symlab wrote there" in log_of(job)


def test_a_mistake_is_told_on_the_terminal_and_in_the_log(job, capsys):
    def refuse(job, report):
        raise UserError("recipe.lr is too high: lower it.")

    with pytest.raises(SystemExit) as stopped:
        run(refuse, job)
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "Error: recipe.lr is too high: lower it.\n"
    assert log_of(job).endswith("Error: recipe.lr is too high: lower it.\n")
    assert not record_path(job.output[0]).exists()


def test_a_stop_with_a_checkpoint_exits_as_the_signal_does(job):
    def stop(job, report):
        raise Interrupted(signal.SIGTERM, "Training was stopped at epoch 3.")

    with pytest.raises(SystemExit) as stopped:
        run(stop, job)
    assert stopped.value.code == 143 and "Training was stopped at epoch 3." in log_of(job)


def test_a_fault_of_the_program_leaves_its_traceback_in_the_log(job):
    def fail(job, report):
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(fail, job)
    assert "Traceback" in log_of(job) and log_of(job).rstrip().endswith("KeyError: 'x'")


def test_a_log_that_cannot_be_written_is_told(job, tmp_path):
    (tmp_path / "logs").write_text("a file where the folder should be")
    with pytest.raises(SystemExit, match=r"logs/\.job\.log\.lock cannot be written"):
        run(make, job)


def test_a_disk_that_is_full_for_the_log_does_not_stop_the_job(job, capsys):
    def work(job, report):
        # Every byte written there is one too many for the device.
        path = job.log[0]
        os.remove(path)
        os.symlink("/dev/full", path)
        for _ in range(3):
            report("working")
        write_text(job.output[0], "b")

    run(work, job)
    assert record_path(job.output[0]).exists()
    assert capsys.readouterr().err == f"Lines of {job.log[0]} are lost: No space left on device.\n"


WAITING = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from symlab.artifacts import atomic
from symlab.job import run

folder = Path(sys.argv[1])

def main(job, report):
    with atomic(job.output[0]) as path:
        path.write_text("half")
        (folder / "writing").touch()
        time.sleep(60)

run(main, SimpleNamespace(input=[], output=[str(folder / "b.txt")], log=[str(folder / "logs/job.log")], params={}))
"""


def start(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WAITING, str(tmp_path)])
    deadline = time.monotonic() + 30
    while not (tmp_path / "writing").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_job_told_to_stop_says_so_and_leaves_no_half_written_file(tmp_path, how):
    process = start(tmp_path)
    process.send_signal(how)
    assert process.wait(timeout=30) == 128 + how
    assert f"The job was stopped by {how.name}; the next run does it." in (tmp_path / "logs/job.log").read_text()
    assert not (tmp_path / "b.txt").exists() and not list(tmp_path.glob(".*part*"))


def test_what_a_killed_job_left_half_written_is_removed_by_the_next(tmp_path, job):
    process = start(tmp_path)
    process.kill()
    process.wait()
    assert len(list(tmp_path.glob(".b.*.part.txt"))) == 1
    run(make, job)
    assert not list(tmp_path.glob(".*part*")) and (tmp_path / "b.txt").read_text() == "b"


def test_two_processes_never_work_on_the_same_outputs(tmp_path, job, capsys):
    process = start(tmp_path)

    def end_the_other(number, frame):
        process.kill()

    signal.signal(signal.SIGALRM, end_the_other)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    began = time.monotonic()
    run(make, job)
    assert time.monotonic() - began >= 0.4
    assert f"working on the same outputs (process {process.pid} on " in capsys.readouterr().err
    process.wait()


def test_work_that_the_other_process_has_done_is_not_done_again(job, monkeypatch):
    def held(path):
        # The other process ends just now, its work done.
        run(make, job)
        return open(os.devnull), True

    monkeypatch.setattr("symlab.job._alone", lambda path: monkeypatch.undo() or held(path))
    run(lambda job, report: pytest.fail("does it again"), job)
    assert "has done the work" in log_of(job)


def test_a_job_ends_when_its_snakemake_is_killed(tmp_path):
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process of its parent's death")
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITING!r}, {str(tmp_path)!r}])"
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 30
    while not (tmp_path / "writing").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while list(tmp_path.glob(".*part*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not list(tmp_path.glob(".*part*")) and not (tmp_path / "b.txt").exists()
