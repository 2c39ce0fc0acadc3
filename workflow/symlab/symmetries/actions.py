"""Continuous symmetries: linear maps of a group's neurons, found by asking every operation, and proven.

As signs are found (``signs``), with derivatives in place of flips. A map exp(X) acts on each place where a group occurs
by some power c: X skew on all writers and readers of a stream (c = 1), X symmetric on queries (1) and keys (-1). To
first order an operation agrees with powers c of its inputs and results if sum_i c_i Df[X x_i] = c_f X f: a linear
relation, found by evaluating it, in which one random X of a kind stands for all of them. The powers that satisfy the
relations of all operations are the network's; nothing is declared for operations or architectures. Pairs of dimensions
that rotary embeddings turn are guessed from the axes that there would be without the embeddings (``_find_planes``), and
proven like all others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Complex128, Float
from torch import Tensor, nn

from symlab.batches import Inputs
from symlab.symmetries.evaluated import Evaluated, Occurrence, occurrences
from symlab.symmetries.proof import general_passes, proven
from symlab.symmetries.propagation import alike_value
from symlab.symmetries.relations import KINDS, Matrices, Powers, Relations, drawn, map_block
from symlab.symmetries.signs import is_gain
from symlab.symmetries.symmetry_spec import Axes, Axis, Concat, Group, Product, SymmetrySpec, blocks, length, shape
from symlab.symmetries.trace import Traced


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
    tensor: Tensor, axes: Axes, where: Mapping[Occurrence, float], groups: Mapping[str, Group], M: Matrices
) -> Tensor:
    """A copy of a tensor with a group's neurons mapped by powers of M at some occurrences."""
    result = tensor.clone(memory_format=torch.contiguous_format)
    parts = list(blocks(result, axes, groups))
    for (number, dim), power in where.items():
        if power:
            map_block(parts[number], dim, groups, _power(M, power))
    return result


def _power(M: Matrices, power: float) -> Matrices:
    if power == 1:
        return M
    if power == -1:
        return torch.linalg.inv(M).mT
    # Scales of single neurons alone have other powers, as a batch norm's variance has.
    return torch.diag_embed(M.diagonal(dim1=-2, dim2=-1) ** power)


