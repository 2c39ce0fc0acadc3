"""Reader of IDX files of unsigned bytes (the format of MNIST), plain or gzip-compressed."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from symlab.errors import UserError


def read(path: Path, shape: tuple[int, ...], sha256: str) -> UInt8[np.ndarray, "*shape"]:
    """The (read-only) array in an IDX file of this shape whose decompressed content has the given SHA-256.

    Raises:
        UserError: the file cannot be read or decompressed, is truncated, or holds something else.
    """
    header = 4 + 4 * len(shape)
    size = header + math.prod(shape)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): replace it by an intact copy.") from None
    if len(content) < size:
        raise UserError(f"{path} is truncated: {len(content)} bytes where {size} are expected; replace it.")
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise UserError(
            f"{path} has the wrong content: decompressed, its SHA-256 is {found}, not {sha256}; replace it by the "
            "original file."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
