"""What the rules of operations find out about axes, and where they are registered.

Most rules are written as an einsum: dimensions with the same label are unified, and the output's dimensions are those
of its labels. Operations without a rule are reported, and every axis that meets them stays in place.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from symlab.symmetries.dependence import Event, LabelledTensor
from symlab.symmetries.index_sets import IndexSet, Positions, Unsupported, unify
from symlab.symmetries.values import Dim, Value, bound_set, fix_dim, fixed_dim, uniform_dim, where_picked

Labels = Sequence[Hashable]
Sizes = tuple[int, ...]


class Unknown(int):
    """A stand-in for a number that depends on the batch size: no position can be read off it."""


class Recorder:
    """What the rules find out: events, and contractions of activations with parameters.

    Attributes:
        events: see ``dependence``.
        maps: (name of a parameter, the sets of its output axes) for each contraction with a parameter, in order.
        applied: (name of a parameter, the sets of its axes) for each parameter that is added, multiplied, ...
        mixed: names of the arguments of the current operation that enter a contraction.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.maps: list[tuple[str, list[IndexSet]]] = []
        self.applied: list[tuple[str, list[IndexSet]]] = []
        self.mixed: list[str] = []

    def relate(
        self,
        operands: Sequence[tuple[Value, Labels]],
        out: Labels,
        statistics: Sequence[Labels] = (),
        record: bool = True,
        contracts: bool = False,
        told_by: Mapping[Hashable, tuple[Hashable, Positions]] | None = None,
    ) -> Value:
        """The value with labels ``out`` of an operation that pairs the operands' dimensions by their labels.

        Args:
            statistics: labels of intermediate results that the operation keeps to itself.
            record: whether this is an event.
            contracts: whether parameters are weights of a linear map.
            told_by: for a label that is not in ``out`` the label whose indices tell, by positions, which of its
                indices an entry belongs to.

        Raises:
            Unsupported: an operand has another number of dimensions than labels, or paired axes differ in length.
        """
        if any(len(value.dims) != len(labels) for value, labels in operands):
            raise Unsupported("its number of dimensions")
        sizes: dict[Hashable, int] = {}
        sets: dict[Hashable, IndexSet] = {}
        for value, labels in operands:
            for dim, label in zip(value.dims, labels, strict=True):
                sizes[label] = max(dim.size, sizes.get(label, 1))
                if dim.factors:
                    own = bound_set(dim)
                    if label in sets:
                        unify(sets[label], own)
                    sets[label] = own
        dims = tuple(Dim(sizes[label], (sets[label],)) if label in sets else uniform_dim(sizes[label]) for label in out)
        # An index that positions tell, as a token's tell its expert, is a label of each tensor with those positions.
        told: dict[Hashable, Hashable] = {}
        hidden: set[tuple[Positions, Hashable]] = set()
        for label, (row, positions) in (told_by or {}).items():
            told[label] = positions, row
            hidden.add((positions, row))
        labels_of = [self._with_picked(value, labels, hidden) for value, labels in operands]
        sets |= {(positions, row): positions.of for positions, row in hidden}
        if record:
            tensors = [
                _labelled(value, [told.get(label, label) for label in labels], extra)
                for (value, labels), extra in zip(operands, labels_of, strict=True)
            ]
            for labels in (out, *statistics):
                extra = [label for label in hidden if label[1] in labels]
                tensors.append(LabelledTensor((*labels, *extra)))
            self.events.append(Event(tuple(tensors), {told.get(label, label): of for label, of in sets.items()}))
        for value, labels in operands:
            if value.parameter is not None and not contracts:
                along = [sets[label] for dim, label in zip(value.dims, labels, strict=True) if dim.factors]
                self.applied.append((value.parameter, along))
        result = Value(dims)
        picked = tuple((sets[row].root(), positions) for positions, row in hidden if row in out and row in sets)
        return replace(result, picked=tuple(p for p in picked if where_picked(dims, p[0]) is not None))

    @staticmethod
    def _with_picked(value: Value, labels: Labels, hidden: set[tuple[Positions, Hashable]]) -> list[Hashable]:
        """Labels of what an operand's entries were picked from; they are added to ``hidden``."""
        found: list[Hashable] = []
        for rows, positions in value.picked:
            at = where_picked(value.dims, rows)
            if at is not None:
                found.append((positions, labels[at]))
                hidden.add((positions, labels[at]))
        return found

    def contract(
        self,
        operands: Sequence[tuple[str, Value, Labels]],
        out: Labels,
        statistics: Sequence[Labels] = (),
        told_by: Mapping[Hashable, tuple[Hashable, Positions]] | None = None,
    ) -> Value:
        """As ``relate``, for sums of products; operands come with the name of their argument."""
        result = self.relate(
            [(value, labels) for _, value, labels in operands], out, statistics, contracts=True, told_by=told_by
        )
        self.mixed += [name for name, _, _ in operands]
        of_parameters = [(value, labels) for _, value, labels in operands if value.parameter is not None]
        seen = [
            label
            for value, labels in of_parameters
            for dim, label in zip(value.dims, labels, strict=True)
            if dim.factors
        ]
        for value, labels in of_parameters:
            assert value.parameter is not None
            outputs = [label for label in out if label in labels]
            sets = [
                dim.factors[0] for dim, label in zip(result.dims, out, strict=True) if label in outputs and dim.factors
            ]
            self.maps.append((value.parameter, sets))
            # What parameters are summed over together is an output of neither, and may be renumbered in both.
            shared = [
                bound_set(dim)
                for dim, label in zip(value.dims, labels, strict=True)
                if label not in out and seen.count(label) > 1
            ]
            if shared:
                self.applied.append((value.parameter, [*sets, *shared]))
        return result


