"""Small hand-made IDX files that stand in for MNIST, and the real ones where they are found."""

import gzip
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from symlab.data import cifar10_jpeg, mnist


def idx_bytes(array: np.ndarray) -> bytes:
    """An IDX file written independently of the reader, from the format's description."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def data_folders() -> tuple[Path, Path]:
    """Where real data may be: the folder in SYMLAB_DATA, and one beside the checkout."""
    beside = Path(__file__).parents[4] / "shared" / "data"
    return Path(os.environ.get("SYMLAB_DATA", beside)), beside


@pytest.fixture
def tiny_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with 200 + 50 images of 4x4 random pixels in MNIST's file names, known to the loader."""
    rng = np.random.default_rng(0)
    arrays = {
        "train_images": rng.integers(256, size=(200, 4, 4), dtype=np.uint8),
        "train_labels": rng.integers(10, size=200, dtype=np.uint8),
        "test_images": rng.integers(256, size=(50, 4, 4), dtype=np.uint8),
        "test_labels": rng.integers(10, size=50, dtype=np.uint8),
    }
    # the first two pixels of an image count the images, so that a test can tell them apart
    for start, name in ((0, "train_images"), (200, "test_images")):
        numbers = start + np.arange(len(arrays[name]))
        arrays[name][:, 0, 0], arrays[name][:, 0, 1] = numbers // 256, numbers % 256
    folder = tmp_path / "data"
    folder.mkdir()
    files = {}
    for key, array in arrays.items():
        content, name = idx_bytes(array), mnist.FILES[key].name
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        files[key] = mnist.IdxFile(name, array.shape, hashlib.sha256(content).hexdigest(), "0" * 32)
    monkeypatch.setattr(mnist, "FILES", files)
    return folder


@pytest.fixture
def real_mnist() -> Path:
    """The folder of the real MNIST files; skips where there is none."""
    for folder in data_folders():
        for sub in (folder, folder / "mnist"):
            if (sub / "train-images-idx3-ubyte.gz").is_file() or (sub / "train-images-idx3-ubyte").is_file():
                return folder
    pytest.skip("the real MNIST files are not here: name their folder in SYMLAB_DATA")


@pytest.fixture
def real_cifar10_jpeg() -> Path:
    """The folder of the real cifar10-jpeg files; skips where there is none."""
    for folder in data_folders():
        if all((folder / "cifar10-jpeg" / name).is_file() for name in cifar10_jpeg.FILES):
            return folder
    pytest.skip("cifar10-jpeg/train.parquet and test.parquet are not here: name their folder in SYMLAB_DATA")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Every download fails as without a network; the list collects the urls that were tried."""
    import pooch

    tried: list[str] = []

    def refuse(url: str, *args: object, **kwargs: object) -> str:
        tried.append(url)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setenv("SYMLAB_CACHE", str(tmp_path / "cache"))
    return tried
