"""A user's module made ready to compute with others' states: one precision, no hidden or tied tensors in the way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from symlab.errors import UserError
from symlab.own.modules import is_of_transformers, some
from symlab.own.weights import Weights, converted
from symlab.symmetries.trace import NO_COMPLEX

HALVES = (torch.float16, torch.bfloat16)


class State(Mapping[str, Tensor]):
    """Tensors by name, real ones in one precision: those in half are converted when asked for, and not kept.

    Attributes:
        dtype: what to compute in.
        stored: the same numbers, in half precision where they came so.
    """

    def __init__(self, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32):
        self.dtype = dtype
        self.stored = {
            name: tensor.to(dtype) if tensor.is_floating_point() and tensor.dtype not in HALVES else tensor
            for name, tensor in tensors.items()
        }

    def __getitem__(self, name: str) -> Tensor:
        tensor = self.stored[name]
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def converted(self) -> State:
        """The same, all converted at once: for what asks for each tensor many times."""
        return State(dict(self), self.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


@dataclass(frozen=True)
class Network:
    """A module whose state is exactly the tensors of a weights file.

    Attributes:
        module: in evaluation mode, of the dtype, on the device; buffers that no file holds are plain attributes of it.
        twins: for each name that a file may hold the first name of the same tensor: itself, unless weights are tied
            or the file has a prefix more or less.
        names: what a state to compute with holds: each tensor once.
        all_names: the module's names, those of tied weights too.
        dtype: float64 if all weights are, else float32.
        remarks: sentences on prefixes of names.
    """

    module: nn.Module
    twins: dict[str, str]
    names: tuple[str, ...]
    all_names: tuple[str, ...]
    dtype: torch.dtype = torch.float32
    remarks: tuple[str, ...] = ()

    def state(self, tensors: Mapping[str, Tensor]) -> State:
        """The state that a file's tensors describe, on the module's device."""
        by_twin = {self.twins[name]: tensor for name, tensor in tensors.items() if name in self.twins}
        return State({name: by_twin[self.twins[name]].to(device_of(self.module)) for name in self.names}, self.dtype)

    def as_given(self, state: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state with the names and types of a file's tensors; constants that states do not hold are the file's."""
        return {
            name: state.get(self.twins[name], tensor).to(tensor.device, tensor.dtype, copy=True).contiguous()
            for name, tensor in like.items()
        }

    def by_all_names(self, state: State) -> State:
        """A state with tied tensors under each of their names, as the traced network wants it."""
        by_twin = {self.twins[name]: tensor for name, tensor in state.stored.items()}
        known = {name: by_twin[self.twins[name]] for name in self.all_names if self.twins[name] in by_twin}
        return State(known, self.dtype)


def device_of(module: nn.Module) -> torch.device:
    """Where a module's first tensor lies; the CPU if it has none."""
    return next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))


def as_in_memory(weights: Weights, module: nn.Module) -> Weights:
    """The weights as the module has them, of files that hold more or have older names.

    Where all that the module has stands under one prefix, what stands beside it is left out: the weights of a loss, or
    how many were averaged. Folders of transformers are read by it, if their names do not fit its model as they are.

    Raises:
        UserError: transformers finds that the folder lacks some.
    """
    tensors = _tensors(module)
    twins = {} if any(map(is_lazy, tensors.values())) else _twins(tensors)
    if not twins or _fits(_renamed(weights, tensors, twins), weights, tensors, twins):
        return weights
    fitting = [prefix for prefix in _prefixes(weights.tensors) if _fits_under(prefix, weights.tensors, tensors, twins)]
    if len(fitting) > 1:
        raise UserError(
            f"{weights.path} holds {len(fitting)} networks that fit the module, under {some(fitting, 5)}: "
            f"keep the tensors of one of them."
        )
    if fitting:
        prefix = fitting[0]
        within = {name: tensor for name, tensor in weights.tensors.items() if name.startswith(prefix)}
        beside = [name for name in weights.tensors if name not in within]
        remark = f"Of {weights.path} what stands beside {prefix!r} was left out: {some(beside, 3)}."
        shards = {file: [name for name in names if name in within] for file, names in weights.shards.items()}
        return replace(weights, tensors=within, shards=shards, remarks=(*weights.remarks, remark))
    of_folder = is_of_transformers(module) and (weights.path / "config.json").is_file()
    return converted(weights, module) if of_folder else weights


