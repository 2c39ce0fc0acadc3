"""Stacks of bias-free ReLU (or linear) networks whose steps are batched products, with gradients written by hand.

A step of a narrow deep network is a dozen small products; autograd and vmap cost several times as much. Weights are
kept as W_0 + dW: near the origin a step changes them by less than float32 resolves at W_0, and dW does not lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from symlab.errors import UserError
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replicas, Stack
from symlab.training.settings import Recipe, WeightNorm
from symlab.training.stacks import TrainingData

STACK = 8
"""Networks in one set of products; an even number, whose products round alike."""
MOVED = "moved."
"""What the names of dW begin with in a state."""


@dataclass(frozen=True)
class ReluChainData(TrainingData):
    """Cross-entropy of a bias-free MLP on samples, descended by plain SGD at a rate of lr over a power of |theta|."""

    linear: bool = False
    """Whether the activations are left out."""

    def check(self, module: nn.Module, recipe: Recipe, key: tuple[str, str]) -> None:
        """Raise a UserError if the recipe is another one."""
        if not isinstance(recipe.lr_by, WeightNorm):
            raise UserError(f"study {key[0]}, variant {key[1]}: only lr_by: {{name: weight_norm}} is written by hand.")

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """Always the same."""
        return STACK, None

    def stack(self, replicas: Replicas) -> ReluChain:  # type: ignore[override]
        return ReluChain(replicas, self)


class ReluChain:
    """Networks of one shape; ``names`` are their weights' from the input on."""

    def __init__(self, replicas: Replicas, data: ReluChainData):
        assert isinstance(replicas.recipe.lr_by, WeightNorm)
        self.data, self.power = data, replicas.recipe.lr_by.power
        self.names = list(replicas.W)
        self.W = [W_l.to(data.x_train) for W_l in replicas.W.values()]
        self.start = [W_l.clone() for W_l in self.W]
        self.moved = [torch.zeros_like(W_l) for W_l in self.W]
        self.gradient = [torch.empty_like(W_l) for W_l in self.W]
        self.trained_numbers = sum(W_l[0].numel() for W_l in self.W)

    @torch.no_grad()
    def step(self, lr: float | Tensor, inputs: Sequence[Tensor], noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        rows = inputs[0]
        x = self.data.x_train.index_select(0, rows.reshape(-1)).unflatten(0, rows.shape)
        y = self.data.y_train[rows]
        inner = [x]
        for W_l in self.W[:-1]:
            inner.append(torch.bmm(inner[-1], W_l.mT))
            if not self.data.linear:
                inner[-1].clamp_min_(0)
        outputs = torch.bmm(inner[-1], self.W[-1].mT)
        logs = outputs.log_softmax(dim=-1)
        loss = -logs.gather(-1, y.unsqueeze(-1)).squeeze(-1).mean(dim=-1)
        delta = logs.exp()
        delta.scatter_add_(-1, y.unsqueeze(-1), delta.new_full((), -1.0).expand(*y.shape, 1))
        norms = torch.stack([torch.linalg.vector_norm(W_l, dim=(1, 2)) for W_l in self.W])
        rate = lr * torch.linalg.vector_norm(norms, dim=0) ** -self.power
        # Small as it is here, delta takes the rate with it into the gradients.
        delta.mul_((rate / rows.shape[1])[:, None, None])
        for place in reversed(range(len(self.W))):
            torch.bmm(delta.mT, inner[place], out=self.gradient[place])
            if place:
                delta = torch.bmm(delta, self.W[place])
                if not self.data.linear:
                    # relu is active exactly where it gave something.
                    delta.mul_(inner[place].sign())
        for W_l, start, moved, step in zip(self.W, self.start, self.moved, self.gradient, strict=True):
            moved.sub_(step)
            torch.add(start, moved, out=W_l)
        return loss, (outputs.argmax(dim=-1) == y).sum(dim=-1)

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Summed loss and number of hits of each replica."""
        inner = x
        for W_l in self.W[:-1]:
            inner = inner @ W_l.mT
            if not self.data.linear:
                inner = inner.clamp_min(0)
        outputs = inner @ self.W[-1].mT
        loss = -outputs.log_softmax(dim=-1).gather(-1, y.expand(len(outputs), -1).unsqueeze(-1)).sum(dim=(1, 2))
        return loss, (outputs.argmax(dim=-1) == y).sum(dim=-1)

    def state(self) -> State:
        """W by their names, and dW by their names after ``MOVED``."""
        kinds = {"": self.W, MOVED: self.moved}.items()
        return {f"{kind}{n}": t.cpu().clone() for kind, ts in kinds for n, t in zip(self.names, ts, strict=True)}

    def live(self) -> State:
        # W is the sum of both, but a step begins with it.
        kept = {"W": self.W, "start": self.start, "moved": self.moved}
        return {f"{kind}/{name}": t for kind, ts in kept.items() for name, t in zip(self.names, ts, strict=True)}
