"""Networks that take a step on samples: one replica, several side by side, or a stack of them in one pass."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor, nn

from symlab.device import is_accelerator
from symlab.schemes.fixed_parts import State
from symlab.schemes.parametrisation import Parametrisation, names_of, parametrise, start
from symlab.training.objective import Replicas
from symlab.training.optimizer import Optimizer
from symlab.training.precision import forward_pass
from symlab.training.samples import Samples


class OneByOne:
    """A single replica as a plain module whose parameters hold W_eff.

    On a CPU convolutions run channels-last: 1.2 times as fast there (ResNet20 of width 1). On a GPU a group norm turns
    such tensors round and back: on an H200 a step of width 8 in bfloat16 took 17.2 ms so, and 13.9 in torch's layout.
    """

    def __init__(self, replicas: Replicas, data: Samples):
        self.data, self.precision, self.device = data, replicas.recipe.precision, data.device
        self.module = _placed(replicas.module, self.precision, self.device)
        self.module.load_state_dict({name: buffer[0] for name, buffer in replicas.buffers.items()}, strict=False)
        if not is_accelerator(self.device):
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = dict(self.module.named_parameters())
        W = {name: _laid_out(value[0], self.parameters[name]) for name, value in replicas.W.items()}
        fixed = {
            name: tuple(None if part is None else _laid_out(part[0], self.parameters[name]) for part in parts)
            for name, parts in replicas.fixed.items()
        }
        self.composed, self.pinned = _composed_and_pinned(
            parametrise(replicas.scheme, list(W), fixed, stacked=False)  # type: ignore[arg-type]
        )
        self.trained = start(W, self.composed)
        for name, parameter in self.parameters.items():
            if name not in self.composed:
                parameter.data.copy_(W[name])
                self.trained[name] = parameter
        self.factors = {name: [self.trained[each] for each in names_of(name, by)] for name, by in self.composed.items()}
        self._compose()
        self.optimizer = Optimizer(replicas.recipe, self.trained, replicas.fixed, R=1)

    def _compose(self) -> None:
        _put_back(self.pinned, self.parameters)
        for name, by in self.composed.items():
            by.compose_into(self.parameters[name].data, *self.factors[name])

    def _outputs(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        with forward_pass(self.precision, self.device):
            outputs = self.module(x)
        return _widened(outputs)

    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        loss, correct = self.descend(inputs)
        self.optimizer.step(lr)
        self._compose()
        for tensor in (*self.parameters.values(), *self.trained.values()):
            tensor.grad = None
        return loss, correct

    def descend(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Set the gradients of what is trained; loss and number of hits."""
        rows = inputs[0][0]
        # Copies whole rows, at a fifth of the cost of an index.
        x, y = self.data.x_train.index_select(0, rows), self.data.y_train.index_select(0, rows)
        if self.data.augmentation is not None:
            x = self.data.augmentation(x, inputs[1][0])
        outputs = self._outputs(x)
        loss = (
            functional.cross_entropy(outputs, y) if self.data.task == "classification" else self.data.losses(outputs, y)
        )
        loss.backward()
        for name, by in self.composed.items():
            gradient = self.parameters[name].grad
            assert gradient is not None
            for factor, pulled in zip(self.factors[name], by.pull_back(gradient, *self.factors[name]), strict=True):
                factor.grad = pulled
        return loss.detach()[None], self.data.hits(outputs.detach(), y).sum()[None]

    def widen(self) -> None:
        """Go on in float64."""
        self.data, self.precision = self.data.widened(), "float64"
        for child in self.module.modules():
            for name, parameter in child.named_parameters(recurse=False):
                setattr(child, name, nn.Parameter(parameter.detach().double()))
        self.module.double()
        self.parameters = dict(self.module.named_parameters())
        self.trained = {**self.parameters}
        self.optimizer = Optimizer(self.optimizer.recipe, self.trained, (), R=1)

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Summed loss and number of hits of each replica in evaluation mode."""
        x, y = (_in_precision(each, self.precision) for each in (x, y))
        self.module.eval()
        outputs = self._outputs(x)
        self.module.train()
        return (self.data.losses(outputs, y) * len(x))[None], self.data.hits(outputs, y).sum()[None]

    def state(self) -> State:
        return {name: _contiguous_copy(tensor)[None] for name, tensor in self.module.state_dict().items()}

    def live(self) -> State:
        composed = {
            f"W/{each}": self.trained[each] for name, by in self.composed.items() for each in names_of(name, by)
        }
        return {**self.module.state_dict(), **composed, **self.optimizer.live()}


class SideBySide:
    """Several replicas as plain modules on a GPU, each on a stream of its own: kernels that fill a part of it overlap.

    In a vmapped step convolutions would become grouped ones: on an H200 a network's step (ResNet20 of width 1,
    float32) took 3.6 ms in a stack of six, 3.8 alone and 2.5 as one of six side by side.
    """

    def __init__(self, replicas: Replicas, data: Samples):
        self.each = [OneByOne(one, data) for one in _apart(replicas)]
        self.gpu = torch.get_device_module(data.device)
        self.streams = [self.gpu.Stream(data.device) for _ in self.each]

    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        here = self.gpu.current_stream()
        results = []
        for r, (one, stream) in enumerate(zip(self.each, self.streams, strict=True)):
            stream.wait_stream(here)
            with self.gpu.stream(stream):
                results.append(one.step(lr, *(drawn[r : r + 1] for drawn in inputs)))
        for stream in self.streams:
            here.wait_stream(stream)
        return _joined(results)

    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Summed loss and number of hits of each replica in evaluation mode."""
        return _joined([one.evaluate(x, y) for one in self.each])

    def state(self) -> State:
        states = [one.state() for one in self.each]
        return {name: torch.cat([state[name] for state in states]) for name in states[0]}

    def live(self) -> State:
        return {f"{r}/{name}": tensor for r, one in enumerate(self.each) for name, tensor in one.live().items()}


