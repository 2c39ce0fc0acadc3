"""L-BFGS on several separate problems at once: how deterministic objectives are minimised to the end.

The line search is that of Lewis and Overton (2013), by bisection for the weak Wolfe conditions, which asks for no
second derivative: relu has none at its kinks.
"""

import math
from collections.abc import Callable
from functools import partial

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
        R, p = theta.shape
        self.memory = memory
        self.pairs = theta.new_zeros(R, 2 * memory, p)
        """Steps, and below them the changes of the gradient; of each problem the newest takes the oldest's place."""
        self.crossed, self.squared = (theta.new_zeros(R, memory, memory) for _ in range(2))
        """Products of each step with each change that is not older, and of changes with each other."""
        self.along = theta.new_zeros(R, 2 * memory)
        """Products of the gradient with the pairs."""
        self.useful = torch.zeros(R, memory, dtype=torch.bool, device=theta.device)
        self.scale = self._steepest()
        """Of the first guess of the inverse Hessian."""
        self.stuck = torch.zeros(R, dtype=torch.bool, device=theta.device)
        self.iterations = torch.zeros(R, dtype=torch.int64, device=theta.device)
        self.evaluations = torch.ones_like(self.iterations)
        """Of each problem, while it is not solved; where it begins is evaluated too."""

    @property
    def solved(self) -> Bool[Tensor, " r"]:
        """Problems that have reached the tolerance, or on which no step is found that falls."""
        return self.stuck | (self._norm(self.gradient) <= self.tolerance * self.value.abs())

    def busy(self, until: float) -> Bool[Tensor, " r"]:
        """Problems that are not solved and have had fewer iterations."""
        return ~self.solved & (self.iterations < until)

    def iterate(self, until: float = math.inf) -> None:
        """Take a step on each busy problem."""
        busy = self.busy(until)
        direction = self._direction()
        slope = torch.linalg.vecdot(self.gradient, direction)
        if (uphill := busy & (slope >= 0)).any():
            self._forget(uphill)
            direction = torch.where(uphill[:, None], -self.scale[:, None] * self.gradient, direction)
            slope = torch.linalg.vecdot(self.gradient, direction)
        moved, theta, value, gradient = self._search(direction, slope, busy)
        if self.theta.dtype == torch.float32:
            # Rounding hides what falls: the pairs are kept for float64. Else tens of trials would gain nothing.
            self.stuck |= busy & ~(value < self.value)
        else:
            # Without a step that falls a problem tries steepest descent next, and then no more.
            self.stuck |= busy & ~moved & ~self.useful.any(dim=1)
            self._forget(busy & ~moved)
        self._remember(theta - self.theta, gradient, busy, moved)
        self.theta, self.value, self.gradient = theta, value, gradient
        self.iterations += busy

    def live(self) -> dict[str, Tensor]:
        """All that iterations change, themselves and not copies."""
        tensors = ("theta", "value", "gradient", "pairs", "crossed", "squared", "along")
        names = (*tensors, "useful", "scale", "stuck", "iterations", "evaluations")
        return {f"lbfgs/{name}": getattr(self, name) for name in names}

    def widen(self) -> None:
        """Go on in float64, in which the objective is evaluated from now on; where no step fell one is tried again."""
        for name, tensor in self.live().items():
            if tensor.is_floating_point():
                setattr(self, name.removeprefix("lbfgs/"), tensor.double())
        self.value, self.gradient = (each.clone() for each in self.evaluate(self.theta))
        self.along = self._products(self.gradient)
        self.stuck = torch.zeros_like(self.stuck)
        self.evaluations += 1

    def _forget(self, where: Bool[Tensor, " r"]) -> None:
        self.useful &= ~where[:, None]
        self.scale = torch.where(where, self._steepest(), self.scale)

    def _steepest(self) -> Float[Tensor, " r"]:
        """The scale of a first step of length 1."""
        return 1 / self._norm(self.gradient).clamp_min(torch.finfo(self.gradient.dtype).tiny)

    def _remember(
        self, step: Float[Tensor, "r p"], gradient: Float[Tensor, "r p"], busy: Tensor, moved: Tensor
    ) -> None:
        change, before = gradient - self.gradient, self.along
        rows = busy.nonzero()[:, 0]
        at = self.iterations[rows] % self.memory
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            self.pairs[row, place], self.pairs[row, self.memory + place] = step[row], change[row]
        self.along = self._products(gradient)
        crossed, squared = (self.along - before)[rows].split(self.memory, dim=1)
        places = torch.arange(len(rows), device=rows.device), at
        crossed[places], squared[places] = (torch.linalg.vecdot(each, change)[rows] for each in (step, change))
        self.crossed[rows, :, at] = crossed
        self.squared[rows, :, at] = self.squared[rows, at] = squared
        useful = moved[rows] & (crossed[places] > 1e-12 * torch.linalg.vecdot(step, step)[rows])
        self.useful[rows, at] = useful
        self.scale[rows] = torch.where(useful, crossed[places] / squared[places], self.scale[rows])

    def _products(self, gradient: Float[Tensor, "r p"]) -> Float[Tensor, "r m"]:
        # One problem after the other: on a CPU batched products with a vector are slow.
        return torch.stack([pairs @ g for pairs, g in zip(self.pairs, gradient, strict=True)])

    def _direction(self) -> Float[Tensor, "r p"]:
        """What the two loops of Nocedal (1980) give, by products with all pairs at once.

        Theorem 2.2 of Byrd, Nocedal and Schnabel (1994). Of pairs that are of no use the rows are the identity's.
        """
        memory, scale = self.memory, self.scale[:, None]
        order = (self.iterations[:, None] + torch.arange(memory, device=self.theta.device)) % memory
        places = torch.arange(len(order), device=order.device)[:, None, None], order[:, :, None], order[:, None]
        useful, crossed, squared = self.useful.gather(1, order), self.crossed[places], self.squared[places]
        none = torch.diag_embed((~useful).to(crossed))
        upper = torch.where(useful[:, None] & useful[:, :, None], crossed, 0).triu() + none
        by_step, by_change = (each.gather(1, order) for each in self.along.split(memory, dim=1))
        of_change = _each(partial(torch.linalg.solve_triangular, upper=True), upper, (by_step * useful)[..., None])
        left = upper.diagonal(dim1=1, dim2=2)[..., None] * of_change
        left += scale[..., None] * (_each(torch.matmul, squared, of_change) - by_change[..., None])
        of_step = _each(partial(torch.linalg.solve_triangular, upper=False), upper.mT, left * useful[..., None])
        shares = scale.new_zeros(len(scale), 2 * memory)
        shares.scatter_(1, order, of_step[..., 0]).scatter_(1, memory + order, -scale * of_change[..., 0])
        combined = torch.stack([share @ pairs for share, pairs in zip(shares, self.pairs, strict=True)])
        return -torch.addcmul(combined, scale, self.gradient)

    def _search(
        self, direction: Tensor, slope: Tensor, busy: Tensor
    ) -> tuple[Bool[Tensor, " r"], Tensor, Tensor, Tensor]:
        """Which problems moved, and where all are then; of steps that only fall the longest is taken."""
        t, low, high = busy.to(slope), torch.zeros_like(slope), torch.full_like(slope, torch.inf)
        moved, open_ = torch.zeros_like(busy), busy.clone()
        theta, value, gradient = self.theta, self.value, self.gradient
        for _ in range(TRIALS):
            at = torch.addcmul(self.theta, t[:, None], direction)
            tried, slopes = self.evaluate(at)
            self.evaluations += open_
            falls = open_ & (tried <= self.value + DECREASE * t * slope)
            flat = torch.linalg.vecdot(slopes, direction) >= CURVATURE * slope
            if falls.all():
                theta, value, gradient = at, tried, slopes
            else:
                theta, gradient = (torch.where(falls[:, None], *e) for e in ((at, theta), (slopes, gradient)))
                value = torch.where(falls, tried, value)
            moved |= falls
            low, high = torch.where(falls, t, low), torch.where(open_ & ~falls, t, high)
            open_ &= ~(falls & flat)
            if not open_.any():
                break
            # Where the search has ended the point stays as it is.
            t = torch.where(open_, torch.where(high.isfinite(), (low + high) / 2, 2 * t), t)
        return moved, theta, value, gradient

    @staticmethod
    def _norm(tensor: Tensor) -> Tensor:
        return torch.linalg.vector_norm(tensor, dim=1)


def _each(function: Callable[..., Tensor], *of: Float[Tensor, "r ..."]) -> Float[Tensor, "r ..."]:
    """Of each problem by itself, in memory of its own: CPUs round by how many there are and where one lies."""
    return torch.stack([function(*(part.clone() for part in each)) for each in zip(*of, strict=True)])
