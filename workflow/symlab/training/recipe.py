"""Optimizer and learning-rate schedule of a training recipe."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from symlab.training.settings import Constant, Exponential, Recipe, Warmup

# float32 lanes of the widest CPU vector register (AVX-512).
VECTOR = 16


class Optimizer:
    """AdamW or SGD with momentum over tensors that hold ``R`` replicas each (leading axis; none needed for R = 1).

    Both update elementwise, so a step on stacked tensors equals separate steps. Biases and norm parameters (everything
    not named in ``weights``) are decayed only where ``recipe.decay_bias`` says so. The arithmetic is torch's functional
    optimizers'; the classes around them cost 1.5 s of imports a job and a tenth of a millisecond a step.
    """

    def __init__(self, recipe: Recipe, parameters: dict[str, Tensor], weights: Collection[str], R: int):
        self.recipe = recipe
        self.groups: dict[tuple[float, bool], list[Tensor]] = {}
        for name, tensor in parameters.items():
            decay = recipe.weight_decay if recipe.decay_bias or name in weights else 0.0
            # The fused CPU kernel rounds the last elements that fill no vector register differently; with several
            # replicas in one tensor a seed's bits would depend on its place: such tensors (a few biases) are not fused.
            fused = tensor.is_cuda or R == 1 or (tensor.numel() // R) % VECTOR == 0
            self.groups.setdefault((decay, fused), []).append(tensor)
        self.state = {group: _start(recipe.optimizer, tensors) for group, tensors in self.groups.items()}

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """Move every tensor along its ``grad``; in a CUDA graph ``lr`` is a scalar tensor on the GPU."""
        for (decay, fused), tensors in self.groups.items():
            gradients: list[Any] = [tensor.grad for tensor in tensors]
            state = self.state[decay, fused]
            if self.recipe.optimizer == "sgd":
                sgd(
                    tensors,
                    gradients,
                    state,
                    fused=fused,
                    foreach=not fused,
                    weight_decay=decay,
                    momentum=self.recipe.momentum,
                    lr=lr,  # type: ignore[arg-type]  # Its annotation is behind its kernels, which take tensors.
                    dampening=0.0,
                    nesterov=False,
                    maximize=False,
                )
            else:
                adamw(
                    tensors,
                    gradients,
                    exp_avgs=state[0],
                    exp_avg_sqs=state[1],
                    max_exp_avg_sqs=[],
                    state_steps=state[2],
                    fused=fused,
                    foreach=not fused,
                    amsgrad=False,
                    beta1=0.9,
                    beta2=0.999,
                    lr=lr,
                    weight_decay=decay,
                    eps=1e-8,
                    maximize=False,
                )

    def live(self) -> dict[str, Tensor]:
        """Momenta and step counts, themselves and not copies, by names that do not depend on the process."""
        found: dict[str, Tensor] = {}
        for number, state in enumerate(self.state.values()):
            lists = [state] if self.recipe.optimizer == "sgd" else state
            found |= {f"optimizer/{number}/{k}/{i}": t for k, ts in enumerate(lists) for i, t in enumerate(ts)}
        return found


def _start(optimizer: str, tensors: list[Tensor]) -> list[Any]:
    """Momenta at zero: one tensor each for SGD; first and second moments and step counts for AdamW."""
    zeros = [torch.zeros_like(tensor) for tensor in tensors]
    if optimizer == "sgd":
        return zeros
    steps = [torch.zeros((), device=tensor.device) for tensor in tensors]
    return [zeros, [torch.zeros_like(tensor) for tensor in tensors], steps]


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step (counted from 0), constant within the step.

    ``recipe.schedule.name``: ``constant``; ``cosine`` (to 0 at the last step, after an optional linear warm-up);
    ``warmup`` (linear over ``warmup_epochs``, then constant); ``exponential`` (lr * gamma^epoch for ``growth_epochs``
    epochs, then constant: the paper's ResNet recipe is lr 1e-4, gamma 1.259, 20 epochs).
    """
    schedule, lr = recipe.schedule, recipe.lr
    if isinstance(schedule, Constant):
        return lr
    if isinstance(schedule, Exponential):
        return lr * schedule.gamma ** min(step // steps_per_epoch, schedule.growth_epochs)
    warmup = round(schedule.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return lr * (step + 1) / warmup
    if isinstance(schedule, Warmup):
        return lr
    total = recipe.epochs * steps_per_epoch
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
