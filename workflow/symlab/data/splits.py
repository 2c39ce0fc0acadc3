"""Random partitions of samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

Indices = Int64[np.ndarray, " n"]


def random_split(n: int, n_val: int, n_test: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
    """A uniformly random partition of 0..n-1 into train (what is left), val and test indices."""
    order = rng.permutation(n)
    return order[n_val + n_test :], order[:n_val], order[n_val : n_val + n_test]


def tenth(n: int) -> int:
    """A tenth of n samples, rounded: the size of val and of test in an 80/10/10 split."""
    return round(n / 10)
