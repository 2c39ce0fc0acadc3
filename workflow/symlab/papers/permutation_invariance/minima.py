"""Global minima of the population loss, drawn uniformly; which of them a trained student resembles, how sparse
it is, and how large a learning rate can be there.

For m >= M, L(W) = 0 exactly where every row is a nonnegative multiple of one of e_1, ..., e_M and the rows along each
e_j sum to it. The type of a row, counted from 0 here, tells its axis; a row of zeros has none, which is
written as -1.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# A row below this norm is counted as zero; active rows of a trained student are of order M / m.
ZERO_NORM = 1e-2


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


def pq_index(w: Float[Tensor, "*runs k"], p: float = 0.5, q: float = 1.0) -> Float[Tensor, "*runs"]:
    """The PQ index 1 - k^(1/q - 1/p) |w|_p / |w|_q: 0 where all entries are equally large, 1 - 1/k with a single one.

    NaN for a vector of zeros.
    """
    size = w.abs()
    ratio = size.pow(p).sum(dim=-1).pow(1 / p) / size.pow(q).sum(dim=-1).pow(1 / q)
    return 1 - w.shape[-1] ** (1 / q - 1 / p) * ratio


def is_zero(W: Float[Tensor, "*runs m d"], below: float = ZERO_NORM) -> Bool[Tensor, "*runs m"]:
    """Whether each row has a norm smaller than ``below``."""
    return torch.linalg.vector_norm(W, dim=-1) < below


def hessian_at_minimum(W: Float[Tensor, "m d"], shortest: float = ZERO_NORM) -> Float[Tensor, "md md"]:
    """2 E [J J^T] with J stacking 1[w_i . x > 0] x: the Hessian of L where L(W) = 0, its Gauss-Newton part elsewhere.

    The expectation in block (i, k) is over the wedge between two half-spaces, whose normals are at an angle theta. In
    the plane of the normals its second moments are along the bisector b of the normals and along q at right angles to
    it; outside the plane only the wedge's size matters. With s = sin theta the block is

        ((pi - theta) I + s (b b^T - q q^T)) / (pi d),
        s (b b^T - q q^T) = (u v^T + v u^T - cos theta (u u^T + v v^T)) / s,    u = w_i / |w_i|, v = w_k / |w_k|.

    Args:
        shortest: rows with a smaller norm, and rows of zeros, are left out: their blocks are zero.
    """
    m, d = W.shape
    norms = torch.linalg.vector_norm(W, dim=1)
    active = (norms >= shortest) & (norms > 0)
    u = torch.where(active[:, None], W / norms[:, None], 0.0)
    cosine = (u @ u.T).clamp(-1, 1)
    theta = cosine.acos()
    sine = ((1 - cosine) * (1 + cosine)).sqrt()
    outer = torch.einsum("ia,kb->ikab", u, u)
    own = torch.einsum("ia,ib->iab", u, u)
    plane = outer + outer.mT - cosine[..., None, None] * (own[:, None] + own)
    # The block is continuous at parallel and opposite rows, where b or q is undefined and s is zero.
    plane = torch.where(sine[..., None, None] > 0, plane / sine[..., None, None], 0.0)
    identity = torch.eye(d, dtype=W.dtype)
    blocks = ((math.pi - theta)[..., None, None] * identity + plane) / (math.pi * d)
    blocks = blocks * (active[:, None] & active)[..., None, None]
    return blocks.transpose(1, 2).reshape(m * d, m * d)


def stability_limit(W: Float[Tensor, "n m d"], shortest: float = ZERO_NORM) -> Float[Tensor, " n"]:
    """2 / lambda_max of ``hessian_at_minimum``: gradient descent stays near the minimum with smaller learning rates.

    For dense minima it is about 3 d / m. Rows that count as zero are left out, because the loss has a kink within
    their reach: no step of theirs is that of a linear map.
    """
    largest = [float(torch.linalg.eigvalsh(hessian_at_minimum(student, shortest))[-1]) for student in W]
    return 2 / torch.tensor(largest, dtype=W.dtype)
