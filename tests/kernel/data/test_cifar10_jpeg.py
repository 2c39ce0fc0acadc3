import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from symlab.data import Cifar10Jpeg, cifar10_jpeg, load
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


def spec(split="random"):
    return Cifar10Jpeg(source="cifar10_jpeg", split=split)


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


def test_official_split_keeps_the_test_file_and_images_their_labels(folder):
    dataset = load(spec("official"), folder)
    parts = [which(x) for x in (dataset.x_train, dataset.x_val, dataset.x_test)]
    assert sorted(np.concatenate(parts[:2])) == list(range(30))
    np.testing.assert_array_equal(parts[2], np.arange(30, 50))
    for part, y in zip(parts, (dataset.y_train, dataset.y_val, dataset.y_test), strict=True):
        np.testing.assert_array_equal(y, part % 10)
    assert dataset.image == (3, 32, 32) and len(dataset.mean) == len(dataset.std) == 3


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
    with pytest.raises(UserError, match=r"put train\.parquet and test\.parquet into the folder.*subfolder"):
        load(spec(), folder)
    with pytest.raises(UserError, match="data_dir or SYMLAB_DATA names"):
        load(spec(), None)
    assert no_network == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (encode(np.zeros((32, 33, 3), np.uint8)), "RGB of 33x32 pixels, not RGB of 32x32"),
        (encode(picture(0), mode="L"), "image is L of"),
        (encode(picture(0), format="PNG"), "not a JPEG image"),
        (encode(np.random.default_rng(0).integers(256, size=(32, 32, 3), dtype=np.uint8))[:-900], "truncated"),
    ],
)
def test_anything_but_a_small_colour_jpeg_is_refused(content, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        cifar10_jpeg.decode(content, "file, row 5")
    assert str(error.value).startswith("file, row 5: ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (table().rename_columns(["img", "label"]), r"not img \(binary\), label \(uint8\)"),
        (table().select(["image"]), "must have the columns"),
        (table(n=2, image=["a", "b"]), r"image \(string\)"),
        (table(label=[float(i % 10) for i in range(20)]), r"label \(double\)"),
        (table(n=2, image=[encode(picture(0)), None]), "missing values"),
        (table(n=2, label=[0, 10]), r"label 10 in row 1, outside 0\.\.9"),
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


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"no table")
    with pytest.raises(UserError, match=r"train\.parquet cannot be read as parquet \(.*\): replace"):
        cifar10_jpeg.read_parquet(tmp_path / "train.parquet", 1)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int64(), pa.int32()])
def test_any_integer_type_of_labels_and_several_batches(tmp_path, kind):
    path = tmp_path / "train.parquet"
    parquet.write_table(table(label=pa.array([i % 10 for i in range(20)], kind)), path, row_group_size=9)
    images = cifar10_jpeg.read_parquet(path, 20)
    np.testing.assert_array_equal(which(images.x), np.arange(20))
    np.testing.assert_array_equal(images.y, np.arange(20) % 10)
    assert images.y.dtype == np.int64


def correlation(a, b):
    return np.corrcoef(a.ravel(), b.ravel())[0, 1]


@pytest.mark.slow  # decodes 60,000 images
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
