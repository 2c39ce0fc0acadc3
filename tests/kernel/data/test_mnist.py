import gzip

import numpy as np
import pooch
import pytest
from pydantic import ValidationError

from symlab.data import Mnist, load, mnist
from symlab.errors import UserError

LABELS = "train-labels-idx1-ubyte.gz"


def spec(split="random"):
    return Mnist(source="mnist", split=split)


def numbers(x):
    """The image numbers that the fixture wrote into the first two pixels."""
    return x[:, 0].astype(int) * 256 + x[:, 1]


def written(folder, kind, header):
    """All numbers of the training file and then the test file, behind a header of so many bytes."""
    files = (folder / f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k"))
    return np.frombuffer(b"".join(gzip.decompress(file.read_bytes())[header:] for file in files), np.uint8)


def test_random_split_partitions_all_images_with_their_pixels_and_labels(tiny_mnist):
    images, labels = written(tiny_mnist, "images-idx3", 16).reshape(250, 16), written(tiny_mnist, "labels-idx1", 8)
    dataset = load(spec(), tiny_mnist)
    parts = [(getattr(dataset, f"x_{part}"), getattr(dataset, f"y_{part}")) for part in ("train", "val", "test")]
    assert [len(y) for _, y in parts] == [200, 25, 25]
    assert dataset.image == (1, 4, 4)
    assert sorted(np.concatenate([numbers(x) for x, _ in parts])) == list(range(250))
    for x, y in parts:
        np.testing.assert_array_equal(x, images[numbers(x)])
        np.testing.assert_array_equal(y, labels[numbers(x)])
        assert y.dtype == np.int64 and x.dtype == np.uint8


def test_official_split_keeps_the_test_files(tiny_mnist):
    dataset = load(spec("official"), tiny_mnist)
    assert sorted(np.concatenate([numbers(dataset.x_train), numbers(dataset.x_val)])) == list(range(200))
    assert (len(dataset.x_train), len(dataset.x_val)) == (180, 20)
    np.testing.assert_array_equal(numbers(dataset.x_test), np.arange(200, 250))


def test_images_are_averaged_to_a_smaller_side(tiny_mnist):
    """Each pixel is the mean of its block; the smallest blocks that there are leave images as they are."""
    whole, halved = (load(Mnist(source="mnist", side=side), tiny_mnist) for side in (4, 2))
    assert halved.image == (1, 2, 2) and (halved.y_test == whole.y_test).all()
    picture = whole.x_test[0].reshape(4, 4).astype(float)
    blocks = [picture[a : a + 2, b : b + 2].mean() for a in (0, 2) for b in (0, 2)]
    np.testing.assert_array_equal(halved.x_test[0], np.round(blocks))
    with pytest.raises(ValidationError, match="does not divide"):
        Mnist(source="mnist", side=5)


@pytest.mark.parametrize("layout", ["subfolder", "decompressed"])
def test_other_places_and_recompression(tiny_mnist, layout):
    expected = load(spec(), tiny_mnist)
    for path in list(tiny_mnist.iterdir()):
        content = gzip.decompress(path.read_bytes())
        path.unlink()
        if layout == "subfolder":
            (tiny_mnist / "mnist").mkdir(exist_ok=True)
            (tiny_mnist / "mnist" / path.name).write_bytes(gzip.compress(content, compresslevel=1, mtime=7))
        else:
            path.with_suffix("").write_bytes(content)
    np.testing.assert_array_equal(load(spec(), tiny_mnist).x_train, expected.x_train)


def test_nothing_found_and_no_network_says_what_to_put_where(tiny_mnist, no_network):
    (tiny_mnist / LABELS).unlink()
    with pytest.raises(UserError) as error:
        load(spec(), tiny_mnist)
    message = str(error.value)
    assert all(f"{file.name}.gz" in message for file in mnist.FILES.values())
    assert "data_dir or SYMLAB_DATA" in message and str(tiny_mnist) in message and "\n" not in message
    assert no_network == [mirror + LABELS for mirror in mnist.MIRRORS]


def test_second_mirror_serves_when_the_first_fails(tiny_mnist, tmp_path, monkeypatch):
    served = tmp_path / "served"
    tiny_mnist.rename(served)

    def retrieve(url, known_hash, name, folder, progressbar):
        if url.startswith(mnist.MIRRORS[0]):
            raise ValueError("hash mismatch")
        assert known_hash == "md5:" + "0" * 32 and folder == tmp_path / "cache"
        return str(served / name)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setenv("SYMLAB_CACHE", str(tmp_path / "cache"))
    assert len(load(spec(), None).x_train) == 200


def test_real_mnist(real_mnist, no_network):
    dataset = load(spec("official"), real_mnist)
    assert (len(dataset.x_train), len(dataset.x_val), len(dataset.x_test)) == (54_000, 6_000, 10_000)
    # the counts of the ten labels in the official test set, and the widely quoted mean and std of the pixels
    assert np.bincount(dataset.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert (dataset.mean, dataset.std) == (pytest.approx(0.1307, abs=5e-4), pytest.approx(0.3081, abs=5e-4))
    assert no_network == []
