"""Damaged, wrong and hostile files of data, each with the sentence it gets; memory and time stay bounded."""

import gzip
import hashlib
import io
import os
import re
import struct
import tarfile
import tracemalloc
import zlib

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from symlab.data import cifar10, cifar10_jpeg, idx, mnist, resolve_data_dir
from symlab.data.folder import find_file

SHAPE = (3, 2, 2)
PIXELS = bytes(range(12))
IMAGES = b"\x00\x00\x08\x03" + struct.pack(">3I", *SHAPE) + PIXELS


@pytest.fixture
def peak():
    """The most memory in bytes that Python's allocators have held since the test began, as a function."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def header(magic=0x803, dims=SHAPE):
    return struct.pack(f">{1 + len(dims)}I", magic, *dims)


# content of a file of images where [3, 2, 2] bytes are expected, words of the sentence
IDX = {
    "empty": (b"", "is truncated: 0 bytes where 28 are expected; replace it."),
    "plain text": (
        b"pixel,pixel\n" * 3,
        "holds more than the 28 bytes that are expected; replace it by an intact copy.",
    ),
    "plain text of that length": (b"label,pixel0,pixel1,pixel2,p", "its magic number is 0x6c616265, not 0x00000803."),
    "a type of four bytes": (header(0xD03) + PIXELS, "its magic number is 0x00000d03, not 0x00000803."),
    "labels for images": (struct.pack(">2I", 0x801, 20) + bytes(20), "its magic number is 0x00000801, not 0x00000803."),
    "four dimensions": (header(0x804, (3, 2, 2, 1)) + PIXELS[:8], "its magic number is 0x00000804, not 0x00000803."),
    "little-endian": (struct.pack("<4I", 0x803, *SHAPE) + PIXELS, "its magic number is 0x03080000, not 0x00000803."),
    "other dimensions": (header(dims=(2, 3, 2)) + PIXELS, "has dimensions [2, 3, 2] where [3, 2, 2] are expected"),
    "a size that overflows": (
        header(dims=(2**31, 2**31, 4)) + PIXELS,
        "has dimensions [2147483648, 2147483648, 4] where",
    ),
    "a size of zero": (header(dims=(0, 2, 2)) + PIXELS, "has dimensions [0, 2, 2] where [3, 2, 2] are expected"),
    "header alone": (header(), "is truncated: 16 bytes where 28 are expected; replace it."),
    "one byte short": (IMAGES[:-1], "is truncated: 27 bytes where 28 are expected; replace it."),
    "one byte long": (IMAGES + b"\0", "holds more than the 28 bytes that are expected; replace it by an intact copy."),
    "another image": (IMAGES[:-1] + b"\xff", "has the right shape but the wrong content: decompressed, its SHA-256 is"),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("content", "words"), IDX.values(), ids=IDX)
def test_idx(content, words, suffix, tmp_path, refused):
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with refused(f"{path} ", words):
        idx.read(path, SHAPE, hashlib.sha256(IMAGES).hexdigest())


GZ = {
    "cut": (gzip.compress(IMAGES)[:-9], "cannot be read (Compressed file ended before the end-of-stream marker"),
    "cut within its header": (gzip.compress(IMAGES)[:5], "cannot be read (Compressed file ended"),
    "a wrong checksum": (gzip.compress(IMAGES)[:-8] + bytes(8), "cannot be read (CRC check failed"),
    "not compressed": (IMAGES, "cannot be read (Not a gzipped file"),
    "an unknown method": (b"\x1f\x8b\x07" + gzip.compress(IMAGES)[3:], "cannot be read (Unknown compression method)"),
    "empty": (b"", "is truncated: 0 bytes where 28 are expected"),
    "a flood of empty files": (gzip.compress(b"") * 5000, "has 100000 bytes, too many for 28 of content"),
    "a name without end": (
        b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 2**20,
        "has 1048586 bytes, too many for 28 of content",
    ),
}


@pytest.mark.parametrize(("content", "words"), GZ.values(), ids=GZ)
def test_gz(content, words, tmp_path, refused):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with refused(f"{path} {words}", "replace it"):
        idx.read(path, SHAPE, hashlib.sha256(IMAGES).hexdigest())


def test_a_gz_bomb_is_not_inflated(tmp_path, refused, gz_of_zeros, peak):
    path = tmp_path / "images.gz"
    path.write_bytes(gz_of_zeros(60))
    with refused("holds more than the 28 bytes that are expected"):
        idx.read(path, SHAPE, "")
    path.write_bytes(gz_of_zeros(4096))
    with refused("too many for 28 of content"):
        idx.read(path, SHAPE, "")
    assert peak() < 2**24


def test_counts_of_images_and_labels_that_differ(tmp_path, refused, monkeypatch):
    labels = struct.pack(">2I", 0x801, 4) + bytes(4)
    for key, content in {"train_images": IMAGES, "train_labels": labels}.items():
        shape = SHAPE[: 1 if key.endswith("labels") else 3]
        monkeypatch.setitem(mnist.FILES, key, mnist.IdxFile(key, shape, hashlib.sha256(content).hexdigest(), ""))
        (tmp_path / key).write_bytes(content)
    with refused("train_labels holds more than the 11 bytes that are expected"):
        mnist.load({"source": "mnist", "split": "random", "seed": 0}, tmp_path)


# what lies at data_dir/file, words of the sentence
PLACES = {
    "a folder": (
        lambda path, out: path.mkdir(),
        "file is a folder, where a file is expected: put the data file itself",
    ),
    "a pipe": (lambda path, out: os.mkfifo(path), "file is no regular file, where a file is expected"),
    "a link to nothing": (lambda path, out: path.symlink_to("absent"), "file is a symbolic link that leads nowhere"),
    "a link to itself": (lambda path, out: path.symlink_to("file"), "file is a symbolic link that leads nowhere"),
    "a link out": (lambda path, out: path.symlink_to(out / "file"), "leads out of the data folder"),
    "a relative link out": (lambda path, out: path.symlink_to("../out/file"), "put the file itself there, or name the"),
    "a link out to nothing": (lambda path, out: path.symlink_to(out / "absent"), "leads out of the data folder"),
    "a link to a folder out": (lambda path, out: path.symlink_to(out), "leads out of the data folder"),
    "a device": (lambda path, out: path.symlink_to("/dev/zero"), "it really is, /dev, as data_dir"),
}


@pytest.mark.parametrize(("make", "words"), PLACES.values(), ids=PLACES)
def test_what_is_no_file_of_the_data_folder(make, words, tmp_path, refused):
    inside, outside = tmp_path / "data", tmp_path / "out"
    inside.mkdir(), outside.mkdir()
    (outside / "file").write_text("secret")
    make(inside / "file", outside)
    with refused(str(inside / "file"), words):
        find_file(inside, ("file",))


def test_a_file_behind_a_folder_that_is_a_link_out(tmp_path, refused):
    (tmp_path / "data").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("secret")
    (tmp_path / "data" / "mnist").symlink_to(tmp_path / "out")
    with refused("mnist/file leads out of the data folder"):
        find_file(tmp_path / "data", ("file", "mnist/file"))


def test_the_data_folder_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("mine")
    (tmp_path / "real" / "link").symlink_to("file")
    (tmp_path / "data").symlink_to(tmp_path / "real")
    assert find_file(tmp_path / "data", ("link",)) == tmp_path / "data" / "link"
    assert find_file(tmp_path / "data", ("absent",)) is None


def test_a_file_that_may_not_be_read(tmp_path, refused):
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    path = tmp_path / "images"
    path.write_bytes(IMAGES)
    path.chmod(0)
    with refused(f"{path} cannot be read", "Permission denied"):
        idx.read(path, SHAPE, "")


def test_data_folders(tmp_path, refused, monkeypatch):
    monkeypatch.delenv("SYMLAB_DATA", raising=False)
    with refused("The data folder '/absent/folder' named by data_dir does not exist: create it or correct data_dir."):
        resolve_data_dir("/absent/folder")
    (tmp_path / "file").write_text("")
    with refused("which is a file: name the folder that the data files lie in"):
        resolve_data_dir(str(tmp_path / "file"))
    monkeypatch.setenv("SYMLAB_DATA", "~nobody-of-that-name/data")
    with refused("named by SYMLAB_DATA does not exist"):
        resolve_data_dir(None)
    with refused("does not exist"):
        resolve_data_dir("\0")


RECORD = 3073


def archived(*entries):
    """A tar file of (name, content or TarInfo) entries."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in entries:
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo()
            entry.name = name
            if isinstance(content, bytes):
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def link(kind, target):
    entry = tarfile.TarInfo()
    entry.type, entry.linkname = kind, target
    return entry


