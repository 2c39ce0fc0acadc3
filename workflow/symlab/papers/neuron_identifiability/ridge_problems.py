"""The objective of the relaxed realization cost (Def. E.3) for many pairs of neurons at once, and two quadratics.

The quadratics stand in for it: Thm. E.4's surrogate, and its curvature. They are float64, and each realizer's d x d
matrix is factored once for all its targets.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as functional
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions

BLOCK = 512


@dataclass(frozen=True)
class RidgeProblems:
    """p problems min_w J(w) = (1 / (beta n)) sum_x (h(x) - phi((base + scale * w) . x + shift))^2 + |w|^2.

    X: the inputs [n, d] that all share. base = alpha_i f_i and scale = alpha_i d_i: [p, d]; shift: [p]; H: the targets'
    values [p, n]. factor: 1 / (beta n). Work is done in the precision of X.
    """

    X: Float[Tensor, "n d"]
    base: Float[Tensor, "p d"]
    scale: Float[Tensor, "p d"]
    shift: Float[Tensor, " p"]
    H: Float[Tensor, "p n"]
    factor: float
    nonlinearity: str

    def select(self, rows: Int[Tensor, " q"] | Bool[Tensor, " p"]) -> "RidgeProblems":
        """The problems of these rows."""
        parts = {name: getattr(self, name)[rows] for name in ("base", "scale", "shift", "H")}
        return replace(self, **parts)

    def preactivations(self, w: Float[Tensor, "p d"]) -> Float[Tensor, "p n"]:
        """(base + scale * w) . x + shift for all inputs."""
        return torch.addmm(self.shift[:, None], torch.addcmul(self.base, self.scale, w), self.X.T)

    def along(self, direction: Float[Tensor, "p d"]) -> Float[Tensor, "p n"]:
        """The change of the preactivations when w moves by ``direction``; they are affine in w."""
        return (self.scale * direction) @ self.X.T

    def residuals(self, Z: Float[Tensor, "p n"]) -> Float[Tensor, "p n"]:
        """phi(Z) - H."""
        return nonlinear(self.nonlinearity, Z).sub_(self.H)

    def value(self, residuals: Float[Tensor, "p n"], w: Float[Tensor, "p d"]) -> Float[Tensor, " p"]:
        """J from the residuals at w, float64."""
        return self.factor * _sums_of_squares(residuals) + w.double().square().sum(dim=1)

    def data_gradient(self, residuals: Float[Tensor, "p n"], Z: Float[Tensor, "p n"]) -> Float[Tensor, "p d"]:
        """Gradient of J without its part 2 w, which comes from |w|^2."""
        slopes = times_derivative(self.nonlinearity, residuals, Z)
        return (slopes @ self.X).mul_(self.scale).mul_(2 * self.factor)


def _sums_of_squares(rows: Float[Tensor, "p n"]) -> Float[Tensor, " p"]:
    """|row|^2 in float64, summed within blocks in the precision of ``rows``.

    A norm is the only such reduction that torch vectorises: 0.1 ms for 64 x 6,000 float32 against 1.1 for products and
    2.9 for a float64 norm. Its rounding grows with the length, which the blocks keep to about 1e-7.
    """
    whole = rows.shape[1] // BLOCK * BLOCK
    blocks = torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (-1, BLOCK)), dim=2)
    rest = torch.linalg.vector_norm(rows[:, whole:], dim=1)
    return blocks.double().square().sum(dim=1) + rest.double().square()


def nonlinear(name: str, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """phi(z) as a new tensor."""
    if name == "gelu":
        return functional.gelu(z)
    return functional.relu(z) if name == "relu" else z.clone()


def times_derivative(name: str, r: Float[Tensor, "*shape"], z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """r phi'(z); for ReLU, phi'(0) = 0."""
    if name == "gelu":
        # One pass over memory, where erf, exp and their products would take six.
        return torch.ops.aten.gelu_backward(r, z)
    return r * (z > 0) if name == "relu" else r


def largest_slope(name: str) -> float:
    """L = max |phi'|. GELU' = Phi(z) + z N(z) is largest where its derivative (2 - z^2) N(z) is 0, at z = sqrt(2)."""
    if name != "gelu":
        return 1.0
    z = torch.tensor(2.0, dtype=torch.float64).sqrt()
    return float(times_derivative(name, torch.ones_like(z), z))


class Moments(NamedTuple):
    """Of the inputs, float64: E[x~ x~^T] of x~ = (x, 1), [d+1, d+1], and E[s(x) x x^T], [d, d].

    s(x) is the mean of phi'(y_j(x))^2 over the targets' preactivations y_j: the curvature that J has near a target.
    """

    plain: Float[Tensor, "e e"]
    curvature: Float[Tensor, "d d"]


def input_moments(X: Float[Tensor, "n d"], slopes: Float[Tensor, "t n"]) -> Moments:
    """``Moments`` from the inputs and phi'(y_j(x)) of every target j."""
    # In float64: the bound is a small difference of large numbers, and rounding in float32 can make the curvature of
    # inputs on a subspace indefinite.
    exact = X.double()
    with_one = functional.pad(exact, (0, 1), value=1.0)
    weights = slopes.square_().mean(dim=0).double()
    return Moments(with_one.T @ with_one / len(X), (exact * weights[:, None]).T @ exact / len(X))


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
