"""Optimizer and learning-rate schedule of a training recipe."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

# float32 lanes of the widest CPU vector register (AVX-512).
VECTOR = 16


def make_optimizer(
    recipe: dict[str, Any], parameters: dict[str, Tensor], weights: Collection[str], R: int
) -> torch.optim.Optimizer:
    """AdamW or SGD with momentum over tensors that hold ``R`` replicas each (leading axis; none needed for R = 1).

    Both update elementwise, so a step on stacked tensors equals separate steps. Biases and norm parameters (everything
    not named in ``weights``) are decayed only where ``recipe.decay_bias`` says so.
    """
    groups: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, tensor in parameters.items():
        decayed = recipe["decay_bias"] or name in weights
        # The fused CPU kernel rounds the last elements that fill no vector register differently; with several replicas
        # in one tensor a seed's bits would depend on its place in the stack: such tensors (a few biases) are not fused.
        fused = tensor.is_cuda or R == 1 or (tensor.numel() // R) % VECTOR == 0
        groups.setdefault((decayed, fused), []).append(tensor)
    settings: list[dict[str, Any]] = [
        {
            "params": tensors,
            "weight_decay": recipe["weight_decay"] if decayed else 0.0,
            "fused": fused,
            "foreach": not fused,
        }
        for (decayed, fused), tensors in groups.items()
    ]
    if recipe["optimizer"] == "sgd":
        return torch.optim.SGD(settings, lr=recipe["lr"], momentum=recipe["momentum"])
    return torch.optim.AdamW(settings, lr=recipe["lr"])


def learning_rate(recipe: dict[str, Any], step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step (counted from 0), constant within the step.

    ``recipe.schedule.name``: ``constant``; ``cosine`` (to 0 at the last step, after an optional linear warm-up);
    ``warmup`` (linear over ``warmup_epochs``, then constant); ``exponential`` (lr * gamma^epoch for ``growth_epochs``
    epochs, then constant: the paper's ResNet recipe is lr 1e-4, gamma 1.259, 20 epochs).
    """
    schedule, lr = recipe["schedule"], recipe["lr"]
    if schedule["name"] == "constant":
        return lr
    if schedule["name"] == "exponential":
        return lr * schedule["gamma"] ** min(step // steps_per_epoch, schedule["growth_epochs"])
    warmup = round(schedule["warmup_epochs"] * steps_per_epoch)
    if step < warmup:
        return lr * (step + 1) / warmup
    if schedule["name"] == "warmup":
        return lr
    total = recipe["epochs"] * steps_per_epoch
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