def prepare(module: nn.Module, files: Sequence[Weights], device: str) -> Network:
    """Check that files of networks of one architecture fit a module, and make it ready to compute with their tensors.

    Raises:
        UserError: a file's names, shapes or values do not fit the module or each other.
    """
    tensors = _tensors(module)
    if any(is_lazy(tensor) for tensor in tensors.values()):
        raise UserError(f"{type(module).__name__} has lazy layers, whose sizes are not known yet: call it once before.")
    if not tensors:
        raise UserError(f"{type(module).__name__} has no weights that could be aligned.")
    twins = _twins(tensors)
    A = files[0]
    for (name, tensor), B in product(A.tensors.items(), files[1:]):
        if name in B.tensors and B.tensors[name].shape != tensor.shape:
            raise UserError(
                f"{name!r} has shape {tuple(tensor.shape)} in {A.path}, but {tuple(B.tensors[name].shape)} in "
                f"{B.path}: all must be trained networks of one architecture."
            )
    of_files = dict(twins)
    remarks: list[str] = []
    for weights in files:
        renamed = _renamed(weights, tensors, twins)
        by_name = replace(weights, tensors={renamed(name): tensor for name, tensor in weights.tensors.items()})
        _check_names(by_name, type(module).__name__, tensors, twins)
        _check_values(by_name, tensors, twins, set(dict(module.named_parameters(remove_duplicate=False))))
        of_files |= {name: twins[renamed(name)] for name in weights.tensors}
        remarks += (*weights.remarks, *renamed.remarks)
    real = {tensor.dtype for weights in files for tensor in weights.tensors.values() if tensor.is_floating_point()}
    dtype = torch.float64 if real == {torch.float64} else torch.float32
    module = module.requires_grad_(False).eval().to(device)
    module = module.double() if dtype == torch.float64 else module.float()
    _hide(module, _infinite_constants(files))
    _forget(module)
    names = [*dict(module.named_parameters()), *dict(module.named_buffers())]
    return Network(module, of_files, tuple(names), tuple(twins), dtype, tuple(remarks))


