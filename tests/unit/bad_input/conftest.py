"""What every bad input must end in: a sentence of one line, and nothing written."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from symlab.errors import UserError

LONGEST_SENTENCE = 1500


@contextmanager
def _refused(*words: str) -> Iterator[None]:
    with pytest.raises(UserError) as raised:
        yield
    sentence = str(raised.value)
    assert sentence.isprintable() and len(sentence) < LONGEST_SENTENCE
    for word in words:
        assert word in sentence, sentence


@pytest.fixture
def refused() -> Callable[..., object]:
    """A block that must end in a UserError whose one line holds all the words."""
    return _refused


@pytest.fixture
def nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder that is still empty when the test is over, as is the one around it."""
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield folder
    assert list((tmp_path / "outer").rglob("*")) == [folder]


@pytest.fixture(scope="session")
def gz_of_zeros() -> Callable[..., bytes]:
    """A gzip file of ``start`` and then so many MiB of zeros, a thousandth of their size; its end is missing."""

    def make(mebibytes: int, start: bytes = b"") -> bytes:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
        block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
        return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + head + mebibytes * block

    return make
