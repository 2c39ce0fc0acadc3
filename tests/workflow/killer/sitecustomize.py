"""Kills this process at a moment of writing a file that a test chose; Python runs this module before any program.

The folder in SYMLAB_TEST_VICTIMS holds a file a kill: "<phase> <path of the output> <seconds>". Each is removed before
it strikes, so that the next try lives. Audit events tell what symlab.artifacts.atomic does; symlab has no line for it.
"""

import os
import signal
import sys
import time
from pathlib import Path

VICTIMS = Path(os.environ.get("SYMLAB_TEST_VICTIMS", "/nonexistent"))


def _strike(phase, name):
    for victim in VICTIMS.iterdir():
        wanted, path, seconds = victim.read_text().split()
        path = Path(path)
        if wanted != phase or path.parent.resolve() != name.parent.resolve() or not _is_part(name.name, path):
            continue
        victim.unlink()
        if phase == "begun" and os.fork():
            return
        if phase == "begun":
            time.sleep(float(seconds))
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def _is_part(name, path):
    """Whether ``name`` is the temporary name, or a pattern for the temporary names, of ``path``."""
    return name.startswith(f".{path.stem}.") and name.endswith(f".part{path.suffix}")


def _hook(event, arguments):
    if event == "pathlib.Path.glob" and str(arguments[1]).startswith("."):
        _strike("begun", Path(arguments[0]) / arguments[1])
    elif event == "os.chmod" and isinstance(arguments[0], os.PathLike | str) and ".part" in str(arguments[0]):
        _strike("written", Path(arguments[0]))
    elif event == "os.rename" and ".part" in str(arguments[0]):
        _strike("renamed", Path(arguments[0]))


if VICTIMS.is_dir():
    sys.addaudithook(_hook)