def claim(name, size, kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    return entry.tobuf(tarfile.GNU_FORMAT)


FIRST, *OTHERS = cifar10.MEMBERS
REST = [(name, bytes(RECORD)) for name in OTHERS]
CHAIN = claim("././@LongLink", 512, tarfile.GNUTYPE_LONGNAME) + b"a" * 511 + b"\0"
LONG_NAME = "\x1b[31m" + 60_000 * "n"

# a tar file of one image a member, words of the sentence
ARCHIVES = {
    "a path out": (archived(("../" + FIRST, bytes(RECORD)), *REST), f"holds no {FIRST}: replace it by https://"),
    "an absolute path": (archived(("/" + FIRST, bytes(RECORD)), *REST), f"holds no {FIRST}: replace it by https://"),
    "a path through a folder": (archived((f"x/../{FIRST}", bytes(RECORD)), *REST), f"holds no {FIRST}"),
    "a symbolic link": (archived((FIRST, link(tarfile.SYMTYPE, "/etc/passwd")), *REST), f"{FIRST} is no regular file"),
    "a link through a link": (
        archived(("cifar-10-batches-bin", link(tarfile.SYMTYPE, "/tmp")), (FIRST, bytes(RECORD - 1)), *REST),
        f"{FIRST} has 3072 bytes where 3073 are expected",
    ),
    "a hard link": (archived((FIRST, link(tarfile.LNKTYPE, "../../etc/passwd")), *REST), "is no regular file"),
    "a hard link to a member": (archived(*REST, (FIRST, link(tarfile.LNKTYPE, OTHERS[0]))), "is no regular file"),
    "a character device": (archived((FIRST, link(tarfile.CHRTYPE, "")), *REST), "is no regular file in the archive"),
    "a block device": (archived((FIRST, link(tarfile.BLKTYPE, "")), *REST), "is no regular file in the archive"),
    "a pipe": (archived((FIRST, link(tarfile.FIFOTYPE, "")), *REST), "is no regular file in the archive"),
    "a folder": (archived((FIRST, link(tarfile.DIRTYPE, "")), *REST), "is no regular file in the archive"),
    "a member twice": (archived((FIRST, bytes(RECORD)), (FIRST, bytes(RECORD)), *REST), f"holds {FIRST} twice"),
    "a batch missing": (archived((FIRST, bytes(RECORD)), *REST[:-1]), f"holds no {OTHERS[-1]}: replace it by https://"),
    "no member": (archived(), f"holds no {FIRST}"),
    "records of CIFAR-100": (archived((FIRST, bytes(RECORD + 1)), *REST), f"{FIRST} has 3074 bytes where 3073"),
    "a label of 10": (
        archived((FIRST, b"\x0a" + bytes(RECORD - 1)), *REST),
        "holds the label 10 at position 0, outside 0..9",
    ),
    "a label of 255": (
        archived((FIRST, bytes(RECORD)), *REST[:-1], (OTHERS[-1], b"\xff" * RECORD)),
        "label 255 at position 0",
    ),
    "not a tar file": (b"hello" * 1000, "cannot be read (invalid header)"),
    "zeros alone": (bytes(2048), f"holds no {FIRST}"),
    "an empty archive": (b"", "cannot be read (empty file)"),
    "cut within a member": (archived((FIRST, bytes(RECORD)), *REST)[:2000], "cannot be read (unexpected end of data)"),
    "a size below zero": (claim(FIRST, -1) + bytes(9000), f"{FIRST} has -1 bytes where 3073 are expected"),
    "a size without end": (
        claim("other", 2**62) + bytes(9000),
        "inflates to more than the 1067014 bytes that it may hold",
    ),
    "a header without end": (
        claim("x", 2**40, tarfile.XHDTYPE) + bytes(9000),
        "inflates to more than the 1067014 bytes",
    ),
    "headers about headers": (CHAIN * 900 + bytes(1024), "cannot be read"),
    "a name that writes": (archived((LONG_NAME, b""), (FIRST, b"")), f"{FIRST} has 0 bytes where 3073 are expected"),
}


@pytest.mark.parametrize(("content", "words"), ARCHIVES.values(), ids=ARCHIVES)
def test_archive(content, words, nothing_written, tmp_path, refused):
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(gzip.compress(content, 1))
    with refused(f"{path}", words):
        cifar10.read_archive(path, hashlib.sha256(path.read_bytes()).hexdigest(), 1)


@pytest.mark.parametrize(
    "start", [claim("other", 2**33), claim("x", 2**33, tarfile.XHDTYPE), claim("l", 2**33, b"L"), b""]
)
def test_an_archive_that_is_a_bomb_is_not_inflated(start, tmp_path, refused, gz_of_zeros, peak):
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(gz_of_zeros(4096, start))
    with refused(str(path), "inflates to more than the 1067014 bytes" if start else "holds no"):
        cifar10.read_archive(path, hashlib.sha256(path.read_bytes()).hexdigest(), 1)
    assert peak() < 2**25


def test_another_archive_is_not_even_opened(nothing_written, tmp_path, refused, gz_of_zeros):
    path = tmp_path / cifar10.ARCHIVE
    path.write_bytes(gz_of_zeros(1))
    with refused(f"{path} is incomplete or not the original archive: its SHA-256 is", f"not {cifar10.SHA256}; replace"):
        cifar10.load({"split": "random", "seed": 0}, tmp_path)


def jpeg(value=7, size=(32, 32), **options):
    stream = io.BytesIO()
    Image.new("RGB", size, (value, 0, 0)).save(stream, **{"format": "JPEG", **options})
    return stream.getvalue()


def claiming(width, height):
    content = bytearray(jpeg())
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">2H", height, width)
    return bytes(content)


