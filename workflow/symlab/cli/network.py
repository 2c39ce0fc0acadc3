"""A user's module made ready to compute with states from files: float32, without hidden or tied tensors in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from symlab.cli.inputs import Weights
from symlab.errors import UserError

# What torch's wrappers put before every name of a state dict.
WRAPPERS = ("module.", "_orig_mod.", "model.")


@dataclass(frozen=True)
class Network:
    """A module whose state is exactly the tensors of a weights file.

    Attributes:
        module: in evaluation mode, float32, on the device; buffers that no file holds are plain attributes of it.
        twins: for each name that a file may hold the first name of the same tensor: itself, unless weights are tied.
        names: what a state to compute with holds: each tensor once.
    """

    module: nn.Module
    twins: dict[str, str]
    names: tuple[str, ...]

    def state(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The state that a file's tensors describe, in float32, on the module's device."""
        by_twin = {self.twins[name]: tensor for name, tensor in tensors.items() if name in self.twins}
        return {name: _computable(by_twin[self.twins[name]]).to(self._device()) for name in self.names}

    def by_all_names(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state with tied tensors under each of their names, as the traced network wants it."""
        by_twin = {self.twins[name]: tensor for name, tensor in state.items()}
        return {name: by_twin[twin] for name, twin in self.twins.items() if twin in by_twin}

    def _device(self) -> torch.device:
        return next(tensor.device for tensor in (*self.module.parameters(), *self.module.buffers()))


def prepare(module: nn.Module, A: Weights, B: Weights, device: str) -> Network:
    """Check that two files fit a module, and make it ready to compute with their tensors.

    Raises:
        UserError: a file's names, shapes or values do not fit the module or each other.
    """
    tensors = _tensors(module)
    if any(is_lazy(tensor) for tensor in tensors.values()):
        raise UserError(
            f"{type(module).__name__} has lazy layers, whose sizes are not known yet: let --model call it once."
        )
    if not tensors:
        raise UserError(f"{type(module).__name__} has no weights that could be aligned.")
    first: dict[tuple[int, torch.Size], str] = {}
    twins = {
        name: first.setdefault((tensor.data_ptr() or id(tensor), tensor.shape), name)
        for name, tensor in tensors.items()
    }
    for name, tensor in A.tensors.items():
        if name in B.tensors and B.tensors[name].shape != tensor.shape:
            raise UserError(
                f"{name!r} has shape {tuple(tensor.shape)} in {A.path}, but {tuple(B.tensors[name].shape)} in "
                f"{B.path}: both must be trained networks of one architecture."
            )
    for weights in (A, B):
        _check_names(weights, type(module).__name__, tensors, twins)
        _check_values(weights, tensors, twins, set(dict(module.named_parameters(remove_duplicate=False))))
    module = module.requires_grad_(False).float().eval().to(device)
    _hide(module, _infinite_constants(A, B))
    names = [*dict(module.named_parameters()), *dict(module.named_buffers())]
    return Network(module, twins, tuple(names))


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by all their names, as in ``module.state_dict()``."""
    hidden = {
        f"{path}.{name}" if path else name
        for path, submodule in module.named_modules(remove_duplicate=False)
        for name in submodule._non_persistent_buffers_set
    }
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: tensor for name, tensor in named if name not in hidden}


def _hide(module: nn.Module, constants: Mapping[str, Tensor]) -> None:
    """Make plain attributes of the buffers that no file holds, and of ``constants``, which get the values given.

    A state must name all buffers, and the line between two networks has no business with those.
    """
    for path, submodule in module.named_modules():
        for name in list(submodule._buffers):
            full = f"{path}.{name}" if path else name
            if name not in submodule._non_persistent_buffers_set and full not in constants:
                continue
            tensor = submodule._buffers.pop(name)
            submodule._non_persistent_buffers_set.discard(name)
            value = constants[full].to(tensor) if tensor is not None and full in constants else tensor
            setattr(submodule, name, value)


def _infinite_constants(A: Weights, B: Weights) -> dict[str, Tensor]:
    """Tensors with infinities that both files hold: masks of attention, which would become NaN when averaged."""
    return {
        name: tensor
        for name, tensor in A.tensors.items()
        if tensor.is_floating_point()
        and tensor.float().isinf().any()
        and torch.equal(tensor, B.tensors.get(name, tensor))
    }


def _check_names(weights: Weights, network: str, tensors: Mapping[str, Tensor], twins: Mapping[str, str]) -> None:
    unknown = [name for name in weights.tensors if name not in tensors]
    present = {twins[name] for name in weights.tensors if name in tensors}
    missing = [name for name in tensors if twins[name] not in present]
    if not (unknown or missing):
        return
    sides = [f"it lacks {_some(missing)}"] if missing else []
    sides += [f"it holds {_some(unknown)}, which the module does not have"] if unknown else []
    prefix = next((prefix for prefix in WRAPPERS if all(name.startswith(prefix) for name in weights.tensors)), None)
    advice = (
        f"All its names start with {prefix!r}: take that off, or save the module inside the wrapper."
        if prefix
        else "It must hold the state_dict() of the module that --model builds."
    )
    raise UserError(f"{weights.path} does not fit {network}: {', and '.join(sides)}. {advice}")


def _check_values(
    weights: Weights, tensors: Mapping[str, Tensor], twins: Mapping[str, str], parameters: set[str]
) -> None:
    path = weights.path
    first: dict[str, str] = {}
    for name, tensor in weights.tensors.items():
        expected = tensors[name]
        if tensor.shape != expected.shape:
            raise UserError(
                f"{name!r} has shape {tuple(tensor.shape)} in {path}, but {tuple(expected.shape)} in the module that "
                "--model builds."
            )
        if expected.is_floating_point() and not tensor.is_floating_point():
            raise UserError(f"{name!r} in {path} is of type {tensor.dtype}; only real weights can be averaged.")
        values = tensor.float()
        # A mask of attention is a buffer that holds infinities.
        if values.isnan().any() or (name in parameters and values.isinf().any()):
            raise UserError(f"{name!r} in {path} has entries that are NaN or infinite: did the training diverge?")
        other = first.setdefault(twins[name], name)
        if not torch.equal(tensor, weights.tensors[other]):
            raise UserError(f"{path} holds different values for {other!r} and {name!r}, which the module ties.")


def _computable(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
