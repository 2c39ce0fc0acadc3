"""What every workflow script does around its work: a log, and errors told as sentences."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from symlab.errors import UserError

Report = Callable[[str], None]


def expose_library(folder: str) -> None:
    """Let the processes that this one starts import symlab from ``folder`` and find this Python's programs.

    Scripts run as processes of their own, and the report is written by calling the snakemake that is running now;
    neither should depend on what is installed or which environment is activated.
    """
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.path.dirname(sys.executable), os.environ.get("PATH")]))


def run(main: Callable[[Any, Report], None], snakemake: Any) -> None:
    """Call ``main(snakemake, report)``; ``report(line)`` appends a line with the time to the job's log.

    A ``UserError`` ends the job with its sentence, on the terminal and in the log, and exit status 1. Anything else is
    a fault of the program: its traceback goes to the log and the error is raised again.
    """
    path = Path(snakemake.log[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", buffering=1) as log:

        def report(line: str) -> None:
            log.write(f"{datetime.now():%H:%M:%S} {line}\n")

        try:
            main(snakemake, report)
        except UserError as error:
            report(f"Error: {error}")
            sys.exit(f"Error: {error}")
        except Exception:
            log.write(traceback.format_exc())
            raise
        report("done")
