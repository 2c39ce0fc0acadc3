"""Downloads of real data into a cache folder, when the data folder does not hold them."""

from __future__ import annotations

import os
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
        downloader = pooch.HTTPDownloader(progressbar=True)
        try:
            return Path(pooch.retrieve(mirror + name, known_hash, name, cache_dir(), downloader=downloader))
        except (OSError, ValueError) as error:
            # requests' exceptions are OSErrors; pooch reports a wrong hash as a ValueError
            reasons.append(f"{mirror}: {type(error).__name__}")
    raise UserError(f"{name} could not be downloaded ({'; '.join(reasons)})")
