"""L-BFGS on several separate problems at once: how deterministic objectives are minimised to the end.

The line search is that of Lewis and Overton (2013), by bisection for the weak Wolfe conditions, which asks for no
second derivative: relu has none at its kinks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Evaluate = Callable[[Float[Tensor, "r p"]], tuple[Float[Tensor, " r"], Float[Tensor, "r p"]]]
"""Objective and gradient of each problem at a point."""
DECREASE, CURVATURE = 1e-4, 0.9
"""Share of the slope that a step has to fall by, and that may be left at its end."""
TRIALS = 25


class LBFGS:
    """R problems of p numbers each, that share evaluations and nothing else.

    Args:
        theta: where they begin.
        memory: pairs of steps and changes of the gradient that are kept.
        tolerance: a problem is solved where its gradient's norm is at most so many times its objective.
    """

    def __init__(self, evaluate: Evaluate, theta: Float[Tensor, "r p"], memory: int, tolerance: float):
        self.evaluate, self.tolerance = evaluate, tolerance
        self.theta = theta.clone()
        self.value, self.gradient = (each.clone() for each in evaluate(self.theta))
        R = len(theta)
        self.steps, self.changes = (theta.new_zeros(memory, *theta.shape) for _ in range(2))
        self.inverse = theta.new_zeros(memory, R)
        """1 / (step . change) of each pair; 0 for none."""
        self.scale = 1 / self._norm(self.gradient).clamp_min(1e-300)
        """Of the first guess of the inverse Hessian."""
        self.stuck = torch.zeros(R, dtype=torch.bool, device=theta.device)
        self.count = torch.zeros((), dtype=torch.int64)
        """Iterations of all together."""
        self.iterations, self.evaluations = (torch.zeros(R, dtype=torch.int64, device=theta.device) for _ in range(2))
        """Of each problem, while it is not solved."""

    @property
    def solved(self) -> Bool[Tensor, " r"]:
        """Problems that have reached the tolerance, or on which no step is found that falls."""
        return self.stuck | (self._norm(self.gradient) <= self.tolerance * self.value.abs())

    def iterate(self) -> None:
        """Take a step on each problem that is not solved."""
        busy = ~self.solved
        direction = self._direction()
        slope = torch.linalg.vecdot(self.gradient, direction)
        uphill = busy & (slope >= 0)
        self._forget(uphill)
        direction = torch.where(uphill[:, None], -self.scale[:, None] * self.gradient, direction)
        slope = torch.linalg.vecdot(self.gradient, direction)
        moved, theta, value, gradient = self._search(direction, slope, busy)
        # Without a step that falls a problem tries steepest descent next, and then no more.
        remembers = (self.inverse != 0).any(dim=0)
        self.stuck |= busy & ~moved & ~remembers
        self._forget(busy & ~moved)
        step, change = theta - self.theta, gradient - self.gradient
        product = torch.linalg.vecdot(step, change)
        useful = moved & (product > 1e-12 * torch.linalg.vecdot(step, step))
        place = int(self.count) % len(self.inverse)
        self.steps[place], self.changes[place] = step, change
        self.inverse[place] = torch.where(useful, 1 / product, 0.0)
        self.scale = torch.where(useful, product / torch.linalg.vecdot(change, change), self.scale)
        self.theta, self.value, self.gradient = theta, value, gradient
        self.count += 1
        self.iterations += busy

    def live(self) -> dict[str, Tensor]:
        """All that iterations change, themselves and not copies."""
        tensors = ("theta", "value", "gradient", "steps", "changes", "inverse", "scale", "stuck")
        names = (*tensors, "count", "iterations", "evaluations")
        return {f"lbfgs/{name}": getattr(self, name) for name in names}

    def _forget(self, where: Bool[Tensor, " r"]) -> None:
        self.inverse = torch.where(where, 0.0, self.inverse)
        self.scale = torch.where(where, 1 / self._norm(self.gradient).clamp_min(1e-300), self.scale)

    def _direction(self) -> Float[Tensor, "r p"]:
        """By the two loops of Nocedal (1980)."""
        count, memory = int(self.count), len(self.inverse)
        newest_first = [place % memory for place in reversed(range(max(count - memory, 0), count))]
        q, shares = self.gradient.clone(), {}
        for place in newest_first:
            shares[place] = self.inverse[place] * torch.linalg.vecdot(self.steps[place], q)
            q.addcmul_(self.changes[place], shares[place][:, None], value=-1)
        q *= self.scale[:, None]
        for place in reversed(newest_first):
            share = shares[place] - self.inverse[place] * torch.linalg.vecdot(self.changes[place], q)
            q.addcmul_(self.steps[place], share[:, None])
        return -q

    def _search(
        self, direction: Tensor, slope: Tensor, busy: Tensor
    ) -> tuple[Bool[Tensor, " r"], Tensor, Tensor, Tensor]:
        """Which problems moved, and where all are then; of steps that only fall the longest is taken."""
        t, low, high = torch.ones_like(slope), torch.zeros_like(slope), torch.full_like(slope, torch.inf)
        moved, open_ = torch.zeros_like(busy), busy.clone()
        theta, value, gradient = self.theta, self.value, self.gradient
        for _ in range(TRIALS):
            at = torch.where(open_[:, None], self.theta + t[:, None] * direction, theta)
            tried, slopes = self.evaluate(at)
            self.evaluations += open_
            falls = open_ & (tried <= self.value + DECREASE * t * slope)
            flat = torch.linalg.vecdot(slopes, direction) >= CURVATURE * slope
            theta = torch.where(falls[:, None], at, theta)
            value, gradient = torch.where(falls, tried, value), torch.where(falls[:, None], slopes, gradient)
            moved |= falls
            low, high = torch.where(falls, t, low), torch.where(open_ & ~falls, t, high)
            open_ &= ~(falls & flat)
            if not open_.any():
                break
            t = torch.where(high.isfinite(), (low + high) / 2, 2 * t)
        return moved, theta, value, gradient

    @staticmethod
    def _norm(tensor: Tensor) -> Tensor:
        return torch.linalg.vector_norm(tensor, dim=1)
