"""Random partitions and subsets of samples."""

import numpy as np
from jaxtyping import Int64

from symlab.errors import UserError

Indices = Int64[np.ndarray, " n"]


def random_split(n: int, n_val: int, n_test: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
    """A uniformly random partition of 0..n-1 into train (what is left), val and test indices."""
    order = rng.permutation(n)
    return order[n_val + n_test :], order[:n_val], order[n_val : n_val + n_test]


def tenth(n: int) -> int:
    """A tenth of n samples, rounded: the size of val and of test in an 80/10/10 split."""
    return round(n / 10)


def balanced_subset(
    y: Int64[np.ndarray, " n"], n_samples: int, n_classes: int, rng: np.random.Generator
) -> Int64[np.ndarray, " n_samples"]:
    """Sorted indices of ``n_samples`` random samples, equally many of each of the labels 0..n_classes-1.

    ``n_samples`` is a multiple of ``n_classes``. With the same generator state a smaller subset is part of every larger
    one.

    Raises:
        UserError: a class has too few samples.
    """
    available = n_classes * int(np.bincount(y, minlength=n_classes).min())
    if n_samples > available:
        raise UserError(
            f"data.n_samples = {n_samples} is more than the {available} samples that can be taken with equally many "
            f"of each class: choose at most {available}, or null for all."
        )
    shuffled = [rng.permutation(np.flatnonzero(y == label)) for label in range(n_classes)]
    return np.sort(np.concatenate([members[: n_samples // n_classes] for members in shuffled]))
