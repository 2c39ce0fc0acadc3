"""Continuous symmetries: linear maps of a group's neurons, found by asking every operation, and proven.

As signs are found (``signs``), with derivatives in place of flips. A map exp(X) acts on each place where a group occurs
by some power c: X skew on all writers and readers of a stream (c = 1), X symmetric on queries (1) and keys (-1). To
first order an operation agrees with powers c of its inputs and results if sum_i c_i Df[X x_i] = c_f X f: a linear
relation, found by evaluating it, in which one random X of a kind stands for all of them. The powers that satisfy the
relations of all operations are the network's; nothing is declared for operations or architectures. Pairs of dimensions
that rotary embeddings turn are guessed from the axes that there would be without the embeddings (``find_planes``), and
proven like all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Complex128, Float
from torch import Tensor, fx

from symlab.symmetries.forward_graph import operation
from symlab.symmetries.signs import Evaluated, Occurrence, between, hidden_nodes, occurrences, read_by
from symlab.symmetries.symmetry_spec import (
    Axes,
    Axis,
    Concat,
    Group,
    Product,
    SymmetrySpec,
    blocks,
    dim_of,
    groups_of,
    shape,
)

# Central differences in float64: their step, and what of an operation's result a relation may miss.
STEP, MISSED = 1e-4, 1e-5
# What a random element may change in an output of size 1, in float64.
PROVEN = 1e-10
# Operations between what is mapped and what is asked: more are not followed.
MOST_HIDDEN = 12

Matrices = Float[Tensor, "*within d d"]
Powers = Mapping[str, Mapping[Occurrence, float]]
"""For each entry of the state the places where a map acts, and to which power: 1, or -1 for its transposed inverse."""


@dataclass(frozen=True)
class Kind:
    """A kind of infinitesimal maps of d neurons: one drawn from noise, and the dimension of all of them."""

    draw: Callable[[Tensor], Tensor]
    dimension: Callable[[int], int]


def _skew(noise: Tensor) -> Tensor:
    return noise - noise.mT


def _fixing_ones(noise: Tensor) -> Tensor:
    d = noise.shape[-1]
    centre = torch.eye(d, dtype=noise.dtype) - 1 / d
    return centre @ _skew(noise) @ centre


KINDS = {
    "scales": Kind(lambda noise: torch.diag_embed(noise.diagonal(dim1=-2, dim2=-1)), lambda d: d),
    "skew": Kind(_skew, lambda d: d * (d - 1) // 2),
    "skew fixing ones": Kind(_fixing_ones, lambda d: (d - 1) * (d - 2) // 2),
    "symmetric": Kind(lambda noise: noise + noise.mT, lambda d: d * (d + 1) // 2),
}


@dataclass(frozen=True)
class Gain:
    """A vector that multiplies a norm's result, and what acts on it and its readers by one scale of each neuron."""

    name: str
    powers: Powers


@dataclass(frozen=True)
class Action:
    """Maps of a group's neurons that leave the network's function as it is.

    Attributes:
        group: the group's name.
        kind: "scaled" (each neuron by itself), "orthogonal", "orthogonal fixing ones" (O 1 = 1) or "invertible".
        powers: where they act, by all names.
        gains: those that have to be one before: ``fold`` moves them into what reads them.
        change: what folding and a random element changed in an output of size 1, in float64.
        spec: the axes and groups that the places are of.
        planes: for kind "planes" the pairs of neurons that are turned and scaled together.
    """

    group: str
    kind: str
    powers: Powers
    spec: SymmetrySpec
    gains: tuple[Gain, ...] = ()
    change: float = math.nan
    planes: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> tuple[int, ...]:
        """Neurons of the groups that its group lies within, and its own."""
        return shape(self.group, self.spec.groups)


def mapped(
    tensor: Tensor, axes: Axes, where: Mapping[Occurrence, float], group: str, groups: Mapping[str, Group], M: Matrices
) -> Tensor:
    """A copy of a tensor with a group's neurons mapped by powers of M at some occurrences."""
    result = tensor.clone(memory_format=torch.contiguous_format)
    for number, block in enumerate(blocks(result, axes, groups)):
        for (at, dim), power in where.items():
            if at == number and power:
                _map_block(block.tensor, block.labels, dim, group, groups, _power(M, power))
    return result


