"""Descents along gradient flow, in steps of a share of the weights' norm, as weights theta = theta_0 + d theta.

Near a saddle gradients are tiny and grow by orders of magnitude. The flow's path does not depend on their size: a step
is a share of |theta|, whatever the gradient, and the time that it takes is summed up. Steps are shortened where the
path turns, and so where the loss is stiff. Who follows the flow stops it by an event.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Slope = Callable[[list[Tensor]], tuple[Sequence[Tensor], Any]]
"""The loss's gradient at weights, and whatever else it saw there (the loss)."""

CHANGE = 0.3
"""By how much a step's gradient may turn (radians) and grow (logarithm) before steps are shortened."""
FIRST = 0.01
"""The first step over the longest: nothing is known of the path yet."""


@dataclass(frozen=True)
class Place:
    """Where a descent is.

    W: the weights.
    moved: their difference from the start, summed apart: it resolves what float32 rounds away at W.
    clock: integral of |theta|^power over the flow's time.
    gradients: how many were computed.
    slope: norm of the gradient there.
    seen: what the gradient's function saw there.
    """

    W: list[Tensor]
    moved: list[Tensor]
    clock: float
    gradients: int
    slope: float
    seen: Any


@torch.no_grad()
def follow_flow(
    start: Sequence[Tensor], slope: Slope, h: float, *, power: float = 0.0, heun: bool = True, rate: float = 0.0
) -> Iterator[Place]:
    """The places on the way of theta <- theta - h |theta| g / |g|, the start first, without an end.

    Args:
        start: the weights of a network.
        h: length of a step as a share of |theta|, at most.
        power: of |theta| in the clock. A rate of lr / |theta|^power takes clock / lr steps to the same place; 0 gives
            the time of gradient flow.
        heun: whether a step takes two gradients and errs by h^3, or one and errs by h^2.
        rate: no step is shortened below that of this rate; at a kink the path turns however short a step is.

    Yields:
        Places, each with weights of its own.

    Raises:
        FloatingPointError: a gradient vanishes or is not finite, so that no direction is left.
    """
    W, moved = list(start), [torch.zeros_like(W_l) for W_l in start]
    clock, count, share = 0.0, 0, FIRST * h
    last: tuple[list[Tensor], float] | None = None
    while True:
        gradient, seen = slope(W)
        count += 1
        norm, (unit, size) = norm_of(W), _unit(gradient)
        pace = norm ** (power + 1) / size
        if last is not None:
            clock += share * _mean_of_exponential(last[1], pace)
            share = min(h, max(share * _factor(unit, pace, *last), rate * size / norm))
        last = unit, pace
        yield Place(W, moved, clock, count, size, seen)
        step = [norm * u for u in unit]
        if heun:
            ahead = [W_l - share * d for W_l, d in zip(W, step, strict=True)]
            after, _ = slope(ahead)
            count += 1
            far, (end, _) = norm_of(ahead), _unit(after)
            step = [(d + far * u) / 2 for d, u in zip(step, end, strict=True)]
        moved = [m - share * d for m, d in zip(moved, step, strict=True)]
        W = [W_0 + m for W_0, m in zip(start, moved, strict=True)]


def _factor(unit: list[Tensor], pace: float, before: list[Tensor], pace_before: float) -> float:
    """By how much the next step may be longer than the last, over which direction and pace have changed so."""
    turned = norm_of([a - b for a, b in zip(unit, before, strict=True)])
    changed = max(turned, abs(math.log(pace / pace_before)), 1e-12)
    return min(max(CHANGE / changed, 0.5), 1.5)


def _mean_of_exponential(start: float, end: float) -> float:
    """Mean between two places of what changes exponentially."""
    ratio = math.log(end / start)
    return start * math.expm1(ratio) / ratio if abs(ratio) > 1e-9 else start


def norm_of(tensors: Sequence[Tensor]) -> float:
    """Root of the sum of all squared entries, in float64: squares of tiny ones vanish in float32."""
    return float(torch.stack([torch.linalg.vector_norm(each, dtype=torch.float64) for each in tensors]).norm())


def _unit(gradient: Sequence[Tensor]) -> tuple[list[Tensor], float]:
    size = norm_of(gradient)
    if not 0 < size < float("inf"):
        raise FloatingPointError(f"The gradient's norm is {size}: there is no direction to follow.")
    return [g / size for g in gradient], size