def _joined(results: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    losses, correct = zip(*results, strict=True)
    return torch.cat(losses), torch.cat(correct)


def _apart(replicas: Replicas) -> list[Replicas]:
    def one(value: Tensor | None, r: int) -> Any:
        return None if value is None else value[r : r + 1]

    return [
        replace(
            replicas,
            members=[member],
            module=copy.deepcopy(replicas.module),
            W={name: one(value, r) for name, value in replicas.W.items()},
            buffers={name: one(value, r) for name, value in replicas.buffers.items()},
            fixed={name: (one(F, r), one(D, r)) for name, (F, D) in replicas.fixed.items()},
        )
        for r, member in enumerate(replicas.members)
    ]


class Together:
    """Several replicas in one vmapped step; all tensors carry a leading replica axis.

    Convolutions stay in torch's default layout: within vmap a GroupNorm of channels-last tensors is not implemented.
    """

    def __init__(self, replicas: Replicas, data: Samples):
        self.data, self.precision, self.device = data, replicas.recipe.precision, data.device
        self.R = len(replicas.members)
        self.module = _placed(replicas.module, self.precision, self.device)
        W, self.buffers = ({name: self._on(t) for name, t in part.items()} for part in (replicas.W, replicas.buffers))
        fixed = {
            name: tuple(None if part is None else self._on(part) for part in parts)
            for name, parts in replicas.fixed.items()
        }
        self.composed, self.pinned = _composed_and_pinned(
            parametrise(replicas.scheme, list(W), fixed, stacked=True)  # type: ignore[arg-type]
        )
        self.names = {name: names_of(name, self.composed[name]) if name in self.composed else [name] for name in W}
        self.trained = {name: tensor.clone().requires_grad_() for name, tensor in start(W, self.composed).items()}
        _put_back(self.pinned, self.trained)
        self.optimizer = Optimizer(replicas.recipe, self.trained, replicas.fixed, self.R)

    def _on(self, tensor: Tensor) -> Tensor:
        tensor = tensor.to(self.device)
        # W, F and D have to lie alike. A product hands a matrix's gradient over transposed; on a GPU, where the matrix
        # lies so, it is not copied.
        turned = is_accelerator(self.device) and tensor.dim() == 3
        tensor = tensor.mT.contiguous().mT if turned else tensor.contiguous()
        return _in_precision(tensor, self.precision)

    def _parameters(self) -> State:
        found: State = {}
        for name, names in self.names.items():
            factors = [self.trained[each] for each in names]
            found[name] = self.composed[name].compose(*factors) if name in self.composed else factors[0]
        return found

    def _outputs(self, parameters: State, x: Float[Tensor, "r b d"]) -> Float[Tensor, "r b c"]:
        def forward(parameters: State, buffers: State, x: Tensor) -> Tensor:
            return torch.func.functional_call(self.module, (parameters, buffers), (x,))

        with forward_pass(self.precision, self.device):
            outputs = torch.func.vmap(forward)(parameters, self.buffers, x)
        return _widened(outputs)

    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        loss, correct = self.descend(inputs)
        self.optimizer.step(lr)
        _put_back(self.pinned, self.trained)
        for tensor in self.trained.values():
            tensor.grad = None
        return loss, correct

    def descend(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Set the gradients of what is trained; loss and number of hits of each replica."""
        rows = inputs[0]
        x, y = self.data.x_train[rows], self.data.y_train[rows]
        if self.data.augmentation is not None:
            x = self.data.augmentation(x, inputs[1])
        # What is composed is a leaf: its gradient comes transposed, is copied once so, and only then pulled back.
        with torch.no_grad():
            parameters = self._parameters()
        for name in self.composed:
            parameters[name].requires_grad_()
        outputs = self._outputs(parameters, x)
        loss = self.data.losses(outputs, y)
        # Replicas share no parameter, so the gradient of the sum is each replica's own gradient.
        loss.sum().backward()
        for name, by in self.composed.items():
            gradient, factors = parameters[name].grad, [self.trained[each] for each in self.names[name]]
            assert gradient is not None
            with torch.no_grad():
                for factor, pulled in zip(factors, by.pull_back(gradient, *factors), strict=True):
                    factor.grad = pulled if pulled.stride() == factor.stride() else _laid_out(pulled, factor)
        return loss.detach(), self.data.hits(outputs.detach(), y).sum(dim=-1)

    def widen(self) -> None:
        """Go on in float64."""
        self.data, self.precision = self.data.widened(), "float64"
        self.module.double()
        self.buffers = {name: self._on(buffer) for name, buffer in self.buffers.items()}
        self.trained = {name: tensor.detach().double().requires_grad_() for name, tensor in self.trained.items()}
        self.optimizer = Optimizer(self.optimizer.recipe, self.trained, (), self.R)

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Summed loss and number of hits of each replica in evaluation mode."""
        x, y = (_in_precision(each, self.precision) for each in (x, y))
        self.module.eval()
        outputs = self._outputs(self._parameters(), x.expand(self.R, *x.shape))
        self.module.train()
        targets = y.expand(self.R, *y.shape)
        return self.data.losses(outputs, targets) * len(x), self.data.hits(outputs, targets).sum(dim=-1)

    @torch.no_grad()
    def state(self) -> State:
        merged = {**self._parameters(), **self.buffers}
        return {name: _contiguous_copy(tensor) for name, tensor in merged.items()}

    def live(self) -> State:
        return {**self.trained, **self.buffers, **self.optimizer.live()}


def _placed(module: nn.Module, precision: str, device: torch.device) -> nn.Module:
    module = module.to(device)
    return module.double() if precision == "float64" else module


def _in_precision(tensor: Tensor, precision: str) -> Tensor:
    return tensor.double() if precision == "float64" and tensor.is_floating_point() else tensor


def _widened(outputs: Tensor) -> Tensor:
    """bfloat16 outputs as float32; the loss is never taken in less."""
    return outputs if outputs.dtype == torch.float64 else outputs.float()


def _contiguous_copy(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _laid_out(tensor: Any, parameter: Tensor) -> Any:
    """A copy with the parameter's memory layout, which the fused optimizers demand; None stays None."""
    return None if tensor is None else torch.empty_like(parameter, requires_grad=False).copy_(tensor)


Pinned = dict[str, tuple[Tensor, Tensor]]


def _composed_and_pinned(found: dict[str, Parametrisation]) -> tuple[dict[str, Parametrisation], Pinned]:
    """What is composed in each step; and, where weights are W but for fixed entries, these entries' places and values.

    Where D is a mask of zeros and ones and F vanishes off it, W_eff equals W wherever W counts: the optimizer moves
    W_eff itself then, and the fixed entries are put back after each step.
    """
    pinned = {name: _entries(*parts) for name, by in found.items() if (parts := by.pinned()) is not None}
    return {name: by for name, by in found.items() if name not in pinned}, pinned


def _entries(F: Tensor | None, D: Tensor) -> tuple[Tensor, Tensor]:
    """Places in memory and values of the entries that D leaves out."""
    places = (_flat(D) == 0).nonzero().squeeze(1)
    return places, D.new_zeros(len(places)) if F is None else _flat(F)[places]


def _put_back(pinned: Pinned, tensors: dict[str, Any]) -> None:
    for name, (places, values) in pinned.items():
        _flat(tensors[name].data).index_copy_(0, places, values)


def _flat(tensor: Tensor) -> Tensor:
    """All entries in the order they lie in memory, as a view."""
    return tensor.as_strided((tensor.numel(),), (1,))
