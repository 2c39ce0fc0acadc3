"""A forward pass with all its values: where groups occur in them, and what it gives at other states."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from symlab.symmetries.symmetry_spec import Axes, Group, SymmetrySpec, blocks, groups_of

# What is larger stands for infinity in masks of attention: finfo.min of float32, or of bfloat16.
HUGE = 1e30

Occurrence = tuple[int, int]
"""A block of a tensor, see ``symmetry_spec.blocks``, and the dimension of a group in it."""


@dataclass
class Evaluated:
    """A forward pass with all its values, and their axes; None where these are not known.

    All real numbers are float64, those that the network itself would convert too.

    Attributes:
        spec: the symmetries.
        nodes: the operations, in order.
        values: what each placeholder and operation gives.
        axes: of each value that is a tensor; of a placeholder for an entry of the state those of the entry.
        names: for each placeholder of an entry of the state its name, the first one if it is tied.
        first_names: for each name of the state the first one of the same tensor.
        outputs: the values that the network returns.
    """

    spec: SymmetrySpec
    nodes: list[fx.Node]
    values: dict[fx.Node, Any]
    axes: dict[fx.Node, Axes | None]
    names: dict[fx.Node, str]
    first_names: dict[str, str]
    outputs: tuple[fx.Node, ...] = ()

    @property
    def state(self) -> dict[str, Tensor]:
        """The entries of the state, by first names."""
        return {name: self.values[node] for node, name in self.names.items()}

    def at(self, state: Mapping[str, Tensor]) -> "Evaluated":
        """The same pass at another state, by first names."""
        values = dict(self.values)
        for node, name in self.names.items():
            values[node] = widened(state[name])
        for node in self.nodes:
            values[node] = evaluate(node, values)
        return replace(self, values=values)

    def change(self, state: Mapping[str, Tensor]) -> float:
        """The largest difference that another state makes to an output, each tensor's beside its size; NaN stays."""
        after, changes = self.at(state), [torch.zeros((), dtype=torch.float64)]
        for node in self.outputs:
            one, other = self.values[node], after.values[node]
            if isinstance(one, Tensor) and one.is_floating_point() and one.numel():
                # Masked logits are infinite on both sides.
                difference = torch.where(one == other, 0, one - other).abs().max().double()
                changes.append((difference / unmasked(one).abs().max().clamp(min=1e-300)).cpu())
        return float(torch.stack(changes).max())


def unmasked(value: Tensor) -> Tensor:
    """A value in float64, with 0 for what is no number, infinite, or as good as that."""
    value = value.double()
    return torch.where(value.abs() < HUGE, value, 0)


def occurrences(axes: Axes, group: str, groups: Mapping[str, Group], sizes: Sequence[int]) -> list[Occurrence]:
    """Where a group occurs in a tensor of some shape."""
    found = blocks(torch.empty(tuple(sizes), device="meta"), axes, groups)
    return [
        (number, dim)
        for number, block in enumerate(found)
        for dim, (name, _) in enumerate(block.labels)
        if name == group
    ]


def unknowns_of(
    forward: Evaluated, group: str
) -> tuple[dict[fx.Node, list[Occurrence]], dict[fx.Node, None], dict[tuple[Any, Occurrence], int]]:
    """The values in which a group occurs, and where; the operations between them that are not understood; and a number
    for each occurrence by the entry of the state (its first name) or operation: none if the group cannot be followed.
    """
    groups, places = forward.spec.groups, dict[fx.Node, list[Occurrence]]()
    for node, value in forward.values.items():
        axes = forward.axes.get(node)
        if not (isinstance(value, Tensor) and axes and any(group in groups_of(axis) for axis in axes)):
            continue
        if not {name for axis in axes for name in groups_of(axis)}.issuperset(groups[group].within):
            # Tokens that choose their experts meet what lies within these without the experts' axis.
            return {}, {}, {}
        places[node] = occurrences(axes, group, groups, value.shape)
    hidden = hidden_nodes(forward, places)
    if any(user.op == "output" for node in hidden for user in node.users):
        return {}, {}, {}
    keys = dict.fromkeys((forward.names.get(node, node), each) for node, where in places.items() for each in where)
    return places, hidden, {key: number for number, key in enumerate(keys)}


def hidden_nodes(forward: Evaluated, places: Mapping[fx.Node, Any]) -> dict[fx.Node, None]:
    """Operations that depend on a group and whose results have axes that are not known, or are lists; in order."""
    hidden: dict[fx.Node, None] = {}
    for node in forward.nodes:
        known = isinstance(forward.values[node], Tensor) and forward.axes.get(node) is not None
        if not known and any(each in places or each in hidden for each in node.all_input_nodes):
            hidden[node] = None
    return hidden


def between(node: fx.Node, hidden: Collection[fx.Node]) -> list[fx.Node]:
    """The hidden operations that an operation reads, directly or through others of them, in order."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        inner = [each for each in waiting.pop().all_input_nodes if each in hidden and each not in found]
        found |= {*inner}
        waiting += inner
    return [each for each in hidden if each in found]


def read_by(
    node: fx.Node, hidden: Collection[fx.Node], places: Mapping[fx.Node, Sequence[Occurrence]]
) -> list[tuple[fx.Node, Occurrence]]:
    """The places of a group in known values that an operation reads, directly or through hidden ones."""
    through = (*between(node, hidden), node)
    read = dict.fromkeys(each for one in through for each in one.all_input_nodes if each in places)
    return [(each, where) for each in read for where in places[each]]


def evaluate(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """What an operation gives, from the values of those before it, with real numbers of float64."""
    arguments, options = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    # What was computed before is wide, in lists too; an operation's own types are not, nor what it makes by itself.
    options = {name: widened(option) for name, option in options.items()}
    result = node.target(*map(widened, arguments), **options)  # type: ignore[operator]
    return widened(result) if isinstance(result, Tensor) else tree_map(widened, result)


def widened(value: Any) -> Any:
    """Real tensors, and types of real numbers, in float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
