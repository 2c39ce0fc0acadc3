"""Global minima of the population loss, drawn uniformly, and which of them a trained student resembles.

For m >= M, L(W) = 0 exactly where every row is a nonnegative multiple of one of e_1, ..., e_M and the rows along each
e_j sum to it. The type of a row, counted from 0 here, tells its axis; a row of zeros has none, which is
written as -1.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.papers.permutation_invariance.row_sparsity import is_zero


@dataclass(frozen=True)
class Minima:
    """Students whose row i is values[i] times the basis vector number types[i] of R^d, for a teacher of M neurons."""

    M: int
    d: int
    types: Int[np.ndarray, "n m"]
    values: Float[np.ndarray, "n m"]

    def dense(self) -> Float[Tensor, "n m d"]:
        """All weights, written out."""
        W = np.zeros((*self.types.shape, self.d))
        np.put_along_axis(W, self.types[..., None], self.values[..., None], axis=-1)
        return torch.from_numpy(W)

    def repeated(self, number: int, times: int) -> "Minima":
        """The student of a number, so many times."""
        return replace(self, types=self.types[[number] * times], values=self.values[[number] * times])


def uniform_minima(M: int, d: int, m: int, n: int, rng: np.random.Generator) -> Minima:
    """n independent, uniformly distributed minima of students of m >= M neurons (Assumption 3, Appendix B.1).

    Every type gets one row, and each of the other m - M rows a type at random. The values of a type are uniform on the
    simplex. Rows are in random order, on which the barrier of the direct path depends.
    """
    assert d >= M >= 1 and m >= M, (M, d, m)
    counts = 1 + rng.multinomial(m - M, np.full(M, 1 / M), size=n)
    types = np.repeat(np.tile(np.arange(M), n), counts.ravel()).reshape(n, m)
    values = rng.exponential(size=(n, m))
    groups = (types + M * np.arange(n)[:, None]).ravel()
    values /= np.bincount(groups, weights=values.ravel())[groups].reshape(n, m)
    order = rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)
    return Minima(M, d, np.take_along_axis(types, order, axis=1), np.take_along_axis(values, order, axis=1))


def types_of(W: Float[Tensor, "*runs m d"], M: int) -> tuple[Int[np.ndarray, "*runs m"], Float[np.ndarray, "*runs m"]]:
    """Types and values of the rows of trained students, which lie near the axes only.

    Returns:
        The type, which is the largest of a row's first M coordinates, or -1 for rows that count as zero, and the value,
        which is the row's norm.
    """
    types = torch.where(is_zero(W), -1, W[..., :M].argmax(dim=-1))
    return types.numpy(), torch.linalg.vector_norm(W, dim=-1).numpy()
