"""CIFAR-10 from the archive of its binary version, found in the data folder or downloaded, verified by its digest.

Images that went through JPEG are never read as this source: their pixels are not the original's, byte for byte; the
source ``cifar10_jpeg`` reads those under their own name.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from symlab.data import idx
from symlab.data.bounded import Bounded
from symlab.data.dataset import Dataset
from symlab.data.download import fetch
from symlab.data.folder import find_file
from symlab.data.images import Labelled, split_images
from symlab.errors import UserError

N_CLASSES = 10
IMAGE = (3, 32, 32)
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
LARGEST_DOWNLOAD = 2**28
ARCHIVE = "cifar-10-binary.tar.gz"
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
TRAIN_MEMBERS = tuple(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6))
TEST_MEMBERS = ("cifar-10-batches-bin/test_batch.bin",)
MEMBERS = TRAIN_MEMBERS + TEST_MEMBERS
IMAGES_PER_MEMBER = 10_000
_RECORD = 1 + 3 * 32 * 32
# Headers and the small files beside the six members.
_REST = 2**20


def load(spec: dict[str, Any], data_dir: Path | None) -> Dataset:
    """CIFAR-10 as flattened uint8 images [n, 3072] in (channel, row, column) order, normalised a channel at a time.

    ``split``, ``n_samples`` (null for all) and ``seed`` as in ``split_images``; the files hold 50,000 training and
    10,000 test images.

    Raises:
        UserError: the archive is damaged or not CIFAR-10's, or is neither in the data folder nor to be downloaded, or
            n_samples does not fit.
    """
    files = read_archive(_locate(data_dir), SHA256, IMAGES_PER_MEMBER)
    provenance = {"n_samples": spec.get("n_samples"), "inputs_sha256": {ARCHIVE: SHA256}}
    return split_images(files, spec, "cifar10", N_CLASSES, IMAGE, provenance)


def read_archive(path: Path, sha256: str, images_per_member: int) -> tuple[Labelled, Labelled]:
    """Training and test images in the archive, which must have the given SHA-256.

    Nothing is parsed before the digest is found right, and nothing is written to disk: the six members are read by
    their exact names, whatever else the archive holds, and no more is inflated than they need. A member is a row of
    records: a byte for the label, then 1024 for each of red, green and blue.

    Raises:
        UserError: the digest differs, the archive cannot be read or inflates to too much, or a member is missing, there
            twice, no regular file, or not ``images_per_member`` records long, or holds a label outside 0..9.
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
            size = images_per_member * _RECORD
            inflated = cast(IO[bytes], Bounded(gzip.GzipFile(fileobj=file), len(MEMBERS) * size + _REST, str(path)))
            with tarfile.open(fileobj=inflated, mode="r:") as archive:
                members = _read_members(path, archive, size)
    except (OSError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, tarfile.TarError) as error:
        # ValueError and OverflowError: a header that claims an absurd size; RecursionError: headers about headers
        raise UserError(f"{path} cannot be read ({error}): replace it by an intact copy.") from None
    return _labelled(path, TRAIN_MEMBERS, members), _labelled(path, TEST_MEMBERS, members)


def _read_members(path: Path, archive: tarfile.TarFile, size: int) -> dict[str, bytes]:
    members = {}
    for entry in archive:
        if entry.name not in MEMBERS:
            continue
        content = archive.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise UserError(f"{path}: {entry.name} is no regular file in the archive; replace it by an intact copy.")
        if entry.size != size:
            raise UserError(
                f"{path}: {entry.name} has {entry.size} bytes where {size} are expected; replace it by an intact copy."
            )
        if entry.name in members:
            raise UserError(f"{path} holds {entry.name} twice: replace it by an intact copy.")
        members[entry.name] = content.read()
    if missing := set(MEMBERS) - set(members):
        raise UserError(f"{path} holds no {min(missing)}: replace it by {MIRRORS[0]}{ARCHIVE}.")
    return members


def _labelled(path: Path, names: tuple[str, ...], members: dict[str, bytes]) -> Labelled:
    records = {name: np.frombuffer(members[name], np.uint8).reshape(-1, _RECORD) for name in names}
    for name, batch in records.items():
        idx.check_labels(batch[:, 0], N_CLASSES, f"{path}: {name}")
    x = np.concatenate([batch[:, 1:] for batch in records.values()])
    return Labelled(x, np.concatenate([batch[:, 0] for batch in records.values()]).astype(np.int64))


def _locate(data_dir: Path | None) -> Path:
    if data_dir is not None and (found := find_file(data_dir, (ARCHIVE, f"cifar10/{ARCHIVE}"))):
        return found
    try:
        return fetch(ARCHIVE, MIRRORS, f"sha256:{SHA256}", LARGEST_DOWNLOAD)
    except UserError as error:
        raise UserError(
            f"CIFAR-10 was not found and {error}: put {ARCHIVE} into the folder that data_dir or SYMLAB_DATA names"
            + (f", {data_dir}, or into its subfolder cifar10." if data_dir is not None else ".")
        ) from None
