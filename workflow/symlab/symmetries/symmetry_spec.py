"""Which axes of which tensors permute together when the neurons of a network are renumbered.

A *group* is a set of neurons that one permutation renumbers: the neurons of a hidden layer, the channels of a residual
stream, the heads of an attention layer. A group may lie *within* others: the value dimensions within each head are
renumbered separately, head by head. Every axis of a tensor is described by

- ``None`` or an integer (its length): entries that stay in place;
- the name of a group: the group's neurons, one after another;
- a ``Product``: the mixed-radix index of its parts, the first one slowest (heads x dimensions; channels x pixels after
  a flatten);
- a ``Concat``: its parts one after another (concatenated channels; query, key and value in one matrix).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from symlab.errors import UserError


@dataclass(frozen=True)
class Product:
    """An axis whose index runs over all combinations of its parts' indices, the first part slowest."""

    parts: tuple[Axis, ...]


@dataclass(frozen=True)
class Concat:
    """An axis that holds its parts one after another."""

    parts: tuple[Axis, ...]


Axis = None | int | str | Product | Concat
Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Group:
    """Neurons that one permutation renumbers.

    Attributes:
        within: the groups (outermost first) inside whose neurons this group repeats. Its permutation then has one row
            for each combination of theirs, of shape [*sizes of within, size]. Wherever it occurs, they occur too.
        fixed: the neurons stay in place, told apart by constants of the network as heads are by slopes of biases; the
            group is there for those within it.
    """

    size: int
    within: tuple[str, ...] = ()
    fixed: bool = False


@dataclass(frozen=True)
class Point:
    """A value of the forward pass that holds activations of one or more groups.

    Attributes:
        value: the name of the value in the traced graph.
        axes: its axes, the batch first.
        place: path of the module that computes it, for people.
    """

    value: str
    axes: Axes
    place: str


