"""Networks that take one optimizer step together: a single replica, or a stack of them as one set of tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as functional
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from symlab.schemes.fixed_parts import FixedParts, State, effective
from symlab.training.augmentation import Augmentation
from symlab.training.precision import forward_pass
from symlab.training.recipe import Optimizer
from symlab.training.settings import Recipe

EVALUATION_BATCH = 2048


@dataclass(frozen=True)
class TrainingData:
    """Inputs [n, d] and targets [n] for training, and a held-out part that may be empty.

    image: (channels, height, width) of flattened images, None where inputs are no images.
    black: the normalised value of a black pixel for each channel.
    """

    x_train: Float[Tensor, "n d"]
    y_train: Tensor
    x_val: Float[Tensor, "v d"]
    y_val: Tensor
    task: str
    image: tuple[int, int, int] | None = None
    black: tuple[float, ...] = ()

    @property
    def n(self) -> int:
        """Training samples."""
        return len(self.x_train)

    @property
    def n_val(self) -> int:
        """Held-out samples."""
        return len(self.x_val)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.x_train.device

    def to(self, device: torch.device) -> TrainingData:
        """The same data on another device."""
        tensors = {name: getattr(self, name).to(device) for name in ("x_train", "y_train", "x_val", "y_val")}
        return replace(self, **tensors)


def losses(task: str, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Float[Tensor, "*r"]:
    """Mean loss over the batch: cross-entropy for classification, squared error for regression."""
    if task == "regression":
        return (outputs.squeeze(-1) - targets).square().mean(dim=-1)
    picked = outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (outputs.logsumexp(dim=-1) - picked).mean(dim=-1)


def hits(task: str, outputs: Float[Tensor, "*r b c"], targets: Tensor) -> Bool[Tensor, "*r b"]:
    """Which samples are classified correctly (for regression: none, accuracy is not defined there)."""
    if task == "regression":
        return torch.zeros_like(targets, dtype=torch.bool)
    return outputs.argmax(dim=-1) == targets


class Stack(Protocol):
    """Networks that take one optimizer step together."""

    def step(
        self, lr: float | Tensor, batch: Int[Tensor, "r b"], *views: Int[Tensor, "r b"]
    ) -> tuple[Float[Tensor, " r"], Int[Tensor, " r"]]:
        """Train on the rows ``batch`` of the training data, or on ``views`` of them where data are augmented.

        Loss and number of hits of each replica before the step.
        """

    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Float[Tensor, " r"], Int[Tensor, " r"]]:
        """Summed loss and number of hits of each replica in evaluation mode."""

    def state(self) -> State:
        """Effective state with a leading replica axis, on the CPU."""

    def live(self) -> State:
        """All tensors that steps change, themselves and not copies: weights, buffers and the optimizer's state."""


