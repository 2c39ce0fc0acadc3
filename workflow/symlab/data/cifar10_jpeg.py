"""CIFAR-10 recompressed as JPEG, from two parquet files: real pictures, but not the original's pixels."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from jaxtyping import UInt8

from symlab.artifacts import content_digest
from symlab.data import idx
from symlab.data.cifar10 import IMAGE, N_CLASSES
from symlab.data.dataset import Dataset
from symlab.data.folder import find_file
from symlab.data.images import Labelled, split_images
from symlab.data.parquet_footer import codecs
from symlab.errors import UserError

FILES = ("train.parquet", "test.parquet")
N_IMAGES = (50_000, 10_000)
FOLDERS = ("cifar10-jpeg/", "")
# Far more than such an image needs; its bare pixels are 3 kB.
LARGEST_IMAGE = 2**14
# Pages that these codecs compress inflate to at most a few dozen times their size; JPEG images do not compress anyway.
CODECS = {0: "none", 1: "snappy"}
_ROWS = 1000
_LARGEST_METADATA = 2**24


def load(spec: dict[str, Any], data_dir: Path | None) -> Dataset:
    """CIFAR-10 after JPEG compression as flattened uint8 images [n, 3072], stored and normalised as ``cifar10`` is.

    ``split``, ``n_samples`` (null for all) and ``seed`` as in ``split_images``. Decoders may differ by a grey level,
    so the provenance holds a digest of the decoded pixels besides those of the files.

    Raises:
        UserError: the files are not in the data folder, or hold anything but 50,000 and 10,000 RGB JPEG images of 32x32
            pixels with labels 0..9, or n_samples does not fit.
    """
    paths = _locate(data_dir)
    train, test = (read_parquet(path, n_images) for path, n_images in zip(paths, N_IMAGES, strict=True))
    pixels = {"train": train.x, "test": test.x, "train_labels": train.y, "test_labels": test.y}
    provenance = {
        "n_samples": spec.get("n_samples"),
        "inputs_sha256": {path.name: _sha256(path) for path in paths},
        "decoded_sha256": content_digest(pixels),
    }
    return split_images((train, test), spec, "cifar10-jpeg", N_CLASSES, IMAGE, provenance)


def read_parquet(path: Path, n_images: int) -> Labelled:
    """The images and labels of a parquet file with the columns ``image`` (JPEG bytes) and ``label`` (0..9).

    Images are taken from the file row by row, and a value that many rows share is held once: memory is bounded by the
    file's size and ``n_images``, whatever the file claims.

    Raises:
        UserError: the file cannot be read, has other columns, another number of rows or missing values, or an image
            (whose row is named) or a label is not what it should be.
    """
    import pyarrow
    from pyarrow import parquet

    x: list[UInt8[np.ndarray, " 3072"]] = []
    y = []
    try:
        if (size := path.stat().st_size) > n_images * LARGEST_IMAGE + _LARGEST_METADATA:
            raise UserError(f"{path} has {size} bytes, too many for {n_images} small images; replace it.")
        _check_codecs(path)
        limits = {"thrift_string_size_limit": _LARGEST_METADATA, "thrift_container_size_limit": _LARGEST_METADATA}
        with parquet.ParquetFile(path, **limits) as file:
            _check_columns(path, file.schema_arrow)
        with parquet.ParquetFile(path, read_dictionary=["image"], **limits) as file:
            for rows in file.iter_batches(_ROWS):
                images, labels = rows.column("image"), rows.column("label")
                if images.null_count or labels.null_count:
                    raise UserError(f"{path} has missing values: replace it by an intact copy.")
                if len(x) + len(images) > n_images:
                    raise UserError(f"{path} holds more than {n_images} images: replace it by the right file.")
                x += [decode(image.as_py(), f"{path}, row {row}") for row, image in enumerate(images, start=len(x))]
                y.append(labels.to_numpy(zero_copy_only=False))
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        reason = _printable(str(error).partition("\n")[0])
        raise UserError(f"{path} cannot be read as parquet ({reason}): replace it by an intact copy.") from None
    if len(x) != n_images:
        raise UserError(f"{path} holds {len(x)} images where {n_images} are expected: replace it by the right file.")
    y_all = np.concatenate(y)
    idx.check_labels(y_all, N_CLASSES, str(path))
    return Labelled(np.stack(x), y_all.astype(np.int64))


def decode(content: bytes, where: str) -> UInt8[np.ndarray, " 3072"]:
    """The pixels of a 32x32 RGB JPEG image, channel by channel and row by row; ``where`` is for messages.

    Format, size and mode are taken from the header, before a pixel is decoded; PIL's warnings are silenced, for what it
    warns of is either refused here or decoded all the same.

    Raises:
        UserError: the content is damaged, or anything but such an image.
    """
    from PIL import Image

    _, height, width = IMAGE
    if len(content) > LARGEST_IMAGE:
        raise UserError(f"{where}: the image has {len(content)} bytes, more than {LARGEST_IMAGE}; replace the file.")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
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


def _check_codecs(path: Path) -> None:
    if other := codecs(path) - set(CODECS):
        raise UserError(
            f"{path} is compressed by codec {min(other)} of the parquet format, which may inflate to any size: write "
            f"it again with compression {' or '.join(CODECS.values())}."
        )


def _printable(text: str) -> str:
    return shorten("".join(letter if letter.isprintable() else "?" for letter in text), 300, placeholder=" ...")


def _check_columns(path: Path, schema: Any) -> None:
    from pyarrow import types

    found = {field.name: field.type for field in schema}
    if (
        sorted(schema.names) != ["image", "label"]
        or not (types.is_binary(found["image"]) or types.is_large_binary(found["image"]))
        or not types.is_integer(found["label"])
    ):
        columns = _printable(", ".join(f"{name} ({kind})" for name, kind in found.items())) or "none"
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
