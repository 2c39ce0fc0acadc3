"""Signs as symmetries: which entries turn round together with a neuron's sign, found by asking every operation.

Neurons behind an odd function (tanh, sin), the products of a gated layer (SwiGLU, GEGLU), the channels of a stream that
is normalised by its mean square: their signs may be flipped one by one, if what writes and reads them is flipped too.
Nothing about operations is declared for this. Each is evaluated with one neuron of a group turned round in some of its
inputs; which of these ways leave its results as they were, or turn the neuron round there, is a linear relation over
{0, 1}, and the signs of the network are what satisfies those of all its operations. A random element proves them.
"""

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, fx

from symlab.symmetries.evaluated import (
    Evaluated,
    Occurrence,
    between,
    evaluate,
    occurrences,
    read_by,
    unknowns_of,
    unmasked,
)
from symlab.symmetries.forward_graph import operation
from symlab.symmetries.symmetry_spec import Axes, Group, Point, SymmetrySpec, blocks, length, neurons_last, shape

# Operations that read a group in more places at once are asked for two of them at a time (a cell of an LSTM reads its
# hidden units in twenty); in still more they are not asked: the group's signs count as unknown.
MOST_OCCURRENCES, MOST_IN_PAIRS = 7, 32
# Of an operation's largest result; they are evaluated in float64.
TOLERANCE = 1e-10
# Neurons that are asked for each operation.
NEURONS_ASKED = 3


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


def flipped(
    tensor: Tensor,
    axes: Axes,
    where: Iterable[Occurrence],
    groups: Mapping[str, Group],
    signs: Int[np.ndarray, "*within d"] | Tensor,
) -> Tensor:
    """A copy of a tensor with a group's neurons multiplied by signs, at some occurrences."""
    result = tensor.clone(memory_format=torch.contiguous_format)
    factors = torch.as_tensor(signs, device=tensor.device).to(tensor.dtype)
    parts = list(blocks(result, axes, groups))
    for number, dim in set(where):
        neurons_last(parts[number], dim, groups).mul_(factors)
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
                turned[name] = flipped(turned[name], spec.axes[name], where, spec.groups, signs[number])
    return turned


