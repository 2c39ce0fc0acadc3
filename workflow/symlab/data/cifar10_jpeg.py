"""CIFAR-10 recompressed as JPEG, from two parquet files: real pictures, but not the original's pixels."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from symlab.artifacts import content_digest
from symlab.data import Images
from symlab.data.cifar10 import IMAGE
from symlab.data.dataset import Dataset
from symlab.data.folder import find_file, sha256_of
from symlab.data.images import Labelled, split_images
from symlab.errors import UserError

FILES = ("train.parquet", "test.parquet")
N_IMAGES = (50_000, 10_000)
FOLDERS = ("cifar10-jpeg/", "")


def load(spec: Images, data_dir: Path | None) -> Dataset:
    """CIFAR-10 after JPEG compression as flattened uint8 images [n, 3072], stored and normalised as ``cifar10`` is.

    ``split``, ``n_samples`` (None for all) and ``seed`` as in ``split_images``. Decoders may differ by a grey level,
    so the provenance holds a digest of the decoded pixels besides those of the files.

    Raises:
        UserError: the files are not in the data folder, or hold anything but 50,000 and 10,000 RGB JPEG images of 32x32
            pixels with labels 0..9, or n_samples does not fit.
    """
    paths = _locate(data_dir)
    train, test = (read_parquet(path, n_images) for path, n_images in zip(paths, N_IMAGES, strict=True))
    pixels = {"train": train.x, "test": test.x, "train_labels": train.y, "test_labels": test.y}
    provenance = {
        "inputs_sha256": {path.name: sha256_of([path]) for path in paths},
        "decoded_sha256": content_digest(pixels),
    }
    return split_images((train, test), spec, "cifar10-jpeg", IMAGE, provenance)


def read_parquet(path: Path, n_images: int) -> Labelled:
    """The images and labels of a parquet file with the columns ``image`` (JPEG bytes) and ``label`` (0..9).

    Raises:
        UserError: the file cannot be read, has other columns, another number of rows or missing values, or an image
            (whose row is named) or a label is not what it should be.
    """
    import pyarrow
    from pyarrow import parquet, types

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} cannot be read as parquet ({reason}): replace it by an intact copy.") from None
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    if (
        sorted(table.schema.names) != ["image", "label"]
        or not (types.is_binary(kinds["image"]) or types.is_large_binary(kinds["image"]))
        or not types.is_integer(kinds["label"])
    ):
        columns = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise UserError(
            f"{path} must have the columns image (binary: JPEG bytes) and label (integer), not {columns}: replace it "
            "by the right file."
        )
    if len(table) != n_images or any(column.null_count for column in table.columns):
        raise UserError(
            f"{path} holds {len(table)} images where {n_images} are expected, or has missing values: replace it by "
            "the right file."
        )
    labels = table["label"].to_numpy()
    if len(wrong := np.flatnonzero((labels < 0) | (labels >= Images.n_classes))):
        raise UserError(
            f"{path} holds the label {labels[wrong[0]]} in row {wrong[0]}, outside 0..{Images.n_classes - 1}."
        )
    x = [decode(image.as_py(), f"{path}, row {row}") for row, image in enumerate(table["image"])]
    return Labelled(np.stack(x), labels.astype(np.int64))


def decode(content: bytes, where: str) -> UInt8[np.ndarray, " 3072"]:
    """The pixels of a 32x32 RGB JPEG image, channel by channel and row by row; ``where`` is for messages.

    Raises:
        UserError: the content is damaged, or anything but such an image.
    """
    from PIL import Image

    _, height, width = IMAGE
    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if (image.size, image.mode) != ((width, height), "RGB"):
                raise UserError(
                    f"{where}: the image is {image.mode} of {image.width}x{image.height} pixels, not RGB of "
                    f"{width}x{height}; replace the file."
                )
            return np.asarray(image).transpose(2, 0, 1).reshape(-1)
    # UnidentifiedImageError is an OSError; SyntaxError is PIL's word for a damaged header.
    except (OSError, SyntaxError) as error:
        raise UserError(f"{where}: the image is not a JPEG image ({error}); replace the file.") from None


def _locate(data_dir: Path | None) -> list[Path]:
    for folder in FOLDERS:
        found = [path for name in FILES if (path := find_file(data_dir, (folder + name,)))]
        if len(found) == len(FILES):
            return found
    raise UserError(
        f"CIFAR-10 as JPEG images was not found: put {' and '.join(FILES)} into the folder that data_dir or "
        "SYMLAB_DATA names"
        + (f", {data_dir}, or into its subfolder cifar10-jpeg" if data_dir is not None else "")
        + "; or set source: cifar10 in the config, which is downloaded."
    )
