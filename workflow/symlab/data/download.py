"""Downloads of real data into a cache folder, when the data folder does not hold them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from symlab.errors import UserError

TIMEOUT = 30.0
"""Seconds after which a server that says nothing is given up."""
SLOWEST = 20_000.0
"""Bytes a second below which, on average, a server is given up."""
_CHUNK = 2**16


def cache_dir() -> Path:
    """Where downloads are kept: the environment's SYMLAB_CACHE, else the user's cache folder."""
    import pooch

    configured = os.environ.get("SYMLAB_CACHE")
    return Path(os.path.expanduser(configured)) if configured else Path(pooch.os_cache("symlab"))


def fetch(name: str, mirrors: tuple[str, ...], known_hash: str, largest: int) -> Path:
    """Download ``mirror + name`` from the first mirror that delivers the file with this hash, or find it in the cache.

    At most ``largest`` bytes are taken from a mirror, in bounded time; what is not the file is not kept.

    Raises:
        UserError: no mirror delivers it, or the cache folder cannot be written.
    """
    import pooch
    import requests
    import urllib3

    # While the content is read, urllib3's own and the system's.
    broken = (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError)

    def download(url: str, output_file: Any, _: Any) -> None:
        _download(url, output_file, largest)

    reasons = []
    for mirror in mirrors:
        try:
            return Path(pooch.retrieve(mirror + name, known_hash, name, cache_dir(), downloader=download))
        except (*broken, _GivenUp) as error:
            reasons.append(f"{mirror}: {_reason(error)}")
        except OSError as error:
            raise UserError(
                f"{name} cannot be kept in the cache {cache_dir()} ({error.strerror}); make room or make it writable, "
                "or name another folder in the environment variable SYMLAB_CACHE"
            ) from None
        except ValueError:
            # pooch's word for a wrong hash
            reasons.append(f"{mirror}: other content than expected, or not all of it")
    raise UserError(f"{name} could not be downloaded ({'; '.join(reasons)})")


def _download(url: str, path: str, largest: int) -> None:
    """Write what a server sends to ``path``, with a progress bar on the terminal."""
    import requests
    from tqdm import tqdm

    started, received = time.monotonic(), 0
    with requests.get(url, timeout=TIMEOUT, stream=True) as response:
        response.raise_for_status()
        total = int(response.headers.get("content-length") or 0) or None
        bar = tqdm(total=total, desc=os.path.basename(url), unit="B", unit_scale=True, leave=True)
        with open(path, "wb") as file, bar:
            # Not iter_content, which waits for whole chunks however slowly they come.
            while chunk := response.raw.read1(_CHUNK, decode_content=True):
                received += len(chunk)
                if received > largest:
                    raise _GivenUp(f"more than the {largest} bytes that are expected")
                if time.monotonic() - started > TIMEOUT + received / SLOWEST:
                    raise _GivenUp("too slow")
                file.write(chunk)
                bar.update(len(chunk))


class _GivenUp(Exception):
    """A server that could go on sending for ever."""


_REASONS = {
    "TooManyRedirects": "redirects without end",
    "Timeout": "no answer in time",
    "TimeoutError": "no answer in time",
    "ProtocolError": "it broke off",
    "ConnectionError": "no connection",
    "DecodeError": "it sends what cannot be decoded",
    "InvalidSchema": "it redirects to something other than a web server",
}


def _reason(error: Exception) -> str:
    """In a few words; what requests and urllib3 say of themselves runs over several lines."""
    if isinstance(error, _GivenUp):
        return str(error)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    if "HTTPError" in kinds and (response := getattr(error, "response", None)) is not None:
        return f"HTTP status {response.status_code}"
    return next((text for kind, text in _REASONS.items() if kind in kinds), type(error).__name__)
