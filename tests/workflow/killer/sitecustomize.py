"""Kills this process before or after it renames a file that a test chose; Python runs this module before any program.

The folder in SYMLAB_TEST_VICTIMS holds a file a kill, named after the output with % for /, that says "before" or
"after". Each is removed before it strikes, so that the next try lives.
"""

import os
import signal
from pathlib import Path

VICTIMS = Path(os.environ.get("SYMLAB_TEST_VICTIMS", "/nonexistent"))
rename = os.replace


def _replace(source, target):
    victim = VICTIMS / os.fspath(target).replace("/", "%")
    when = victim.read_text() if victim.exists() else ""
    victim.unlink(missing_ok=True)
    if when != "before":
        rename(source, target)
    if when:
        os.kill(os.getpid(), signal.SIGKILL)


if VICTIMS.is_dir():
    os.replace = _replace
