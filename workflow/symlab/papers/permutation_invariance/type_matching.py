"""Which neuron of one student goes where in another: Algorithm 1 of the paper, and linear assignment.

As in ``symlab.alignment.matching``, pi[i] is the row of the second student that is placed at row i of the first.
"""

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from symlab.alignment.matching import match


def match_by_type(
    types1: Int[np.ndarray, "n m"],
    values1: Float[np.ndarray, "n m"],
    types2: Int[np.ndarray, "n m"],
    values2: Float[np.ndarray, "n m"],
) -> Int[np.ndarray, "n m"]:
    """Permutations of the second students' rows that align them with the first, for n pairs (Algorithm 1).

    Within a type, the k-th largest row of the second student goes to the place of the k-th largest row of the first, as
    far as both have one. The rows that remain fill the places that remain, both in order of storage, but rows of zeros
    (type -1) first meet the other student's remaining rows: between these and zero the path follows the axis, whereas
    two remaining rows of different types leave their axes together. This is a reading of ours: the pseudo-code is about
    minima without rows of zeros. If zeros met zeros first, the matched barrier of sparse students would be higher.
    """
    n, m = types1.shape
    kinds = 1 + max(types1.max(), types2.max())
    order1, _, starts1 = _listed_by_type(types1, values1, kinds)
    order2, counts2, starts2 = _listed_by_type(types2, values2, kinds)
    listed = np.take_along_axis(types1, order1, axis=1)
    rank = np.arange(m) - np.take_along_axis(starts1, listed + 1, axis=1)
    matched = (rank < np.take_along_axis(counts2, listed + 1, axis=1)) & (listed >= 0)
    pairs = matched.nonzero()[0]
    places = order1[matched]
    rows = order2[pairs, (np.take_along_axis(starts2, listed + 1, axis=1) + rank)[matched]]

    pi = np.empty((n, m), dtype=np.int64)
    pi[pairs, places] = rows
    free1, free2 = np.ones((2, n, m), dtype=bool)
    free1[pairs, places] = free2[pairs, rows] = False
    # Places of zeros come last, rows of zeros first. A pair has as many free rows as free places.
    places = np.argsort(np.where(free1, types1 < 0, 2), axis=1, kind="stable")
    rows = np.argsort(np.where(free2, types2 >= 0, 2), axis=1, kind="stable")
    remaining = np.arange(m) < free1.sum(axis=1)[:, None]
    pi[remaining.nonzero()[0], places[remaining]] = rows[remaining]
    return pi


def hungarian(W1: Float[Tensor, "n m d"], W2: Float[Tensor, "n m d"]) -> Int[np.ndarray, "n m"]:
    """The permutations that maximise the sum over i of w1_i . w2_pi(i), by exact linear assignment.

    Raises:
        UserError: a student has entries that are not finite.
    """
    return np.stack([match(S) for S in (W1 @ W2.mT).numpy()])


def _listed_by_type(
    types: Int[np.ndarray, "n m"], values: Float[np.ndarray, "n m"], kinds: int
) -> tuple[Int[np.ndarray, "n m"], Int[np.ndarray, "n kinds+1"], Int[np.ndarray, "n kinds+1"]]:
    """Rows listed by type, and within a type by descending value; count and start of types -1, 0, ..."""
    order = np.lexsort((-values, types), axis=1)
    n = len(types)
    groups = types + 1 + (kinds + 1) * np.arange(n)[:, None]
    counts = np.bincount(groups.ravel(), minlength=n * (kinds + 1)).reshape(n, kinds + 1)
    return order, counts, counts.cumsum(axis=1) - counts