def _power(M: Matrices, power: float) -> Matrices:
    if power == 1:
        return M
    if power == -1:
        return torch.linalg.inv(M).mT
    # Scales of single neurons alone have other powers, as a batch norm's variance has.
    return torch.diag_embed(M.diagonal(dim1=-2, dim2=-1) ** power)


def _map_block(tensor: Tensor, labels: Any, dim: int, group: str, groups: Mapping[str, Group], M: Matrices) -> None:
    """Multiply a block along a dimension by a matrix for each neuron of the groups that contain it."""
    outer = [dim_of(name, labels[dim][1], labels) for name in groups[group].within]
    rest = [n for n in range(tensor.dim()) if n not in (*outer, dim)]
    order = [*outer, *rest, dim]
    rows = tensor.permute(*order)
    flat = rows.reshape(*rows.shape[: len(outer)], -1, rows.shape[-1])
    tensor.copy_((flat @ M.to(flat).mT).reshape(rows.shape).permute(*np.argsort(order).tolist()))


def act(state: Mapping[str, Tensor], action: Action, M: Matrices, powers: Powers | None = None) -> dict[str, Tensor]:
    """The state of the same network with a group's neurons mapped by M."""
    spec = action.spec
    return dict(state) | {
        name: mapped(state[name], spec.axes[name], where, action.group, spec.groups, M)
        for name, where in (action.powers if powers is None else powers).items()
        if name in state
    }


def fold(state: Mapping[str, Tensor], action: Action) -> dict[str, Tensor]:
    """The state of the same network with gains of one: what reads the norms takes them up."""
    folded = dict(state)
    for gain in action.gains:
        inverse = 1 / folded[gain.name].reshape(action.size)
        folded = act(folded, action, torch.diag_embed(inverse), gain.powers)
        folded[gain.name] = torch.ones_like(folded[gain.name])
    return folded


def random_element(action: Action, generator: torch.Generator) -> Matrices:
    """A random element of an action's group, some way from the identity, in float64."""
    if action.planes:
        angle, size = torch.randn(2, *action.size[:-1], len(action.planes), generator=generator, dtype=torch.float64)
        return turning(torch.polar((size / 2).exp(), angle), action.planes)
    parts = [0.5 * drawn(kind, action.size, generator) for kind in GENERATORS[action.kind]]
    return torch.matrix_exp(torch.stack(parts).sum(0))


GENERATORS = {
    "scaled": ("scales",),
    "orthogonal": ("skew",),
    "orthogonal fixing ones": ("skew fixing ones",),
    "invertible": ("skew", "symmetric"),
}


def turning(z: Complex128[Tensor, "*within p"], planes: Sequence[tuple[int, int]]) -> Matrices:
    """Matrices that turn and scale each of some pairs of dimensions as its complex number does."""
    i, j = torch.tensor(planes).T
    M = torch.zeros(*z.shape[:-1], 2 * len(i), 2 * len(i), dtype=torch.float64)
    M[..., i, i], M[..., j, j], M[..., j, i], M[..., i, j] = z.real, z.real, z.imag, -z.imag
    return M


def drawn(kind: str, size: Sequence[int], generator: torch.Generator) -> Matrices:
    """A random infinitesimal map for each neuron of the outer groups, that changes a vector by its own size."""
    noise = torch.randn(*size, size[-1], generator=generator, dtype=torch.float64)
    X = KINDS[kind].draw(noise)
    return X / (X.square().sum((-2, -1), keepdim=True) / size[-1]).sqrt()


def find_actions(forward: Evaluated, seed: int = 0) -> list[Action]:
    """The continuous symmetries of every free group, each proven by a random element.

    Args:
        forward: a pass in float64 at random weights (``general_position``).
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[Action] = []
    outer = {name for group in forward.spec.groups.values() for name in group.within}
    with torch.no_grad():
        # Heads and experts are moved as a whole: what else is free lies in the groups within them.
        for group in forward.spec.free:
            found += [] if group in outer else _of_group(forward, group, generator)
    return found


def find_planes(forward: Evaluated, seed: int = 0) -> list[Action]:
    """Turns and scales of pairs of dimensions, in queries and inversely in keys, that rotary embeddings leave free.

    Args:
        forward: as of ``find_actions``, with the axes that the network would have if all constants were alike: there
            the planes are a group, which occurs twice in the axis of dimensions, (P, P) or P x 2.
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[Action] = []
    for group in forward.spec.free:
        joined = {name: tuple(_joined(axis, group) for axis in axes) for name, axes in forward.spec.axes.items()}
        if joined != forward.spec.axes:
            with torch.no_grad():
                found += _of_planes(forward, group, joined, generator)
    return found


