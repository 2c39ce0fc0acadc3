"""Strict reader of IDX files (the format of MNIST), plain or gzip-compressed.

The caller says what shape the array must have, so the size is known before a byte is read: nothing larger is ever
inflated or allocated, whatever the file claims.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8

from symlab.errors import UserError

_UNSIGNED_BYTE = 0x08
_GZIP_HEADER = 2**16


def content_size(shape: tuple[int, ...]) -> int:
    """Number of bytes of an IDX file of unsigned bytes with this shape, decompressed."""
    return 4 + 4 * len(shape) + math.prod(shape)


def read_content(path: Path, size: int) -> bytes:
    """The (decompressed, if the name ends in .gz) content of a file that must be exactly ``size`` bytes long.

    At most ``size + 1`` bytes are inflated, out of a file that is not much longer than that.

    Raises:
        UserError: the file cannot be read or decompressed, or its content is shorter or longer.
    """
    try:
        # What cannot be compressed becomes a little longer; all that is beyond is filling, which takes time to skip.
        if (found := path.stat().st_size) > size + size // 100 + _GZIP_HEADER:
            raise UserError(f"{path} has {found} bytes, too many for {size} of content; replace it by an intact copy.")
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): replace it by an intact copy.") from None
    if len(content) < size:
        raise UserError(f"{path} is truncated: {len(content)} bytes where {size} are expected; replace it.")
    if len(content) > size:
        raise UserError(f"{path} holds more than the {size} bytes that are expected; replace it by an intact copy.")
    return content


def parse(content: bytes, shape: tuple[int, ...], name: str) -> UInt8[np.ndarray, "*shape"]:
    """The array in the decompressed content of an IDX file of unsigned bytes; ``name`` is for messages.

    Raises:
        UserError: the magic number, the dimensions or the length are not those of ``shape``.
    """
    if len(content) < 4 + 4 * len(shape):
        raise UserError(f"{name} is truncated: {len(content)} bytes are too few for an IDX header; replace it.")
    magic = (_UNSIGNED_BYTE << 8) | len(shape)
    found, *dims = struct.unpack_from(f">{1 + len(shape)}I", content)
    if found != magic:
        raise UserError(f"{name} is not the right IDX file: its magic number is {found:#010x}, not {magic:#010x}.")
    if tuple(dims) != shape:
        raise UserError(f"{name} has dimensions {dims} where {list(shape)} are expected; replace it by the right file.")
    if len(content) != content_size(shape):
        raise UserError(f"{name} has {len(content)} bytes where its dimensions need {content_size(shape)}; replace it.")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def read(path: Path, shape: tuple[int, ...], sha256: str) -> UInt8[np.ndarray, "*shape"]:
    """The (read-only) array in an IDX file whose decompressed content must have the given SHA-256.

    Raises:
        UserError: any violation of the format, the shape or the digest, with the file's name.
    """
    content = read_content(path, content_size(shape))
    array = parse(content, shape, str(path))
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise UserError(
            f"{path} has the right shape but the wrong content: decompressed, its SHA-256 is {found}, "
            f"not {sha256}; replace it by the original file."
        )
    return array


def check_labels(labels: Integer[np.ndarray, " n"], n_classes: int, name: str) -> None:
    """Refuse labels outside 0..n_classes-1.

    Raises:
        UserError: names the first offending position.
    """
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(wrong):
        raise UserError(
            f"{name} holds the label {labels[wrong[0]]} at position {wrong[0]}, outside 0..{n_classes - 1}; replace it."
        )
