"""One process at a time: a lock on a file that the kernel gives back when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from symlab.artifacts import cannot_write


class Held(Exception):
    """Another process holds the lock; the message says which."""


def take(path: str | Path, wait: bool = False) -> IO[str]:
    """The open file that holds the lock as long as it is open.

    On a file system without locks nothing is held, and nobody is kept out.

    Raises:
        Held: another process has it, and ``wait`` is not set.
        ArtifactError: the file cannot be opened.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise Held(file.read().strip() or "an unknown process") from None
    except OSError:
        return file
    # Who holds it is said for people; on a full disk it goes unsaid, and the lock holds all the same.
    with suppress(OSError):
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
    return file
