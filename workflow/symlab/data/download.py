"""Downloads of real data into a cache folder, when the data folder does not hold them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from symlab.errors import UserError


def cache_dir() -> Path:
    """Where downloads are kept: the environment's SYMLAB_CACHE, else the user's cache folder."""
    import pooch

    configured = os.environ.get("SYMLAB_CACHE")
    return Path(configured).expanduser() if configured else Path(pooch.os_cache("symlab"))


def fetch(name: str, mirrors: tuple[str, ...], known_hash: str) -> Path:
    """Download ``mirror + name`` from the first mirror that delivers the file with this hash, or find it in the cache.

    Raises:
        UserError: no mirror delivers it.
    """
    import pooch

    reasons = []
    for mirror in mirrors:
        downloader = pooch.HTTPDownloader(progressbar=_Progress(name))
        try:
            return Path(pooch.retrieve(mirror + name, known_hash, name, cache_dir(), downloader=downloader))
        except (OSError, ValueError) as error:
            # requests' exceptions are OSErrors; pooch reports a wrong hash as a ValueError
            reasons.append(f"{mirror}: {type(error).__name__}")
    raise UserError(f"{name} could not be downloaded ({'; '.join(reasons)})")


class _Progress:
    """Progress of one download as a line on stderr every 10 %, readable in a terminal and in a job's log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.done = 0
        self.shown = 0

    def update(self, n_bytes: int) -> None:
        self.done = min(self.done + n_bytes, self.total)
        percent = 10 * (10 * self.done // self.total) if self.total else 0
        if percent > self.shown:
            self.shown = percent
            print(f"{self.name}: {percent} % of {self.total / 1e6:.1f} MB", file=sys.stderr, flush=True)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is held open; pooch calls this when the file is complete."""
