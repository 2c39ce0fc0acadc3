"""The end of training a deterministic objective: L-BFGS on all samples at once, at last in float64."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from symlab.errors import UserError
from symlab.schemes.fixed_parts import State
from symlab.training.lbfgs import LBFGS
from symlab.training.objective import Stack
from symlab.training.resume import restore
from symlab.training.settings import Polish


class Polisher:
    """A stack of networks minimised together, each for itself.

    Args:
        stack: it goes on in float64, after ``polish.single`` of the iterations.
        batch: all samples, as the objective's ``batches`` gives them.

    Raises:
        UserError: the stack's steps cannot be taken apart, or its weights are composed of others.
    """

    def __init__(self, stack: Stack, batch: Sequence[Tensor], polish: Polish):
        if not hasattr(stack, "descend"):
            raise UserError(f"recipe.polish does not go with {type(stack).__name__}, which has steps of its own.")
        self.stack = cast("Any", stack)
        if self.stack.composed or self.stack.pinned:
            raise UserError("recipe.polish moves weights as they are: it goes with the scheme standard alone.")
        self.polish, self.batch = polish, batch
        self.single = int(polish.single * polish.iterations)
        """Iterations in float32."""
        if self.single == 0:
            self.stack.widen()
        tensors = list(self.stack.trained.values())
        self.R = self.stack.optimizer.R
        theta = torch.cat([tensor.detach().reshape(self.R, -1) for tensor in tensors], dim=1)
        self.sizes = [tensor.numel() // self.R for tensor in tensors]
        self.strength = self._penalties(theta)
        self.lbfgs = LBFGS(self._evaluate, theta, polish.memory, polish.gradient)
        self.late = torch.full_like(self.lbfgs.value, torch.nan, dtype=torch.float64)
        """Objectives when a tenth of the iterations was left."""

    def _penalties(self, theta: Tensor) -> Tensor:
        """The penalties' strength at each weight: their gradient where weights are 1."""
        self._put(torch.ones_like(theta))
        for tensor in self.stack.trained.values():
            tensor.grad = torch.zeros_like(tensor)
        self.stack.optimizer.add_penalties()
        return self._taken()

    def widen(self) -> None:
        """Go on in float64."""
        self.single = 0
        self.stack.widen()
        self.strength = self._penalties(self.lbfgs.theta.double())
        self.lbfgs.widen()

    def iterate(self) -> None:
        """Take a step on each network; in float32 until each has had its share of them or found one that gains nothing.

        All go on in float64 then, each with the iterations that it has left: its result does not depend on the others.
        """
        before = self.lbfgs.iterations.clone()
        self.lbfgs.iterate(self.single or self.polish.iterations)
        if self.single and not self.lbfgs.busy(self.single).any():
            self.widen()
        reached, tenth = self.lbfgs.iterations, self.polish.iterations // 10
        now = (before < reached) & (reached == self.polish.iterations - tenth) & (tenth > 0)
        self.late = torch.where(now, self.lbfgs.value.double(), self.late)

    def _put(self, theta: Tensor) -> None:
        for tensor, part in zip(self.stack.trained.values(), theta.split(self.sizes, dim=1), strict=True):
            tensor.detach().copy_(part.reshape(tensor.shape))

    def _taken(self) -> Tensor:
        """The gradients, which are then None."""
        found = torch.cat([tensor.grad.reshape(self.R, -1) for tensor in self.stack.trained.values()], dim=1)
        for tensor in self.stack.trained.values():
            tensor.grad = None
        return found

    def _evaluate(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        self._put(theta)
        loss, _ = self.stack.descend(self.batch)
        pull = self.strength * theta
        return loss + torch.linalg.vecdot(pull, theta) / 2, self._taken().add_(pull)

    @property
    def ended(self) -> bool:
        """Whether no iteration is left."""
        return not self.single and not self.lbfgs.busy(self.polish.iterations).any()

    def end(self) -> dict[str, Tensor]:
        """Put the solution into the stack; of each replica the objective, and over it the gradient's norm and its fall.

        ``fall`` is that over the last tenth of the iterations; not a number where fewer than ten were asked for or
        needed. Costs are counted: ``iterations``, ``evaluations``.
        """
        self._put(self.lbfgs.theta)
        value = self.lbfgs.value.abs()
        return {
            "objective": self.lbfgs.value,
            "gradient": torch.linalg.vector_norm(self.lbfgs.gradient, dim=1) / value,
            "fall": (self.late - self.lbfgs.value) / value,
            "iterations": self.lbfgs.iterations,
            "evaluations": self.lbfgs.evaluations,
        }

    def live(self) -> State:
        """All tensors that iterations change."""
        return {**self.stack.live(), **self.lbfgs.live(), "late": self.late}

    def restore(self, live: State) -> None:
        """Go on from what a checkpoint holds."""
        if self.single and live["lbfgs/theta"].dtype == torch.float64:
            self.widen()
        restore(self.live(), live)
