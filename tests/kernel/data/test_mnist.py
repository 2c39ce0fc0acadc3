import gzip

import numpy as np
import pooch
import pytest
from pydantic import ValidationError

from symlab.data import Mnist, load, mnist
from symlab.errors import UserError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def spec(split="random", seed=0, n_samples=None):
    return Mnist(source="mnist", split=split, seed=seed, n_samples=n_samples)


def numbers(x):
    """The image numbers that the fixture wrote into the first two pixels."""
    return x[:, 0].astype(int) * 256 + x[:, 1]


def original(folder, number):
    parts = [
        gzip.decompress((folder / f"{name}-idx3-ubyte.gz").read_bytes()) for name in ("train-images", "t10k-images")
    ]
    pixels = b"".join(part[16:] for part in parts)
    return np.frombuffer(pixels[16 * number : 16 * (number + 1)], np.uint8)


def test_random_split_partitions_all_images(tiny_mnist):
    dataset = load(spec(), tiny_mnist)
    parts = [numbers(x) for x in (dataset.x_train, dataset.x_val, dataset.x_test)]
    assert [len(part) for part in parts] == [200, 25, 25]
    assert dataset.image == (1, 4, 4)
    assert sorted(np.concatenate(parts)) == list(range(250))
    np.testing.assert_array_equal(dataset.x_val[7], original(tiny_mnist, numbers(dataset.x_val)[7]))


def test_official_split_keeps_the_test_files(tiny_mnist):
    dataset = load(spec("official"), tiny_mnist)
    assert sorted(np.concatenate([numbers(dataset.x_train), numbers(dataset.x_val)])) == list(range(200))
    assert (len(dataset.x_train), len(dataset.x_val)) == (180, 20)
    np.testing.assert_array_equal(numbers(dataset.x_test), np.arange(200, 250))


def test_labels_stay_with_their_images(tiny_mnist):
    labels = [gzip.decompress((tiny_mnist / f"{n}-labels-idx1-ubyte.gz").read_bytes())[8:] for n in ("train", "t10k")]
    every = np.frombuffer(b"".join(labels), np.uint8)
    dataset = load(spec(), tiny_mnist)
    for x, y in ((dataset.x_train, dataset.y_train), (dataset.x_val, dataset.y_val), (dataset.x_test, dataset.y_test)):
        np.testing.assert_array_equal(y, every[numbers(x)])
        assert y.dtype == np.int64 and x.dtype == np.uint8


def test_images_are_averaged_to_a_smaller_side(tiny_mnist):
    """Each pixel is the mean of its block; the smallest blocks that there are leave images as they are."""
    whole, halved = (load(Mnist(source="mnist", side=side), tiny_mnist) for side in (4, 2))
    assert halved.image == (1, 2, 2) and (halved.y_test == whole.y_test).all()
    picture = whole.x_test[0].reshape(4, 4).astype(float)
    blocks = [picture[a : a + 2, b : b + 2].mean() for a in (0, 2) for b in (0, 2)]
    np.testing.assert_array_equal(halved.x_test[0], np.round(blocks))
    with pytest.raises(ValidationError, match="does not divide"):
        Mnist(source="mnist", side=5)


def test_normalised_by_the_train_split(tiny_mnist):
    dataset = load(spec(), tiny_mnist)
    pixels = dataset.x_train.astype(np.float64) / 255
    assert dataset.mean == pytest.approx(pixels.mean(), rel=1e-12)
    assert dataset.std == pytest.approx(pixels.std(), rel=1e-12)
    x, _ = dataset.split("test")
    expected = (dataset.x_test / 255 - pixels.mean()) / pixels.std()
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, expected, atol=1e-6)


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


def test_altered_pixel_is_refused(tiny_mnist):
    path = tiny_mnist / f"{IMAGES}.gz"
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[-1] ^= 1
    path.write_bytes(gzip.compress(content))
    with pytest.raises(UserError, match=rf"{IMAGES}\.gz has the wrong content"):
        load(spec(), tiny_mnist)


def test_nothing_found_and_no_network_says_what_to_put_where(tiny_mnist, no_network):
    (tiny_mnist / f"{LABELS}.gz").unlink()
    with pytest.raises(UserError) as error:
        load(spec(), tiny_mnist)
    message = str(error.value)
    assert all(f"{file.name}.gz" in message for file in mnist.FILES.values())
    assert "data_dir or SYMLAB_DATA" in message and str(tiny_mnist) in message and "\n" not in message
    assert no_network == [mirror + f"{LABELS}.gz" for mirror in mnist.MIRRORS]


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
