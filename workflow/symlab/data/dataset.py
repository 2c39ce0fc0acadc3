"""What every data source returns, its normalisation, and its artifact."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Shaped

from symlab.artifacts import read_tensors, rebuild, write_tensors
from symlab.errors import UserError

SPLITS = ("train", "val", "test")
_FIELDS = ("task", "n_classes", "mean", "std", "image", "provenance")

PerChannel = float | tuple[float, ...]
"""One number for all inputs of an image, or one for each of its channels."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets of three splits, kept as they are stored; ``split`` gives them as networks see them.

    x_*: [n, d], float32, or uint8 pixels of flattened images (a quarter of the size on disk).
    y_*: [n], int64 labels 0..n_classes-1 (classification) or float32 targets (regression, n_classes = 1).
    mean, std: the normalisation is ``(x - mean) / std``, of ``x / 255`` where x is uint8; for images they may be tuples
        of one value a channel.
    image: (channels, height, width) of images, whose pixels x holds channel by channel and row by row; None where the
        inputs are no images.
    extras: what else belongs to the data. ``U`` [d, k] is an orthonormal basis of the input subspace where it is known;
        ``rotation`` [d, d], where present, is an orthogonal matrix applied to every normalised input.
    provenance: JSON values that say where the data come from.
    A split may be empty (n = 0), the training split may not.
    """

    x_train: Shaped[np.ndarray, "n_train d"]
    y_train: Shaped[np.ndarray, " n_train"]
    x_val: Shaped[np.ndarray, "n_val d"]
    y_val: Shaped[np.ndarray, " n_val"]
    x_test: Shaped[np.ndarray, "n_test d"]
    y_test: Shaped[np.ndarray, " n_test"]
    task: str
    n_classes: int
    mean: PerChannel = 0.0
    std: PerChannel = 1.0
    image: tuple[int, int, int] | None = None
    extras: dict[str, np.ndarray] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task not in ("classification", "regression"):
            raise UserError(f"A data set's task is 'classification' or 'regression', not {self.task!r}.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and np.all(np.asarray(self.std) > 0)):
            raise UserError(
                f"{self.provenance.get('path', 'A data set')} has inputs that are constant, infinite or no numbers, "
                f"which cannot be normalised (mean {self.mean}, std {self.std})."
            )
        if len(self.x_train) == 0:
            raise UserError("A data set needs at least one training sample.")
        for name in SPLITS:
            self._check(name)
        self._check_image()
        if "rotation" in self.extras and self.extras["rotation"].shape != (self.n_inputs, self.n_inputs):
            raise UserError(f"The rotation of a data set with {self.n_inputs} inputs must be square of that size.")

    @classmethod
    def of_rows(cls, x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray], **rest: Any) -> "Dataset":
        """Samples [n, d] and targets [n] whose rows of the train, val and test split are given."""
        splits = dict(zip(SPLITS, rows, strict=True))
        arrays = {f"x_{name}": x[of_split] for name, of_split in splits.items()}
        arrays |= {f"y_{name}": y[of_split] for name, of_split in splits.items()}
        return cls(**arrays, **rest)

    @property
    def n_inputs(self) -> int:
        """Input dimension d."""
        return self.x_train.shape[1]

    @property
    def n_outputs(self) -> int:
        """Number of network outputs: one logit a class, or one value for regression."""
        return self.n_classes

    def split(self, name: str) -> tuple[Float32[np.ndarray, "n d"], Shaped[np.ndarray, " n"]]:
        """Normalised inputs (float32, a fresh array) and targets of "train", "val" or "test".

        Raises:
            UserError: no split has this name.
        """
        if name not in SPLITS:
            raise UserError(f"There is no split {name!r}; a data set has {', '.join(SPLITS)}.")
        x = normalise(getattr(self, f"x_{name}"), self.mean, self.std)
        if "rotation" in self.extras:
            x = x @ self.extras["rotation"].T
        return x, getattr(self, f"y_{name}")

    def _check_image(self) -> None:
        channels = None
        if self.image is not None:
            if len(self.image) != 3 or min(self.image) < 1 or math.prod(self.image) != self.n_inputs:
                raise UserError(
                    f"The image of a data set is (channels, height, width), whose product is its {self.n_inputs} "
                    f"inputs; it cannot be {self.image}."
                )
            if "rotation" in self.extras:
                raise UserError("A data set with a rotation, which mixes the pixels, has no image: leave image out.")
            channels = self.image[0]
        for name, value in (("mean", self.mean), ("std", self.std)):
            if isinstance(value, tuple) and len(value) != channels:
                raise UserError(
                    f"The {name} of a data set is one number, or with image = (channels, height, width) a tuple of one "
                    f"for each channel; it cannot be {value} with image = {self.image}."
                )

    def _check(self, name: str) -> None:
        x, y = getattr(self, f"x_{name}"), getattr(self, f"y_{name}")
        allowed = ("float32", "uint8") if name == "train" else (str(self.x_train.dtype),)
        if str(x.dtype) not in allowed or x.ndim != 2 or x.shape[1] != self.n_inputs:
            wanted = " or ".join(allowed)
            raise UserError(f"x_{name} must be {wanted} [n, d] with one d, not {x.dtype} {list(x.shape)}.")
        if x.dtype == np.float32 and not np.isfinite(x).all():
            raise UserError(f"x_{name} holds values that are not finite.")
        if y.shape != (len(x),):
            raise UserError(f"y_{name} must hold a target for each of {len(x)} samples; its shape is {list(y.shape)}.")
        if self.task == "regression":
            if y.dtype != np.float32 or self.n_classes != 1 or not np.isfinite(y).all():
                raise UserError(f"A regression needs n_classes = 1 and finite float32 targets; y_{name} is {y.dtype}.")
        elif y.dtype != np.int64 or (y < 0).any() or (y >= self.n_classes).any():
            raise UserError(f"y_{name} must hold int64 labels 0..{self.n_classes - 1}.")


def normalise(x: Shaped[np.ndarray, "n d"], mean: PerChannel, std: PerChannel) -> Float32[np.ndarray, "n d"]:
    """``(x - mean) / std`` as a new float32 array, of ``x / 255`` where x is uint8; nothing else normalises."""
    result = x.astype(np.float32)
    if x.dtype == np.uint8:
        result /= np.float32(255)
    result -= _per_input(mean, x.shape[1])
    result /= _per_input(std, x.shape[1])
    return result


def mean_and_std(x: Shaped[np.ndarray, "n d"], channels: int = 1) -> tuple[PerChannel, PerChannel]:
    """Mean and population standard deviation over all entries, of ``x / 255`` where x is uint8.

    Two numbers; with several channels, which are equal blocks of columns, two tuples of one number a channel.
    """
    if channels == 1:
        return _scalar_mean_and_std(x)
    means, stds = zip(*map(_scalar_mean_and_std, np.split(x, channels, axis=1)), strict=True)
    return means, stds


def _scalar_mean_and_std(x: Shaped[np.ndarray, "n d"]) -> tuple[float, float]:
    if x.dtype != np.uint8:
        return float(x.mean(dtype=np.float64)), float(x.std(dtype=np.float64))
    counts = np.zeros(256)
    for block in np.array_split(x, 1 + x.size // 2**22):
        counts += np.bincount(block.ravel(), minlength=256)
    values = np.arange(256) / 255
    weights = counts / counts.sum()
    mean = float(weights @ values)
    return mean, float(np.sqrt(weights @ (values - mean) ** 2))


def _per_input(values: PerChannel, d: int) -> Float32[np.ndarray, "*d"] | np.float32:
    if isinstance(values, tuple):
        return np.repeat(np.array(values, np.float32), d // len(values))
    return np.float32(values)


def covariance(dataset: Dataset) -> Float[np.ndarray, "d d"]:
    """Population covariance (float64) of the normalised training inputs, accumulated in blocks of samples."""
    x, _ = dataset.split("train")
    center = x.mean(axis=0, dtype=np.float64)
    total = np.zeros((x.shape[1], x.shape[1]))
    for block in np.array_split(x, 1 + len(x) // 4096):
        centred = block - center
        total += centred.T @ centred
    return total / len(x)


def save(path: str | Path, dataset: Dataset) -> None:
    """Write a data set as an artifact of kind "dataset", its fields, sizes and a content digest in the header."""
    tensors = {f"{axis}_{name}": getattr(dataset, f"{axis}_{name}") for axis in "xy" for name in SPLITS}
    tensors |= {f"extras/{name}": array for name, array in dataset.extras.items()}
    header = {name: getattr(dataset, name) for name in _FIELDS}
    header["n_inputs"] = dataset.n_inputs
    header["sizes"] = {name: len(getattr(dataset, f"y_{name}")) for name in SPLITS}
    write_tensors(path, tensors, kind="dataset", header=header)


def open_dataset(path: str | Path) -> Dataset:
    """Read a data set that ``save`` wrote, its content verified.

    Raises:
        UserError: the file is missing, damaged, altered, or no data set of this version.
    """
    tensors, header = read_tensors(path, kind="dataset")
    extras = {name.removeprefix("extras/"): array for name, array in tensors.items() if name.startswith("extras/")}
    arrays: dict[str, Any] = {name: array for name, array in tensors.items() if not name.startswith("extras/")}
    missing = {f"{axis}_{name}" for axis in "xy" for name in SPLITS} - set(arrays) | set(_FIELDS) - set(header)
    if missing:
        raise UserError(f"{path} is a data set without {min(missing)}. {rebuild(path)}")
    # JSON knows no tuples
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value := header[name], list) else value for name in _FIELDS
    }
    return Dataset(**arrays, extras=extras, **fields)
