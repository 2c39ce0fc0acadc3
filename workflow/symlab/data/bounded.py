"""A decompressed stream that ends with a sentence where a decompression bomb would go on."""

from __future__ import annotations

import gzip
import io

from symlab.errors import UserError


class Bounded(io.RawIOBase):
    """The first ``limit`` bytes of a decompressed file, for readers that read and skip as a file's headers tell them.

    Reading or skipping beyond the limit raises a ``UserError`` with ``name`` before anything beyond it is inflated.
    """

    def __init__(self, file: gzip.GzipFile, limit: int, name: str):
        self._file, self._limit, self._name = file, limit, name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only positions from the start are known before all is inflated")
        self._check(offset)
        return self._file.seek(offset)

    def read(self, size: int | None = -1) -> bytes:
        end = self._limit + 1 if size is None or size < 0 else self.tell() + size
        self._check(end)
        return self._file.read(end - self.tell())

    def _check(self, end: int) -> None:
        if end > self._limit:
            raise UserError(
                f"{self._name} inflates to more than the {self._limit} bytes that it may hold: replace it by an intact "
                "copy."
            )
