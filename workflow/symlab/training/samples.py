"""Samples to train on: inputs and targets, and their loss."""

from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as functional
from jaxtyping import Bool, Float
from torch import Tensor

from symlab.training.augmentation import Augmentation

TENSORS = ("x_train", "y_train", "x_val", "y_val")


@dataclass(frozen=True)
class Samples:
    """Inputs [n, d] and targets [n] for training, and a held-out part that may be empty.

    image: (channels, height, width) of flattened images, None where inputs are no images.
    black: the normalised value of a black pixel for each channel.
    augmentation: of training images; set by ``TrainingData.prepared``.
    """

    x_train: Float[Tensor, "n d"]
    y_train: Tensor
    x_val: Float[Tensor, "v d"]
    y_val: Tensor
    task: str
    image: tuple[int, int, int] | None = None
    black: tuple[float, ...] = ()
    augmentation: Augmentation | None = None

    @property
    def n(self) -> int:
        """Training samples of an epoch."""
        return len(self.x_train)

    @property
    def validates(self) -> bool:
        """Whether there are held-out samples."""
        return len(self.x_val) > 0

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.x_train.device

    def widened(self) -> Self:
        """The same in float64."""
        tensors = {name: getattr(self, name) for name in TENSORS}
        return replace(self, **{name: t.double() for name, t in tensors.items() if t.is_floating_point()})

    def losses(self, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Float[Tensor, "*r"]:
        """Mean loss over a batch; another objective on samples has its own."""
        return losses(self.task, outputs, targets)

    def hits(self, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Bool[Tensor, "*r b"]:
        """Which samples are classified correctly."""
        return hits(self.task, outputs, targets)


def losses(task: str, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Float[Tensor, "*r"]:
    """Mean loss over the batch: cross-entropy for classification, squared error for regression.

    For ``one_hot``, classes taught by squared error, half the squared distance from the class's unit vector.
    """
    if task == "regression":
        return (outputs.squeeze(-1) - targets).square().mean(dim=-1)
    if task == "one_hot":
        unit = functional.one_hot(targets, outputs.shape[-1])
        return (outputs - unit).square().sum(dim=-1).mean(dim=-1) / 2
    # Not logsumexp less the right logit: of samples fitted well that is a small difference of large numbers, and its
    # gradient is ten times as noisy as float32's rounding, which Adam turns into steps once losses are small.
    return -outputs.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1).mean(dim=-1)


def hits(task: str, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Bool[Tensor, "*r b"]:
    """Which samples are classified correctly (for regression: none, accuracy is not defined there)."""
    if task == "regression":
        return torch.zeros_like(targets, dtype=torch.bool)
    return outputs.argmax(dim=-1) == targets
