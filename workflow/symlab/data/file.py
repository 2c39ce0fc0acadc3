"""A data set of one's own, from one .npz file."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from symlab.artifacts import content_digest
from symlab.data import File
from symlab.data.dataset import Dataset, mean_and_std
from symlab.data.npz import read_npz
from symlab.data.splits import random_split, tenth
from symlab.errors import UserError
from symlab.seeds import numpy_rng

PARTS = {"x_train", "y_train", "x_test", "y_test"}
NAMES = ({"x", "y"}, PARTS, PARTS | {"x_val", "y_val"})


def load(spec: File, data_dir: Path | None) -> Dataset:
    """The samples of the file, in its own parts or in parts drawn by ``seed``, normalised by the train part.

    Raises:
        UserError: the file is missing, or its arrays are no samples and targets.
    """
    arrays = read_npz(spec.file)
    if set(arrays) not in NAMES:
        raise UserError(
            f"{spec.path} holds {', '.join(sorted(arrays)) or 'nothing'}; it has to hold x and y, or x_train, y_train, "
            "x_test and y_test, with x_val and y_val if you like."
        )
    for name, array in arrays.items():
        other = arrays[f"x{name[1:]}"]
        if not array.shape or array.shape[:1] != other.shape[:1]:
            raise UserError(
                f"{spec.path} has {name} of shape {array.shape} beside x{name[1:]} of {other.shape}: "
                "there is one target for each sample, along the first axis."
            )
    shapes = {array.shape[1:] for name, array in arrays.items() if name.startswith("x")}
    if len(shapes) > 1:
        raise UserError(
            f"{spec.path} has samples of the shapes {', '.join(map(str, sorted(shapes)))}; give all parts one."
        )
    (shape,) = shapes
    if len(shape) == 3 and shape[0] == shape[1] and shape[2] in (1, 3, 4):
        raise UserError(
            f"{spec.path} has images of {shape}, with channels last; write x.transpose(0, 3, 1, 2), channels first."
        )
    parts, image, n_classes = _parts(arrays, spec), spec.image, spec.n_classes
    # Float32 has few digits left of numbers far from 0. Images keep their black, which is 0.
    train = parts["train"][0]
    numbers = image is None and train.dtype.kind in "fiu" and train.dtype != np.uint8
    centre = train.mean(dtype=np.float64) if numbers else 0.0
    samples: dict[str, Any] = {f"x_{name}": _inputs(x, centre, spec.path) for name, (x, _) in parts.items()}
    targets = _targets({name: y for name, (_, y) in parts.items()}, spec, n_classes)
    samples |= {f"y_{name}": y for name, y in targets.items()}
    mean, std = mean_and_std(samples["x_train"], channels=1 if image is None else image[0])
    return Dataset(
        **samples,
        task="regression" if n_classes is None else "classification",
        n_classes=n_classes or 1,
        mean=mean,
        std=std,
        image=image,
        provenance={"source": "file", "path": spec.path, "seed": spec.seed, "inputs_sha256": content_digest(arrays)},
    )


def _parts(arrays: dict[str, np.ndarray], spec: File) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(x, y) of "train", "val" and "test"."""
    rng = numpy_rng("split", "file", spec.seed)
    if "x" in arrays:
        n = len(arrays["x"])
        chosen = dict(zip(("train", "val", "test"), random_split(n, tenth(n), tenth(n), rng), strict=True))
        return {name: (arrays["x"][rows], arrays["y"][rows]) for name, rows in chosen.items()}
    parts = {name: (arrays[f"x_{name}"], arrays[f"y_{name}"]) for name in ("train", "test")}
    if "x_val" in arrays:
        return parts | {"val": (arrays["x_val"], arrays["y_val"])}
    x, y = parts["train"]
    train, val, _ = random_split(len(x), tenth(len(x)), 0, rng)
    return parts | {"train": (x[train], y[train]), "val": (x[val], y[val])}


def _inputs(x: np.ndarray, centre: float, path: str) -> Shaped[np.ndarray, "n d"]:
    if x.dtype.kind not in "fiu":
        raise UserError(f"{path} has inputs of type {x.dtype}; write them as uint8 pixels or as real numbers.")
    rows = x.reshape(len(x), math.prod(x.shape[1:]))
    if x.dtype == np.uint8 or not centre:
        return np.ascontiguousarray(rows, None if x.dtype == np.uint8 else np.float32)
    return np.subtract(rows, centre, dtype=np.float64).astype(np.float32)


def _targets(y: dict[str, np.ndarray], spec: File, n_classes: int | None) -> dict[str, np.ndarray]:
    """Labels as int64, or real numbers as float32."""
    kinds = {part.dtype.kind for part in y.values()}
    flat = {name: part.reshape(len(part), math.prod(part.shape[1:])) for name, part in y.items()}
    if (kinds != {"f"} and not kinds <= {"i", "u"}) or any(part.shape[1] != 1 for part in flat.values()):
        raise UserError(
            f"{spec.path} has targets of shape {y['train'].shape} and type {y['train'].dtype}; write one whole number "
            "a sample, its class from 0 on, or one real number."
        )
    targets = {name: part[:, 0] for name, part in flat.items()}
    whole = all((part == part.round()).all() for part in targets.values())
    if kinds == {"f"} and whole and spec.task is None:
        raise UserError(f"{spec.path} has real targets that are whole numbers; say task: classification or regression.")
    if n_classes is None:
        return {name: part.astype(np.float32) for name, part in targets.items()}
    labels = np.unique(targets["train"])
    if not whole or len(labels) < 2 or not np.array_equal(labels, np.arange(n_classes)):
        ends = f" from {labels[0]} to {labels[-1]}" if len(labels) else ""
        raise UserError(
            f"{spec.path} has {len(labels)} different targets{ends} in its training part; classes are 0, 1, ..., at "
            "least two, each of them there. Else say task: regression."
        )
    return {name: part.astype(np.int64) for name, part in targets.items()}
