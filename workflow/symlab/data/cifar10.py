"""CIFAR-10 from the archive of its binary version, found in the data folder or downloaded, verified by its digest.

Images that went through JPEG are never read as this source: their pixels are not the original's, byte for byte; the
source ``cifar10_jpeg`` reads those under their own name.
"""

import hashlib
import tarfile
import zlib
from pathlib import Path

import numpy as np

from symlab.data import Images
from symlab.data.dataset import Dataset
from symlab.data.download import fetch
from symlab.data.folder import find_file
from symlab.data.images import Labelled, split_images
from symlab.errors import UserError

IMAGE = (3, 32, 32)
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
ARCHIVE = "cifar-10-binary.tar.gz"
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
TRAIN_MEMBERS = tuple(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6))
TEST_MEMBERS = ("cifar-10-batches-bin/test_batch.bin",)
_RECORD = 1 + 3 * 32 * 32


def load(spec: Images, data_dir: Path | None) -> Dataset:
    """CIFAR-10 as flattened uint8 images [n, 3072] in (channel, row, column) order, normalised a channel at a time.

    ``split``, ``n_samples`` (None for all) and ``seed`` as in ``split_images``; the files hold 50,000 training and
    10,000 test images.

    Raises:
        UserError: the archive is damaged or not CIFAR-10's, or is neither in the data folder nor to be downloaded, or
            n_samples does not fit.
    """
    files = read_archive(_locate(data_dir), SHA256)
    return split_images(files, spec, "cifar10", IMAGE, {"inputs_sha256": {ARCHIVE: SHA256}})


def read_archive(path: Path, sha256: str) -> tuple[Labelled, Labelled]:
    """Training and test images in the archive, which must have the given SHA-256.

    Nothing is parsed before the digest is found right. A member is a row of records: a byte for the label, then 1024
    for each of red, green and blue.

    Raises:
        UserError: the digest differs, or the archive cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != sha256:
                raise UserError(
                    f"{path} is incomplete or not the original archive: its SHA-256 is {found}, not {sha256}; "
                    f"replace it by {MIRRORS[0]}{ARCHIVE}."
                )
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:gz") as archive:
                contents = {entry.name: _content(archive, entry) for entry in archive if entry.isreg()}
        return _labelled(contents, TRAIN_MEMBERS), _labelled(contents, TEST_MEMBERS)
    except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError) as error:
        raise UserError(f"{path} cannot be read ({error}): replace it by an intact copy.") from None


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return b"" if file is None else file.read()


def _labelled(contents: dict[str, bytes], names: tuple[str, ...]) -> Labelled:
    records = np.concatenate([np.frombuffer(contents[name], np.uint8).reshape(-1, _RECORD) for name in names])
    return Labelled(records[:, 1:], records[:, 0].astype(np.int64))


def _locate(data_dir: Path | None) -> Path:
    if found := find_file(data_dir, (ARCHIVE, f"cifar10/{ARCHIVE}")):
        return found
    try:
        return fetch(ARCHIVE, MIRRORS, f"sha256:{SHA256}")
    except UserError as error:
        raise UserError(
            f"CIFAR-10 was not found and {error}: put {ARCHIVE} into the folder that data_dir or SYMLAB_DATA names"
            + (f", {data_dir}, or into its subfolder cifar10." if data_dir is not None else ".")
        ) from None
