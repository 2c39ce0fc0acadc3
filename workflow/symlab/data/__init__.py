"""Data sets: one module a source, one registry. A new source is one file and one line in ``SOURCES``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from symlab.data import cifar10, cifar10_jpeg, coherence, digits, gmm, mnist, mnist_coherence
from symlab.data.dataset import Dataset, normalise, open_dataset, save
from symlab.data.folder import resolve_data_dir
from symlab.errors import UserError

SOURCES: dict[str, Callable[[dict[str, Any], Path | None], Dataset]] = {
    "digits": digits.load,
    "gmm": gmm.load,
    "coherence": coherence.load,
    "mnist": mnist.load,
    "mnist_coherence": mnist_coherence.load,
    "cifar10": cifar10.load,
    "cifar10_jpeg": cifar10_jpeg.load,
}

__all__ = ["SOURCES", "Dataset", "load", "normalise", "open_dataset", "resolve_data_dir", "save"]


def load(spec: dict[str, Any], data_dir: Path | None) -> Dataset:
    """The data set that a spec describes; ``data_dir`` is where files of real data are looked for first.

    Raises:
        UserError: the source is not in the registry, or its files are missing, damaged or not what they should be.
    """
    source = spec.get("source")
    if source not in SOURCES:
        raise UserError(f"There is no data source {source!r}: set data.source to one of {', '.join(sorted(SOURCES))}.")
    return SOURCES[source](spec, data_dir)
