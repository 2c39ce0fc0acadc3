"""Whether the maps that are claimed of a group are all: the null space of the output's derivative, by dimension.

Maps X of the group's neurons, one for all writers and one for all readers (queries and keys, or both sides of a
bottleneck), change the outputs to first order by J X theta. The X that change nothing are the symmetries there are;
those claimed are counted from the relations of the operations. Both are computed at random weights, gains folded.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.batches import Inputs
from symlab.symmetries.actions import Action, act, fold
from symlab.symmetries.evaluated import Evaluated
from symlab.symmetries.proof import GAINS, PROVEN, general_passes
from symlab.symmetries.relations import KINDS, Relations, drawn
from symlab.symmetries.symmetry_spec import blocks, neurons_last, shape
from symlab.symmetries.trace import Traced

# Singular values below this share of the largest count as 0: a norm's eps of 1e-6 is seen.
NULL = 1e-8
# Rows of the derivative beyond its columns, each the gradient of a random mean of the outputs.
SPARE_ROWS = 8
LARGEST = 64

Roles = list[list[tuple[str, tuple[int, int]]]]


@dataclass(frozen=True)
class Dimensions:
    """Of the maps of a group's neurons inside one neuron of the groups that contain it."""

    claimed: int
    measured: int


def dimensions_of(
    module: nn.Module, traced: Traced, x: Tensor | Inputs, like: Mapping[str, Tensor], actions: Sequence[Action]
) -> dict[str, Dimensions]:
    """By group the dimensions of its maps, claimed and measured; of those where weights and inputs are enough to tell.

    Args:
        x: many inputs.
        module, traced, like, actions: as of ``actions_of``, and what that gave.
    """
    (forward,) = general_passes(module, traced, x, like, gains=GAINS[:1])
    outer = {name for group in forward.spec.groups.values() for name in group.within}
    found: dict[str, Dimensions] = {}
    for group in forward.spec.free:
        mine = [action for action in actions if action.group == group and not action.planes]
        told = None if group in outer else _dimensions(forward, group, mine)
        found |= {} if told is None else {group: told}
    return found


def _dimensions(forward: Evaluated, group: str, actions: Sequence[Action]) -> Dimensions | None:
    """The dimensions of a group's maps; None if it is too large, or weights or outputs are too few to tell.

    Args:
        forward: of many inputs: with at least as many outputs as maps have entries.
        actions: of the group, by first names.
    """
    generator = torch.Generator().manual_seed(0)
    state = forward.state
    gains = actions[0].gains if actions else ()
    folded = forward
    if gains:
        # A norm's bias is taken up by those of its readers, as its gain by their weights.
        biases = {name for gain in gains for name, where in gain.powers.items() if min(where.values()) > 0}
        state = fold(state, actions[0])
        state |= {name: torch.zeros_like(state[name]) for name in biases - {gain.name for gain in gains}}
        folded = forward.at(state)
    relations, size = Relations(folded, group), shape(group, forward.spec.groups)
    if size[-1] > LARGEST or not relations.stored:
        return None
    with torch.no_grad():
        roles = _roles(relations, actions, generator)
        claimed = _claimed(folded, relations, roles, generator)
    measured = _measured(folded, relations, roles, generator)
    return None if measured is None else Dimensions(claimed, measured)


def _roles(relations: Relations, actions: Sequence[Action], generator: torch.Generator) -> Roles:
    """Where a group occurs in the state, but for folded gains, by what else it does there."""
    gains = {gain.name for action in actions for gain in action.gains}
    size = shape(relations.group, relations.groups)
    readers = relations.readers(drawn("symmetric", size, generator))
    found: dict[tuple[object, ...], list[tuple[str, tuple[int, int]]]] = {}
    for place in relations.stored:
        if place[0] not in gains:
            powers = [action.powers.get(place[0], {}).get(place[1], 0) for action in actions]
            found.setdefault((place in readers, *powers), []).append(place)
    return list(found.values())