def random_signs(spec: SymmetrySpec, flips: Sequence[Flip], rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Random signs for all flips."""
    return {number: rng.choice([-1, 1], shape(flip.group, spec.groups)) for number, flip in enumerate(flips)}


def find_flips(passes: Sequence[Evaluated]) -> list[Flip]:
    """The signs that every operation allows, by group, in some passes of the same network at several states."""
    with torch.no_grad():
        return [flip for group in passes[0].spec.free for flip in _of_group(passes, group)]


def _of_group(passes: Sequence[Evaluated], group: str) -> list[Flip]:
    """The independent flips of one group; none if an operation cannot be asked."""
    forward = passes[0]
    places, hidden, unknowns = unknowns_of(forward, group)
    constraints: set[int] = set()
    for node in forward.nodes if unknowns else ():
        inputs = read_by(node, hidden, places)
        own = [(node, each) for each in places.get(node, ())]
        # What is hidden is asked when something known is made of it.
        if node in hidden or not (inputs or own):
            continue
        if len(inputs) > MOST_IN_PAIRS or not isinstance(forward.values[node], Tensor):
            return []
        # Places are bits of an int64.
        if len(inputs) > MOST_OCCURRENCES and len(inputs) + len(own) > 62:
            return []
        columns = [unknowns[forward.names.get(each, each), occurrence] for each, occurrence in (*inputs, *own)]
        if len(inputs) > MOST_OCCURRENCES:
            rows = _asked_in_pairs(forward, node, inputs, own, group, hidden)
        else:
            asked = (_asked(each, node, inputs, own, group, hidden) for each in passes)
            rows = {row for relation in asked for row in nullspace(relation, len(columns))}
        for functional in rows:
            # A tensor that is read twice has one unknown for both.
            row = 0
            for n, column in enumerate(columns):
                row ^= ((functional >> n) & 1) << column
            constraints.add(row)
    return _as_flips(forward, group, unknowns, nullspace(constraints, len(unknowns)))


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
) -> set[int]:
    """All ways to turn a neuron round in an operation's inputs, and in its result with them, that agree; as bits."""
    spec, result = forward.spec, forward.values[node]
    axes, through = forward.axes.get(node), between(node, hidden)
    allowed: set[int] | None = None
    for signs in _loudest(forward, (*inputs, *own), shape(group, spec.groups)):
        agreeing, expected, rounding = set(), {}, _rounding(result)
        for of_result in product((0, 1), repeat=len(own)):
            where = [o for (_, o), bit in zip(own, of_result, strict=True) if bit]
            expected[of_result] = flipped(result, axes, where, spec.groups, signs) if where and axes else result
        for bits in product((0, 1), repeat=len(inputs)):
            turned = [(place, signs) for place, bit in zip(inputs, bits, strict=True) if bit]
            found = _changed(forward, node, turned, through)
            for of_result, turned_result in expected.items():
                if _alike(found, turned_result, rounding):
                    agreeing.add(sum(bit << n for n, bit in enumerate((*bits, *of_result))))
        allowed = agreeing if allowed is None else allowed & agreeing
    return allowed or {0}


def _asked_in_pairs(
    forward: Evaluated,
    node: fx.Node,
    inputs: Sequence[tuple[fx.Node, Occurrence]],
    own: Sequence[tuple[fx.Node, Occurrence]],
    group: str,
    hidden: Collection[fx.Node],
) -> set[int]:
    """Sets of an operation's many inputs of which every way to turn a neuron round must turn an even number; as bits.

    With the neuron at 0 in all inputs but one or two, that part of the result which is odd in each of these must turn
    round as they do. What needs three at once is not seen, and left to the proof.
    """
    groups, result, axes = forward.spec.groups, unmasked(forward.values[node]), forward.axes.get(node)
    signs = _loudest(forward, (*inputs, *own), shape(group, groups))[0]
    absent, through = (1 + signs) / 2, between(node, hidden)
    # Of each entry of the result in which of its own places the neuron stands.
    held = torch.zeros(result.shape, dtype=torch.int64, device=result.device)
    for n, (_, where) in enumerate(own):
        assert axes is not None
        held |= (flipped(torch.ones_like(result), axes, [where], groups, signs) < 0).long() << (len(inputs) + n)
    rows = set()
    for seen in (each for most in range(3) for each in combinations(range(len(inputs)), most)):
        odd = torch.zeros_like(result)
        for bits in product((0, 1), repeat=len(seen)):
            turned = [(place, absent) for n, place in enumerate(inputs) if n not in seen]
            turned += [(inputs[n], signs) for n, bit in zip(seen, bits, strict=True) if bit]
            odd += (-1) ** sum(bits) * unmasked(_changed(forward, node, turned, through))
        loud = odd.abs() > TOLERANCE * result.abs().max()
        rows |= {sum(1 << n for n in seen) | int(code) for code in held[loud].unique()}
    return rows


def _changed(
    forward: Evaluated,
    node: fx.Node,
    factors: Iterable[tuple[tuple[fx.Node, Occurrence], Tensor]],
    through: Iterable[fx.Node],
) -> Any:
    """What an operation gives with a group's neurons multiplied by factors at places of what it reads ``through``."""
    changed: ChainMap[fx.Node, Any] = ChainMap({}, forward.values)  # type: ignore[arg-type]
    together: dict[tuple[fx.Node, int], tuple[Tensor, list[Occurrence]]] = {}
    for (holder, where), of_neurons in factors:
        together.setdefault((holder, id(of_neurons)), (of_neurons, []))[1].append(where)
    for (holder, _), (of_neurons, places) in together.items():
        axes = forward.axes[holder]
        assert axes is not None
        changed[holder] = flipped(changed[holder], axes, places, forward.spec.groups, of_neurons)
    for each in through:
        changed[each] = evaluate(each, changed)
    return evaluate(node, changed)


def _loudest(
    forward: Evaluated, places: Sequence[tuple[fx.Node, Occurrence]], sizes: tuple[int, ...]
) -> list[Int[Tensor, "*within d"]]:
    """Signs of a few neurons, one each, that are as far from 0 as can be at all places: a unit of 0 tells nothing."""
    sound = torch.full(sizes, math.inf, dtype=torch.float64)
    for node, (number, dim) in places:
        value = unmasked(forward.values[node]).abs()
        block = list(blocks(value, forward.axes[node] or (), forward.spec.groups))[number]
        loud = neurons_last(block, dim, forward.spec.groups).reshape(-1, *sizes).amax(0)
        sound = torch.minimum(sound, (loud / loud.max().clamp(min=1e-300)).cpu())
    chosen = sound.flatten().topk(min(NEURONS_ASKED, sizes[-1])).indices
    return [(1 - 2 * (torch.arange(sound.numel()) == each).long()).reshape(sizes) for each in chosen]


def _rounding(result: Tensor) -> Tensor | float:
    """By how much each entry of a value may be off, whichever of its neurons are turned round."""
    if not result.is_floating_point():
        return 0.0
    # Masked scores are infinite on both sides, or as good as that: beside them all others would be alike.
    return TOLERANCE * result.abs().clamp(min=unmasked(result).abs().max()).where(result.isfinite(), 0)


def _alike(found: Tensor, expected: Tensor, rounding: Tensor | float) -> bool:
    if not found.is_floating_point():
        return torch.equal(found, expected)
    return bool(((found == expected) | ((found - expected).abs() <= rounding)).all())


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
