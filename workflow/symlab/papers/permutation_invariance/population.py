"""Networks that descend a loss over the whole distribution of inputs, by its closed form or on fresh inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from symlab.errors import UserError
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.objective import Replica, Replicas, Stack
from symlab.training.settings import Recipe

LossAndGradient = tuple[Float64[Tensor, " r"], Float64[Tensor, "r m d"]]
# Counts the steps of each replica beside its weights.
STEPS = "steps"


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
    def validates(self) -> bool:
        """There are no held-out samples."""
        return False

    @property
    def device(self) -> torch.device:
        """The CPU: these networks are far too small for a GPU to gain."""
        return torch.device("cpu")

    def prepared(self, recipe: Recipe, device: torch.device, key: tuple[str, str]) -> Population:
        """Itself.

        Raises:
            UserError: the recipe asks for more than plain gradient steps, an epoch of them at once.
        """
        plain = Recipe(
            optimizer="sgd", momentum=0, weight_decay=0, lr=recipe.lr, epochs=recipe.epochs, batch_size=self.steps
        )
        if recipe != plain:
            raise UserError(f"study {key[0]}, variant {key[1]}: a population's loss is descended by plain steps alone.")
        return self

    def check(self, module: nn.Module, recipe: Recipe, key: tuple[str, str]) -> None:
        """Nothing to object to: batches are drawn as large as they must be."""

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """All replicas at once: those that have stopped leave the stack anyway."""
        return replicas, None

    def stack(self, replicas: Replicas) -> OnPopulation:
        """Replicas of one weight matrix."""
        return OnPopulation(self, replicas.W)

    def batches(
        self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """The fresh inputs of all steps of an epoch at once [r, s, b, d]; gradient descent needs none [r, s]."""
        if self.draw is None:
            return iter([(torch.zeros(1).expand(len(members), self.steps),)])
        generators = [torch_generator(*key, "inputs", member.mask_seed, member.seed, epoch) for member in members]
        return iter([(torch.stack([self.draw(self.steps, generator) for generator in generators]),)])

    def validate(self, stack: Stack, R: int) -> tuple[list[float], list[float]]:
        """NaN: there are no held-out samples."""
        return [float("nan")] * R, [float("nan")] * R


class OnPopulation:
    """A stack of replicas of one weight matrix that descend a population's loss by plain gradient steps, in float64.

    Replicas that have stopped leave the stack at the end of their epoch, so that the others' steps get cheaper.
    """

    def __init__(self, problem: Population, W: State):
        (self.name,) = W
        self.problem = problem
        self.W = W[self.name].double().clone()
        self.steps = torch.zeros(len(self.W), dtype=torch.int64)
        self.going = torch.ones(len(self.W), dtype=torch.bool)
        self.loss = torch.full((len(self.W),), torch.nan, dtype=torch.float64)

    @torch.no_grad()
    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Float64[Tensor, " r"], Int64[Tensor, " r"]]:
        """Take an epoch's steps, whose inputs are given; the loss of each replica before its last one."""
        (batch,) = inputs
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

    def state(self) -> State:
        """Weights and steps taken."""
        return {self.name: self.W.clone(), STEPS: self.steps.clone()}

    def live(self) -> State:
        """Everything that steps change."""
        return {self.name: self.W, STEPS: self.steps, "going": self.going, "loss": self.loss}
