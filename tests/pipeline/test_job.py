"""What a script does around its work: its log told, every end a sentence and a status, nothing left half written."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import symlab
from symlab.pipeline.job import device_of, measure_named, run
from symlab.artifacts import write_text
from symlab.device import gpu_is_likely
from symlab.errors import Interrupted, UserError
from symlab.pipeline.registry import MEASURES

from ..conftest import wait_for


@pytest.fixture(autouse=True)
def handlers():
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def job(tmp_path):
    """What Snakemake hands to a script that makes b.txt."""
    return SimpleNamespace(output=[str(tmp_path / "b.txt")], log=[str(tmp_path / "logs/job.log")])


def log_of(job):
    return Path(job.log[0]).read_text()


def make(job, report):
    report("working")
    write_text(job.output[0], "b")


def test_a_log_tells_what_a_job_did_this_time(job):
    run(make, job)
    run(make, job)
    assert [line[9:] for line in log_of(job).splitlines()] == ["working", "done"]


@pytest.mark.parametrize("configured", ["auto", "cuda"])
def test_a_job_that_asked_the_scheduler_for_no_gpu_uses_none_and_needs_none(monkeypatch, configured):
    job = SimpleNamespace(config={"device": configured}, threads=torch.get_num_threads())
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of(MEASURES["match"], job) == "cpu" and torch.backends.cudnn.allow_tf32
    assert device_of(MEASURES["interpolate"], job) == "cuda" and not torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of(MEASURES["match"], job) == "cpu"


@pytest.mark.parametrize("there", [True, False])
def test_jobs_ask_for_a_gpu_where_there_is_one_or_the_config_says_so(monkeypatch, there):
    monkeypatch.setattr("symlab.device.Path", lambda _: SimpleNamespace(exists=lambda: there))
    assert [gpu_is_likely(asked) for asked in ("cpu", "auto", "cuda")] == [False, there, True]


def test_measures_are_those_of_the_kernel_and_of_papers():
    assert {name: measure_named(name) for name in MEASURES} == MEASURES


def test_a_mistake_is_told_on_the_terminal_and_in_the_log(job, capsys):
    def refuse(job, report):
        raise UserError("recipe.lr is too high: lower it.")

    with pytest.raises(SystemExit) as stopped:
        run(refuse, job)
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "Error: recipe.lr is too high: lower it.\n"
    assert log_of(job).endswith("Error: recipe.lr is too high: lower it.\n")


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


def test_a_log_that_cannot_be_written_is_told_and_one_that_fails_later_stops_nothing(job, tmp_path, capsys):
    (tmp_path / "logs").write_text("a file where the folder should be")
    with pytest.raises(SystemExit, match=r"^Error: .*logs/job\.log cannot be written"):
        run(make, job)
    (tmp_path / "logs").unlink()

    def fill_the_disk(job, report):
        # Every byte written there is one too many for the device.
        os.remove(job.log[0])
        os.symlink("/dev/full", job.log[0])
        make(job, report)

    run(fill_the_disk, job)
    assert (tmp_path / "b.txt").exists() and "No space left on device. Not logged: " in capsys.readouterr().err


WAITING = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from symlab.artifacts import atomic
from symlab.pipeline.job import device_of, run
from symlab.pipeline.registry import MEASURES

folder = Path(sys.argv[1])

def main(job, report):
    with atomic(job.output[0]) as path:
        path.write_text("half")
        (folder / "writing").touch()
        time.sleep(60)

run(main, SimpleNamespace(output=[str(folder / "b.txt")], log=[str(folder / "logs/job.log")]))
"""


def parts(folder):
    return list(folder.glob(".*part*"))


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a process, and waits until the job in it is in the middle of writing."""
    monkeypatch.setenv("PYTHONPATH", str(Path(symlab.__file__).parents[1]))

    def begin(*command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for((tmp_path / "writing").exists)
        return process

    return begin


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_job_told_to_stop_says_so_and_leaves_no_half_written_file(tmp_path, start, how):
    process = start(sys.executable, "-c", WAITING, str(tmp_path))
    process.send_signal(how)
    assert process.wait(timeout=30) == 128 + how
    assert f"The job was stopped by {how.name}; the next run does it." in (tmp_path / "logs/job.log").read_text()
    assert not (tmp_path / "b.txt").exists() and not parts(tmp_path)


def test_what_a_killed_job_left_half_written_is_removed_by_the_next(tmp_path, start, job):
    process = start(sys.executable, "-c", WAITING, str(tmp_path))
    process.kill()
    process.wait()
    assert len(parts(tmp_path)) == 1
    run(make, job)
    assert not parts(tmp_path) and (tmp_path / "b.txt").read_text() == "b"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_job_ends_when_its_snakemake_is_killed(tmp_path, start):
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITING!r}, {os.fspath(tmp_path)!r}])"
    process = start(sys.executable, "-c", parent)
    process.kill()
    process.wait()
    wait_for(lambda: not parts(tmp_path))
    assert not (tmp_path / "b.txt").exists()
