import gzip
import hashlib
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symlab.data import idx
from symlab.errors import UserError

SHAPE = (3, 2, 2)
ARRAY = np.arange(12, dtype=np.uint8).reshape(SHAPE)
GOOD = b"\x00\x00\x08\x03" + struct.pack(">3I", *SHAPE) + ARRAY.tobytes()
FUZZ = settings(deadline=None, derandomize=True, max_examples=25)


def written(folder: Path, content: bytes, name: str = "images-idx3-ubyte") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["images-idx3-ubyte", "images-idx3-ubyte.gz"])
def test_reads_plain_and_compressed(tmp_path, name):
    path = written(tmp_path, gzip.compress(GOOD) if name.endswith(".gz") else GOOD, name)
    np.testing.assert_array_equal(idx.read(path, SHAPE, hashlib.sha256(GOOD).hexdigest()), ARRAY)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x00\x00\x08\x01" + GOOD[4:], "magic number is 0x00000801"),
        (b"\x00\x00\x0d\x03" + GOOD[4:], "magic number is 0x00000d03"),
        (GOOD[:4] + struct.pack(">3I", 3, 4, 1) + GOOD[16:], r"dimensions \[3, 4, 1\] where \[3, 2, 2\]"),
        (GOOD[:4] + struct.pack(">3I", 2**32 - 1, 2, 2) + GOOD[16:], "dimensions"),
        (GOOD[:-1], "truncated: 27 bytes where 28"),
        (GOOD[:7], "truncated"),
        (b"", "truncated"),
        (GOOD + b"\x00", "more than the 28 bytes"),
        (GOOD[:-1] + b"\xff", "wrong content"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_violations_are_told_with_the_file(tmp_path, content, sentence, compress):
    name = "images.gz" if compress else "images"
    path = written(tmp_path, gzip.compress(content) if compress else content, name)
    with pytest.raises(UserError, match=sentence) as error:
        idx.read(path, SHAPE, hashlib.sha256(GOOD).hexdigest())
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "damage", [lambda gz: gz[:-9], lambda gz: b"not gzip", lambda gz: gz[:12] + b"\xff\xff" + gz[14:]]
)
def test_damaged_compression(tmp_path, damage):
    path = written(tmp_path, damage(gzip.compress(GOOD)), "images.gz")
    with pytest.raises(UserError, match=r"images\.gz"):
        idx.read(path, SHAPE, hashlib.sha256(GOOD).hexdigest())


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        idx.read_content(tmp_path / "absent", 4)


def test_decompression_bomb_is_not_inflated(tmp_path):
    bomb = written(tmp_path, gzip.compress(bytes(50_000_000)), "images.gz")
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="more than the 28 bytes"):
            idx.read(bomb, SHAPE, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_huge_claimed_dimensions_allocate_nothing():
    claim = b"\x00\x00\x08\x03" + struct.pack(">3I", *[2**32 - 1] * 3)
    with pytest.raises(UserError, match="dimensions"):
        idx.parse(claim, SHAPE, "images")


def test_label_out_of_range():
    idx.check_labels(np.array([0, 9], np.uint8), 10, "labels")
    with pytest.raises(UserError, match=r"labels holds the label 10 at position 1, outside 0\.\.9"):
        idx.check_labels(np.array([9, 10], np.uint8), 10, "labels")
    with pytest.raises(UserError, match="label -1 at position 0"):
        idx.check_labels(np.array([-1, 9]), 10, "labels")


def outcome(read):
    try:
        return read()
    except UserError:
        return None


@FUZZ
@given(content=st.binary(max_size=64) | st.binary(max_size=48).map(lambda tail: GOOD[:16] + tail))
def test_arbitrary_bytes_give_an_array_of_the_asked_shape_or_a_sentence(content):
    array = outcome(lambda: idx.parse(content, SHAPE, "images"))
    assert (array is not None) == (content[:16] == GOOD[:16] and len(content) == len(GOOD))
    assert array is None or (array.shape == SHAPE and array.tobytes() == content[16:])


@FUZZ
@given(
    position=st.integers(0, len(gzip.compress(GOOD, mtime=0)) - 1),
    byte=st.integers(0, 255),
    junk=st.none() | st.binary(max_size=64),
)
def test_arbitrary_compressed_bytes_give_the_original_or_a_sentence(tmp_path_factory, position, byte, junk):
    packed = bytearray(gzip.compress(GOOD, mtime=0))
    packed[position] = byte
    path = written(tmp_path_factory.mktemp("fuzz"), bytes(packed) if junk is None else junk, "images.gz")
    array = outcome(lambda: idx.read(path, SHAPE, hashlib.sha256(GOOD).hexdigest()))
    assert array is None or np.array_equal(array, ARRAY)
