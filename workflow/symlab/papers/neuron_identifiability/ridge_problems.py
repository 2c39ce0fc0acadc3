"""The objective of the relaxed realization cost (Def. E.3) for many pairs of neurons at once, and its gradient."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as functional
from jaxtyping import Bool, Float, Int
from torch import Tensor

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
