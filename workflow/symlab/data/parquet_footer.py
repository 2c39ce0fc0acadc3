"""The codecs of a parquet file's columns, read from its footer without pyarrow.

pyarrow decompresses a page of any codec to whatever size the page claims, and asking its metadata for a codec that does
not exist ends the process. The footer is a struct of Thrift's compact protocol, of which this is a reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from symlab.errors import UserError

MAGIC = b"PAR1"
LARGEST_FOOTER = 2**20
_TAIL = 8
_DEEPEST = 16

# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)

# Field numbers in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA, _CODEC = 4, 1, 3, 4


def codecs(path: Path) -> set[int]:
    """Numbers (of parquet.thrift's CompressionCodec) of the codecs of all column chunks.

    Raises:
        UserError: the file is no parquet file, or its footer is too long or damaged.
        OSError: it cannot be opened.
    """
    footer = _footer(path)
    try:
        groups = _field(_Compact(footer).struct(), _ROW_GROUPS, list)
        chunks = [chunk for group in groups for chunk in _field(group, _COLUMNS, list)]
        return {_field(_field(chunk, _COLUMN_METADATA, dict), _CODEC, int) for chunk in chunks}
    except _Damaged:
        raise UserError(f"{path} has a damaged parquet footer: replace it by an intact copy.") from None


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
        if size < _TAIL + len(MAGIC) or tail[4:] != MAGIC:
            raise UserError(f"{path} is not a parquet file, or not all of one: replace it by an intact copy.")
        length = int.from_bytes(tail[:4], "little")
        if not 0 < length <= min(size - _TAIL, LARGEST_FOOTER):
            raise UserError(
                f"{path} claims a parquet footer of {length} bytes, more than it has or than {LARGEST_FOOTER}: replace "
                "it by an intact copy."
            )
        file.seek(size - _TAIL - length)
        return file.read(length)


def _field(struct: Any, number: int, kind: type) -> Any:
    value = struct.get(number) if isinstance(struct, dict) else None
    if not isinstance(value, kind):
        raise _Damaged
    return value


class _Damaged(Exception):
    """The bytes are no Thrift struct, or not the one that is expected."""


class _Compact:
    """A reader of one struct; a field that comes twice is damage, as readers differ in which of the two counts."""

    def __init__(self, content: bytes):
        self._content, self._at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (header := self._byte()) != 0:
            delta, kind = divmod(header, 16)
            number = number + delta if delta else self._zigzag()
            if number in fields:
                raise _Damaged
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _Damaged
        if kind in _INTEGERS:
            return self._zigzag()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in (_LIST, _SET):
            length, of = divmod(self._byte(), 16)
            length = self._varint() if length == 15 else length
            if length > len(self._content):
                raise _Damaged
            return [self._value(of, depth + 1) for _ in range(length)]
        raise _Damaged

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, length: int) -> bytes:
        taken = self._content[self._at : self._at + length]
        if len(taken) < length:
            raise _Damaged
        self._at += length
        return taken

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _Damaged

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
