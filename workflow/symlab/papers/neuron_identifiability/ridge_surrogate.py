"""The quadratics that stand in for the relaxed realization cost's objective: Thm. E.4's surrogate, and its curvature.

All are float64, and each realizer's d x d matrix is factored once for all its targets.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions
from symlab.papers.neuron_identifiability.ridge_problems import largest_slope


class Moments(NamedTuple):
    """Of the inputs, float64: E[x~ x~^T] of x~ = (x, 1), [d+1, d+1], and E[s(x) x x^T], [d, d].

    s(x) is the mean of phi'(y_j(x))^2 over the targets' preactivations y_j: the curvature that J has near a target.
    """

    plain: Float[Tensor, "e e"]
    curvature: Float[Tensor, "d d"]


def input_moments(X: Float[Tensor, "n d"], slopes: Float[Tensor, "t n"]) -> Moments:
    """``Moments`` from the inputs and phi'(y_j(x)) of every target j."""
    d = X.shape[1]
    plain = X.new_empty(d + 1, d + 1, dtype=torch.float64)
    # In float64: the bound is a small difference of large numbers, and rounding in float32 can make the curvature of
    # inputs on a subspace indefinite.
    exact = X.double()
    plain[:d, :d] = exact.T @ exact / len(X)
    plain[:d, d] = plain[d, :d] = exact.mean(dim=0)
    plain[d, d] = 1
    weights = slopes.square_().mean(dim=0).double()
    return Moments(plain, (exact * weights[:, None]).T @ exact / len(X))


def surrogate(
    layer: NeuronFunctions, moments: Tensor, i: Int[Tensor, " p"], j: Int[Tensor, " p"], beta: float
) -> tuple[Float[Tensor, "p d"], Float[Tensor, " p"]]:
    """Minimiser and minimum of (L^2/beta) E[(y_j - z_i(w))^2] + |w|^2 over w, with preactivations y, z (Thm. E.4).

    The theorem's linear forms u and f_i here include alpha, and carry kappa and the bias as a constant.
    """
    strength = largest_slope(layer.nonlinearity) ** 2 / beta
    d = layer.D.shape[1]
    scale = layer.alpha[:, None] * layer.D
    linear = (layer.alpha[:, None] * layer.W_eff)[j] - (layer.alpha[:, None] * layer.F)[i]
    gap = torch.cat([linear, (layer.shift[j] - layer.shift[i])[:, None]], dim=1)
    right = strength * scale[i] * (gap @ moments)[:, :d]
    w = _for_each_realizer(i, right, lambda r, b: _solve(_factor(scale[r], moments[:d, :d], strength), b))
    gap[:, :d] -= scale[i] * w
    misfit = ((gap @ moments) * gap).sum(dim=1).clamp_min(0)
    return w, strength * misfit + w.square().sum(dim=1)


def preconditioner(
    layer: NeuronFunctions, curvature: Tensor, i: Int[Tensor, " p"], beta: float, dtype: torch.dtype
) -> Callable[[Tensor, Tensor], Tensor]:
    """Applies (2 I + (2/beta) diag(scale_i) E[s(x) x x^T] diag(scale_i))^-1: J's Gauss-Newton matrix, with phi'^2 of
    the realizer replaced by the targets' mean, so that all targets of a realizer share one factorisation."""
    scale = layer.alpha[:, None] * layer.D
    factors = {int(r): _factor(scale[r], curvature, 1 / beta).to(dtype) for r in torch.unique(i)}

    def precondition(v: Tensor, at: Tensor) -> Tensor:
        return _for_each_realizer(i[at], v, lambda r, b: _solve(factors[r], b)).div_(2)

    return precondition


def _for_each_realizer(
    i: Int[Tensor, " p"], right: Float[Tensor, "p d"], solve: Callable[[int, Tensor], Tensor]
) -> Float[Tensor, "p d"]:
    """``solve(realizer, rows)`` of the rows of ``right`` of every realizer; rows of one realizer are neighbours."""
    found, counts = torch.unique_consecutive(i, return_counts=True)
    pieces = right.split(counts.tolist())
    return torch.cat([solve(r, piece) for r, piece in zip(found.tolist(), pieces, strict=True)])


def _factor(scale: Float[Tensor, " d"], second_moment: Float[Tensor, "d d"], strength: float) -> Float[Tensor, "d d"]:
    """Cholesky factor of I + strength diag(scale) M diag(scale), whose eigenvalues are at least 1."""
    A = second_moment * (strength * scale[:, None]) * scale
    # Beyond 1 only the rounding of A, which would show where beta is tiny.
    A.diagonal().add_(1 + torch.finfo(A.dtype).eps * A.trace())
    return torch.linalg.cholesky(A)


def _solve(factor: Float[Tensor, "d d"], right: Float[Tensor, "q d"]) -> Float[Tensor, "q d"]:
    return torch.cholesky_solve(right.T, factor).T
