"""From labelled images in training and test files to a data set: what mnist and both cifar10 sources share."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8

from symlab.data import Images
from symlab.data.dataset import Dataset, mean_and_std
from symlab.data.splits import Indices, balanced_subset, random_split, tenth
from symlab.seeds import numpy_rng


class Labelled(NamedTuple):
    """Flattened images, channel by channel and row by row, and their labels."""

    x: UInt8[np.ndarray, "n d"]
    y: Int64[np.ndarray, " n"]


def split_images(
    files: tuple[Labelled, Labelled],
    spec: Images,
    name: str,
    image: tuple[int, int, int],
    provenance: dict[str, Any],
) -> Dataset:
    """The images of the training and the test files as a data set, normalised by the train split (a channel at a time).

    ``split`` "random": 80/10/10 of all images; "official": the training files split 90/10 into train and val, and all
    test files. ``n_samples``, if there is one, keeps a random subset with that many images, equally many of each
    class: of all images before they are split, or of the training files alone where the split is "official". All is
    seeded by ``seed``. ``side``, if there is one, is what images are averaged to.

    Raises:
        UserError: there is no such subset.
    """
    train_files, test_files = files
    x, y = np.concatenate([train_files.x, test_files.x]), np.concatenate([train_files.y, test_files.y])
    rows = _indices(y, len(train_files.y), spec, name)
    if spec.side is not None:
        x, image = average_blocks(x, image, spec.side), (image[0], spec.side, spec.side)
    mean, std = mean_and_std(x[rows[0]], channels=image[0])
    return Dataset.of_rows(
        *(x, y, rows),
        task="classification",
        n_classes=spec.n_classes,
        mean=mean,
        std=std,
        image=image,
        provenance={"source": name, "split": spec.split, "seed": spec.seed, "n_samples": spec.n_samples, **provenance},
    )


def average_blocks(x: UInt8[np.ndarray, "n d"], image: tuple[int, int, int], side: int) -> UInt8[np.ndarray, "n k"]:
    """Images of ``side`` x ``side`` pixels, each the rounded mean of a block of square images' pixels."""
    channels, height, _ = image
    blocks = x.reshape(len(x), channels, side, height // side, side, height // side)
    return blocks.mean(axis=(3, 5), dtype=np.float32).round().astype(np.uint8).reshape(len(x), -1)


def _indices(
    y: Int64[np.ndarray, " n"], n_train_files: int, spec: Images, name: str
) -> tuple[Indices, Indices, Indices]:
    official = spec.split == "official"
    pool = np.arange(n_train_files if official else len(y))
    if spec.n_samples is not None:
        pool = balanced_subset(y[pool], spec.n_samples, spec.n_classes, numpy_rng("subset", name, spec.seed))
    rng = numpy_rng("split", name, spec.seed)
    if official:
        train, val, _ = random_split(len(pool), tenth(len(pool)), 0, rng)
        return pool[train], pool[val], np.arange(n_train_files, len(y))
    train, val, test = random_split(len(pool), tenth(len(pool)), tenth(len(pool)), rng)
    return pool[train], pool[val], pool[test]
