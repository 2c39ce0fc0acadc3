"""MNIST from its four IDX files, found in the data folder or downloaded, verified by their decompressed content."""

import gzip
import hashlib
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from symlab.data import Images
from symlab.data.dataset import Dataset
from symlab.data.download import fetch
from symlab.data.folder import find_file
from symlab.data.images import Labelled, split_images
from symlab.errors import UserError

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


class IdxFile(NamedTuple):
    """A file: name without .gz, shape of the array, SHA-256 of the decompressed content, MD5 of the mirrors' .gz."""

    name: str
    shape: tuple[int, ...]
    sha256: str
    gz_md5: str


FILES = {
    "train_images": IdxFile(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    "train_labels": IdxFile(
        "train-labels-idx1-ubyte",
        (60_000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    "test_images": IdxFile(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    "test_labels": IdxFile(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
}


def load(spec: Images, data_dir: Path | None) -> Dataset:
    """MNIST as flattened uint8 images [n, 784], normalised by mean and std over the pixels of the train split.

    ``split``, ``n_samples`` (None for all) and ``seed`` as in ``split_images``; the files hold 60,000 training and
    10,000 test images.

    Raises:
        UserError: a file is damaged or not MNIST's, or is neither in the data folder nor to be downloaded; or
            n_samples does not fit.
    """
    files = (_images_and_labels("train", data_dir), _images_and_labels("test", data_dir))
    inputs = {file.name: file.sha256 for file in FILES.values()}
    _, height, width = FILES["train_images"].shape
    return split_images(files, spec, "mnist", (1, height, width), {"inputs_sha256": inputs})


def _images_and_labels(part: str, data_dir: Path | None) -> Labelled:
    images_file, labels_file = FILES[f"{part}_images"], FILES[f"{part}_labels"]
    images = read_idx(_locate(images_file, data_dir), images_file.shape, images_file.sha256)
    labels = read_idx(_locate(labels_file, data_dir), labels_file.shape, labels_file.sha256)
    return Labelled(images.reshape(len(images), -1), labels.astype(np.int64))


def _locate(file: IdxFile, data_dir: Path | None) -> Path:
    names = (file.name + suffix for suffix in (".gz", ""))
    if found := find_file(data_dir, (folder + name for name in names for folder in ("", "mnist/"))):
        return found
    try:
        return fetch(file.name + ".gz", MIRRORS, f"md5:{file.gz_md5}")
    except UserError as error:
        raise UserError(
            f"MNIST was not found and {error}: put {', '.join(f'{each.name}.gz' for each in FILES.values())} "
            "(or the same files decompressed) into the folder that data_dir or SYMLAB_DATA names"
            + (f", {data_dir}, or into its subfolder mnist." if data_dir is not None else ".")
        ) from None


def read_idx(path: Path, shape: tuple[int, ...], sha256: str) -> UInt8[np.ndarray, "*shape"]:
    """The (read-only) array of this shape in an IDX file, plain or gzipped, whose content has the given SHA-256.

    Raises:
        UserError: the file cannot be read or decompressed, is truncated, or holds something else.
    """
    header = 4 + 4 * len(shape)
    size = header + math.prod(shape)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): replace it by an intact copy.") from None
    if len(content) < size:
        raise UserError(f"{path} is truncated: {len(content)} bytes where {size} are expected; replace it.")
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise UserError(
            f"{path} has the wrong content: decompressed, its SHA-256 is {found}, not {sha256}; replace it by the "
            "original file."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
