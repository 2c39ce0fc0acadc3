"""A traced forward pass and its symmetries as JSON: a network is traced once and read back by many jobs.

Tracing costs seconds of imports (torch.export) in every process that does it; running the operations that were found
needs none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symlab.batches import Inputs, parts_of
from symlab.symmetries.symmetry_spec import Point, SymmetrySpec, axis_from_json, axis_to_json

if TYPE_CHECKING:
    from torch import fx

    from symlab.symmetries.trace import Traced


class NotStorable(Exception):
    """The forward pass holds something that JSON cannot say: constants, or one batch size alone."""


@dataclass(frozen=True)
class StoredForward:
    """What ``Traced`` is to those who record activations: a spec with points, and their values at a state."""

    spec: SymmetrySpec
    steps: list[dict[str, Any]]

    def values(self, state: Mapping[str, Tensor], x: Tensor | Inputs, names: Iterable[str]) -> dict[str, Tensor]:
        """Values of the forward pass at ``state``, in evaluation mode and without gradients.

        Args:
            state: the network's parameters and buffers by name.
            x: a batch of inputs.
            names: values of the spec's points.
        """
        wanted = set(names)
        found: dict[str, Any] = {}
        inputs = parts_of(x)
        with torch.no_grad():
            for step, (call, spent) in zip(self.steps, self._plan, strict=True):
                if call is None:
                    source = step["source"]
                    found[step["name"]] = inputs[int(source[1:])] if source[0] == "#" else state[source[1:]]
                else:
                    args = [_value(each, found, x.device) for each in step["args"]]
                    kwargs = {key: _value(each, found, x.device) for key, each in step["kwargs"].items()}
                    found[step["name"]] = call(*args, **kwargs)
                for name in spent - wanted:
                    del found[name]
        return {name: found[name] for name in wanted}

    @cached_property
    def _plan(self) -> list[tuple[Callable[..., Any] | None, set[str]]]:
        """For each step its function (None for inputs and the state) and the values that nothing needs after it."""
        last: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            last[step["name"]] = number
            for name in _names([step.get("args"), step.get("kwargs")]):
                last[name] = number
        return [
            (_function(step["call"]) if "call" in step else None, {name for name, at in last.items() if at == number})
            for number, step in enumerate(self.steps)
        ]


def store(traced: Traced) -> dict[str, Any]:
    """A traced network as JSON values.

    Raises:
        NotStorable: it has constants of its own, or takes batches of one size alone.
    """
    if traced.batch is not None:
        raise NotStorable("its forward pass takes batches of one size alone")
    points = {
        group: [[point.value, [axis_to_json(axis) for axis in point.axes], point.place] for point in of_group]
        for group, of_group in traced.spec.points.items()
    }
    wanted = [point.value for of_group in traced.spec.points.values() for point in of_group]
    steps = []
    for node, source in traced.nodes(wanted):
        if node.op == "placeholder":
            if not isinstance(source, str):
                raise NotStorable("its forward pass holds a constant tensor")
            steps.append({"name": node.name, "source": source})
        else:
            arguments = {"args": _stored(list(node.args)), "kwargs": _stored(dict(node.kwargs))}
            steps.append({"name": node.name, "call": _call(node), **arguments})
    return {"spec": traced.spec.to_json(), "points": points, "steps": steps}


def restore(stored: Mapping[str, Any]) -> StoredForward:
    """What ``store`` wrote."""
    spec = SymmetrySpec.from_json(stored["spec"])
    points = {
        group: tuple(Point(value, tuple(map(axis_from_json, axes)), place) for value, axes, place in of_group)
        for group, of_group in stored["points"].items()
    }
    return StoredForward(SymmetrySpec(spec.axes, spec.groups, points), stored["steps"])


def _call(node: fx.Node) -> str:
    """``aten.linear.default``, or ``operator:getitem`` for a function of Python."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    if node.op != "call_function" or isinstance(node.target, str):
        raise NotStorable(f"its forward pass calls {node.target}")
    return f"{node.target.__module__.removeprefix('_')}:{node.target.__name__}"


def _function(call: str) -> Callable[..., Any]:
    module, _, name = call.partition(":")
    if name:
        return getattr(importlib.import_module(module), name)
    namespace, operation, overload = call.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operation), overload)


def _stored(value: Any) -> Any:
    """An argument as JSON: a value of the graph is {"value": name}, what JSON does not know {"torch": name}."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_stored(each) for each in value]
    if isinstance(value, dict):
        return {key: _stored(each) for key, each in value.items()}
    if isinstance(value, torch.device):
        return {"device": "of the inputs"}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if hasattr(value, "op") and hasattr(value, "name"):
        return {"value": value.name}
    raise NotStorable(f"an operation takes a {type(value).__name__}")


def _value(stored: Any, found: Mapping[str, Any], device: torch.device) -> Any:
    if isinstance(stored, list):
        return [_value(each, found, device) for each in stored]
    if isinstance(stored, dict):
        if "value" in stored:
            return found[stored["value"]]
        return device if "device" in stored else getattr(torch, stored["torch"])
    return stored


def _names(stored: Any) -> Iterable[str]:
    """Names of the values that occur in arguments."""
    if isinstance(stored, list):
        for each in stored:
            yield from _names(each)
    elif isinstance(stored, dict):
        if set(stored) == {"value"}:
            yield stored["value"]
        else:
            yield from _names(list(stored.values()))