class OneByOne:
    """A single replica as a plain module whose parameters hold W_eff.

    Where D is a mask of zeros and ones and F vanishes off it, W_eff equals W wherever W counts: the optimizer moves
    W_eff itself then, and the fixed entries are put back after each step. Otherwise it moves W beside W_eff.

    Convolutions run channels-last: 1.2 times as fast on a CPU (ResNet20 of width 1), and what tensor cores ask for.
    """

    def __init__(
        self,
        module: nn.Module,
        W: State,
        buffers: State,
        fixed: FixedParts,
        recipe: Recipe,
        data: TrainingData,
        augmentation: Augmentation | None = None,
    ):
        self.module, self.data, self.augmentation = module, data, augmentation
        self.precision, self.device = recipe.precision, data.x_train.device
        module.load_state_dict(buffers, strict=False)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = dict(module.named_parameters())
        self.W: State = {}
        self.fixed: FixedParts = {}
        self.pinned: dict[str, tuple[Tensor, Tensor]] = {}
        for name, parameter in self.parameters.items():
            F, D = fixed.get(name, (None, None))
            if D is not None and _is_mask(F, D):
                F, D = _laid_out(F, parameter), _laid_out(D, parameter)
                places = (_flat(D) == 0).nonzero().squeeze(1)
                values = torch.zeros(len(places)) if F is None else _flat(F)[places]
                self.pinned[name] = places, values.to(parameter)
            elif F is not None or D is not None:
                self.W[name] = _laid_out(W[name], parameter)
                self.fixed[name] = (_laid_out(F, parameter), _laid_out(D, parameter))
                continue
            parameter.data.copy_(W[name])
            self.W[name] = parameter
        self._compose()
        self.optimizer = Optimizer(recipe, self.W, fixed, R=1)

    def _compose(self) -> None:
        for name, (places, values) in self.pinned.items():
            _flat(self.parameters[name].data).index_copy_(0, places, values)
        for name, (F, D) in self.fixed.items():
            target, W = self.parameters[name].data, self.W[name]
            if F is None:
                torch.mul(D, W, out=target)  # type: ignore[arg-type]
            elif D is None:
                torch.add(F, W, out=target)
            else:
                torch.addcmul(F, D, W, out=target)

    def _outputs(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        with forward_pass(self.precision, self.device):
            outputs = self.module(x)
        return outputs.float()

    def step(self, lr: float | Tensor, batch: Int[Tensor, "1 b"], *views: Int[Tensor, "1 b"]) -> tuple[Tensor, Tensor]:
        x, y = self.data.x_train[batch[0]], self.data.y_train[batch[0]]
        if self.augmentation is not None:
            x = self.augmentation(x, views[0][0])
        outputs = self._outputs(x)
        loss = (
            functional.cross_entropy(outputs, y)
            if self.data.task == "classification"
            else losses("regression", outputs, y)
        )
        loss.backward()
        for name, (_, D) in self.fixed.items():
            # Chain rule: dL/dW = D * dL/dW_eff.
            gradient = self.parameters[name].grad
            assert gradient is not None
            self.W[name].grad = gradient if D is None else gradient.mul_(D)
        self.optimizer.step(lr)
        self._compose()
        for tensor in (*self.parameters.values(), *self.W.values()):
            tensor.grad = None
        return loss.detach()[None], hits(self.data.task, outputs.detach(), y).sum()[None]

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        self.module.eval()
        outputs = self._outputs(x)
        self.module.train()
        return (losses(self.data.task, outputs, y) * len(x))[None], hits(self.data.task, outputs, y).sum()[None]

    def state(self) -> State:
        return {name: _contiguous_copy(tensor)[None] for name, tensor in self.module.state_dict().items()}

    def live(self) -> State:
        W = {f"W/{name}": self.W[name] for name in self.fixed}
        return {**self.module.state_dict(), **W, **self.optimizer.live()}


class Together:
    """Several replicas in one vmapped step; all tensors carry a leading replica axis.

    Convolutions stay in torch's default layout: within vmap a GroupNorm of channels-last tensors is not implemented.
    """

    def __init__(
        self,
        module: nn.Module,
        W: State,
        buffers: State,
        fixed: FixedParts,
        recipe: Recipe,
        data: TrainingData,
        augmentation: Augmentation | None = None,
    ):
        self.module, self.data, self.buffers, self.augmentation = module, data, buffers, augmentation
        self.precision, self.device = recipe.precision, data.x_train.device
        self.W = {name: tensor.clone().requires_grad_() for name, tensor in W.items()}
        self.fixed = {name: parts for name, parts in fixed.items() if parts != (None, None)}
        self.R = len(next(iter(self.W.values())))
        self.optimizer = Optimizer(recipe, self.W, fixed, self.R)

    def _parameters(self) -> State:
        return {name: effective(W, *self.fixed.get(name, (None, None))) for name, W in self.W.items()}

    def _outputs(self, parameters: State, x: Float[Tensor, "r b d"]) -> Float[Tensor, "r b c"]:
        def forward(parameters: State, buffers: State, x: Tensor) -> Tensor:
            return torch.func.functional_call(self.module, (parameters, buffers), (x,))

        with forward_pass(self.precision, self.device):
            outputs = torch.func.vmap(forward)(parameters, self.buffers, x)
        return outputs.float()

    def step(self, lr: float | Tensor, batch: Int[Tensor, "r b"], *views: Int[Tensor, "r b"]) -> tuple[Tensor, Tensor]:
        x, y = self.data.x_train[batch], self.data.y_train[batch]
        if self.augmentation is not None:
            x = self.augmentation(x, views[0])
        outputs = self._outputs(self._parameters(), x)
        loss = losses(self.data.task, outputs, y)
        # Replicas share no parameter, so the gradient of the sum is each replica's own gradient.
        loss.sum().backward()
        self.optimizer.step(lr)
        for tensor in self.W.values():
            tensor.grad = None
        return loss.detach(), hits(self.data.task, outputs.detach(), y).sum(dim=-1)

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        self.module.eval()
        outputs = self._outputs(self._parameters(), x.expand(self.R, *x.shape))
        self.module.train()
        targets = y.expand(self.R, *y.shape)
        return losses(self.data.task, outputs, targets) * len(x), hits(self.data.task, outputs, targets).sum(dim=-1)

    @torch.no_grad()
    def state(self) -> State:
        merged = {**self._parameters(), **self.buffers}
        return {name: _contiguous_copy(tensor) for name, tensor in merged.items()}

    def live(self) -> State:
        return {**self.W, **self.buffers, **self.optimizer.live()}


def _contiguous_copy(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _laid_out(tensor: Any, parameter: Tensor) -> Any:
    """A copy with the parameter's memory layout, which the fused optimizers demand; None stays None."""
    return None if tensor is None else torch.empty_like(parameter, requires_grad=False).copy_(tensor)


def _flat(tensor: Tensor) -> Tensor:
    """All entries in the order they lie in memory, as a view."""
    return (tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor).view(-1)


def _is_mask(F: Tensor | None, D: Tensor) -> bool:
    """Whether D holds zeros and ones only and F is 0 wherever D is 1."""
    return bool(((D == 0) | (D == 1)).all()) and (F is None or bool((F * D == 0).all()))
