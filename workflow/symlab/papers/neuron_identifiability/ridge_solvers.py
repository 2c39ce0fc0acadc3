"""Preconditioned L-BFGS on the relaxed realization cost's objectives of many pairs of neurons at once."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symlab.papers.neuron_identifiability.ridge_problems import RidgeProblems

MEMORY = 8
MAX_ITERATIONS = 300
MAX_TRIALS = 20
SUFFICIENT_DECREASE = 1e-4

# Step sizes whose curvature is all rounding say nothing about J.
CURVATURE_TOLERANCE = 1e-8

# Problems that are done cost as much as others until they are taken out, and taking them out copies the others.
COMPACT_BELOW = 0.75

Preconditioner = Callable[[Float[Tensor, "q d"], Int[Tensor, " q"]], Float[Tensor, "q d"]]
"""Applies an approximate inverse of J's Hessian to the vectors of some problems: (vectors, which problems)."""

History = list[tuple[Tensor, Tensor, Tensor]]
"""Steps s [q, d], changes y of the gradient [q, d] and 1 / (s . y) [q], 0 where the pair is not to be used."""


def lbfgs(
    problems: RidgeProblems, start: Float[Tensor, "p d"], precondition: Preconditioner, tolerance: float
) -> Float[Tensor, "p d"]:
    """Minimises each J from ``start`` by L-BFGS whose initial inverse Hessian is ``precondition``.

    A step's length is tried at 1 and shortened until J decreases enough (Armijo). Preactivations are affine in w, so
    an iteration costs two matrix products however many lengths are tried. A problem is done, and leaves the batch,
    where a step promises to lower J by less than about ``tolerance`` / 2 of it.
    """
    found = start.clone()
    which = torch.arange(len(start), device=start.device)
    w, Z = start, problems.preactivations(start)
    residuals = problems.residuals(Z)
    J, gradient = problems.value(residuals, w), problems.data_gradient(residuals, Z) + 2 * w
    # Where J goes to 0, a share of it is no end; below this floor, products of steps and gradients would underflow.
    floor = torch.finfo(w.dtype).tiny ** 0.5
    history: History = []
    moving = torch.ones_like(which, dtype=torch.bool)
    for _ in range(MAX_ITERATIONS):
        direction = _direction(gradient, history, precondition, which)
        slope = (gradient * direction).sum(dim=1).double()
        moving = moving & (-slope > tolerance * J + floor)
        if not bool(moving.any()):
            break
        if float(moving.float().mean()) < COMPACT_BELOW:
            found[which] = w
            problems, which = problems.select(moving), which[moving]
            w, Z, J, gradient, direction, slope = (part[moving] for part in (w, Z, J, gradient, direction, slope))
            history = [(s[moving], y[moving], inverse[moving]) for s, y, inverse in history]
            moving = moving[moving]
        change = problems.along(direction)
        length, J, residuals = _line_search(problems, w, direction, Z, change, J, slope, moving)
        moving = moving & (length > 0)
        step = length[:, None].to(w.dtype) * direction
        w = w + step
        Z = Z.addcmul_(change, length[:, None].to(w.dtype))
        before, gradient = gradient, problems.data_gradient(residuals, Z) + 2 * w
        history = [*history, _pair(step, gradient - before)][-MEMORY:]
    found[which] = w
    return found


def _pair(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What L-BFGS remembers of a step; a curvature that is rounding is not used."""
    curvature = (s * y).sum(dim=1)
    enough = CURVATURE_TOLERANCE * torch.linalg.vector_norm(s, dim=1) * torch.linalg.vector_norm(y, dim=1)
    return s, y, torch.where(curvature > enough, 1 / curvature, 0.0)


def _direction(gradient: Tensor, history: History, precondition: Preconditioner, which: Tensor) -> Tensor:
    """-H g by the two-loop recursion."""
    q = -gradient
    weights = []
    for s, y, inverse in reversed(history):
        weight = inverse * (s * q).sum(dim=1)
        q = q - weight[:, None] * y
        weights.append(weight)
    r = precondition(q, which)
    for (s, y, inverse), weight in zip(history, reversed(weights), strict=True):
        r = r + (weight - inverse * (y * r).sum(dim=1))[:, None] * s
    return r


def _line_search(
    problems: RidgeProblems,
    w: Tensor,
    direction: Tensor,
    Z: Tensor,
    change: Tensor,
    J: Tensor,
    slope: Tensor,
    moving: Bool[Tensor, " q"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Step lengths, J and residuals after the step; length 0 where no length tried decreases J enough."""
    length = moving.double()
    residuals = problems.residuals(torch.addcmul(Z, change, length[:, None].to(Z.dtype)))
    after = problems.value(residuals, torch.addcmul(w, direction, length[:, None].to(w.dtype)))
    for trial in range(MAX_TRIALS):
        # Not ">": an overflow fails.
        failed = moving & ~(after <= J + SUFFICIENT_DECREASE * length * slope)
        if not bool(failed.any()):
            break
        rows = failed.nonzero().squeeze(1)
        if trial == MAX_TRIALS - 1:
            length[rows] = 0
        else:
            t = length[rows]
            vertex = -slope[rows] * t.square() / (2 * (after[rows] - J[rows] - slope[rows] * t))
            length[rows] = torch.clamp(vertex.nan_to_num(), 0.1 * t, 0.5 * t)
        part, t = problems.select(rows), length[rows, None].to(w.dtype)
        residuals[rows] = part.residuals(torch.addcmul(Z[rows], change[rows], t))
        after[rows] = part.value(residuals[rows], torch.addcmul(w[rows], direction[rows], t))
    return length, after, residuals