def _twins(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name the first name of the same tensor."""
    first: dict[tuple[int, torch.Size], str] = {}
    return {
        name: first.setdefault((tensor.data_ptr() or id(tensor), tensor.shape), name)
        for name, tensor in tensors.items()
    }


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
        # A weight that a norm's hook computed is no leaf, and such a module could not be copied.
        derived = {name: value.detach() for name, value in vars(submodule).items() if isinstance(value, Tensor)}
        vars(submodule).update(derived)
        for name in list(submodule._buffers):
            full = f"{path}.{name}" if path else name
            if name not in submodule._non_persistent_buffers_set and full not in constants:
                continue
            tensor = submodule._buffers.pop(name)
            submodule._non_persistent_buffers_set.discard(name)
            # Detached, for an nn.Buffer would be registered again.
            value = None if tensor is None else constants.get(full, tensor).to(tensor).detach()
            setattr(submodule, name, value)


def _forget(module: nn.Module) -> None:
    """Give back the memory of the module's own weights, which every state replaces: empty tensors take none."""
    parameters = list(module.parameters())
    holders = Counter(parameter.untyped_storage()._cdata for parameter in parameters)
    for parameter in parameters:
        # Those in one storage are tied, as the tracer sees by it.
        if holders[parameter.untyped_storage()._cdata] == 1:
            parameter.data = torch.empty_like(parameter)


def _infinite_constants(files: Sequence[Weights]) -> dict[str, Tensor]:
    """Tensors with infinities that all files hold: masks of attention, which would become NaN when averaged."""
    return {
        name: tensor
        for name, tensor in files[0].tensors.items()
        if tensor.is_floating_point()
        and any(map(math.isinf, _extremes(tensor)))
        and all(torch.equal(tensor, other.tensors.get(name, tensor)) for other in files[1:])
    }


@dataclass(frozen=True)
class _Renamed:
    """A file's names as the module has them: without a prefix, or with one more."""

    off: str = ""
    on: str = ""
    remarks: tuple[str, ...] = ()

    def __call__(self, name: str) -> str:
        return self.on + name.removeprefix(self.off)


def _renamed(weights: Weights, tensors: Mapping[str, Tensor], twins: Mapping[str, str]) -> _Renamed:
    """How a file's names become the module's: by a prefix that all have, or that all lack, where that makes it fit."""
    taken = "All names in {} begin with {!r}, which the module's do not: it was taken off."
    put = "The names in {} lack {!r}, with which the module's begin: it was put before them."
    ways = [_Renamed()]
    # A wrapper may lie within another: module._orig_mod.
    for prefix in _prefixes(weights.tensors):
        if all(name.startswith(prefix) for name in weights.tensors):
            ways.append(_Renamed(off=prefix, remarks=(taken.format(weights.path, prefix),)))
    ways += [_Renamed(on=each, remarks=(put.format(weights.path, each),)) for each in _prefixes(tensors)]
    return next((way for way in ways if _fits(way, weights, tensors, twins)), ways[0])


def _fits(renamed: _Renamed, weights: Weights, tensors: Mapping[str, Tensor], twins: Mapping[str, str]) -> bool:
    return not any(_misfits(map(renamed, weights.tensors), tensors, twins))


def _prefixes(names: Iterable[str]) -> list[str]:
    """What stands before any of the dots of the names, with the dot, each once."""
    found = (name[: end + 1] for name in names for end, letter in enumerate(name) if letter == ".")
    return list(dict.fromkeys(found))


def _fits_under(
    prefix: str, given: Mapping[str, Tensor], tensors: Mapping[str, Tensor], twins: Mapping[str, str]
) -> bool:
    """Whether what stands under a prefix has the module's names, and their shapes."""
    within = {name.removeprefix(prefix): tensor for name, tensor in given.items() if name.startswith(prefix)}
    return not any(_misfits(within, tensors, twins)) and all(
        tensor.shape == tensors[name].shape for name, tensor in within.items()
    )


def _misfits(
    names: Iterable[str], tensors: Mapping[str, Tensor], twins: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Names that the module does not have, and tensors of the module that have no name among them."""
    names = list(names)
    present = {twins[name] for name in names if name in tensors}
    return [name for name in names if name not in tensors], [name for name in tensors if twins[name] not in present]


def _check_names(weights: Weights, network: str, tensors: Mapping[str, Tensor], twins: Mapping[str, str]) -> None:
    unknown, missing = _misfits(weights.tensors, tensors, twins)
    if not (unknown or missing):
        return
    sides = [f"it lacks {some(missing, 3)}"] if missing else []
    sides += [f"it holds {some(unknown, 3)}, which the module does not have"] if unknown else []
    raise UserError(
        f"{weights.path} does not fit {network}: {', and '.join(sides)}. It must hold the module's state_dict()."
    )


def _check_values(
    weights: Weights, tensors: Mapping[str, Tensor], twins: Mapping[str, str], parameters: set[str]
) -> None:
    path = weights.path
    first: dict[str, str] = {}
    for name, tensor in weights.tensors.items():
        expected = tensors[name]
        if tensor.shape != expected.shape:
            raise UserError(
                f"{name!r} has shape {tuple(tensor.shape)} in {path}, but {tuple(expected.shape)} in the module."
            )
        if tensor.is_complex():
            raise UserError(f"{name!r} in {path} holds complex numbers, {NO_COMPLEX}")
        if expected.is_floating_point() and not tensor.is_floating_point():
            raise UserError(f"{name!r} in {path} is of type {tensor.dtype}; only real weights can be averaged.")
        low, high = _extremes(tensor)
        # A mask of attention is a buffer that holds infinities.
        if math.isnan(low) or (name in parameters and (math.isinf(low) or math.isinf(high))):
            raise UserError(f"{name!r} in {path} has entries that are NaN or infinite: did the training diverge?")
        other = first.setdefault(twins[name], name)
        if other != name and not torch.equal(tensor, weights.tensors[other]):
            raise UserError(f"{path} holds different values for {other!r} and {name!r}, which the module ties.")


def _extremes(tensor: Tensor) -> tuple[float, float]:
    """The smallest and largest entry in float32, both NaN if any is: some 20 times as fast as isnan or isinf."""
    if not tensor.numel():
        return 0.0, 0.0
    # Types of 8 bits have no order in torch.
    low, high = (tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor).aminmax()
    return float(low.float()), float(high.float())
