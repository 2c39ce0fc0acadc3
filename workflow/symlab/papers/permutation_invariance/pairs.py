"""Pairs of students: which neuron goes where, and barriers of the population loss with rows in place or permuted.

As in ``symlab.alignment.matching``, pi[i] is the row of the second student that is placed at row i of the first.
"""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.alignment.matching import match
from symlab.connectivity.barrier import largest
from symlab.papers.permutation_invariance.minima import Minima
from symlab.papers.permutation_invariance.population_loss import mean_square

# Cosines evaluated at once are this many at most, except those of a single student that has more. Small enough for the
# processor's cache.
COSINES = 2**17
# And pairs of minima written out at once hold this many weights.
WEIGHTS = 2**22


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
    first, second = _ranked(types1, values1), _ranked(types2, values2)
    partners = first[first["type"] >= 0].merge(second, on=["pair", "type", "rank"], suffixes=("", "_second"))
    pairs, places, rows = (partners[name] for name in ("pair", "row", "row_second"))
    pi = np.empty(types1.shape, dtype=np.int64)
    pi[pairs, places] = rows
    free1, free2 = np.ones((2, *types1.shape), dtype=bool)
    free1[pairs, places] = free2[pairs, rows] = False
    # Places of zeros come last, rows of zeros first. A pair has as many free rows as free places.
    places = np.argsort(np.where(free1, types1 < 0, 2), axis=1, kind="stable")
    rows = np.argsort(np.where(free2, types2 >= 0, 2), axis=1, kind="stable")
    remaining = np.arange(types1.shape[1]) < free1.sum(axis=1)[:, None]
    pi[remaining.nonzero()[0], places[remaining]] = rows[remaining]
    return pi


def _ranked(types: Int[np.ndarray, "n m"], values: Float[np.ndarray, "n m"]) -> pd.DataFrame:
    """Each row of each student (``pair``) with its type and its rank in that type, the largest first."""
    pair, row = np.indices(types.shape).reshape(2, -1)
    rows = pd.DataFrame({"pair": pair, "row": row, "type": types.ravel(), "value": values.ravel()})
    ranks = rows.groupby(["pair", "type"])["value"].rank("first", ascending=False, na_option="bottom")
    return rows.assign(rank=ranks)


def hungarian(W1: Float[Tensor, "n m d"], W2: Float[Tensor, "n m d"]) -> Int[np.ndarray, "n m"]:
    """The permutations that maximise the sum over i of w1_i . w2_pi(i), by exact linear assignment.

    Raises:
        UserError: a student has entries that are not finite.
    """
    return np.stack([match(S) for S in (W1 @ W2.mT).numpy()])


def barriers(
    W1: Float[Tensor, "n m d"], W2: Float[Tensor, "n m d"], M: int, lambdas: Float[np.ndarray, " l"]
) -> Float[np.ndarray, " n"]:
    """Maximum over lambda of L(lambda W1 + (1 - lambda) W2) - lambda L(W1) - (1 - lambda) L(W2), of n pairs.

    Args:
        W2: with its rows in the order that they are to be averaged in.
        lambdas: with 0 and 1, where the difference is zero, so that no barrier is negative.
    """
    teacher = W1.new_full((len(W1), M), -1.0)
    return largest(lambdas, _path_losses(W1, W2, teacher, teacher, lambdas))


def permuted(W: Float[Tensor, "n m d"], pi: Int[np.ndarray, "n m"]) -> Float[Tensor, "n m d"]:
    """Students with row pi[i] at place i."""
    return W.take_along_dim(torch.from_numpy(pi)[..., None], dim=1)


def minima_barriers(
    first: Minima, second: Minima, pi: Int[np.ndarray, "n m"] | None, lambdas: Float[np.ndarray, " l"]
) -> Float[np.ndarray, " n"]:
    """``barriers`` of n pairs of minima, with the second's rows permuted by pi (``None``: in place), much faster.

    Where the two have rows of equal type they are parallel all along the path, to one another and to a neuron of the
    teacher, so that their sum counts only. The loss at both ends is taken to be zero, as it is for minima.

    Args:
        lambdas: with 0 and 1.
    """
    assert (first.M, first.d) == (second.M, second.d)
    types, values = second.types, second.values
    if pi is not None:
        types, values = (np.take_along_axis(rows, pi, axis=1) for rows in (types, values))
    inner = (lambdas != 0) & (lambdas != 1)
    losses = np.zeros((len(types), len(lambdas)))
    at_once = max(1, WEIGHTS // (first.M * types.shape[1]))
    for start in range(0, len(types), at_once):
        chunk = slice(start, start + at_once)
        parts = _merged(first.types[chunk], first.values[chunk], types[chunk], values[chunk], first.M)
        losses[chunk, inner] = _path_losses(*parts, lambdas[inner])
    # The losses are those in R^M. Minima have no other coordinates, and the loss is inversely proportional to d.
    return largest(lambdas, losses * (first.M / first.d))


def _path_losses(
    W1: Float[Tensor, "n r d"],
    W2: Float[Tensor, "n r d"],
    axes1: Float[Tensor, "n M"],
    axes2: Float[Tensor, "n M"],
    lambdas: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "n l"]:
    """``mean_square`` of lambda (W1, axes1) + (1 - lambda) (W2, axes2)."""
    n, r, _ = W1.shape
    losses = np.empty((n, len(lambdas)))
    at_once = max(1, COSINES // max(1, r * (r + axes1.shape[1])))
    for column, lam in enumerate(lambdas.tolist()):
        for start in range(0, n, at_once):
            chunk = slice(start, start + at_once)
            between = W2[chunk].lerp(W1[chunk], lam), axes2[chunk].lerp(axes1[chunk], lam)
            losses[chunk, column] = mean_square(*between).numpy()
    return losses


def _merged(
    types1: Int[np.ndarray, "n m"],
    values1: Float[np.ndarray, "n m"],
    types2: Int[np.ndarray, "n m"],
    values2: Float[np.ndarray, "n m"],
    M: int,
) -> tuple[Float[Tensor, "n r M"], Float[Tensor, "n r M"], Float[Tensor, "n M"], Float[Tensor, "n M"]]:
    """The rows of both where their types differ, and of the others the sum over each type, less the teacher's 1.

    Where a pair has fewer different rows than another, rows of zeros make up for them.
    """
    n = len(types1)
    same = types1 == types2
    different = (~same).sum(axis=1)
    places = np.argsort(same, axis=1, kind="stable")[:, : different.max()]
    padding = np.arange(places.shape[1]) >= different[:, None]
    groups = (types1 + M * np.arange(n)[:, None])[same]
    rows, axes = [], []
    for types, values in ((types1, values1), (types2, values2)):
        W = np.zeros((*places.shape, M))
        rest = np.where(padding, 0.0, np.take_along_axis(values, places, axis=1))
        np.put_along_axis(W, np.take_along_axis(types, places, axis=1)[..., None], rest[..., None], axis=-1)
        rows.append(torch.from_numpy(W))
        # Of no values numpy counts in integers.
        sums = np.bincount(groups, weights=values[same], minlength=n * M).astype(float).reshape(n, M)
        axes.append(torch.from_numpy(sums - 1))
    return rows[0], rows[1], axes[0], axes[1]
