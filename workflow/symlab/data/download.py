"""Downloads of real data into a cache folder, when the data folder does not hold them."""

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
        UserError: no mirror delivers it, or the cache folder cannot be written.
    """
    import pooch

    reasons = []
    for mirror in mirrors:
        try:
            return Path(pooch.retrieve(mirror + name, known_hash, name, cache_dir(), progressbar=True))
        # The errors of requests are OSErrors; ValueError is pooch's word for a wrong hash.
        except (OSError, ValueError) as error:
            reasons.append(f"{mirror}: {str(error).partition(chr(10))[0]}")
    raise UserError(f"{name} could not be downloaded to {cache_dir()} ({'; '.join(reasons)})")
