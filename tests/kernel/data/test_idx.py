import gzip
import hashlib
import struct

import numpy as np
import pytest

from symlab.data.mnist import read_idx
from symlab.errors import UserError

SHAPE = (3, 2, 2)
ARRAY = np.arange(12, dtype=np.uint8).reshape(SHAPE)
GOOD = b"\x00\x00\x08\x03" + struct.pack(">3I", *SHAPE) + ARRAY.tobytes()


@pytest.mark.parametrize("name", ["images-idx3-ubyte", "images-idx3-ubyte.gz"])
def test_reads_plain_and_compressed(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(GOOD) if name.endswith(".gz") else GOOD)
    np.testing.assert_array_equal(read_idx(tmp_path / name, SHAPE, hashlib.sha256(GOOD).hexdigest()), ARRAY)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(GOOD[:-1]), "is truncated: 27 bytes where 28 are expected"),
        (gzip.compress(GOOD[:-1] + b"\xff"), "has the wrong content: decompressed, its SHA-256 is"),
        (gzip.compress(GOOD)[:-9], "cannot be read"),
        (GOOD, "cannot be read"),
    ],
    # gzip writes the time into what it compresses, so that no two processes would name these cases alike.
    ids=["short", "other content", "cut", "not compressed"],
)
def test_damaged_files_are_told_by_name(tmp_path, content, sentence):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence) as error:
        read_idx(path, SHAPE, hashlib.sha256(GOOD).hexdigest())
    assert str(path) in str(error.value)