def _joined(axis: Axis, group: str) -> Axis:
    """An axis in which both halves of the planes, or each pair, are one."""
    if not isinstance(axis, Product | Concat):
        return axis
    parts = [_joined(part, group) for part in axis.parts]
    again = group if isinstance(axis, Concat) else 2
    pair = [n for n in range(len(parts) - 1) if parts[n] == group and parts[n + 1] == again]
    for n in pair[:1]:
        del parts[n + 1]
    return parts[0] if len(parts) == 1 else type(axis)(tuple(parts))


def _of_planes(forward: Evaluated, group: str, joined: dict[str, Axes], generator: torch.Generator) -> list[Action]:
    """The turns and scales of one group of planes, whose axes are joined."""
    size = forward.spec.groups[group].size
    groups = forward.spec.groups | {group: replace(forward.spec.groups[group], size=2 * size)}
    spec = replace(forward.spec, axes=joined, groups=groups)
    relations = _Relations(forward, group)
    found = []
    for row in relations.solutions(drawn("scales", shape(group, forward.spec.groups), generator)):
        powers: dict[str, dict[Occurrence, float]] = {}
        halves = False
        for name, where in relations.powers(row).items():
            tensor = next(forward.values[node] for node, first in forward.names.items() if first == name)
            places = occurrences(joined[name], group, groups, tensor.shape)
            # Each place stands for two blocks, or for a pair of entries in one.
            halves = len(where) == 2 * len(places)
            powers[name] = dict(zip(places, [*where.values()][:: 1 + halves], strict=False))
        planes = tuple((i, i + size) if halves else (2 * i, 2 * i + 1) for i in range(size))
        action = _proven(forward, Action(group, "planes", powers, spec, planes=planes), generator)
        found += [] if action is None else [action]
    return found


def _of_group(forward: Evaluated, group: str, generator: torch.Generator) -> list[Action]:
    spec, size = forward.spec, shape(group, forward.spec.groups)
    relations = _Relations(forward, group)
    if not relations.stored:
        return []
    gains = [place for place in relations.stored if _is_gain(forward, place, size)]
    scales = relations.solutions(drawn("scales", size, generator), first=gains)
    at_gain = {n: place for n, row in enumerate(scales) for place in gains if _alone(row, place, gains, relations)}
    folding = tuple(Gain(place[0], relations.powers(scales[n])) for n, place in at_gain.items())
    action = Action(group, "", {}, spec, folding)
    state = {name: forward.values[node] for node, name in forward.names.items()}
    folded = forward
    if action.gains:
        folded = forward.at(fold(state, action))
        relations = _Relations(folded, group)
    candidates: list[Action] = []
    if size[-1] > 1:
        skew = relations.solutions(drawn("skew", size, generator))
        symmetric = relations.solutions(drawn("symmetric", size, generator)) if len(skew) else skew
        by_size = {tuple(np.abs(relations.of_state(row))): row for row in symmetric}
        for row in skew:
            both = by_size.get(tuple(np.abs(relations.of_state(row))))
            kind = "orthogonal" if both is None else "invertible"
            candidates.append(replace(action, kind=kind, powers=relations.powers(row if both is None else both)))
        if not len(skew):
            ones = relations.solutions(drawn("skew fixing ones", size, generator)) if size[-1] > 2 else skew
            candidates += [replace(action, kind="orthogonal fixing ones", powers=relations.powers(row)) for row in ones]
    found = [proven for each in candidates if (proven := _proven(forward, each, generator)) is not None]
    if not any(each.kind == "invertible" for each in found):
        others = [
            Action(group, "scaled", relations.powers(row), spec)
            for n, row in enumerate(scales)
            if not (found and n in at_gain)
        ]
        found += [proven for each in others if (proven := _proven(forward, each, generator)) is not None]
    return found