def png_of(width, height):
    header = b"IHDR" + struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk


def table(images=None, labels=None, n=3):
    images = pa.array([jpeg()] * n if images is None else images, pa.binary() if images is None else None)
    labels = pa.array([0] * len(images), pa.uint8()) if labels is None else labels
    return pa.table({"image": images, "label": labels})


# a table of three rows, words of the sentence
TABLES = {
    "no images": (table(n=0), "holds 0 images where 3 are expected: replace it by the right file."),
    "too few images": (table(n=2), "holds 2 images where 3 are expected: replace it by the right file."),
    "too many images": (table(n=4), "holds more than 3 images: replace it by the right file."),
    "no column of labels": (
        table().select(["image"]),
        "must have the columns image (binary: JPEG bytes) and label (integer)",
    ),
    "a column too many": (table().append_column("path", [["a"] * 3]), "label (uint8), path (string): replace it"),
    "a column twice": (pa.Table.from_arrays(table().columns * 2, ["image", "label"] * 2), "must have the columns"),
    "columns of other names": (table().rename_columns(["img", "fine_label"]), "not img (binary), fine_label (uint8)"),
    "a name that writes": (table().rename_columns(["\x1b[2J\n", "label"]), "not ?[2J? (binary), label (uint8)"),
    "images as text": (table([f"{i}.jpg" for i in range(3)]), "not image (string), label (uint8)"),
    "images in a struct": (table([{"bytes": jpeg(), "path": None}] * 3), "not image (struct<bytes: binary"),
    "images as lists": (table([[1, 2]] * 3), "not image (list<element: int64>), label"),
    "labels as text": (table(labels=["cat"] * 3), "label (string): replace it by the right file"),
    "labels with fractions": (table(labels=[0.5] * 3), "label (double): replace it by the right file"),
    "labels that are truths": (table(labels=[True] * 3), "label (bool): replace it by the right file"),
    "a missing image": (table([jpeg(), None, jpeg()]), "has missing values: replace it by an intact copy."),
    "a missing label": (table(labels=pa.array([0, None, 1], pa.uint8())), "has missing values: replace it"),
    "a label of 10": (table(labels=[0, 1, 10]), "holds the label 10 at position 2, outside 0..9; replace it."),
    "a label below 0": (table(labels=[0, -1, 1]), "holds the label -1 at position 1, outside 0..9; replace it."),
    "a label of 2^63": (table(labels=pa.array([2**63] * 3, pa.uint64())), "holds the label 9223372036854775808"),
    "no JPEG": (table([jpeg(), b"no", jpeg()]), ", row 1: the image is not a JPEG image; replace the file."),
    "an empty image": (table([b"", jpeg(), jpeg()]), ", row 0: the image is not a JPEG image; replace the file."),
    "a PNG": (table([jpeg(), jpeg(), jpeg(format="PNG")]), ", row 2: the image is not a JPEG image; replace the file."),
    "a larger image": (table([jpeg(size=(64, 32))] * 3), ", row 0: the image is RGB JPEG of 64x32 pixels, not RGB"),
    "a transposed image": (table([jpeg(size=(31, 33))] * 3), "is RGB JPEG of 31x33 pixels, not RGB JPEG of 32x32"),
    "half an image": (
        table([jpeg(), jpeg()[:-60], jpeg()]),
        ", row 1: the image cannot be decoded (Truncated File Read); replace",
    ),
    "a JPEG of 2.5 gigapixels": (
        table([claiming(50_000, 50_000)] * 3),
        ", row 0: the image cannot be decoded (Image size",
    ),
    "a JPEG of 0.1 gigapixels": (table([claiming(10_000, 10_000)] * 3), "is RGB JPEG of 10000x10000 pixels, not RGB"),
    "a PNG of 2.5 gigapixels": (table([png_of(50_000, 50_000)] * 3), ", row 0: the image is not a JPEG image"),
    "a long image": (table([jpeg() + bytes(2**14)] * 3), "bytes, more than 16384; replace the file."),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("content", "words"), TABLES.values(), ids=TABLES)