@dataclass(frozen=True)
class SymmetrySpec:
    """The permutation symmetries of a network, as data.

    Attributes:
        axes: for each parameter and buffer the description of each of its axes.
        groups: the groups by name; one that lies within others comes after them.
        points: for each group the values whose activations tell its neurons apart (post-norm, post-activation); several
            are taken together, as more samples of the same neurons. A group without points is matched through the
            groups within it.
        unsupported: a sentence for each operation that the tracer does not know; axes that meet it stay in place.
        mixed: by operations that may move or combine what is along them (and are known) parameters' axes, by name and
            number, that stay in place for it; others stay as those of inputs, outputs and constants do.
    """

    axes: dict[str, Axes]
    groups: dict[str, Group]
    points: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    mixed: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

    @property
    def free(self) -> list[str]:
        """Names of the groups whose neurons may be renumbered: all that are not fixed."""
        return [name for name, group in self.groups.items() if not group.fixed]

    def to_json(self) -> dict[str, Any]:
        """The spec without its points as JSON values, to be kept beside permutations."""
        return {
            "axes": {name: [axis_to_json(axis) for axis in axes] for name, axes in self.axes.items()},
            "groups": {
                name: {"size": group.size, "within": list(group.within), **({"fixed": True} if group.fixed else {})}
                for name, group in self.groups.items()
            },
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> SymmetrySpec:
        """The spec that ``to_json`` wrote."""
        return SymmetrySpec(
            {name: tuple(axis_from_json(axis) for axis in axes) for name, axes in value["axes"].items()},
            {
                name: Group(group["size"], tuple(group["within"]), group.get("fixed", False))
                for name, group in value["groups"].items()
            },
        )


def axis_to_json(axis: Axis) -> Any:
    """An axis as a JSON value."""
    if isinstance(axis, Product | Concat):
        return ["product" if isinstance(axis, Product) else "concat", *map(axis_to_json, axis.parts)]
    return axis


def axis_from_json(value: Any) -> Axis:
    """The axis that ``axis_to_json`` wrote."""
    if isinstance(value, list):
        return (Product if value[0] == "product" else Concat)(tuple(map(axis_from_json, value[1:])))
    return value


def groups_of(axis: Axis) -> set[str]:
    """Names of the groups that occur in an axis."""
    if isinstance(axis, Product | Concat):
        return {name for part in axis.parts for name in groups_of(part)}
    return {axis} if isinstance(axis, str) else set()


def length(axis: Axis, groups: Mapping[str, Group]) -> int | None:
    """Number of entries of an axis; None if it is all in place and of any length."""
    if isinstance(axis, Product | Concat):
        lengths = [length(part, groups) or 1 for part in axis.parts]
        return sum(lengths) if isinstance(axis, Concat) else int(np.prod(lengths))
    return groups[axis].size if isinstance(axis, str) else axis


def validate(spec: SymmetrySpec, state: Mapping[str, Tensor]) -> None:
    """Check that the spec covers every tensor of ``state`` and that every axis has the length it describes.

    Raises:
        UserError: names the first tensor, axis or group that does not fit.
    """
    for name in state:
        if name not in spec.axes:
            raise UserError(f"the symmetry spec says nothing of {name!r}: add it to axes, with None for fixed axes.")
    for group, described in spec.groups.items():
        for outer in described.within:
            if outer not in spec.groups:
                raise UserError(f"group {group!r} is said to lie within {outer!r}, which is no group of the spec.")
    for name, axes in spec.axes.items():
        if name not in state:
            raise UserError(f"the symmetry spec names {name!r}, which the network does not have: remove it from axes.")
        shape = tuple(state[name].shape)
        if len(axes) != len(shape):
            raise UserError(f"the symmetry spec gives {len(axes)} axes for {name!r}, whose shape is {shape}.")
        present = set().union(*map(groups_of, axes)) if axes else set()
        for group in sorted(present):
            if group not in spec.groups:
                raise UserError(f"the symmetry spec lets unknown group {group!r} act on {name!r}: add it to groups.")
            missing = [outer for outer in spec.groups[group].within if outer not in present]
            if missing:
                raise UserError(
                    f"group {group!r} acts on {name!r}, but {missing[0]!r}, which it lies within, does not."
                )
        for number, axis in enumerate(axes):
            described_length = length(axis, spec.groups)
            if described_length is not None and described_length != shape[number]:
                raise UserError(
                    f"axis {number} of {name!r} has {shape[number]} entries, "
                    f"but the symmetry spec describes {described_length}."
                )


@dataclass(frozen=True)
class Block:
    """A part of a tensor with one dimension for each factor: (group or None, the tensor's axis it came from)."""

    tensor: Tensor
    labels: tuple[tuple[str | None, int], ...]


def blocks(tensor: Tensor, axes: Axes, groups: Mapping[str, Group]) -> Iterator[Block]:
    """The tensor cut at every ``Concat`` and unfolded at every ``Product``, as views.

    Neurons whose entries stand in twos, as gates and values of some gated layers do, are cut as if these were halves.
    """
    yield from _blocks(tensor, [(axis, number) for number, axis in enumerate(axes)], groups)


def _blocks(tensor: Tensor, axes: list[tuple[Axis, int]], groups: Mapping[str, Group]) -> Iterator[Block]:
    for dim, (axis, number) in enumerate(axes):
        if isinstance(axis, Concat):
            # Not split: gradients flow through what is written into a part, which torch allows in views cut one by one.
            start = 0
            for part, size in zip(axis.parts, _lengths(axis, groups), strict=True):
                piece = tensor.narrow(dim, start, size)
                yield from _blocks(piece, [*axes[:dim], (part, number), *axes[dim + 1 :]], groups)
                start += size
            return
        if isinstance(axis, Product):
            parts = [(part, number) for part in axis.parts]
            unfolded = tensor.unflatten(dim, _lengths(axis, groups))
            in_twos = axis.parts[-1] == 2
            last = dim + len(parts) - 1
            for each in (unfolded.select(last, n) for n in range(2)) if in_twos else (unfolded,):
                yield from _blocks(each, [*axes[:dim], *parts[: len(parts) - in_twos], *axes[dim + 1 :]], groups)
            return
    yield Block(tensor, tuple((axis if isinstance(axis, str) else None, number) for axis, number in axes))


def _lengths(axis: Product | Concat, groups: Mapping[str, Group]) -> list[int]:
    # A part of unknown length, such as the batch, is what the others leave over.
    return [-1 if (known := length(part, groups)) is None else known for part in axis.parts]


def permuted(
    tensor: Tensor, axes: Axes, permutations: Mapping[str, Int[np.ndarray, "*within d"]], groups: Mapping[str, Group]
) -> Tensor:
    """The tensor with its neurons renumbered; groups that are missing from ``permutations`` stay as they are."""
    return _permuted(tensor, [(axis, number) for number, axis in enumerate(axes)], permutations, groups)


def permuted_block(
    block: Block, permutations: Mapping[str, Int[np.ndarray, "*within d"]], groups: Mapping[str, Group]
) -> Tensor:
    """A block with its neurons renumbered; groups that are missing from ``permutations`` stay as they are."""
    return _permuted(block.tensor, list(block.labels), permutations, groups)


def _permuted(
    tensor: Tensor,
    axes: list[tuple[Axis, int]],
    permutations: Mapping[str, Int[np.ndarray, "*within d"]],
    groups: Mapping[str, Group],
) -> Tensor:
    for dim, (axis, number) in enumerate(axes):
        if isinstance(axis, Concat):
            pieces = tensor.split(_lengths(axis, groups), dim)
            inner = [
                _permuted(piece, [*axes[:dim], (part, number), *axes[dim + 1 :]], permutations, groups)
                for part, piece in zip(axis.parts, pieces, strict=True)
            ]
            return torch.cat(inner, dim)
        if isinstance(axis, Product):
            parts = [(part, number) for part in axis.parts]
            unfolded = tensor.unflatten(dim, _lengths(axis, groups))
            done = _permuted(unfolded, [*axes[:dim], *parts, *axes[dim + 1 :]], permutations, groups)
            return done.flatten(dim, dim + len(parts) - 1)
    # Outer groups first: row h of an inner permutation belongs to the neuron that now stands at h.
    for name in groups:
        if name not in permutations:
            continue
        pi = torch.as_tensor(permutations[name], device=tensor.device)
        for dim, (axis, number) in enumerate(axes):
            if axis != name:
                continue
            if pi.dim() == 1:
                tensor = tensor.index_select(dim, pi)
                continue
            outer = [dim_of(outer_name, number, axes) for outer_name in groups[name].within]
            if [*outer, dim] == list(range(outer[0], dim + 1)):
                # One after another in memory: as one axis they are moved some ten times as fast.
                rows = pi.reshape(-1, groups[name].size)
                flat = torch.arange(len(rows), device=pi.device)[:, None] * rows.shape[1] + rows
                moved = tensor.flatten(outer[0], dim).index_select(outer[0], flat.flatten())
                tensor = moved.view(tensor.shape)
                continue
            shape = [1] * tensor.dim()
            for at in (*outer, dim):
                shape[at] = tensor.shape[at]
            # The rows of pi run over the outer groups in their order, the tensor's dimensions in theirs.
            order = sorted(range(len(outer)), key=outer.__getitem__)
            last = len(outer)
            position = sorted((*outer, dim)).index(dim)
            arranged = pi.permute(*order, last).movedim(-1, position).reshape(shape)
            tensor = torch.take_along_dim(tensor, arranged.expand(tensor.shape), dim)
    return tensor


def dim_of(group: str, axis_number: int, labels: Sequence[tuple[Axis, int]]) -> int:
    """The dimension of an outer group, by the (factor, axis of the tensor) of each dimension.

    It is the one in the same axis of the tensor if there is one, else that in another axis.
    """
    dims = [dim for dim, (axis, _) in enumerate(labels) if axis == group]
    same = [dim for dim in dims if labels[dim][1] == axis_number]
    return (same or dims)[0]


def neurons_last(block: Block, dim: int, groups: Mapping[str, Group]) -> Tensor:
    """A view of a block whose last dimensions are the group's at ``dim`` and, before it, those that it lies within."""
    name, axis = block.labels[dim]
    assert name is not None
    last = [*(dim_of(outer, axis, block.labels) for outer in groups[name].within), dim]
    return block.tensor.permute(*(n for n in range(block.tensor.dim()) if n not in last), *last)


def random_permutations(spec: SymmetrySpec, rng: np.random.Generator) -> dict[str, Int[np.ndarray, "*within d"]]:
    """A uniformly random permutation for each group (and each position of the groups that it lies within)."""
    return {name: pi if spec.groups[name].fixed else rng.permuted(pi, axis=-1) for name, pi in identity(spec).items()}


def identity(spec: SymmetrySpec) -> dict[str, Int[np.ndarray, "*within d"]]:
    """The permutation of every group that leaves all neurons where they are."""
    return {
        name: np.broadcast_to(np.arange(group.size), shape(name, spec.groups)).copy()
        for name, group in spec.groups.items()
    }


def shape(group: str, groups: Mapping[str, Group]) -> tuple[int, ...]:
    """Shape of a group's permutation: sizes of the groups it lies within, then its own."""
    return (*(groups[outer].size for outer in groups[group].within), groups[group].size)


def inverse(
    permutations: Mapping[str, Int[np.ndarray, "*within d"]], groups: Mapping[str, Group]
) -> dict[str, Int[np.ndarray, "*within d"]]:
    """The permutations that undo ``permutations``."""
    undone: dict[str, np.ndarray] = {}
    for name in groups:
        pi = permutations[name]
        inner = np.argsort(pi, axis=-1)
        # Row h of pi belongs to the neuron that came from pi_outer(h); undoing it is needed there. The outer groups
        # are moved first, each within those before it.
        for axis, outer in enumerate(groups[name].within):
            of_outer = undone[outer]
            index = np.expand_dims(of_outer, tuple(range(of_outer.ndim, inner.ndim)))
            inner = np.take_along_axis(
                inner, np.broadcast_to(index, (*index.shape[: axis + 1], *inner.shape[axis + 1 :])), axis
            )
        undone[name] = inner
    return undone
