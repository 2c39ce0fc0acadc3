"""Barriers of the population loss between students, with rows in place or permuted."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.connectivity.barrier import above_line
from symlab.papers.permutation_invariance.minima import Minima
from symlab.papers.permutation_invariance.population_loss import mean_square

# Cosines evaluated at once are this many at most, except those of a single student that has more. Small enough for the
# processor's cache.
COSINES = 2**17
# And pairs of minima written out at once hold this many weights.
WEIGHTS = 2**22


def barriers(
    W1: Float[Tensor, "n m d"], W2: Float[Tensor, "n m d"], M: int, lambdas: Float[np.ndarray, " l"]
) -> Float[np.ndarray, " n"]:
    """Maximum over lambda of L(lambda W1 + (1 - lambda) W2) - lambda L(W1) - (1 - lambda) L(W2), of n pairs.

    Args:
        W2: with its rows in the order that they are to be averaged in.
        lambdas: with 0 and 1, where the difference is zero, so that no barrier is negative.
    """
    teacher = W1.new_full((len(W1), M), -1.0)
    return above_line(lambdas, _path_losses(W1, W2, teacher, teacher, lambdas)).max(axis=1)


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
    return above_line(lambdas, losses * (first.M / first.d)).max(axis=1)


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
