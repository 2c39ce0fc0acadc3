"""Arbitrary and damaged files end in a right data set or a sentence; no other exception, and no process, ends."""

import copy
import gzip
import hashlib
import io
import math
import os
import struct
import tarfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

from symlab.cli.inputs import read_data
from symlab.config import parse_config
from symlab.config_files import check_files
from symlab.data import cifar10, cifar10_jpeg, idx
from symlab.errors import UserError
from symlab.figures.needs import check_figures

# SYMLAB_FUZZ=100 runs a hundred times as many examples, with seeds of their own.
TIMES = int(os.environ.get("SYMLAB_FUZZ", "1"))
SLOWEST = 5.0


def fuzz(examples):
    return settings(
        deadline=None,
        derandomize=TIMES == 1,
        database=None,
        max_examples=examples * TIMES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def outcome(read):
    """What a reader returns, or None after a sentence of one line; either comes soon."""
    started, result = time.monotonic(), None
    try:
        result = read()
    except UserError as error:
        assert str(error).isprintable()
    assert time.monotonic() - started < SLOWEST
    return result


PLACES = st.integers(0, 2**32)
INTERESTING = st.sampled_from([0, 1, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), PLACES, st.integers(0, 255)),
        st.tuples(st.just("flip"), PLACES, st.integers(0, 7)),
        st.tuples(st.just("insert"), PLACES, st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("remove"), PLACES, st.integers(1, 600)),
        st.tuples(st.just("number"), PLACES, st.tuples(st.sampled_from("<>"), INTERESTING)),
        st.tuples(st.just("repeat"), PLACES, st.integers(1, 600)),
        st.tuples(st.just("cut"), PLACES, st.none()),
    ),
    min_size=1,
    max_size=6,
)


