"""Signs as symmetries: which entries turn round together with a neuron's sign, found by asking every operation.

Neurons behind an odd function (tanh, sin), the products of a gated layer (SwiGLU, GEGLU), the channels of a stream that
is normalised by its mean square: their signs may be flipped one by one, if what writes and reads them is flipped too.
Nothing about operations is declared for this. Each is evaluated with one neuron of a group turned round in some of its
inputs; which of these ways leave its results as they were, or turn the neuron round there, is a linear relation over
{0, 1}, and the signs of the network are what satisfies those of all its operations. A random element proves them.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from symlab.symmetries.forward_graph import operation
from symlab.symmetries.symmetry_spec import (
    Axes,
    Group,
    Point,
    SymmetrySpec,
    blocks,
    dim_of,
    groups_of,
    length,
    shape,
)

# Operations that read a group in more places at once are not asked: its signs count as unknown.
MOST_OCCURRENCES = 7
# Of an operation's largest result; they are evaluated in float64.
TOLERANCE = 1e-10
# Neurons that are asked for each operation; one whose activation is 0 says nothing.
NEURONS_ASKED = 3

Occurrence = tuple[int, int]
"""A block of a tensor, see ``symmetry_spec.blocks``, and the dimension of a group in it."""


@dataclass(frozen=True)
class Flip:
    """One way in which the sign of each neuron of a group is free.

    Attributes:
        group: the group's name.
        turned: for each parameter and buffer where the neurons are turned round.
        points: the recorded values (``Point.value``), of any group, and the blocks of them in which they are.
        gain: an entry of the state that multiplies what a norm gives, and that no other flip turns, if there is one.
    """

    group: str
    turned: dict[str, frozenset[Occurrence]]
    points: frozenset[tuple[str, int]]
    gain: tuple[str, Occurrence] | None = None

    def turns(self, point: Point, group: str, groups: Mapping[str, Group]) -> bool:
        """Whether it turns activations round that are recorded for a group at a point."""
        sizes = [length(axis, groups) or 1 for axis in point.axes]
        return any((point.value, block) in self.points for block, _ in occurrences(point.axes, group, groups, sizes))


def occurrences(axes: Axes, group: str, groups: Mapping[str, Group], sizes: Sequence[int]) -> list[Occurrence]:
    """Where a group occurs in a tensor of some shape."""
    found = blocks(torch.empty(tuple(sizes), device="meta"), axes, groups)
    return [
        (number, dim)
        for number, block in enumerate(found)
        for dim, (name, _) in enumerate(block.labels)
        if name == group
    ]


def flipped(
    tensor: Tensor,
    axes: Axes,
    where: Iterable[Occurrence],
    group: str,
    groups: Mapping[str, Group],
    signs: Int[np.ndarray, "*within d"] | Tensor,
) -> Tensor:
    """A copy of a tensor with a group's neurons multiplied by signs, at some occurrences."""
    where = set(where)
    result = tensor.clone(memory_format=torch.contiguous_format)
    factors = torch.as_tensor(signs, device=tensor.device).to(tensor.dtype)
    for number, block in enumerate(blocks(result, axes, groups)):
        for at, dim in where:
            if at != number:
                continue
            outer = [dim_of(name, block.labels[dim][1], block.labels) for name in groups[group].within]
            order = [*outer, dim]
            # The factors' axes run over the outer groups and the group; the block's dimensions in their own order.
            arranged = factors.permute(*np.argsort(order).tolist())
            view = [block.tensor.shape[n] if n in order else 1 for n in range(block.tensor.dim())]
            block.tensor.mul_(arranged.reshape(view))
    return result


def apply_flips(
    state: Mapping[str, Tensor],
    spec: SymmetrySpec,
    flips: Iterable[Flip],
    signs: Mapping[int, Int[np.ndarray, "*within d"]],
) -> dict[str, Tensor]:
    """The state of the same network with neurons turned round: by the number of each flip the signs of its neurons."""
    turned = dict(state)
    for number, flip in enumerate(flips):
        if number not in signs or not (np.asarray(signs[number]) < 0).any():
            continue
        for name, where in flip.turned.items():
            if name in turned:
                turned[name] = flipped(turned[name], spec.axes[name], where, flip.group, spec.groups, signs[number])
    return turned