def act(state: Mapping[str, Tensor], action: Action, M: Matrices, powers: Powers | None = None) -> dict[str, Tensor]:
    """The state of the same network with a group's neurons mapped by M."""
    spec = action.spec
    return dict(state) | {
        name: mapped(state[name], spec.axes[name], where, spec.groups, M)
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


def exponential(action: Action, X: Float[Tensor, "*within d d"], scales: bool = True) -> Matrices:
    """The element of an action's group, or of the rotations in it, that a matrix stands for.

    0 stands for the identity, and every element near it is reached. Gradients flow through it.

    Args:
        X: any matrices, of which that part counts which is an infinitesimal map of the kind.
        scales: whether elements change lengths; without, maps are rotations.
    """
    if action.planes:
        i, j = torch.tensor(action.planes).T
        angle, size = X[..., j, i], X[..., i, i]
        return turning(torch.polar(size.exp() if scales else torch.ones_like(size), angle), action.planes)
    kinds = [kind for kind in GENERATORS[action.kind] if scales or kind.startswith("skew")]
    return torch.matrix_exp(torch.stack([KINDS[kind].draw(X) for kind in kinds]).sum(0))


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


def actions_of(
    module: nn.Module, traced: Traced, x: Tensor | Inputs, like: Mapping[str, Tensor], seed: int = 0
) -> list[Action]:
    """The linear maps of neurons that change nothing, each proven by a random one at random weights in float64.

    Args:
        module: the network that was traced.
        x: a few inputs.
        like: a state of it, by all names, near which the random weights are drawn.
        seed: of weights and maps that are drawn.
    """
    found = _find_actions(general_passes(module, traced, x, like, seed), torch.Generator().manual_seed(seed))
    passes = general_passes(module, traced, x, like, seed, alike_value)
    return found + _find_planes(passes, torch.Generator().manual_seed(seed))


def _find_actions(passes: Sequence[Evaluated], generator: torch.Generator) -> list[Action]:
    """The continuous symmetries of every free group: found in the first pass, proven in all."""
    spec = passes[0].spec
    outer = {name for group in spec.groups.values() for name in group.within}
    with torch.no_grad():
        # Heads and experts are moved as a whole: what else is free lies in the groups within them.
        return [each for group in spec.free if group not in outer for each in _of_group(passes, group, generator)]


def _find_planes(passes: Sequence[Evaluated], generator: torch.Generator) -> list[Action]:
    """Turns and scales of pairs of dimensions, in queries and inversely in keys, that rotary embeddings leave free.

    Args:
        passes: with the axes that the network would have if all constants were alike: there the planes are a group,
            which occurs twice in the axis of dimensions, (P, P) or P x 2.
    """
    spec, found = passes[0].spec, list[Action]()
    for group in spec.free:
        joined = {name: tuple(_joined(axis, group) for axis in axes) for name, axes in spec.axes.items()}
        if joined != spec.axes:
            with torch.no_grad():
                found += _of_planes(passes, group, joined, generator)
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


def _in_halves(axis: Axis, group: str) -> bool:
    """Whether first and second entries of a group's pairs lie one after another in an axis, not in turns."""
    if not isinstance(axis, Product | Concat):
        return False
    twice = isinstance(axis, Concat) and (group, group) in pairwise(axis.parts)
    return twice or any(_in_halves(part, group) for part in axis.parts)


def _of_planes(
    passes: Sequence[Evaluated], group: str, joined: dict[str, Axes], generator: torch.Generator
) -> list[Action]:
    """The turns and scales of one group of planes, whose axes are joined."""
    forward = passes[0]
    size = forward.spec.groups[group].size
    groups = forward.spec.groups | {group: replace(forward.spec.groups[group], size=2 * size)}
    spec = replace(forward.spec, axes=joined, groups=groups)
    shapes = {name: forward.values[node].shape for node, name in forward.names.items()}
    if any(
        length(axis, groups) not in (None, n)
        for name, sizes in shapes.items()
        for axis, n in zip(joined[name], sizes, strict=True)
    ):
        # Neurons that lie beside each other for other reasons, as those of four pixels that become one.
        return []
    relations = Relations(forward, group)
    halves = any(_in_halves(axis, group) for name in shapes for axis in forward.spec.axes[name])
    planes = tuple((i, i + size) if halves else (2 * i, 2 * i + 1) for i in range(size))
    found = []
    for row in relations.solutions(drawn("scales", shape(group, forward.spec.groups), generator)):
        powers: dict[str, dict[Occurrence, float]] = {}
        for name, where in relations.powers(row).items():
            places = occurrences(joined[name], group, groups, shapes[name])
            # A place stands for two blocks, or for pairs in one.
            powers[name] = dict(zip(places, [*where.values()][:: max(1, len(where) // len(places))], strict=False))
        action = _proven(passes, Action(group, "planes", powers, spec, planes=planes), generator)
        found += [] if action is None else [action]
    return found


def _of_group(passes: Sequence[Evaluated], group: str, generator: torch.Generator) -> list[Action]:
    forward = passes[0]
    spec, size = forward.spec, shape(group, forward.spec.groups)
    relations = Relations(forward, group)
    gains = [place for place in relations.stored if is_gain(forward, place, size)]
    scales = relations.solutions(drawn("scales", size, generator), first=gains)
    at_gain = {n: place for n, row in enumerate(scales) for place in gains if _alone(row, place, gains, relations)}
    folding = tuple(Gain(place[0], relations.powers(scales[n])) for n, place in at_gain.items())
    action = Action(group, "", {}, spec, folding)
    if action.gains:
        relations = Relations(forward.at(fold(forward.state, action)), group)
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
    found = [exact for each in candidates if (exact := _proven(passes, each, generator)) is not None]
    if not any(each.kind == "invertible" for each in found):
        others = [
            Action(group, "scaled", relations.powers(row), spec)
            for n, row in enumerate(scales)
            if not (found and n in at_gain)
        ]
        found += [exact for each in others if (exact := _proven(passes, each, generator)) is not None]
    return found


def _alone(row: Float[np.ndarray, " columns"], place: Any, gains: Sequence[Any], relations: Relations) -> bool:
    """Whether powers act on one gain and no other."""
    return all(row[relations.columns[each]] == (each == place) for each in gains)


def _proven(passes: Sequence[Evaluated], action: Action, generator: torch.Generator) -> Action | None:
    """The action with what a random element of it changes; None if that is more than rounding."""
    # Ones are mapped to ones.
    of_gains = {gain.name for gain in action.gains}
    action = replace(action, powers={name: where for name, where in action.powers.items() if name not in of_gains})
    whole = all(power in (0, 1, -1) for where in action.powers.values() for power in where.values())
    if not action.powers or not (whole or action.kind == "scaled"):
        return None
    M = random_element(action, generator)
    change = proven(passes, lambda state: act(state, action, M), lambda state: fold(state, action))

    def by_all_names(powers: Powers) -> Powers:
        return {name: powers[first] for name, first in passes[0].first_names.items() if first in powers}

    gains = tuple(replace(gain, powers=by_all_names(gain.powers)) for gain in action.gains)
    return None if change is None else replace(action, powers=by_all_names(action.powers), gains=gains, change=change)