def test_parquet(content, words, tmp_path, refused):
    path = tmp_path / "train.parquet"
    parquet.write_table(content, path)
    with refused(str(path), words):
        cifar10_jpeg.read_parquet(path, 3)


def whole(**options):
    stream = io.BytesIO()
    parquet.write_table(table(), stream, **options)
    return stream.getvalue()


GOOD = whole()
FOOTER = int.from_bytes(GOOD[-8:-4], "little")

# bytes of the file, words of the sentence
PARQUETS = {
    "empty": (b"", "is not a parquet file, or not all of one: replace it by an intact copy."),
    "text": (b"image,label\n" * 20, "is not a parquet file, or not all of one"),
    "a CSV that ends right": (b"image,label\nPAR1", "claims a parquet footer of"),
    "cut": (GOOD[:-1], "is not a parquet file, or not all of one"),
    "cut in front": (GOOD[-FOOTER:], "claims a parquet footer of"),
    "an encrypted footer": (GOOD[:-4] + b"PARE", "is not a parquet file, or not all of one"),
    "no footer": (b"PAR1" + bytes(4) + b"PAR1", "claims a parquet footer of 0 bytes"),
    "a footer longer than the file": (GOOD[:-8] + struct.pack("<I", 2**31) + b"PAR1", "footer of 2147483648 bytes"),
    "a footer that is too long": (bytes(2**21) + struct.pack("<I", 2**21 - 1) + b"PAR1", "footer of 2097151 bytes"),
    "a footer of zeros": (GOOD[: -FOOTER - 8] + bytes(FOOTER) + GOOD[-8:], "has a damaged parquet footer: replace it"),
    "a footer of lists": (b"PAR1" + b"\x19" * 99 + b"\x63\0\0\0PAR1", "has a damaged parquet footer: replace it"),
    "a list without end": (b"PAR1\x49\xfc" + b"\xff" * 8 + b"\x01\x0b\0\0\0PAR1", "has a damaged parquet footer"),
    "pages of zeros": (GOOD[:4] + bytes(len(GOOD) - FOOTER - 12) + GOOD[-FOOTER - 8 :], "cannot be read as parquet ("),
    "compressed by zstd": (
        whole(compression="zstd"),
        "is compressed by codec 6 of the parquet format, which may inflate",
    ),
    "compressed by gzip": (whole(compression="gzip"), "write it again with compression none or snappy."),
    "compressed by brotli": (whole(compression="brotli"), "is compressed by codec 4 of the parquet format"),
}


