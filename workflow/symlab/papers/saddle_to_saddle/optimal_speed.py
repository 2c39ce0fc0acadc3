"""Escape directions by projected gradient descent of the localized loss on the sphere, many runs at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.papers.saddle_to_saddle.chain import chain_gradient, run_layers, squared_norm
from symlab.papers.saddle_to_saddle.localized_loss import to_sphere

STAGES = ((0.5, 1.0), (0.3, 0.1), (0.2, 0.01))
"""Shares of the steps, and the step size in them as a multiple of the first."""
STEP_SIZE = 0.05
SMALL = 0.7
"""A gradient that is shorter counts as this long: random weights of great depth hardly have one."""
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


def random_directions(runs: int, sizes: Sequence[int], generator: torch.Generator) -> list[Tensor]:
    """Normal weights of networks of layer sizes n_0 .. n_L, scaled to the sphere of squared norm L."""
    shapes = [(out, into) for into, out in pairwise(sizes)]
    theta = torch.randn(runs, sum(a * b for a, b in shapes), generator=generator, dtype=torch.float64)
    parts = theta.split([a * b for a, b in shapes], dim=1)
    return to_sphere([part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True)])


def descend(
    W: Sequence[Float[Tensor, "r out in"]],
    X: Float[Tensor, "d n"],
    G: Float[Tensor, "k n"],
    steps: int,
    record: int = 50,
) -> Runs:
    """Minimise L0 over the sphere of squared norm L from each run's weights: theta <- sqrt(L) (theta - eta grad) / |.|.

    The rate eta falls in three stages, without which the iterates chatter at the kinks of relu.
    """
    W, L = list(W), len(W)
    recorded = sorted({round(place) for place in torch.linspace(0, steps, record + 1).tolist()})
    ends = [round(share * steps) for share in accumulate(share for share, _ in STAGES)]
    last, curves = steps - round(STILL * steps), []
    summed, moving = [torch.zeros_like(W_l) for W_l in W], 0.0
    for step in range(steps + 1):
        Z, inner = run_layers(W, X)
        if step in recorded:
            curves.append(-(Z[-1] * G).sum((-2, -1)))
        if step == steps:
            break
        gradient = chain_gradient(W, Z, inner, G)
        rate = STEP_SIZE * next(factor for end, (_, factor) in zip(ends, STAGES, strict=True) if step < end)
        if step >= last:
            radial = torch.stack([(W_l * g).sum((1, 2)) for W_l, g in zip(W, gradient, strict=True)]).sum(0) / L
            for total, W_l, g in zip(summed, W, gradient, strict=True):
                total += rate * (g - radial[:, None, None] * W_l)
            moving += rate
        factor = rate * (SMALL / squared_norm(gradient).sqrt().clamp_min(1e-300)).clamp_min(1)[:, None, None]
        W = to_sphere([W_l - factor * g for W_l, g in zip(W, gradient, strict=True)])
    return Runs(W, curves[-1], torch.stack(curves, 1), recorded, squared_norm(summed).sqrt() / moving)
