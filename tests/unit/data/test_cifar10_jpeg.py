import io
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from pyarrow import parquet

from symlab.data import cifar10_jpeg, load
from symlab.errors import UserError


def encode(rgb, **options):
    """An image file of an array [height, width, 3], almost without loss."""
    stream = io.BytesIO()
    image = Image.fromarray(rgb).convert(options.pop("mode", "RGB"))
    image.save(stream, **({"format": "JPEG", "quality": 100, "subsampling": 0} | options))
    return stream.getvalue()


def picture(number):
    """Four blocks of random colours: channels, rows and columns are all told apart."""
    blocks = np.random.default_rng(number).integers(256, size=(2, 2, 3), dtype=np.uint8)
    return blocks.repeat(16, axis=0).repeat(16, axis=1)


def table(first=0, n=20, **columns):
    numbers = range(first, first + n)
    rows = {"image": [encode(picture(i)) for i in numbers], "label": pa.array([i % 10 for i in numbers], pa.uint8())}
    return pa.table(rows | columns)


def spec(split="random", seed=0, n_samples=None):
    return {"source": "cifar10_jpeg", "split": split, "seed": seed, "n_samples": n_samples}


def which(x):
    """Numbers of the pictures (of 0..49) that flattened images show."""
    known = np.stack([picture(number).transpose(2, 0, 1).reshape(-1) for number in range(50)]).astype(float)
    return np.array([np.abs(known - image).max(axis=1).argmin() for image in x])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with 30 + 20 pictures."""
    monkeypatch.setattr(cifar10_jpeg, "N_IMAGES", (30, 20))
    (tmp_path / "cifar10-jpeg").mkdir()
    parquet.write_table(table(0, 30), tmp_path / "cifar10-jpeg" / "train.parquet")
    parquet.write_table(table(30, 20), tmp_path / "cifar10-jpeg" / "test.parquet")
    return tmp_path


def test_pixels_are_stored_channel_by_channel_and_row_by_row():
    x = cifar10_jpeg.decode(encode(picture(3)), "here").reshape(3, 32, 32)
    assert x.dtype == np.uint8
    for channel in range(3):
        for row, column in ((0, 0), (0, 31), (31, 0), (31, 31)):
            assert abs(int(x[channel, row, column]) - int(picture(3)[row, column, channel])) <= 3


def test_random_split_partitions_all_images(folder):
    dataset = load(spec(), folder)
    parts = [which(x) for x in (dataset.x_train, dataset.x_val, dataset.x_test)]
    assert [len(part) for part in parts] == [40, 5, 5]
    assert sorted(np.concatenate(parts)) == list(range(50))
    for part, y in zip(parts, (dataset.y_train, dataset.y_val, dataset.y_test), strict=True):
        np.testing.assert_array_equal(y, part % 10)
    assert dataset.image == (3, 32, 32) and len(dataset.mean) == len(dataset.std) == 3


def test_official_split_keeps_the_test_file_and_the_subset_is_balanced(folder):
    dataset = load(spec("official", n_samples=20), folder)
    kept = np.concatenate([which(dataset.x_train), which(dataset.x_val)])
    assert np.bincount(kept % 10).tolist() == [2] * 10 and kept.max() < 30
    np.testing.assert_array_equal(which(dataset.x_test), np.arange(30, 50))
    with pytest.raises(UserError, match=r"n_samples = 40 is more than the 30"):
        load(spec("official", n_samples=40), folder)


def test_provenance_names_the_compressed_data_and_their_content(folder):
    first = load(spec(), folder).provenance
    assert first["source"] == "cifar10-jpeg" and set(first["inputs_sha256"]) == {"train.parquet", "test.parquet"}
    parquet.write_table(table(31, 20), folder / "cifar10-jpeg" / "test.parquet")
    second = load(spec(), folder).provenance
    assert first["decoded_sha256"] != second["decoded_sha256"]
    assert first["inputs_sha256"]["train.parquet"] == second["inputs_sha256"]["train.parquet"]
    assert first["inputs_sha256"]["test.parquet"] != second["inputs_sha256"]["test.parquet"]


def test_files_may_lie_in_the_folder_itself(folder, no_network):
    assert len(load(spec(), folder / "cifar10-jpeg").x_train) == 40
    (folder / "cifar10-jpeg" / "test.parquet").unlink()
    with pytest.raises(UserError, match="holds only one of train"):
        load(spec(), folder)
    (folder / "cifar10-jpeg" / "train.parquet").unlink()
    with pytest.raises(UserError, match=r"put train\.parquet and test\.parquet into the folder.*subfolder"):
        load(spec(), folder)
    with pytest.raises(UserError, match="data_dir or SYMLAB_DATA names"):
        load(spec(), None)
    assert no_network == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (encode(np.zeros((32, 33, 3), np.uint8)), "RGB JPEG of 33x32 pixels, not RGB JPEG of 32x32"),
        (encode(np.zeros((31, 32, 3), np.uint8)), "32x31"),
        (encode(picture(0), mode="L"), "image is L JPEG"),
        (encode(picture(0), mode="CMYK"), "image is CMYK JPEG"),
        (encode(picture(0), format="PNG"), "not a JPEG image"),
        (encode(picture(0), format="WEBP"), "not a JPEG image"),
        (encode(picture(0), format="MPO", save_all=True, append_images=[Image.new("RGB", (32, 32))]), "RGB MPO"),
        (encode(picture(0))[:400], r"not a JPEG image|cannot be decoded"),
        (encode(np.random.default_rng(0).integers(256, size=(32, 32, 3), dtype=np.uint8))[:-900], "truncated"),
        (b"", "not a JPEG image"),
    ],
)
def test_anything_but_a_small_colour_jpeg_is_refused(content, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        cifar10_jpeg.decode(content, "file, row 5")
    assert str(error.value).startswith("file, row 5: ")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(65_000, 65_000), (10_000, 10_000), (33, 32), (0, 32)])
def test_claimed_size_is_refused_before_a_pixel_is_decoded(size, monkeypatch):
    content = bytearray(encode(picture(0)))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">2H", *size)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(UserError, match="row 5"):
        cifar10_jpeg.decode(bytes(content), "file, row 5")


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8),
    length=st.integers(0, 10**6),
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_damaged_images_give_pixels_or_a_sentence(changes, length):
    content = bytearray(encode(picture(0)))
    for position, byte in changes:
        content[position % len(content)] = byte
    try:
        x = cifar10_jpeg.decode(bytes(content[: 1 + length % (2 * len(content))]), "file, row 5")
    except UserError as error:
        assert "row 5" in str(error)
    else:
        assert x.shape == (3072,) and x.dtype == np.uint8


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (table().rename_columns(["img", "label"]), r"not img \(binary\), label \(uint8\)"),
        (table().append_column("id", [list(range(20))]), "must have the columns"),
        (table().select(["image"]), "must have the columns"),
        (table(n=2, image=["a", "b"]), r"image \(string\)"),
        (table(label=[float(i % 10) for i in range(20)]), r"label \(double\)"),
        (table(n=2, image=[encode(picture(0)), None]), "missing values"),
        (table(n=2, label=[None, 1]), "missing values"),
        (table(n=2, label=[0, 10]), r"label 10 at position 1, outside 0\.\.9"),
        (table(n=2, label=[-1, 0]), "label -1 at position 0"),
        (table(n=0, image=pa.array([], pa.binary())), "holds 0 images where 1 are expected"),
        (table(n=3, image=[encode(picture(0)), encode(picture(1)), b"no"]), "row 2: the image is not a JPEG image"),
    ],
)
def test_wrong_tables(tmp_path, content, sentence):
    path = tmp_path / "train.parquet"
    parquet.write_table(content, path)
    with pytest.raises(UserError, match=sentence) as error:
        cifar10_jpeg.read_parquet(path, max(content.num_rows, 1))
    assert str(path) in str(error.value)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int64(), pa.int32()])
def test_any_integer_type_of_labels_and_several_batches(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(cifar10_jpeg, "_ROWS", 7)
    path = tmp_path / "train.parquet"
    parquet.write_table(table(label=pa.array([i % 10 for i in range(20)], kind)), path, row_group_size=9)
    images = cifar10_jpeg.read_parquet(path, 20)
    np.testing.assert_array_equal(which(images.x), np.arange(20))
    np.testing.assert_array_equal(images.y, np.arange(20) % 10)
    assert images.y.dtype == np.int64


def test_the_row_that_is_wrong_is_named_in_any_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar10_jpeg, "_ROWS", 2)
    path = tmp_path / "train.parquet"
    parquet.write_table(table(n=5, image=[encode(picture(0))] * 3 + [b"no"] * 2), path)
    with pytest.raises(UserError, match="row 3: "):
        cifar10_jpeg.read_parquet(path, 5)


def test_column_names_that_are_no_text(tmp_path):
    path = tmp_path / "train.parquet"
    parquet.write_table(table(n=3), path)
    path.write_bytes(path.read_bytes().replace(b"label", b"lab\xffl"))
    with pytest.raises(UserError, match=r"train\.parquet"):
        cifar10_jpeg.read_parquet(path, 3)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8), cut=st.integers(0, 10**6))
def test_damaged_files_give_images_or_a_sentence(tmp_path_factory, changes, cut):
    path = tmp_path_factory.mktemp("fuzz") / "train.parquet"
    parquet.write_table(table(n=3), path)
    content = bytearray(path.read_bytes())
    for position, byte in changes:
        content[-1 - position % len(content)] = byte
    path.write_bytes(content[: len(content) - cut % len(content) if cut % 2 else None])
    try:
        images = cifar10_jpeg.read_parquet(path, 3)
    except UserError as error:
        assert str(path) in str(error)
    else:
        assert images.x.shape[1] == 3072


def correlation(a, b):
    return np.corrcoef(a.ravel(), b.ravel())[0, 1]


def test_real_cifar10_jpeg(real_cifar10_jpeg):
    dataset = load(spec("official"), real_cifar10_jpeg)
    assert (len(dataset.x_train), len(dataset.x_val), len(dataset.x_test)) == (45_000, 5_000, 10_000)
    assert np.bincount(np.concatenate([dataset.y_train, dataset.y_val])).tolist() == [5_000] * 10
    assert np.bincount(dataset.y_test).tolist() == [1_000] * 10
    # the widely quoted values of CIFAR-10's training files
    np.testing.assert_allclose(dataset.mean, (0.4914, 0.4822, 0.4465), atol=1e-3)
    np.testing.assert_allclose(dataset.std, (0.2470, 0.2435, 0.2616), atol=3e-3)

    red, green, blue = np.moveaxis(dataset.x_test[:2000].reshape(-1, *dataset.image), 1, 0)
    for channel in (red, green, blue):
        assert correlation(channel[:, 1:], channel[:, :-1]) > 0.8
        assert correlation(channel[:, :, 1:], channel[:, :, :-1]) > 0.8
    assert correlation(red, green) > 0.8 and correlation(green, blue) > 0.8
    # the upper rows of a photograph are its sky: brighter and bluer than what is below
    sky, ground = (np.array([c[:, rows].mean() for c in (red, blue)]) for rows in (slice(0, 8), slice(24, 32)))
    assert sky[0] > ground[0] and sky[1] - sky[0] > ground[1] - ground[0]