@pytest.mark.parametrize(("content", "words"), PARQUETS.values(), ids=PARQUETS)
def test_what_is_no_parquet_file_of_images(content, words, tmp_path, refused):
    path = tmp_path / "train.parquet"
    path.write_bytes(content)
    with refused(f"{path} ", words):
        cifar10_jpeg.read_parquet(path, 3)


def test_a_codec_that_does_not_exist_does_not_end_the_process(tmp_path, refused):
    # pyarrow aborts when it is asked for such a codec's name.
    path = tmp_path / "train.parquet"
    footer = GOOD[-FOOTER - 8 : -8]
    # The fields codec (i32) and num_values (i64) of a column's metadata.
    codec = re.search(rb"\x15([\x00-\x7f])\x16\x06\x16", footer)
    assert codec is not None and codec[1] == b"\x02", "snappy, zigzag"
    for number in (-7, 8, 33):
        zigzag = (number << 1) ^ (number >> 31)
        changed = footer[: codec.start(1)] + bytes([zigzag]) + footer[codec.end(1) :]
        path.write_bytes(GOOD[: -FOOTER - 8] + changed + GOOD[-8:])
        with refused(f"{path} is compressed by codec {number} of the parquet format"):
            cifar10_jpeg.read_parquet(path, 3)


def test_a_large_value_that_all_rows_share_is_held_once(tmp_path, refused):
    path = tmp_path / "train.parquet"
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array([bytes(2**21)]))
    parquet.write_table(pa.table({"image": rows, "label": [0] * 2000}), path, store_schema=False)
    assert path.stat().st_size < 2**23
    before = pa.default_memory_pool().max_memory()
    with refused(", row 0: the image has 2097152 bytes, more than 16384"):
        cifar10_jpeg.read_parquet(path, 2000)
    assert pa.default_memory_pool().max_memory() - before < 2**26


def test_a_file_that_is_too_large(tmp_path, refused):
    path = tmp_path / "train.parquet"
    with path.open("wb") as file:
        file.truncate(2**30)
    with refused("has 1073741824 bytes, too many for 3 small images; replace it."):
        cifar10_jpeg.read_parquet(path, 3)


def test_one_of_two_files(tmp_path, refused):
    (tmp_path / "train.parquet").write_bytes(GOOD)
    with refused("holds only one of train.parquet and test.parquet: put the other there too."):
        cifar10_jpeg.load({"split": "random", "seed": 0}, tmp_path)
    (tmp_path / "test.parquet").mkdir()
    with refused("test.parquet is a folder, where a file is expected"):
        cifar10_jpeg.load({"split": "random", "seed": 0}, tmp_path)