def changed(content, changes, telling=()):
    """The bytes after some changes; of the places named, most lie near the ``telling`` ones."""
    content = bytearray(content)
    for kind, place, value in changes:
        if not content:
            break
        at = place % len(content)
        if telling and place % 3:
            at = (telling[place // 3 % len(telling)] + place // 1000 % 12) % len(content)
        if kind == "set":
            content[at] = value
        elif kind == "flip":
            content[at] ^= 1 << value
        elif kind == "insert":
            content[at:at] = value
        elif kind == "remove":
            del content[at : at + value]
        elif kind == "number":
            content[at : at + 4] = struct.pack(f"{value[0]}I", value[1])
        elif kind == "repeat":
            content[at:at] = content[at : at + value]
        else:
            del content[at:]
    return bytes(content)


SHAPE = (3, 2, 2)
IMAGES = b"\x00\x00\x08\x03" + struct.pack(">3I", *SHAPE) + bytes(range(12))
SHA256 = hashlib.sha256(IMAGES).hexdigest()


@fuzz(400)
@given(
    changes=CHANGES, junk=st.binary(max_size=64), kind=st.sampled_from(["plain", "gz", "changed gz", "junk", "junk gz"])
)
def test_idx(folder, changes, junk, kind):
    path = folder / ("images.gz" if kind.endswith("gz") else "images")
    contents = {
        "plain": lambda: changed(IMAGES, changes, (0, 4, 8, 12)),
        "gz": lambda: gzip.compress(changed(IMAGES, changes, (0, 4, 8, 12)), mtime=0),
        "changed gz": lambda: changed(gzip.compress(IMAGES, mtime=0), changes),
        "junk": lambda: junk,
        "junk gz": lambda: b"\x1f\x8b\x08" + junk,
    }
    path.write_bytes(contents[kind]())
    array = outcome(lambda: idx.read(path, SHAPE, SHA256))
    assert array is None or array.tobytes() == bytes(range(12))


def tar(layout=tarfile.PAX_FORMAT, **headers):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=layout) as archive:
        for number, name in enumerate(cifar10.MEMBERS):
            entry = tarfile.TarInfo(name)
            entry.size, entry.pax_headers = 3073, headers
            archive.addfile(entry, io.BytesIO(bytes([number]) + bytes(3072)))
    return stream.getvalue()


TAR_FIELDS = [
    start + field for start in (0, 3584, 7168) for field in (0, 100, 124, 136, 148, 156, 157, 257, 345, 482, 512)
]
PAX_KEYS = (
    "size",
    "path",
    "linkpath",
    "mtime",
    "uid",
    "hdrcharset",
    "GNU.sparse.map",
    "GNU.sparse.size",
    "GNU.sparse.name",
)
PAX_VALUES = (
    "0",
    "-1",
    "9" * 30,
    "a",
    "1,2",
    "0,3073",
    "BINARY",
    "nan",
    "1e400",
    cifar10.MEMBERS[0],
    "x" * 600,
    "é\x00",
)


def with_right_sums(content):
    """The tar file with the check sums of all its headers as they must be, so that the reader looks further."""
    content = bytearray(content)
    for start in range(0, len(content) - 511, 512):
        block = content[start : start + 512]
        if b"cifar-10" in block[:100] or block[257:262] == b"ustar":
            total = sum(block[:148]) + 8 * 32 + sum(block[156:])
            content[start + 148 : start + 156] = b"%06o\0 " % total
    return bytes(content)


@fuzz(400)
@given(
    changes=CHANGES,
    layout=st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    headers=st.dictionaries(st.sampled_from(PAX_KEYS), st.sampled_from(PAX_VALUES), max_size=2),
    kind=st.sampled_from(["tar", "tar", "tar with wrong sums", "headers", "gz", "junk"]),
    junk=st.binary(max_size=64),
)
def test_cifar_archive(folder, changes, layout, headers, kind, junk):
    plain = tar(layout, **headers) if kind == "headers" else tar(layout)
    contents = {
        "tar": lambda: gzip.compress(with_right_sums(changed(plain, changes, TAR_FIELDS)), 1, mtime=0),
        "tar with wrong sums": lambda: gzip.compress(changed(plain, changes, TAR_FIELDS), 1, mtime=0),
        "headers": lambda: gzip.compress(plain, 1, mtime=0),
        "gz": lambda: changed(gzip.compress(plain, 1, mtime=0), changes),
        "junk": lambda: gzip.compress(junk, 1, mtime=0),
    }
    path = folder / "archive.tar.gz"
    path.write_bytes(contents[kind]())
    files = outcome(lambda: cifar10.read_archive(path, hashlib.sha256(path.read_bytes()).hexdigest(), 1))
    if files is not None:
        assert [len(file.x) for file in files] == [5, 1] and all((file.y < 10).all() for file in files)


def jpeg(number, **options):
    pixels = np.random.default_rng(number).integers(256, size=(32, 32, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels // (1 + 30 * (number % 2))).save(stream, format="JPEG", **options)
    return stream.getvalue()


JPEGS = [jpeg(0), jpeg(1), jpeg(2, progressive=True), jpeg(3, quality=10, optimize=True)]
JPEG_FIELDS = [0, 2, 4, 20, 89, 158, 160, 162, 164, 168, 177, 200]


def rows(images="binary", labels="uint8", **options):
    stream = io.BytesIO()
    table = pa.table({"image": pa.array(JPEGS[:3], images), "label": pa.array([0, 5, 9], labels)})
    parquet.write_table(table, stream, **options)
    return stream.getvalue()


PARQUETS = [
    rows(),
    rows(images="large_binary", labels="int64", row_group_size=1, store_schema=False),
    rows(compression="none", use_dictionary=False, data_page_version="2.0", write_page_checksum=True),
    rows(labels="uint64", version="1.0", write_page_index=True, write_statistics=False),
]


@fuzz(400)
@given(
    changes=CHANGES,
    which=st.integers(0, len(PARQUETS) - 1),
    where=st.sampled_from(["footer", "footer", "anywhere", "pages", "junk"]),
    junk=st.binary(max_size=64),
)
def test_parquet(folder, changes, which, where, junk):
    content = PARQUETS[which]
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if where == "footer":
        footer = changed(content[start:-8], changes)
        content = content[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1"
    elif where == "junk":
        content = b"PAR1" + junk + struct.pack("<I", len(junk)) + b"PAR1"
    else:
        content = changed(content, changes, range(4, 60, 3) if where == "pages" else ())
    path = folder / "train.parquet"
    path.write_bytes(content)
    images = outcome(lambda: cifar10_jpeg.read_parquet(path, 3))
    assert images is None or (images.x.shape == (3, 3072) and (images.y < 10).all() and (images.y >= 0).all())


@fuzz(400)
@given(changes=CHANGES, which=st.integers(0, len(JPEGS) - 1))
def test_jpeg(changes, which):
    pixels = outcome(lambda: cifar10_jpeg.decode(changed(JPEGS[which], changes, JPEG_FIELDS), "row 5"))
    assert pixels is None or (pixels.shape == (3072,) and pixels.dtype == np.uint8)


def npz(save):
    stream = io.BytesIO()
    save(stream, x=np.arange(12, dtype=np.float32).reshape(3, 4), y=np.arange(3))
    return stream.getvalue()


NPZS = [npz(np.savez), npz(np.savez_compressed)]


@fuzz(300)
@given(
    changes=CHANGES,
    which=st.integers(0, len(NPZS) - 1),
    where=st.sampled_from(["headers of arrays", "anywhere", "directory"]),
)
def test_npz(folder, changes, which, where):
    content = NPZS[which]
    places = {
        "headers of arrays": range(0, 120, 4),
        "anywhere": (),
        "directory": range(len(content) - 160, len(content), 4),
    }
    path = folder / "data.npz"
    path.write_bytes(changed(content, changes, places[where]))
    data = outcome(lambda: read_data(path, "classification"))
    assert data is None or (len(data.x) > 0 and (data.y is None or len(data.y) == len(data.x)))


SMOKE = yaml.safe_load((Path(__file__).parents[3] / "workflow" / "presets" / "smoke.yaml").read_text())
SMOKE = {"datasets": {"gmm": SMOKE["datasets"]["gmm"]}, "studies": {"theory": SMOKE["studies"]["theory"]}}
VALUES = st.one_of(
    st.sampled_from(
        [None, True, "", "gmm", "a/b", "..", [], {}, [[]], 0, -1, 10**30, 1.5, math.nan, math.inf, b"", "{x}"]
    ),
    st.text(max_size=5),
    st.recursive(
        st.integers(-3, 3), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
)
KEYS = st.sampled_from(["sweep", "figures", "name", "k", "x", 1, None, 1.5, "scheme.sigma_F", "n_fixed", "ridge", "t"])


def branches(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from branches(inner)


@fuzz(150)
@given(changes=st.lists(st.tuples(PLACES, PLACES, KEYS, VALUES), min_size=1, max_size=3))
def test_config(changes):
    config = copy.deepcopy(SMOKE)
    for place, which, key, value in changes:
        of = list(branches(config))
        branch = of[place % len(of)]
        keys = list(branch) if isinstance(branch, dict) else list(range(len(branch)))
        if isinstance(branch, dict) and which % 4 == 0:
            branch[key] = copy.deepcopy(value)
        elif keys and which % 4 == 1:
            del branch[keys[which // 4 % len(keys)]]
        elif keys:
            branch[keys[which // 4 % len(keys)]] = copy.deepcopy(value)
    outcome(lambda: check_figures(parse_config(config)))


CONFIG = yaml.safe_dump({"studies": {"s": {"seeds": 2, "list": [1, {"a": "b"}], "text": "long\ntext"}}}).encode()


@fuzz(200)
@given(changes=CHANGES, junk=st.text(alphabet="{}[]:,-?&*!|>'\"%@`# \t\nab1.<", max_size=30), as_it_is=st.booleans())
def test_config_file(folder, changes, junk, as_it_is):
    path = folder / "my.yaml"
    path.write_bytes(junk.encode() if as_it_is else changed(CONFIG, changes))
    outcome(lambda: check_files([path]))
