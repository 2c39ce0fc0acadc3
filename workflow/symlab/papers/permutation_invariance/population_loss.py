"""Population loss of a two-layer ReLU student of an orthonormal teacher, in closed form, and its gradient.

Inputs x are uniform on the unit sphere of R^d. The teacher is f*(x) = sum_{j <= M} relu(e_j . x), the student
f_W(x) = sum_i relu(w_i . x) with the rows w_i of W, and L(W) = E (f_W(x) - f*(x))^2. For unit vectors u and v at an
angle theta,

    E relu(u . x) relu(v . x) = kappa(cos theta) = ((pi - theta) cos theta + sin theta) / (2 pi d).

A row of zeros adds nothing to the loss, and its gradient is zero (relu'(0) = 0): a student padded with such rows is the
narrower student, and stays so when it is trained.

The work is elementwise and on small matrices, where numpy is faster than torch: its arccos by a factor of four on a
processor with AVX-512.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Divides rows shorter than this: their squares underflow, and their direction is of no consequence.
SHORTEST = 1e-150


def kappa(t: Float[np.ndarray, "*shape"] | float, d: int) -> Float[np.ndarray, "*shape"]:
    """E relu(u . x) relu(v . x) for unit vectors with u . v = t and x uniform on the unit sphere of R^d."""
    cosines = np.atleast_1d(np.asarray(t, dtype=float))
    value, sine = _folded_angle_and_sine(cosines)
    value *= cosines
    value += sine
    value /= 2 * math.pi * d
    return value.reshape(np.shape(t))


def population_loss(W: Float[Tensor, "*runs m d"], M: int) -> Float[Tensor, "*runs"]:
    """L(W) of students W, float64 on the CPU, against the teacher of M <= d neurons.

    Exact up to rounding, which is of order 1e-16 times M^2 / d and may leave a loss of zero slightly negative. Not
    differentiable: ``loss_and_gradient`` gives the gradient. NaN or infinite where W is.
    """
    return mean_square(W, W.new_full((M,), -1.0))


def mean_square(
    W: Float[Tensor, "*runs m d"], axes: Float[Tensor, "*runs M"] | Float[Tensor, " M"]
) -> Float[Tensor, "*runs"]:
    """E (sum_i relu(w_i . x) + sum_j axes_j relu(e_j . x))^2, which is L(W) where all ``axes`` are -1.

    Rows of W along e_j may be left to ``axes``, by the sum of their norms.
    """
    rows, coefficients = W.detach().numpy(), axes.detach().numpy()
    d, M = rows.shape[-1], coefficients.shape[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        norms, directions = _norms_and_directions(rows)
        own = kappa(_clipped(directions @ directions.swapaxes(-1, -2)), d) @ norms[..., None]
        across = kappa(_clipped(directions[..., :M].copy()), d) @ coefficients[..., None]
        of_rows = np.einsum("...i,...i->...", norms, (own + 2 * across)[..., 0])
        return torch.as_tensor(of_rows + _square_of_axes(coefficients, d))


def loss_and_gradient(
    W: Float[Tensor, "*runs m d"], M: int
) -> tuple[Float[Tensor, "*runs"], Float[Tensor, "*runs m d"]]:
    """``population_loss`` and dL/dW, in little more time than the loss alone.

    With the angles theta between rows and theta^* between rows and the teacher's neurons,

        pi d dL/dw_i = sum_k [(pi - theta_ik) w_k + |w_k| sin(theta_ik) w_i / |w_i|]
                       - sum_{j <= M} [(pi - theta^*_ij) e_j + sin(theta^*_ij) w_i / |w_i|].

    Rounding errors of a cosine near 1 move theta by up to 1e-8, yet cancel in each bracket up to their own size, since
    theta and its sine come from the same cosine.
    """
    rows = W.detach().numpy()
    d = rows.shape[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        norms, directions = _norms_and_directions(rows)
        folded, sine = _folded_angle_and_sine(_clipped(directions @ directions.swapaxes(-1, -2)))
        folded_teacher, sine_teacher = _folded_angle_and_sine(_clipped(directions[..., :M].copy()))
        gradient = folded @ rows
        weighted_sine = (sine @ norms[..., None])[..., 0]
        summed_sine = sine_teacher.sum(axis=-1)
        student = np.einsum("...ik,...ik->...", gradient, rows) + np.einsum("...i,...i->...", weighted_sine, norms)
        across = np.einsum("...ij,...ij->...", folded_teacher, rows[..., :M])
        across += np.einsum("...i,...i->...", summed_sine, norms)
        loss = (student - 2 * across) / (2 * math.pi * d) + _square_of_axes(np.ones(M), d)

        gradient[..., :M] -= folded_teacher
        directions *= (weighted_sine - summed_sine)[..., None]
        gradient += directions
        gradient *= ((norms != 0) / (math.pi * d))[..., None]
    return torch.as_tensor(loss), torch.from_numpy(gradient)


def batch_loss_and_gradient(
    W: Float[Tensor, "*runs m d"], x: Float[Tensor, "*runs b d"], M: int
) -> tuple[Float[Tensor, "*runs"], Float[Tensor, "*runs m d"]]:
    """Mean squared error of students W on a batch x of inputs each, and its gradient; estimates of L and dL/dW."""
    before = W @ x.mT
    residual = before.relu().sum(dim=-2) - x[..., :M].relu().sum(dim=-1)
    active = (before > 0).to(W.dtype) * residual.unsqueeze(-2)
    return residual.square().mean(dim=-1), active @ x * (2 / x.shape[-2])


def _norms_and_directions(
    rows: Float[np.ndarray, "*runs m d"],
) -> tuple[Float[np.ndarray, "*runs m"], Float[np.ndarray, "*runs m d"]]:
    """|w_i| and w_i / |w_i|, which is zero for a row of zeros."""
    norms = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    return norms, rows / np.maximum(norms, SHORTEST)[..., None]


def _clipped(cosines: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The cosines, in place, without what rounding adds beyond -1 and 1."""
    return np.clip(cosines, -1, 1, out=cosines)


def _folded_angle_and_sine(
    cosines: Float[np.ndarray, "*shape"],
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """pi - theta and sin theta. Writing the sine as a product keeps its digits near theta = 0 and pi."""
    sine = 1 - cosines
    sine *= 1 + cosines
    folded = np.negative(cosines)
    return np.arccos(folded, out=folded), np.sqrt(sine, out=sine)


def _square_of_axes(coefficients: Float[np.ndarray, "*runs M"], d: int) -> Float[np.ndarray, "*runs"]:
    """E (sum_j c_j relu(e_j . x))^2 = kappa(1) sum_j c_j^2 + kappa(0) sum_{j != k} c_j c_k."""
    squares = np.square(coefficients).sum(axis=-1)
    return (math.pi * squares + coefficients.sum(axis=-1) ** 2 - squares) / (2 * math.pi * d)