def random_signs(spec: SymmetrySpec, flips: Sequence[Flip], rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Random signs for all flips."""
    return {number: rng.choice([-1, 1], shape(flip.group, spec.groups)) for number, flip in enumerate(flips)}


@dataclass
class Evaluated:
    """A forward pass with all its values, and their axes; None where these are not known.

    Attributes:
        spec: the symmetries.
        nodes: the operations, in order.
        values: what each placeholder and operation gives.
        axes: of each value that is a tensor; of a placeholder for an entry of the state those of the entry.
        names: for each placeholder of an entry of the state its name, the first one if it is tied.
        first_names: for each name of the state the first one of the same tensor.
        outputs: the values that the network returns.
        wide: whether all real numbers are float64, those that the network itself would convert too.
    """

    spec: SymmetrySpec
    nodes: list[fx.Node]
    values: dict[fx.Node, Any]
    axes: dict[fx.Node, Axes | None]
    names: dict[fx.Node, str]
    first_names: dict[str, str]
    outputs: tuple[fx.Node, ...] = ()
    wide: bool = False

    def evaluate(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        """What an operation gives, from the values of those before it, in the precision of this pass."""
        return evaluate(node, values, self.wide)

    def at(self, state: Mapping[str, Tensor]) -> Evaluated:
        """The same pass at another state, by first names."""
        values = dict(self.values)
        for node, name in self.names.items():
            values[node] = state[name]
        for node in self.nodes:
            values[node] = self.evaluate(node, values)
        return replace(self, values=values)


def find_flips(forward: Evaluated, seed: int = 0, others: Sequence[Evaluated] = ()) -> list[Flip]:
    """The signs that every operation allows, by group, in a pass and in others of the same network at other states."""
    rng = np.random.default_rng(seed)
    found: list[Flip] = []
    with torch.no_grad():
        for group in forward.spec.free:
            found += _of_group(forward, group, rng, others)
    return found


def _of_group(forward: Evaluated, group: str, rng: np.random.Generator, others: Sequence[Evaluated]) -> list[Flip]:
    """The independent flips of one group; none if an operation cannot be asked."""
    places, hidden, unknowns = unknowns_of(forward, group)
    constraints: set[int] = set()
    for node in forward.nodes if unknowns else ():
        inputs = [(each, occurrence) for each in read_by(node, hidden, places) for occurrence in places[each]]
        own = [(node, each) for each in places.get(node, ())]
        # What is hidden is asked when something known is made of it.
        if node in hidden or not (inputs or own):
            continue
        if len(inputs) > MOST_OCCURRENCES or not isinstance(forward.values[node], Tensor):
            return []
        columns = [unknowns[forward.names.get(each, each), occurrence] for each, occurrence in (*inputs, *own)]
        for each in (forward, *others):
            relation = _asked(each, node, inputs, own, group, hidden, rng)
            for functional in nullspace(relation, len(columns)):
                # A tensor that is read twice has one unknown for both.
                row = 0
                for n, column in enumerate(columns):
                    row ^= ((functional >> n) & 1) << column
                constraints.add(row)
    return _as_flips(forward, group, unknowns, nullspace(constraints, len(unknowns)))


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


def is_gain(forward: Evaluated, place: tuple[str, Occurrence], size: Sequence[int]) -> bool:
    """Whether an entry of the state is a vector of a group that multiplies what a norm, or nothing else, gives."""
    nodes = [node for node, name in forward.names.items() if name == place[0]]
    if forward.values[nodes[0]].numel() != math.prod(size):
        return False
    for node in nodes:
        source = node
        while len(source.users) == 1 and len(next(iter(source.users)).all_input_nodes) == 1:
            source = next(iter(source.users))
        for user in source.users:
            arguments = getattr(getattr(user.target, "_schema", None), "arguments", ())
            named = {argument.name for argument, value in zip(arguments, user.args, strict=False) if value is source}
            if operation(user) != "mul" and not ("weight" in named and "norm" in operation(user)):
                return False
    return True


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


def read_by(node: fx.Node, hidden: Collection[fx.Node], places: Mapping[fx.Node, Any]) -> list[fx.Node]:
    """The known values of a group that an operation reads, directly or through hidden ones."""
    through = (*between(node, hidden), node)
    return [*dict.fromkeys(each for one in through for each in one.all_input_nodes if each in places)]


def _as_flips(
    forward: Evaluated, group: str, unknowns: Mapping[tuple[Any, Occurrence], int], solutions: Sequence[int]
) -> list[Flip]:
    spec = forward.spec
    recorded = {point.value for points in spec.points.values() for point in points}
    flips: list[Flip] = []
    independent: list[int] = []
    size = shape(group, spec.groups)
    entries = {column: place for place, column in unknowns.items() if isinstance(place[0], str)}
    gains = {column: place for column, place in entries.items() if is_gain(forward, place, size)}
    stored = sum(1 << column for column in entries)
    solutions, alone = with_columns_alone(solutions, gains)
    for number, solution in enumerate(solutions):
        reduced = solution & stored
        for other in independent:
            reduced = min(reduced, reduced ^ other)
        if not reduced:
            continue
        independent.append(reduced)
        turned: dict[str, set[Occurrence]] = {}
        points = set()
        for (holder, occurrence), column in unknowns.items():
            if not (solution >> column) & 1:
                continue
            if isinstance(holder, str):
                for name, first in forward.first_names.items():
                    if first == holder:
                        turned.setdefault(name, set()).add(occurrence)
            elif holder.name in recorded:
                points.add((holder.name, occurrence[0]))
        everywhere = {name: frozenset(where) for name, where in turned.items()}
        flips.append(Flip(group, everywhere, frozenset(points), gains[alone[number]] if number in alone else None))
    return flips


def with_columns_alone(vectors: Sequence[int], columns: Iterable[int]) -> tuple[list[int], dict[int, int]]:
    """Sums over {0, 1} of vectors, as bits, that span the same, and by number the column that one alone has.

    Each column that is in any vector is one vector's alone, as long as there are vectors left.
    """
    vectors, alone = list(vectors), dict[int, int]()
    for column in columns:
        having = [n for n, vector in enumerate(vectors) if (vector >> column) & 1]
        own = next((n for n in having if n not in alone), None)
        if own is not None:
            vectors = [
                vector ^ vectors[own] if n in having and n != own else vector for n, vector in enumerate(vectors)
            ]
            alone[own] = column
    return vectors, alone


def _asked(
    forward: Evaluated,
    node: fx.Node,
    inputs: Sequence[tuple[fx.Node, Occurrence]],
    own: Sequence[tuple[fx.Node, Occurrence]],
    group: str,
    hidden: Collection[fx.Node],
    rng: np.random.Generator,
) -> set[int]:
    """All ways to turn a neuron round in an operation's inputs, and in its result with them, that agree; as bits."""
    spec, result = forward.spec, forward.values[node]
    hidden_inputs = between(node, hidden)
    sizes = shape(group, spec.groups)
    allowed: set[int] | None = None
    for _ in range(min(NEURONS_ASKED, sizes[-1])):
        signs = np.ones(sizes, dtype=np.int64)
        signs[tuple(rng.integers(size) for size in sizes)] = -1
        agreeing = set()
        for bits in product((0, 1), repeat=len(inputs)):
            changed: ChainMap[fx.Node, Any] = ChainMap({}, forward.values)  # type: ignore[arg-type]
            for each in dict.fromkeys(holder for holder, _ in inputs):
                where = [o for (holder, o), bit in zip(inputs, bits, strict=True) if bit and holder is each]
                if where:
                    axes = forward.axes[each]
                    assert axes is not None
                    changed[each] = flipped(forward.values[each], axes, where, group, spec.groups, signs)
            for each in hidden_inputs:
                changed[each] = forward.evaluate(each, changed)
            found = forward.evaluate(node, changed)
            for of_result in product((0, 1), repeat=len(own)):
                where = [o for (_, o), bit in zip(own, of_result, strict=True) if bit]
                axes = forward.axes.get(node)
                expected = flipped(result, axes, where, group, spec.groups, signs) if where and axes else result
                if _alike(found, expected):
                    agreeing.add(sum(bit << n for n, bit in enumerate((*bits, *of_result))))
        allowed = agreeing if allowed is None else allowed & agreeing
    return allowed or {0}


def _alike(found: Tensor, expected: Tensor) -> bool:
    if not found.is_floating_point():
        return torch.equal(found, expected)
    # Masked scores are infinite on both sides.
    same = (found == expected) | ((found - expected).abs() <= TOLERANCE * expected[expected.isfinite()].abs().max())
    return bool(same.all())


def evaluate(node: fx.Node, values: Mapping[fx.Node, Any], wide: bool = False) -> Any:
    """What an operation gives, from the values of those before it; with real numbers of float64 if ``wide``."""
    arguments, options = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    if wide:
        arguments, options = tree_map(widened, (arguments, options))
    result = node.target(*arguments, **options)  # type: ignore[operator]
    return tree_map(widened, result) if wide else result


def widened(value: Any) -> Any:
    """Real tensors, and types of real numbers, in float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def nullspace(rows: Iterable[int], n: int) -> list[int]:
    """A basis of the vectors over {0, 1}, as bits, whose product with each of some rows of n bits is even."""
    pivots: dict[int, int] = {}
    for row in rows:
        for column, pivot in pivots.items():
            if (row >> column) & 1:
                row ^= pivot
        if not row:
            continue
        column = row.bit_length() - 1
        pivots = {other: pivot ^ row if (pivot >> column) & 1 else pivot for other, pivot in pivots.items()}
        pivots[column] = row
    free = [column for column in range(n) if column not in pivots]
    return [(1 << column) | sum(1 << pivot for pivot, row in pivots.items() if (row >> column) & 1) for column in free]
