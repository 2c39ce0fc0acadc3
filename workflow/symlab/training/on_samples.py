"""Training on samples: in which batches, and which stack of networks takes steps on them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from symlab.errors import UserError
from symlab.seeds import torch_generator
from symlab.training.augmentation import Augmentation
from symlab.training.objective import Replica, Replicas, Stack, accuracies
from symlab.training.samples import TENSORS, Samples
from symlab.training.settings import Recipe
from symlab.training.stack_size import EVALUATION_BATCH, choose_stack_size, goes_side_by_side
from symlab.training.stacks import OneByOne, SideBySide, Together


@dataclass(frozen=True)
class TrainingData(Samples):
    """Samples as an objective."""

    def prepared(self, recipe: Recipe, device: torch.device, key: tuple[str, str]) -> Self:
        """The same samples on the device of training, in float64 if asked for, with the recipe's augmentation.

        Raises:
            UserError: augmentation is asked for, but inputs are no images.
        """
        augmentation = None
        if recipe.augment is not None:
            if self.image is None:
                raise UserError(
                    f"study {key[0]}, variant {key[1]}: recipe.augment flips and crops images, but the data set's "
                    "inputs are no images; set recipe.augment to null."
                )
            augmentation = Augmentation(self.image, self.black, recipe.augment.flip, recipe.augment.crop, device)
        tensors = {name: getattr(self, name).to(device) for name in TENSORS}
        placed = replace(self, augmentation=augmentation, **tensors)
        return placed.widened() if recipe.precision == "float64" else placed

    def check(self, module: nn.Module, recipe: Recipe, key: tuple[str, str]) -> None:
        """Raise a UserError if a batch of a single sample would reach a batch norm."""
        normalises = any(isinstance(child, nn.modules.batchnorm._BatchNorm) for child in module.modules())
        size = recipe.batch_size or self.n
        if normalises and 1 in (self.n % size, size, self.n):
            raise UserError(
                f"study {key[0]}, variant {key[1]}: with {self.n} training samples and recipe.batch_size {size} "
                "some batch holds one sample, which a batch norm cannot normalise; choose another batch size."
            )

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """By the network on a CPU, by what fits on a GPU; never by the number of replicas."""
        return choose_stack_size(make, module, self, recipe)

    def stack(self, replicas: Replicas) -> OneByOne | SideBySide | Together:
        """A plain module for one replica; for several one set of tensors, or modules side by side."""
        if len(replicas.members) == 1:
            return OneByOne(replicas, self)
        beside = goes_side_by_side(replicas.module, replicas.recipe, self.device)
        return SideBySide(replicas, self) if beside else Together(replicas, self)

    def batches(
        self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """Rows [r, b] of the data in an order of each replica's own and, augmented, the views of them."""
        drawn = [self._orders(members, batch_size, key, epoch).to(self.device)]
        if self.augmentation is not None:
            views = [self.augmentation.draw(self.n, *key, "augment", r.mask_seed, r.seed, epoch) for r in members]
            drawn.append(torch.stack(views).to(self.device))
        return zip(*(tensor.split(batch_size or self.n, dim=1) for tensor in drawn), strict=True)

    def _orders(self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int) -> Tensor:
        if batch_size is None:
            return torch.arange(self.n).expand(len(members), -1)
        generators = [torch_generator(*key, "order", r.mask_seed, r.seed, epoch) for r in members]
        return torch.stack([torch.randperm(self.n, generator=generator) for generator in generators])

    def validate(self, stack: Any, R: int) -> tuple[list[float], list[float]]:
        """Held-out loss and accuracy of each replica; NaN without held-out samples."""
        x_val, y_val = self.x_val, self.y_val
        if not self.validates:
            return [float("nan")] * R, [float("nan")] * R
        total_loss = torch.zeros(R, dtype=torch.float64, device=self.device)
        total_hits = torch.zeros(R, dtype=torch.int64, device=self.device)
        for x, y in zip(x_val.split(EVALUATION_BATCH), y_val.split(EVALUATION_BATCH), strict=True):
            loss, correct = stack.evaluate(x, y)
            total_loss += loss
            total_hits += correct
        return (total_loss / len(x_val)).tolist(), accuracies(self.task, total_hits, len(x_val))
