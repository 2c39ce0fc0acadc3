"""What replicas descend, and how a stack of them is asked to: the interfaces that the training loop knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.schemes import Scheme
from symlab.schemes.fixed_parts import FixedParts, State
from symlab.training.settings import Recipe


@dataclass(frozen=True, order=True)
class Replica:
    """One network of a variant: F and D come from ``mask_seed``, init and data order from ``seed``."""

    mask_seed: int
    seed: int


@dataclass(frozen=True)
class Replicas:
    """Networks that are about to take steps together; all tensors carry a leading replica axis, on the CPU.

    module: of one of them, in training mode; its own parameters mean nothing.
    W: initial values of every parameter, drawn as if nothing were fixed.
    buffers: of the module.
    fixed: F and D of every weight of a linear map or convolution.
    """

    members: Sequence[Replica]
    module: nn.Module
    W: State
    buffers: State
    fixed: FixedParts
    scheme: Scheme
    recipe: Recipe


class Stack(Protocol):
    """Networks that take one optimizer step together."""

    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Float[Tensor, " r"], Int[Tensor, " r"]]:
        """Train on what the objective's ``batches`` gives; loss and number of hits of each replica before the step."""

    def state(self) -> State:
        """Effective state with a leading replica axis, on the CPU."""

    def live(self) -> State:
        """All tensors that steps change, themselves and not copies: what is trained, buffers, the optimizer's state."""


class Objective(Protocol):
    """Samples, or a population's loss in closed form: what is descended, batch by batch."""

    @property
    def task(self) -> str:
        """``classification``, or ``regression``, which has no accuracy."""

    @property
    def n(self) -> int:
        """Samples an epoch, over which its loss and accuracy are means."""

    @property
    def validates(self) -> bool:
        """Whether there are held-out samples."""

    @property
    def device(self) -> torch.device:
        """Where steps are taken."""

    def prepared(self, recipe: Recipe, device: torch.device, key: tuple[str, str]) -> Objective:
        """The same on the device and in the arithmetic of training, with the recipe's augmentation.

        Raises:
            UserError: the recipe asks for what the objective does not allow.
        """

    def check(self, module: nn.Module, recipe: Recipe, key: tuple[str, str]) -> None:
        """Raise a UserError where the module cannot be trained in such batches."""

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """How many replicas take a step together, and what the log is told of it.

        Args:
            make: sets up a stack of so many networks.
            replicas: how many there are in all; only what is descended without rounding differences may look at it.
        """

    def stack(self, replicas: Replicas) -> Stack:
        """Set up networks on the device of training; a single one may be trained in another way than several."""

    def batches(
        self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """What the steps of an epoch are given; each tensor has a replica axis and one of samples."""

    def validate(self, stack: Stack, R: int) -> tuple[list[float], list[float]]:
        """Held-out loss and accuracy of each of R replicas; NaN where there is none."""


def accuracies(task: str, correct: Int[Tensor, " r"], n: int) -> list[float]:
    """Of each replica, from its hits among n samples; NaN for regression."""
    return [float("nan")] * len(correct) if task == "regression" else (correct / n).tolist()
