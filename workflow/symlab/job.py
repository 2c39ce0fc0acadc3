"""What every workflow script does around its work: a log, checked inputs, recorded outputs, errors as sentences."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from symlab.artifacts import cannot_write
from symlab.errors import Interrupted, UserError
from symlab.records import check_record, write_record

Report = Callable[[str], None]

# From <linux/prctl.h>: the signal that a process gets when its parent dies.
PR_SET_PDEATHSIG = 1


def expose_library(folder: str) -> None:
    """Let the processes that this one starts, scripts of the workflow, import symlab from ``folder``."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def run(main: Callable[[Any, Report], None], snakemake: Any) -> None:
    """Call ``main(snakemake, report)``; ``report(line)`` appends a line with the time to the job's log.

    Inputs are checked against their records before, outputs are recorded after. A ``UserError`` ends the job with its
    sentence, on the terminal and in the log, and exit status 1; a signal that training answered with a checkpoint ends
    it with 128 + its number. Anything else is a fault of the program: its traceback goes to the log and the error is
    raised again.
    """
    _end_with_snakemake()
    path = Path(snakemake.log[0])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = path.open("w", buffering=1)
    except OSError as error:
        sys.exit(f"Error: {cannot_write(path, error)}")

    def report(line: str) -> None:
        try:
            log.write(f"{datetime.now():%H:%M:%S} {line}\n")
        except OSError as error:
            raise cannot_write(path, error) from None

    origins = snakemake.params.get("origins", {})
    try:
        with log, _alone(path.with_name(f".{path.name}.lock"), report):
            for name in snakemake.input:
                check_record(name, origins.get(name))
            main(snakemake, report)
            for name in snakemake.output:
                write_record(name, origins.get(name))
            report("done")
    except UserError as error:
        _tell(path, f"Error: {error}")
        sys.exit(1)
    except Interrupted as stop:
        _tell(path, str(stop))
        sys.exit(128 + stop.by)
    except Exception:
        _log(path, traceback.format_exc())
        raise


def _end_with_snakemake() -> None:
    """Stop in an orderly way when told to, and when the Snakemake that waits for this job is killed."""
    # SystemExit lets files under a temporary name be removed; training puts a handler of its own in this one's place.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _alone(path: Path, report: Report) -> Iterator[None]:
    """Wait until no other process works on the same outputs, such as a job left over from a run that was killed."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            sentence = (
                f"Waiting for another process that is working on the same outputs ({holder}). If it is left over from "
                "a run that was killed, end it."
            )
            report(sentence)
            print(sentence, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            report(f"this file system has no locks ({error.strerror}); let no two runs write to one results folder")
        _hold(file)
        yield


def _hold(file: IO[str]) -> None:
    file.seek(0)
    file.truncate()
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()


def _tell(log: Path, sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
    _log(log, f"{datetime.now():%H:%M:%S} {sentence}\n")


def _log(path: Path, text: str) -> None:
    # On a full disk the log cannot take the sentence either; the terminal has it.
    with suppress(OSError), path.open("a") as log:
        log.write(text)
