"""What every workflow script does around its work: a log, checked inputs, recorded outputs, errors as sentences."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import IO, Any

from symlab.artifacts import cannot_write
from symlab.errors import Interrupted, UserError
from symlab.locks import Held, take
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
    origins = snakemake.params.get("origins", {})
    try:
        lock, waited = _alone(path.with_name(f".{path.name}.lock"))
        log = Log(path)
    except UserError as error:
        sys.exit(f"Error: {error}")
    except Interrupted as stop:
        sys.exit(128 + stop.by)
    with lock:
        try:
            if waited and _made(snakemake.output, origins):
                log.report("the process that this one waited for has done the work")
                return
            for name in snakemake.input:
                check_record(name, origins.get(name))
            main(snakemake, log.report)
            for name in snakemake.output:
                write_record(name, origins.get(name))
            log.report("done")
        except UserError as error:
            log.tell(f"Error: {error}")
            sys.exit(1)
        except Interrupted as stop:
            log.tell(str(stop))
            sys.exit(128 + stop.by)
        except Exception:
            log.write(traceback.format_exc())
            raise


class Log:
    """A job's log; on a disk that has become full its lines are lost, the job goes on."""

    def __init__(self, path: Path):
        self.path, self.lost = path, False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        except OSError as error:
            raise cannot_write(path, error) from None

    def write(self, text: str) -> None:
        """Append text."""
        try:
            with self.path.open("a") as file:
                file.write(text)
        except OSError as error:
            if not self.lost:
                print(f"Lines of {self.path} are lost: {error.strerror}.", file=sys.stderr, flush=True)
            self.lost = True

    def report(self, line: str) -> None:
        """Append a line with the time."""
        self.write(f"{datetime.now():%H:%M:%S} {line}\n")

    def tell(self, sentence: str) -> None:
        """Say how the job ends, on the terminal too."""
        print(sentence, file=sys.stderr, flush=True)
        self.report(sentence)


def _end_with_snakemake() -> None:
    """Stop in an orderly way when told to, and when the Snakemake that waits for this job is killed."""
    # An exception lets files under a temporary name be removed; training puts a handler of its own in this one's place.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:
    by = signal.Signals(number)
    raise Interrupted(by, f"The job was stopped by {by.name}; the next run does it.")


def _alone(path: Path) -> tuple[IO[str], bool]:
    """Wait until no other process works on the same outputs, such as one left over from a run that was killed.

    Returns the lock, and whether it had to be waited for.
    """
    try:
        return take(path), False
    except Held as holder:
        print(
            f"Waiting for another process that is working on the same outputs ({holder}). If it is left over from a "
            "run that was killed, end it.",
            file=sys.stderr,
            flush=True,
        )
        return take(path, wait=True), True


def _made(outputs: list[str], origins: dict[str, Any]) -> bool:
    """Whether all outputs are there already, as they shall be."""
    try:
        for name in outputs:
            check_record(name, origins.get(name))
    except UserError:
        return False
    return True
