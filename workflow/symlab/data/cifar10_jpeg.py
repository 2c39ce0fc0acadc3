"""CIFAR-10 recompressed as JPEG, from two parquet files: real pictures, but not the original's pixels."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from symlab.artifacts import content_digest
from symlab.data import idx
from symlab.data.cifar10 import IMAGE, N_CLASSES
from symlab.data.dataset import Dataset
from symlab.data.folder import find_file
from symlab.data.images import Labelled, split_images
from symlab.errors import UserError

FILES = ("train.parquet", "test.parquet")
FOLDERS = ("cifar10-jpeg/", "")
_ROWS = 1000


def load(spec: dict[str, Any], data_dir: Path | None) -> Dataset:
    """CIFAR-10 after JPEG compression as flattened uint8 images [n, 3072], stored and normalised as ``cifar10`` is.

    ``split``, ``n_samples`` (null for all) and ``seed`` as in ``split_images``. Decoders may differ by a grey level,
    so the provenance holds a digest of the decoded pixels besides those of the files.

    Raises:
        UserError: the files are not in the data folder, or hold anything but 32x32 RGB JPEG images with labels 0..9,
            or n_samples does not fit.
    """
    paths = _locate(data_dir)
    train, test = (read_parquet(path) for path in paths)
    pixels = {"train": train.x, "test": test.x, "train_labels": train.y, "test_labels": test.y}
    provenance = {
        "n_samples": spec.get("n_samples"),
        "inputs_sha256": {path.name: _sha256(path) for path in paths},
        "decoded_sha256": content_digest(pixels),
    }
    return split_images((train, test), spec, "cifar10-jpeg", N_CLASSES, IMAGE, provenance)


def read_parquet(path: Path) -> Labelled:
    """The images and labels of a parquet file with the columns ``image`` (JPEG bytes) and ``label`` (0..9).

    Raises:
        UserError: the file cannot be read, has other columns, no rows or missing values, or an image (whose row is
            named) or a label is not what it should be.
    """
    import pyarrow
    from pyarrow import parquet

    x: list[UInt8[np.ndarray, " 3072"]] = []
    y = []
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            for rows in file.iter_batches(_ROWS):
                images, labels = rows.column("image"), rows.column("label")
                if images.null_count or labels.null_count:
                    raise UserError(f"{path} has missing values: replace it by an intact copy.")
                x += [decode(image.as_py(), f"{path}, row {row}") for row, image in enumerate(images, start=len(x))]
                y.append(labels.to_numpy(zero_copy_only=False))
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} cannot be read as parquet ({reason}): replace it by an intact copy.") from None
    if not x:
        raise UserError(f"{path} holds no images: replace it by an intact copy.")
    y_all = np.concatenate(y)
    idx.check_labels(y_all, N_CLASSES, str(path))
    return Labelled(np.stack(x), y_all.astype(np.int64))


def decode(content: bytes, where: str) -> UInt8[np.ndarray, " 3072"]:
    """The pixels of a 32x32 RGB JPEG image, channel by channel and row by row; ``where`` is for messages.

    Format, size and mode are taken from the header, before a pixel is decoded.

    Raises:
        UserError: the content is damaged, or anything but such an image.
    """
    from PIL import Image

    _, height, width = IMAGE
    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if (image.format, image.size, image.mode) != ("JPEG", (width, height), "RGB"):
                raise UserError(
                    f"{where}: the image is {image.mode} {image.format} of {image.width}x{image.height} pixels, "
                    f"not RGB JPEG of {width}x{height}; replace the file."
                )
            return np.asarray(image).transpose(2, 0, 1).reshape(-1)
    except Image.UnidentifiedImageError:
        raise UserError(f"{where}: the image is not a JPEG image; replace the file.") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{where}: the image cannot be decoded ({error}); replace the file.") from None


def _check_columns(path: Path, schema: Any) -> None:
    from pyarrow import types

    found = {field.name: field.type for field in schema}
    if (
        sorted(schema.names) != ["image", "label"]
        or not (types.is_binary(found["image"]) or types.is_large_binary(found["image"]))
        or not types.is_integer(found["label"])
    ):
        columns = ", ".join(f"{name} ({kind})" for name, kind in found.items()) or "none"
        raise UserError(
            f"{path} must have the columns image (binary: JPEG bytes) and label (integer), not {columns}: "
            "replace it by the right file."
        )


def _locate(data_dir: Path | None) -> list[Path]:
    if data_dir is not None:
        for folder in FOLDERS:
            paths = [find_file(data_dir, (folder + name,)) for name in FILES]
            if found := [path for path in paths if path is not None]:
                if len(found) == len(FILES):
                    return found
                raise UserError(
                    f"{data_dir / folder} holds only one of {' and '.join(FILES)}: put the other there too."
                )
    raise UserError(
        f"CIFAR-10 as JPEG images was not found: put {' and '.join(FILES)} into the folder that data_dir or "
        "SYMLAB_DATA names"
        + (f", {data_dir}, or into its subfolder cifar10-jpeg" if data_dir is not None else "")
        + "; or set source: cifar10 in the config, which is downloaded."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
