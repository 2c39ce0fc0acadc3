import hashlib
import io
import tarfile

import numpy as np
import pooch
import pytest

from symlab.data import Cifar10, cifar10, load
from symlab.errors import UserError

MEMBERS = [f"cifar-10-batches-bin/{name}.bin" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")]
SIZE = 40  # images a member of the small archives


def pixels(number):
    """Image ``number``: its number in the first two red pixels, the rest random."""
    values = np.random.default_rng(number).integers(256, size=3072, dtype=np.uint8)
    values[:2] = divmod(number, 256)
    return values


def batch(name, n=SIZE):
    """A member's content, written independently of the reader, from the format's description; labels are n mod 10."""
    first = n * MEMBERS.index(name)
    return b"".join(bytes([number % 10]) + pixels(number).tobytes() for number in range(first, first + n))


def members(**changes):
    return {name: batch(name) for name in MEMBERS} | changes


def write(path, contents):
    """Write an archive of the given contents in the given order; return its SHA-256."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return sha256(path)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def spec(split="random", seed=0, n_samples=None):
    return Cifar10(source="cifar10", split=split, seed=seed, n_samples=n_samples)


def numbers(x):
    return x[:, 0].astype(int) * 256 + x[:, 1]


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive.tar.gz"


@pytest.fixture
def tiny_cifar10(tmp_path, monkeypatch):
    """A data folder with a small archive that the loader takes for CIFAR-10."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(cifar10, "SHA256", write(folder / cifar10.ARCHIVE, members()))
    return folder


def test_known_pixels_come_back_in_any_order_of_members(archive):
    digest = write(archive, dict(reversed(members(readme=b"hello").items())))
    train, test = cifar10.read_archive(archive, digest)
    np.testing.assert_array_equal(train.x, [pixels(number) for number in range(5 * SIZE)])
    np.testing.assert_array_equal(test.x, [pixels(number) for number in range(5 * SIZE, 6 * SIZE)])
    np.testing.assert_array_equal(np.concatenate([train.y, test.y]), np.arange(6 * SIZE) % 10)
    assert train.x.dtype == np.uint8 and train.y.dtype == np.int64


def test_other_digest_is_refused_before_anything_is_parsed(archive, monkeypatch):
    digest = write(archive, members())
    content = bytearray(archive.read_bytes())
    content[-1] ^= 1
    archive.write_bytes(content)
    monkeypatch.setattr(tarfile, "open", lambda *args, **kwargs: pytest.fail("parsed"))
    with pytest.raises(UserError, match=rf"archive\.tar\.gz.*SHA-256 is {sha256(archive)}, not {digest}; replace"):
        cifar10.read_archive(archive, digest)


def test_what_is_no_archive_is_refused(archive):
    archive.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"archive\.tar\.gz cannot be read .*: replace it by an intact copy"):
        cifar10.read_archive(archive, sha256(archive))


def test_random_split_partitions_all_images(tiny_cifar10):
    dataset = load(spec(), tiny_cifar10)
    parts = [numbers(x) for x in (dataset.x_train, dataset.x_val, dataset.x_test)]
    assert [len(part) for part in parts] == [192, 24, 24]
    assert sorted(np.concatenate(parts)) == list(range(6 * SIZE))
    for part, y in zip(parts, (dataset.y_train, dataset.y_val, dataset.y_test), strict=True):
        np.testing.assert_array_equal(y, part % 10)
    assert dataset.image == (3, 32, 32) and dataset.n_inputs == 3072 and dataset.n_classes == 10
    channels = dataset.x_train.reshape(-1, 3, 1024) / 255
    np.testing.assert_allclose(dataset.mean, channels.mean(axis=(0, 2)), rtol=1e-12)
    np.testing.assert_allclose(dataset.std, channels.std(axis=(0, 2)), rtol=1e-12)
    assert dataset.provenance == {
        "source": "cifar10",
        "split": "random",
        "seed": 0,
        "n_samples": None,
        "inputs_sha256": {"cifar-10-binary.tar.gz": cifar10.SHA256},
    }


def test_balanced_subset_comes_before_the_random_split(tiny_cifar10):
    dataset = load(spec(n_samples=100), tiny_cifar10)
    parts = [numbers(x) for x in (dataset.x_train, dataset.x_val, dataset.x_test)]
    kept = np.concatenate(parts)
    assert [len(part) for part in parts] == [80, 10, 10] and len(set(kept)) == 100
    assert np.bincount(kept % 10).tolist() == [10] * 10
    assert kept.max() >= 5 * SIZE
    other = load(spec(n_samples=100, seed=1), tiny_cifar10)
    assert set(numbers(other.x_train)) != set(numbers(dataset.x_train))
    assert dataset.provenance["n_samples"] == 100


def test_subset_of_the_official_split_leaves_the_test_images_alone(tiny_cifar10):
    dataset = load(spec("official", n_samples=50), tiny_cifar10)
    kept = np.concatenate([numbers(dataset.x_train), numbers(dataset.x_val)])
    assert (len(dataset.x_train), len(dataset.x_val)) == (45, 5)
    assert np.bincount(kept % 10).tolist() == [5] * 10 and kept.max() < 5 * SIZE
    np.testing.assert_array_equal(numbers(dataset.x_test), np.arange(5 * SIZE, 6 * SIZE))


@pytest.mark.parametrize(("split", "most"), [("random", 240), ("official", 200)])
def test_largest_subset_is_everything(tiny_cifar10, split, most):
    dataset = load(spec(split, n_samples=most), tiny_cifar10)
    assert len(set(numbers(np.concatenate([dataset.x_train, dataset.x_val, dataset.x_test])))) == 240
    with pytest.raises(UserError, match=rf"n_samples = {most + 10} is more than the {most} "):
        load(spec(split, n_samples=most + 10), tiny_cifar10)


def test_archive_may_lie_in_a_subfolder(tiny_cifar10, no_network):
    expected = load(spec(), tiny_cifar10)
    (tiny_cifar10 / "cifar10").mkdir()
    (tiny_cifar10 / cifar10.ARCHIVE).rename(tiny_cifar10 / "cifar10" / cifar10.ARCHIVE)
    np.testing.assert_array_equal(load(spec(), tiny_cifar10).x_train, expected.x_train)
    assert no_network == []


def test_a_tar_that_is_not_cifar10_is_refused(tmp_path):
    write(tmp_path / cifar10.ARCHIVE, members())
    with pytest.raises(UserError, match="not c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"):
        load(spec(), tmp_path)


def test_nothing_found_and_no_network_says_what_to_put_where(tmp_path, no_network):
    with pytest.raises(UserError) as error:
        load(spec(), tmp_path)
    assert "put cifar-10-binary.tar.gz into the folder that data_dir or SYMLAB_DATA names" in str(error.value)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)
    assert no_network == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]


def test_download_is_asked_for_the_digest(tiny_cifar10, tmp_path, monkeypatch):
    def retrieve(url, known_hash, name, folder, progressbar):
        assert known_hash == f"sha256:{cifar10.SHA256}"
        return str(tiny_cifar10 / name)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setenv("SYMLAB_CACHE", str(tmp_path / "cache"))
    assert len(load(spec(), None).x_train) == 192
