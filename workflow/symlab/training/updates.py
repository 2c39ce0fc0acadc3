"""The arithmetic of one optimizer step on tensors of one decay; ``training.settings.UPDATES`` names these classes.

It is torch's functional optimizers'; the classes around them cost 1.5 s of imports a job and a tenth of a millisecond a
step. An update of your own is a class like these and a line in the registry.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from symlab.training.settings import Recipe


class SGD:
    """v = momentum v + g + decay theta; theta -= lr v."""

    def __init__(self, recipe: Recipe, tensors: list[Tensor], decay: float, fused: bool):
        self.tensors, self.momentum = tensors, recipe.momentum
        self.options: dict[str, Any] = {"weight_decay": decay, "fused": fused, "foreach": not fused}
        self.velocities: list[Any] = [torch.zeros_like(tensor) for tensor in tensors]

    def step(self, gradients: list[Any], lr: Any) -> None:
        sgd(
            self.tensors,
            gradients,
            self.velocities,
            lr=lr,
            momentum=self.momentum,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            **self.options,
        )

    def state(self) -> list[list[Tensor]]:
        """Velocities, themselves and not copies."""
        return [self.velocities]


class AdamW:
    """Adam whose decay is no part of the gradient: theta -= lr decay theta (Loshchilov, Hutter 2019)."""

    function = staticmethod(adamw)

    def __init__(self, recipe: Recipe, tensors: list[Tensor], decay: float, fused: bool):
        self.tensors = tensors
        self.options: dict[str, Any] = {"weight_decay": decay, "fused": fused, "foreach": not fused}
        self.options |= {"beta1": recipe.betas[0], "beta2": recipe.betas[1], "eps": recipe.eps}
        self.first = [torch.zeros_like(tensor) for tensor in tensors]
        self.second = [torch.zeros_like(tensor) for tensor in tensors]
        self.steps = [torch.zeros((), device=tensor.device) for tensor in tensors]

    def step(self, gradients: list[Any], lr: Any) -> None:
        self.function(
            self.tensors,
            gradients,
            exp_avgs=self.first,
            exp_avg_sqs=self.second,
            max_exp_avg_sqs=[],
            state_steps=self.steps,
            lr=lr,
            amsgrad=False,
            maximize=False,
            **self.options,
        )

    def state(self) -> list[list[Tensor]]:
        """First and second moments and step counts, themselves and not copies."""
        return [self.first, self.second, self.steps]


class Adam(AdamW):
    """Adam whose decay is added to the gradient (coupled L2); with betas (0, b) it is RMSprop with bias correction."""

    function = staticmethod(adam)
