"""Escape directions by projected gradient descent of the localized loss on the sphere, many runs and widths at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

STAGES = ((0.5, 1.0), (0.3, 0.1), (0.2, 0.01))
"""Shares of the steps, and the step size in them as a multiple of the first."""
STEP_SIZE = 0.05
STILL = 0.1
"""The share of the steps at the end over which a run's mean projected gradient is taken."""


@dataclass(frozen=True)
class Runs:
    """What descents from random weights have come to.

    W: the weights at the end, on the sphere of squared norm L, each [runs, n_l, n_(l-1)].
    speeds: -L0 at the end [runs].
    curves: -L0 at each step of ``recorded`` [runs, recorded].
    slope: norm of the projected gradient, averaged as a vector over the last steps [runs]. At a kink single gradients
        do not vanish where their mean does.
    """

    W: list[Tensor]
    speeds: Float[Tensor, " r"]
    curves: Float[Tensor, "r t"]
    recorded: list[int]
    slope: Float[Tensor, " r"]


def random_directions(
    runs: int, sizes: list[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "r p"]:
    """Normal weights of networks of layer sizes n_0 .. n_L, scaled to the sphere of squared norm L, in rows."""
    numbers = sum(a * b for a, b in pairwise(sizes))
    theta = torch.randn(runs, numbers, generator=generator, dtype=dtype)
    return theta * (math.sqrt(len(sizes) - 1) / theta.norm(dim=1, keepdim=True))


def descend(
    theta: Float[Tensor, "r p"],
    sizes: list[int],
    X: Float[Tensor, "d n"],
    G: Float[Tensor, "k n"],
    steps: int,
    record: int = 50,
) -> Runs:
    """Minimise L0 over the sphere of squared norm L from each row: theta <- sqrt(L) (theta - eta grad) / |.|.

    The rate eta falls in three stages, without which the iterates chatter at the kinks of relu.
    """
    theta = theta.clone()
    gradient = torch.empty_like(theta)
    W, dW = _layers(theta, sizes), _layers(gradient, sizes)
    L = len(W)
    recorded = sorted({round(place) for place in torch.linspace(0, steps, record + 1).tolist()})
    curves = theta.new_empty(len(theta), len(recorded))
    last = steps - round(STILL * steps)
    summed = torch.zeros_like(theta)
    moving = 0.0
    ends = [round(sum(share for share, _ in STAGES[: place + 1]) * steps) for place in range(len(STAGES))]
    inputs = X.expand(len(theta), *X.shape)
    for step in range(steps + 1):
        inner = [inputs]
        for W_l in W[:-1]:
            inner.append(torch.bmm(W_l, inner[-1]).clamp_min_(0))
        if step in recorded:
            curves[:, recorded.index(step)] = -(torch.bmm(W[-1], inner[-1]) * G).sum((1, 2))
        if step == steps:
            break
        delta = G.expand(len(theta), *G.shape)
        for place in reversed(range(L)):
            torch.bmm(delta, inner[place].mT, out=dW[place])
            if place:
                # relu is active exactly where it gave something.
                delta = torch.bmm(W[place].mT, delta).mul_(inner[place].sign())
        rate = STEP_SIZE * next(factor for end, (_, factor) in zip(ends, STAGES, strict=True) if step < end)
        if step >= last:
            radial = (theta * gradient).sum(1, keepdim=True) / L
            summed += rate * (gradient - radial * theta)
            moving += rate
        theta.sub_(gradient, alpha=rate)
        theta.mul_(math.sqrt(L) / theta.norm(dim=1, keepdim=True))
    return Runs([W_l.clone() for W_l in W], curves[:, -1], curves, recorded, summed.norm(dim=1) / moving)


def _layers(theta: Float[Tensor, "r p"], sizes: list[int]) -> list[Tensor]:
    """Views of the rows as W_1 .. W_L."""
    shapes = [(out, into) for into, out in pairwise(sizes)]
    parts = theta.split([a * b for a, b in shapes], dim=1)
    return [part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True)]