def _claimed(forward: Evaluated, relations: Relations, roles: Roles, generator: torch.Generator) -> int:
    """The dimension of the maps, one a role, that satisfy the relations of all operations."""
    size = shape(relations.group, relations.groups)
    places = [place for role in roles for place in role]
    of_roles = np.array([[float(place in role) for role in roles] for place in places])

    def free(kind: str) -> int:
        found = relations.solutions(drawn(kind, size, generator))
        # Of those that leave folded gains alone.
        left = [relations.columns[place] for place in relations.stored if place not in places]
        _, sizes, right = np.linalg.svd(found[:, left].T, full_matrices=True)
        found = (right[int((sizes > 1e-6).sum()) :] @ found)[:, [relations.columns[place] for place in places]].T
        both = np.concatenate([found, of_roles], 1)
        return (
            int(sum(map(np.linalg.matrix_rank, (found, of_roles))) - np.linalg.matrix_rank(both)) if found.size else 0
        )

    counts = {kind: free(kind) for kind in KINDS}
    if counts["skew"]:
        counts["skew fixing ones"] = 0
    if counts["symmetric"]:
        counts |= {"scales": 0, "means": 0}
    counts["scale"] = 0 if counts["symmetric"] or counts["scales"] else _exact_scales(forward, relations, roles)
    return sum(count * KINDS[kind].dimension(size[-1]) for kind, count in counts.items())


def _exact_scales(forward: Evaluated, relations: Relations, roles: Roles) -> int:
    """Of the ways to scale all neurons together, a role each, those that the eps of norms does not break."""
    found = 0
    size = shape(relations.group, relations.groups)
    M = torch.eye(size[-1], dtype=torch.float64).expand(*size, -1) * 1.5
    for role in roles:
        powers: dict[str, dict[tuple[int, int], float]] = {}
        for name, occurrence in role:
            powers.setdefault(name, {})[occurrence] = 1.0
        action = Action(relations.group, "scaled", powers, forward.spec)
        found += forward.change(act(forward.state, action, M)) < PROVEN
    return found


def _measured(forward: Evaluated, relations: Relations, roles: Roles, generator: torch.Generator) -> int | None:
    """The dimension of the null space of the outputs' derivative by the maps, one a role."""
    d = shape(relations.group, relations.groups)[-1]
    names = list(dict.fromkeys(name for role in roles for name, _ in role))
    state = {name: tensor.clone() for name, tensor in forward.state.items()}
    state |= {name: state[name].requires_grad_() for name in names}
    values = forward.at(state).values
    outputs = torch.cat([values[node].flatten() for node in forward.outputs if values[node].is_floating_point()])
    outputs = outputs[outputs.isfinite()]
    columns = len(roles) * d * d
    weights = [_by_map(relations, role, state, state) for role in roles]
    if len(outputs) < columns + SPARE_ROWS or any(torch.linalg.matrix_rank(each) < d for each in weights):
        return None
    rows = []
    for _ in range(columns + SPARE_ROWS):
        mean = torch.randn(len(outputs), generator=generator, dtype=torch.float64)
        found = torch.autograd.grad(outputs, [state[name] for name in names], mean, retain_graph=True)
        gradients = dict(zip(names, found, strict=True))
        with torch.no_grad():
            rows.append(torch.cat([_by_map(relations, role, gradients, state).flatten() for role in roles]))
    sizes = torch.linalg.svdvals(torch.stack(rows))
    return columns - int((sizes > NULL * sizes[0]).sum())


def _by_map(
    relations: Relations,
    role: Sequence[tuple[str, tuple[int, int]]],
    gradients: dict[str, Tensor],
    state: dict[str, Tensor],
) -> Float[Tensor, "d d"]:
    """G' theta: a derivative by X, which acts on all places of a role inside the first neuron of the groups around."""
    groups, axes = relations.groups, relations.forward.spec.axes
    size = shape(relations.group, groups)
    found = []
    for name, (number, dim) in role:
        pair = []
        for tensor in (gradients[name], state[name]):
            view = neurons_last(list(blocks(tensor, axes[name], groups))[number], dim, groups)
            pair.append(view.reshape(-1, math.prod(size[:-1]), size[-1])[:, 0])
        found.append(pair[0].T @ pair[1])
    return torch.stack(found).sum(0)
