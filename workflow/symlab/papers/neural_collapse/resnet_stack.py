"""Stacks of post-LN residual networks whose full-batch steps are batched products, with gradients written by hand.

Networks this narrow spend half of a step in autograd and in copies between its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from symlab.device import is_accelerator
from symlab.errors import UserError
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replicas, Stack
from symlab.training.optimizer import Optimizer
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

STACK = 4
"""Networks in one set of products: more of them leave the cache."""
EPS = 1e-5
NORM = torch.ops.aten.native_layer_norm
NORM_BACKWARD = torch.ops.aten.native_layer_norm_backward


@dataclass(frozen=True)
class ResNetData(TrainingData):
    """Samples that post-LN ``LayerNormResNet``s descend on, all of them at each step."""

    def check(self, module: nn.Module, recipe: Recipe, key: tuple[str, str]) -> None:
        """Raise a UserError if the recipe takes parts of the samples."""
        if recipe.batch_size is not None:
            raise UserError(
                f"study {key[0]}, variant {key[1]}: only full batches (batch_size: null) are written by hand."
            )

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """Always the same on a CPU; all at once on a GPU, which one network does not fill."""
        return (replicas + replicas % 2 if is_accelerator(self.device) else STACK), None

    def stack(self, replicas: Replicas) -> ResNetStack:  # type: ignore[override]
        return ResNetStack(replicas, self)


class ResNetStack:
    """Networks of one shape; ``blocks`` holds the names of each block's linear maps."""

    def __init__(self, replicas: Replicas, data: ResNetData):
        self.data = data
        # A copy: .to gives the caller's own tensor where type and device agree.
        self.W = {name: tensor.to(data.x_train, copy=True).requires_grad_() for name, tensor in replicas.W.items()}
        depth = len(replicas.module.blocks)  # type: ignore[arg-type]
        self.blocks = [
            [name.removesuffix(".weight") for name in self.W if name.startswith(f"blocks.{b}.") and "weight" in name]
            for b in range(depth)
        ]
        for tensor in self.W.values():
            tensor.grad = torch.empty_like(tensor)
        self.optimizer = Optimizer(replicas.recipe, self.W, replicas.fixed, len(replicas.members))
        self.trained_numbers = self.optimizer.size
        classes = self.W["readout.weight"].shape[1]
        self.target = functional.one_hot(data.y_train, classes).to(data.x_train)
        self.x = data.x_train.expand(len(replicas.members), -1, -1)

    def _linear(self, name: str, X: Tensor) -> Tensor:
        weight, bias = self.W[f"{name}.weight"], self.W.get(f"{name}.bias")
        return torch.bmm(X, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), X, weight.mT)

    def _set_gradient(self, name: str, delta: Tensor, X: Tensor) -> None:
        torch.bmm(delta.mT, X, out=self.W[f"{name}.weight"].grad)
        if (bias := self.W.get(f"{name}.bias")) is not None:
            torch.sum(delta, dim=1, out=bias.grad)

    @torch.no_grad()
    def step(self, lr: float | Tensor, inputs: Sequence[Tensor], noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        d = (self.W["embedding.weight"].shape[1],)
        sums, normed, inner = [self._linear("embedding", self.x)], [], []
        for names in self.blocks:
            normed.append(NORM(sums[-1], d, None, None, EPS))
            branch = self._linear(names[0], normed[-1][0]).clamp_min_(0)
            inner.append(branch)
            if len(names) == 2:
                branch = self._linear(names[1], branch)
            sums.append(branch + normed[-1][0])
        normed.append(NORM(sums[-1], d, None, None, EPS))
        outputs = self._linear("readout", normed[-1][0])
        loss, delta = self._loss(outputs)
        self._set_gradient("readout", delta, normed[-1][0])
        below = torch.bmm(delta, self.W["readout.weight"])
        for place in reversed(range(len(sums))):
            _, mean, inverse = normed[place]
            delta = NORM_BACKWARD(below, sums[place], d, mean, inverse, None, None, [True, False, False])[0]
            if place == 0:
                self._set_gradient("embedding", delta, self.x)
                break
            names, X = self.blocks[place - 1], normed[place - 1][0]
            through = delta
            if len(names) == 2:
                self._set_gradient(names[1], delta, inner[place - 1])
                through = torch.bmm(delta, self.W[f"{names[1]}.weight"])
            # relu is active exactly where it gave something.
            through = torch.ops.aten.threshold_backward(through, inner[place - 1], 0)
            self._set_gradient(names[0], through, X)
            below = torch.baddbmm(delta, through, self.W[f"{names[0]}.weight"])
        self.optimizer.step(lr, noise)
        return loss, (outputs.argmax(dim=-1) == self.data.y_train).sum(dim=-1)

    def _loss(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Of each network, and its derivative at the outputs."""
        n = len(self.target)
        if self.data.task == "one_hot":
            delta = outputs - self.target
            return delta.square().sum(dim=(1, 2)) / (2 * n), delta / n
        logs = outputs.log_softmax(dim=-1)
        return -(logs * self.target).sum(dim=(1, 2)) / n, (logs.exp() - self.target) / n

    def state(self) -> State:
        """W by their names."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.W.items()}

    def live(self) -> State:
        return {**self.W, **self.optimizer.live()}
