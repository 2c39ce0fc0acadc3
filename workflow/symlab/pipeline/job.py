"""What every workflow script does around its work: a log, errors as sentences, an orderly end when told to stop."""

from __future__ import annotations

import atexit
import ctypes
import gc
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from symlab.artifacts import cannot_write
from symlab.device import resolve_device
from symlab.errors import Interrupted, UserError

if TYPE_CHECKING:
    from symlab.measures import Measure
    from symlab.study.experiment import Experiment

Report = Callable[[str], None]

# From <linux/prctl.h>: the signal that a process gets when its parent dies.
PR_SET_PDEATHSIG = 1

# What imports make stays: Python would look for garbage among it again and again, for 0.4 s of each job. Scripts import
# this module before others, and ``run`` ends the pause.
gc.disable()


def run(main: Callable[[Any, Report], None], snakemake: Any) -> None:
    """Call ``main(snakemake, report)``; ``report(line)`` appends a line with the time to the job's log.

    A ``UserError`` ends the job with its sentence, on the terminal and in the log, and exit status 1; a signal that
    training answered with a checkpoint ends it with 128 + its number. Anything else is a fault of the program: its
    traceback goes to the log and the error is raised again.
    """
    gc.freeze()
    gc.enable()
    _end_with_snakemake()
    # Python would look for garbage once more as it ends, among all that torch has made: 0.4 s of each job.
    atexit.register(gc.freeze)
    log = Path(snakemake.log[0])
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
    except OSError as error:
        sys.exit(f"Error: {cannot_write(log, error)}")

    def write(text: str) -> None:
        try:
            with log.open("a") as file:
                file.write(text)
        except OSError as error:
            # The disk may be full; what the job came to is then told on the terminal alone, and its work goes on.
            print(f"{log}: {error.strerror}. Not logged: {text}", end="", file=sys.stderr, flush=True)

    def report(line: str) -> None:
        write(f"{datetime.now():%H:%M:%S} {line}\n")

    try:
        main(snakemake, report)
        report("done")
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        report(f"Error: {error}")
        sys.exit(1)
    except Interrupted as stop:
        print(stop, file=sys.stderr, flush=True)
        report(str(stop))
        sys.exit(128 + stop.by)
    except Exception:
        write(traceback.format_exc())
        raise


def measure_named(name: str) -> Measure:
    """A measure of the kernel or of a paper; the papers' cards, a tenth of a second, are read for their own alone."""
    from symlab.measures import KERNEL

    own = {measure.name: measure for measure in KERNEL}
    if name not in own:
        from symlab.pipeline.registry import MEASURES

        own = MEASURES
    return own[name]


def device_of(work: Measure | Experiment, snakemake: Any) -> str:
    """Where a measure or an experiment computes: on a GPU only if its line asks the scheduler for one.

    Raises:
        UserError: it asks for one and the config too, but torch sees none.
    """
    return resolve_device(snakemake.config["device"] if work.gpu else "cpu", snakemake.threads)


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
