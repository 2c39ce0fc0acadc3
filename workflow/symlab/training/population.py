"""Networks that descend a loss over the whole distribution of inputs, by its closed form or on fresh inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.settings import Recipe

LossAndGradient = tuple[Float64[Tensor, " r"], Float64[Tensor, "r m d"]]
# Counts the steps of each replica beside its weights.
STEPS = "steps"


class Seeded(Protocol):
    """A replica's seeds."""

    @property
    def mask_seed(self) -> int: ...

    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Population:
    """A problem without a data set: networks of one weight matrix [m, d] each, stacked to W [r, m, d].

    Each replica stops by itself when its loss falls below ``stop_below``, or when it diverges.

    loss_and_gradient: of the loss over the distribution.
    steps: gradient steps that count as an epoch.
    stop_below: a replica with a smaller loss has converged.
    stop_above: a replica with a larger loss, or one that is no number, has diverged and stays where it is.
    draw: fresh inputs [steps, b, d] from a generator, for online SGD; None for gradient descent on the loss itself.
    loss_and_gradient_on: of the mean loss over inputs x [r, b, d].
    """

    loss_and_gradient: Callable[[Float64[Tensor, "r m d"]], LossAndGradient]
    steps: int
    stop_below: float
    stop_above: float
    draw: Callable[[int, torch.Generator], Float64[Tensor, "s b d"]] | None = None
    loss_and_gradient_on: Callable[[Float64[Tensor, "r m d"], Float64[Tensor, "r b d"]], LossAndGradient] | None = None
    task: str = "regression"

    @property
    def n(self) -> int:
        """Steps an epoch, which stand for samples: loss and time of an epoch are means over them."""
        return self.steps

    @property
    def n_val(self) -> int:
        """There are no validation data."""
        return 0

    @property
    def device(self) -> torch.device:
        """The CPU: these networks are far too small for a GPU to gain."""
        return torch.device("cpu")

    def inputs(self, members: Sequence[Seeded], key: tuple[str, str], epoch: int) -> Tensor:
        """The fresh inputs of an epoch's steps [r, s, b, d]; gradient descent needs none [r, s]."""
        if self.draw is None:
            return torch.zeros(1).expand(len(members), self.steps)
        generators = [torch_generator(*key, "inputs", member.mask_seed, member.seed, epoch) for member in members]
        return torch.stack([self.draw(self.steps, generator) for generator in generators])


class OnPopulation:
    """A stack of replicas of one weight matrix that descend a population's loss by plain gradient steps, in float64.

    Replicas that have stopped leave the stack at the end of their epoch, so that the others' steps get cheaper.
    """

    def __init__(self, problem: Population, W: State, recipe: Recipe):
        assert recipe.optimizer == "sgd" and recipe.momentum == 0 and recipe.weight_decay == 0
        (self.name,) = W
        self.problem = problem
        self.W = W[self.name].double().clone()
        self.steps = torch.zeros(len(self.W), dtype=torch.int64)
        self.going = torch.ones(len(self.W), dtype=torch.bool)
        self.loss = torch.full((len(self.W),), torch.nan, dtype=torch.float64)

    @torch.no_grad()
    def step(
        self, lr: float | Tensor, batch: Tensor, *views: Tensor
    ) -> tuple[Float64[Tensor, " r"], Int64[Tensor, " r"]]:
        """Take an epoch's steps, whose inputs ``batch`` holds; the loss of each replica before its last one."""
        hits = torch.zeros_like(self.steps)
        members = self.going.nonzero().squeeze(1)
        if len(members) == 0:
            return self.loss, hits
        W, going = self.W[members], torch.ones(len(members), dtype=torch.bool)
        taken, last = torch.zeros_like(members), self.loss[members]
        for number in range(batch.shape[1]):
            loss, gradient = self._loss_and_gradient(W, batch, members, number)
            going &= (loss >= self.problem.stop_below) & (loss <= self.problem.stop_above)
            last = torch.where(loss.isfinite(), loss, last)
            if not going.any():
                break
            # A stopped replica keeps its bits: its gradient, which may not be finite, is replaced and not scaled.
            W = W - lr * torch.where(going[:, None, None], gradient, 0)
            taken += going
        self.W[members], self.loss[members] = W, last
        self.steps[members] += taken
        self.going[members] = going
        return self.loss, hits

    def _loss_and_gradient(self, W: Tensor, inputs: Tensor, members: Tensor, number: int) -> LossAndGradient:
        if self.problem.loss_and_gradient_on is None:
            return self.problem.loss_and_gradient(W)
        loss, gradient = self.problem.loss_and_gradient_on(W, inputs[members, number])
        # A batch's loss says little about convergence; the population's is looked at once an epoch.
        if number == 0:
            return self.problem.loss_and_gradient(W)[0], gradient
        return loss.clamp(min=self.problem.stop_below), gradient

    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("a population has no validation data")

    def state(self) -> State:
        """Weights and steps taken."""
        return {self.name: self.W.clone(), STEPS: self.steps.clone()}

    def live(self) -> State:
        """Everything that steps change."""
        return {self.name: self.W, STEPS: self.steps, "going": self.going, "loss": self.loss}