def _alone(row: Float[np.ndarray, " columns"], place: Any, gains: Sequence[Any], relations: _Relations) -> bool:
    """Whether powers act on one gain and no other."""
    return all(row[relations.columns[each]] == (each == place) for each in gains)


def _proven(forward: Evaluated, action: Action, generator: torch.Generator) -> Action | None:
    """The action with what a random element of it changes; None if that is more than rounding."""
    # Ones are mapped to ones.
    of_gains = {gain.name for gain in action.gains}
    action = replace(action, powers={name: where for name, where in action.powers.items() if name not in of_gains})
    whole = all(power in (0, 1, -1) for where in action.powers.values() for power in where.values())
    if not action.powers or not (whole or action.kind == "scaled"):
        return None
    state = {name: forward.values[node] for node, name in forward.names.items()}
    M = random_element(action, generator)
    change = changed(forward, forward.at(act(fold(state, action), action, M)))

    def by_all_names(powers: Powers) -> Powers:
        return {name: powers[first] for name, first in forward.first_names.items() if first in powers}

    gains = tuple(replace(gain, powers=by_all_names(gain.powers)) for gain in action.gains)
    proven = replace(action, powers=by_all_names(action.powers), gains=gains, change=change)
    return proven if change < PROVEN else None


def changed(before: Evaluated, after: Evaluated) -> float:
    """The largest difference of two passes' outputs, each tensor's beside its size."""
    changes = [0.0]
    for node in before.outputs:
        one, other = before.values[node], after.values[node]
        if isinstance(one, Tensor) and one.is_floating_point():
            # Masked logits are infinite on both sides.
            difference = torch.where(one == other, 0, one - other).abs().max()
            changes.append(float(difference / one[one.isfinite()].abs().max().clamp(min=1e-300)))
    return max(changes)


def _is_gain(forward: Evaluated, place: tuple[str, Occurrence], size: Sequence[int]) -> bool:
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


def _pins(relation: Float[np.ndarray, "rank k"], n_own: int) -> bool:
    """Whether a relation leaves no power but 0 to an operation's result."""
    k = relation.shape[1]
    free = np.eye(k) - relation.T @ relation
    return bool(np.abs(free[k - n_own :]).max() < MISSED)