Result = Value | list[Value]
Rule = Callable[[Recorder, dict[str, Any], list[Sizes]], Result]
Given = TypeVar("Given", bound=Rule)
RULES: dict[str, Rule] = {}
# Pointwise operations that torch does not mark as such.
POINTWISE = {
    *("hardswish", "hardsigmoid", "hardtanh", "relu6", "selu", "celu", "mish", "softplus", "softsign", "tanhshrink"),
    *("softshrink", "hardshrink", "log_sigmoid", "threshold", "rrelu", "where", "copy", "masked_fill", "square"),
    *("__and__", "__or__", "__xor__", "floor_divide"),
}
# Beside the arguments, whether tensors of positions are masks, which count for as many dimensions as they have.
MASKS = "masks"
# Operations whose result holds the same activations as their first input, pixel by pixel or summed over fixed axes.
CARRIERS: set[str] = set()
# Operations for which the entries of a tensor may be positions that are renumbered; to all others they are numbers.
POINTING: set[str] = set()


def _labelled(value: Value, labels: Sequence[Hashable], extra: Sequence[Hashable]) -> LabelledTensor:
    # A value that is constant along a dimension is not indexed by it.
    own = (label if dim.factors else None for dim, label in zip(value.dims, labels, strict=True))
    return LabelledTensor((*own, *extra), value.whole)


def rule(*names: str, carries: bool = False, points: bool = False) -> Callable[[Given], Given]:
    """Register the rule of some operations; ``carries``: see ``CARRIERS``, ``points``: see ``POINTING``."""

    def register(function: Given) -> Given:
        RULES.update(dict.fromkeys(names, function))
        if carries:
            CARRIERS.update(names)
        if points:
            POINTING.update(names)
        return function

    return register


def combine(recorder: Recorder, operands: Sequence[Value], statistics: Sequence[Labels] = ()) -> Value:
    """Operands entry by entry, with broadcasting; ``statistics`` as of ``Recorder.relate``."""
    rank = max(len(value.dims) for value in operands)
    labelled = [(value, range(rank - len(value.dims), rank)) for value in operands]
    return recorder.relate(labelled, range(rank), statistics)


def elementwise(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Any pointwise operation, with broadcasting."""
    operands = [value for value in arguments.values() if isinstance(value, Value)]
    result = combine(recorder, operands)
    parameters = {value.parameter for value in operands if value.parameter}
    if len(parameters) == 1 and all(
        value.parameter or all(d.factors is None for d in value.dims) for value in operands
    ):
        return Value(result.dims, parameters.pop())
    return result


def rule_of(name: str, tags: Sequence[torch.Tag]) -> Rule | None:
    """The rule of an operation by its name and torch's tags; None if it has none."""
    return RULES.get(name, elementwise if torch.Tag.pointwise in tags or name in POINTWISE else None)


def several(number: Any) -> Sequence[Any]:
    """A number as a list of one; a list as it is."""
    return number if isinstance(number, list | tuple) else [number]


def per_dimension(arguments: dict[str, Any], name: str, default: Any, count: int) -> list[Any]:
    """An argument for each dimension of space; one alone is that of all."""
    given = list(several(arguments.get(name) or default))
    return given * count if len(given) == 1 else given


def windows(value: Value, n_dims: int, sizes: Sizes, kept: Sequence[bool] | None = None) -> Value:
    """The value with its last dimensions fixed and of other sizes, except those that are ``kept``."""
    first = len(value.dims) - n_dims
    dims = list(value.dims)
    for at, same in enumerate(kept or [False] * n_dims, first):
        if not same:
            fix_dim(dims[at])
            dims[at] = fixed_dim(sizes[at])
    return Value(tuple(dims))


def reduced_axes(arguments: dict[str, Any], rank: int) -> set[int]:
    """The dimensions that an operation's argument names; all without one."""
    dims = arguments.get("dim", arguments.get("dims"))
    if dims is None or dims == []:
        return set(range(rank))
    return {dim % rank for dim in several(dims)}


def fixed_along(value: Value, at: int, size: int) -> Value:
    """Any entries of the value along one dimension."""
    fix_dim(value.dims[at])
    return value.with_dims((*value.dims[:at], fixed_dim(size), *value.dims[at + 1 :]))


def has_unknown(arguments: dict[str, Any]) -> bool:
    """Whether a position or length depends on the batch size."""
    return any(isinstance(number, Unknown) for argument in arguments.values() for number in several(argument))


def input_of(arguments: dict[str, Any]) -> Value:
    """The operation's first tensor.

    Raises:
        Unsupported: there is none.
    """
    value = arguments.get("self", arguments.get("input"))
    if not isinstance(value, Value):
        raise Unsupported("no tensor as its input")
    return value
