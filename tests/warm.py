"""Starts Snakemake for tests by forks of one process that has imported what it and its jobs import.

A start takes a second of imports, and each of its jobs two, of which nothing depends on what tests change: of symlab
nothing is imported here. Slow tests start Snakemake as users do, and compare what these starts give with what those do.
All starts of one such process, and their jobs, go through sets in one order; those of another in another.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

# What depends on no test.
IMPORTED = (
    *("torch", "torch._dynamo", "pandas", "scipy.optimize", "scipy.stats", "pyarrow.parquet", "safetensors.torch"),
    *("pydantic", "seaborn", "matplotlib.pyplot", "snakemake.cli", "snakemake.script", "snakemake.benchmark"),
)
# Seconds, which no start in tests takes.
PATIENCE = 1800


class Starter:
    """The process that forks, as the tests see it; started when it is needed, and anew if it has ended."""

    def __init__(self):
        self.process = None
        atexit.register(self.close)

    def run(self, arguments, folder, environment):
        """What ``python -m snakemake`` ends with in that folder."""
        if self.process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            # Jobs have a thread each, as Snakemake tells them.
            environment_here = os.environ | {"OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen([sys.executable, __file__], env=environment_here, **pipes)
        with tempfile.TemporaryDirectory() as said:
            try:
                self.process.stdin.write(json.dumps([arguments, str(folder), environment, said]) + "\n")
                self.process.stdin.flush()
                status = self.process.stdout.readline()
            except BrokenPipeError:
                status = ""
            texts = [(Path(said) / name).read_text() if (Path(said) / name).exists() else "" for name in ("1", "2")]
        if not status:
            ended = self.close()
            raise RuntimeError(f"What starts Snakemake for tests ended with status {ended}; Snakemake said: {texts}.")
        return subprocess.CompletedProcess(arguments, int(status), *texts)

    def close(self):
        """End the process; its exit status."""
        process, self.process = self.process, None
        if process is None:
            return None
        try:
            process.communicate()
        except BrokenPipeError:
            process.wait()
        return process.returncode


STARTER = Starter()


def forked(work, *arguments):
    """The number of a process that does the work and ends as a program would."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if number := os.fork():
        return number
    status = 1
    try:
        work(*arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def status_of(number):
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def start_snakemake(arguments, folder, environment, said):
    # Its jobs are of this group too, and end with it.
    os.setpgid(0, 0)
    for number in (1, 2):
        os.dup2(os.open(f"{said}/{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [folder, *environment["PYTHONPATH"].split(os.pathsep)]
    sys.argv = ["snakemake", *arguments]
    from snakemake.cli import main
    from snakemake.script import PythonScript

    PythonScript.execute_script = start_script
    main()


def start_script(script, name, edit=False):
    """In place of a new Python for a script."""
    from snakemake.benchmark import benchmarked

    job = forked(run_script, name)
    with benchmarked(job if script.bench_record is not None else False, script.bench_record):
        status = status_of(job)
    if status:
        raise subprocess.CalledProcessError(status, name)


def run_script(name):
    sys.argv = [name]
    runpy.run_path(name, run_name="__main__")


def serve():
    """Answers each line of standard input, a start, by a line with its exit status."""
    gc.disable()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    for line in sys.stdin:
        start = json.loads(line)
        print(status_within_patience(forked(start_snakemake, *start), Path(start[-1]) / "2"), flush=True)


def status_within_patience(number, errors):
    """The exit status of a group of processes, which ends at the latest when its time is up, or when this one does."""

    def end(*_):
        with errors.open("a") as file:
            file.write(f"Snakemake was ended, after {PATIENCE} s or with the tests.\n")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE)
    try:
        return status_of(number)
    except BaseException:
        end()
        raise
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    serve()