class _Relations:
    """What the operations of a forward pass leave free of one group.

    Attributes:
        columns: the unknown powers, by entry of the state (its first name) or operation, and occurrence.
        stored: those of the entries of the state.
    """

    def __init__(self, forward: Evaluated, group: str):
        self.forward, self.group, self.groups = forward, group, forward.spec.groups
        self.places: dict[fx.Node, list[Occurrence]] = {}
        self.columns: dict[tuple[Any, Occurrence], int] = {}
        for node, value in forward.values.items():
            axes = forward.axes.get(node)
            if not (isinstance(value, Tensor) and axes and any(group in groups_of(axis) for axis in axes)):
                continue
            if not {name for axis in axes for name in groups_of(axis)}.issuperset(self.groups[group].within):
                # Tokens that choose their experts meet what lies within these without the experts' axis.
                self.columns.clear()
                break
            self.places[node] = occurrences(axes, group, self.groups, value.shape)
            for occurrence in self.places[node]:
                self.columns.setdefault((forward.names.get(node, node), occurrence), len(self.columns))
        self.hidden = hidden_nodes(forward, self.places)
        if any(user.op == "output" for node in self.hidden for user in node.users):
            self.columns.clear()
        self.stored = [place for place in self.columns if isinstance(place[0], str)]

    def of_state(self, row: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " stored"]:
        """The powers at the entries of the state."""
        return row[[self.columns[place] for place in self.stored]]

    def powers(self, row: Float[np.ndarray, " columns"]) -> Powers:
        """The powers at the entries of the state that are not 0, by first names."""
        found: dict[str, dict[Occurrence, float]] = {}
        for name, occurrence in self.stored:
            if power := row[self.columns[name, occurrence]]:
                found.setdefault(name, {})[occurrence] = float(power)
        return found

    def solutions(self, X: Matrices, first: Sequence[Any] = ()) -> Float[np.ndarray, "n columns"]:
        """Independent powers with which exp(X) acts on all places, a row each, as simple as they can be.

        Args:
            first: places of which each row, as far as there are enough, has one alone.
        """
        constraints = [np.zeros(len(self.columns))]
        hidden, places = dict(self.hidden), dict(self.places)
        for node in self.forward.nodes:
            inputs = [(each, o) for each in read_by(node, hidden, places) for o in places[each]]
            own = [(node, each) for each in places.get(node, ())]
            # What is hidden is asked when something known is made of it.
            if node in hidden or not (inputs or own) or not isinstance(self.forward.values[node], Tensor):
                continue
            through = between(node, hidden)
            relation = self._relation(node, inputs, own, through, X)
            if inputs and own and _pins(relation, len(own)):
                # As the squares in a norm: they are no map of the neurons, but what is made of them may be.
                if len(through) >= MOST_HIDDEN or any(user.op == "output" for user in node.users):
                    return np.zeros((0, len(self.columns)))
                hidden = {each: None for each in self.forward.nodes if each in hidden or each is node}
                del places[node]
                continue
            keys = [self.columns[self.forward.names.get(each, each), o] for each, o in (*inputs, *own)]
            for row in relation:
                constraint = np.zeros(len(self.columns))
                np.add.at(constraint, keys, row)
                constraints.append(constraint)
        for node in self.places.keys() - places.keys():
            constraints += [np.eye(len(self.columns))[self.columns[node, o]] for o in self.places[node]]
        order = [self.columns[place] for place in first]
        order += [n for n in range(len(self.columns)) if n not in order]
        _, sizes, right = np.linalg.svd(np.array(constraints)[:, order], full_matrices=True)
        found = np.zeros((len(order) - int((sizes > MISSED).sum()), len(order)))
        found[:, order] = reduced(right[len(order) - len(found) :])
        # What acts on no entry of the state acts on nothing.
        return found[np.abs(self.of_state(found.T).T).sum(1) > 0] if len(found) else found

    def _relation(
        self, node: fx.Node, inputs: Sequence[Any], own: Sequence[Any], through: Sequence[fx.Node], X: Matrices
    ) -> Float[np.ndarray, "rank k"]:
        """What the powers at an operation's inputs and at its result satisfy: rows, whose products with them are 0."""
        forward, result = self.forward, self.forward.values[node]
        columns = []
        for each, occurrence in inputs:
            pair = []
            for step in (STEP, -STEP):
                changed_values = dict(forward.values)
                changed_values[each] = changed_values[each] + step * self._moved(each, occurrence, X)
                for inner in through:
                    changed_values[inner] = forward.evaluate(inner, changed_values)
                pair.append(forward.evaluate(node, changed_values).double())
            columns.append((pair[0] - pair[1]) / (2 * STEP))
        columns += [-self._moved(node, occurrence, X) for _, occurrence in own]
        D = torch.stack([each.double().nan_to_num(0, 0, 0).flatten() for each in columns], 1)
        _, sizes, right = np.linalg.svd(torch.linalg.qr(D, mode="r")[1].numpy())
        size = float(result[result.isfinite()].double().norm())
        return right[: int((sizes > MISSED * size).sum())]

    def _moved(self, node: fx.Node, occurrence: Occurrence, X: Matrices) -> Tensor:
        """X of a value at one occurrence, 0 elsewhere."""
        value, axes = self.forward.values[node], self.forward.axes[node]
        assert axes is not None
        # Masked scores are infinite.
        value = value.nan_to_num(0, 0, 0) if value.is_floating_point() else torch.zeros_like(value)
        moved = torch.zeros_like(value)
        for number, (to, block) in enumerate(
            zip(blocks(moved, axes, self.groups), blocks(value, axes, self.groups), strict=True)
        ):
            if number == occurrence[0]:
                to.tensor.copy_(block.tensor)
                _map_block(to.tensor, to.labels, occurrence[1], self.group, self.groups, X)
        return moved


def reduced(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """The reduced row echelon form of independent rows, rounded to halves."""
    rows, done = rows.copy(), 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-3:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, column], rows[done])
        done += 1
    return np.round(2 * rows) / 2 + 0.0
