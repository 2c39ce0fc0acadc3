"""Alignment by linear maps in closed form: streams by Procrustes, heads by what no map of them changes, then each head.

Order: gains are folded into what reads them and, if scales count, both sides of every map balanced, in all networks;
rotations of streams (Procrustes on activations, or on weights), heads matched by their products W_q' W_k and W_o W_v,
which are the same in any basis; bases within heads by Procrustes of both sides (cross-network maps that keep balance
are rotations). Neurons and signs are matched afterwards, with all this settled (``settled_spec``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.alignment.activation_matching import Shown
from symlab.alignment.matching import Permutations, match_all
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.signs import general_position
from symlab.batches import Inputs
from symlab.symmetries.actions import Action, Matrices, act, find_actions, find_planes, fold, turning
from symlab.symmetries.propagation import alike_value
from symlab.symmetries.symmetry_spec import SymmetrySpec, blocks, identity
from symlab.symmetries.trace import Traced

# A gain this small beside the largest one is not divided by.
SMALLEST_GAIN = 1e-3
# Directions this small beside the largest one are balanced no further.
SMALLEST_SHARE = 1e-9

State = Mapping[str, Tensor]


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
    state = general_position(module, like, seed)
    found = find_actions(traced.evaluated(state, x, wide=True), seed)
    return found + find_planes(traced.evaluated(state, x, wide=True, of_constant=alike_value), seed)


@dataclass(frozen=True)
class Rotated:
    """A network in the bases of others.

    Attributes:
        state: its state, heads renumbered and everything mapped, in float64.
        maps: the matrices, by the number of the action.
        heads: by group of heads how they were renumbered; other groups' neurons stay.
    """

    state: dict[str, Tensor]
    maps: dict[int, Matrices]
    heads: Permutations


def prepared(state: State, actions: Sequence[Action], scales: bool) -> dict[str, Tensor]:
    """The same network in float64, gains folded; if scales count, with both sides of every map of equal size."""
    result = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    for action in actions:
        result = fold(result, action)
        if scales and action.kind in ("scaled", "invertible", "planes"):
            result = act(result, action, _balancing(result, action))
    return result


def foldable(state: State, action: Action) -> bool:
    """Whether no gain is so small that dividing by it loses digits."""
    sizes = [state[gain.name].abs() for gain in action.gains]
    return all(bool(size.min() > SMALLEST_GAIN * size.max()) for size in sizes)


def rotate(
    traced: Traced,
    references: Sequence[State],
    state: State,
    actions: Sequence[Action],
    x: Tensor | Inputs | None,
    rows: int,
    shown: Shown = iter,
    unsettled: Sequence[str] = (),
) -> Rotated:
    """Bring a network to the bases of others, in the mean over these.

    Args:
        references, state: by all names, as ``prepared`` gives them.
        x: inputs on which streams are compared, ``rows`` at a time; None compares their weights.
        unsettled: groups whose neurons have another order in the references; weights along them are not compared.
    """
    spec, moved = traced.spec, dict(state)
    maps: dict[int, Matrices] = {}
    streams = [n for n, action in enumerate(actions) if action.kind.startswith("orthogonal")]
    of_heads = [n for n, action in enumerate(actions) if action.kind in ("invertible", "planes")]
    groups = [actions[n].group for n in streams]
    known = {} if x is None else _crosses(traced, references, moved, groups, x, rows, shown)
    for n in streams:
        C = known.get(actions[n].group)
        maps[n] = procrustes(_cross(references, moved, actions[n], unsettled) if C is None else C, actions[n])
        moved = act(moved, actions[n], maps[n])
    heads = _matched_heads(references, moved, [actions[n] for n in of_heads], spec)
    moved = permute(moved, spec, identity(spec) | heads) if heads else moved
    for n in of_heads:
        maps[n] = procrustes(_cross(references, moved, actions[n], ()), actions[n])
        moved = act(moved, actions[n], maps[n])
    return Rotated(moved, maps, heads)


def procrustes(C: Float[Tensor, "*within d d"], action: Action) -> Matrices:
    """The rotations of an action with the largest inner product with matrices."""
    d = C.shape[-1]
    if action.planes:
        turns = _plane_parts(C, action.planes)
        return turning(torch.where(turns.abs() > 0, turns / turns.abs(), 1), action.planes)
    if action.kind != "orthogonal fixing ones":
        U, _, V = torch.linalg.svd(C)
        return U @ V
    ones = torch.ones(d, 1, dtype=C.dtype)
    across = torch.linalg.qr(torch.cat([ones, torch.eye(d, dtype=C.dtype)[:, 1:]], 1))[0][:, 1:]
    U, _, V = torch.linalg.svd(across.T @ C @ across)
    return across @ U @ V @ across.T + ones @ ones.T / d


def settled_spec(spec: SymmetrySpec, actions: Sequence[Action], heads: Permutations) -> SymmetrySpec:
    """The spec in which groups that maps and invariants have brought in order stay in place: what is left to match."""
    settled = {action.group for action in actions if action.kind not in ("scaled", "planes")} | {*heads}
    groups = {name: replace(group, fixed=group.fixed or name in settled) for name, group in spec.groups.items()}
    return replace(spec, groups=groups, points={name: of for name, of in spec.points.items() if name not in settled})


def _crosses(
    traced: Traced, references: Sequence[State], state: State, groups: Sequence[str], x: Any, rows: int, shown: Shown
) -> dict[str, Float[Tensor, "d d"]]:
    """For groups with activations the sum over inputs and references of a b', as float64."""
    numbered = dict(enumerate(references))
    of_state = _narrow(state, x)
    states_A = {n: _narrow(each, x) for n, each in numbered.items()}
    moments = record_pair_moments(traced, states_A, dict.fromkeys(numbered, of_state), shown(x.split(rows)), groups)
    return {
        group: torch.stack([of_pair[group].cross for of_pair in moments.values()]).sum(0)
        for group in groups
        if all(group in of_pair and of_pair[group].n for of_pair in moments.values())
    }


def _narrow(state: State, x: Tensor | Inputs) -> dict[str, Tensor]:
    """A state in the precision of the inputs; of tokens, in float32."""
    first = x.parts[0] if isinstance(x, Inputs) else x
    dtype = first.dtype if first.is_floating_point() else torch.float32
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def _sides(
    state: State, action: Action, heads: Sequence[str], skipped: Collection[str] = ()
) -> dict[float, Float[Tensor, "*heads n d"]]:
    """By power the entries on which an action acts, as rows for each of some heads; those along others left out.

    Where heads do not occur (keys that several queries share), each gets the same rows.
    """
    groups = action.spec.groups
    found: dict[float, list[Tensor]] = {1.0: [], -1.0: []}
    sizes = [groups[name].size for name in heads]
    for name, where in action.powers.items():
        for number, block in enumerate(blocks(state[name], action.spec.axes[name], groups) if name in state else ()):
            labels = [label for label, _ in block.labels]
            for (at, dim), power in where.items():
                if at != number or {*labels} & {*skipped} or labels.count(action.group) > 1:
                    continue
                present = [labels.index(head) for head in heads if head in labels]
                rest = [n for n in range(len(labels)) if n not in (*present, dim)]
                rows = block.tensor.permute(*present, *rest, dim)
                shown = [size if head in labels else 1 for head, size in zip(heads, sizes, strict=True)]
                rows = rows.reshape(*shown, -1, rows.shape[-1])
                found[power].append(rows.expand(*sizes, -1, -1))
    d = groups[action.group].size
    return {power: torch.cat([*rows, torch.zeros(*sizes, 0, d)], -2).double() for power, rows in found.items()}


def _cross(references: Sequence[State], state: State, action: Action, skipped: Collection[str]) -> Matrices:
    """The sum over references and entries of a b', for an action's group in each of the groups that contain it."""
    within = action.spec.groups[action.group].within
    of_state = _sides(state, action, within, skipped)
    found = [
        side.mT @ of_state[power]
        for reference in references
        for power, side in _sides(reference, action, within, skipped).items()
    ]
    return torch.stack(found).sum(0)


def _beside(state: State, action: Action) -> list[str]:
    """Groups within the same heads along which an action's group is shared: queries with one key."""
    groups, within = action.spec.groups, action.spec.groups[action.group].within
    found = [
        label
        for name in action.powers
        for block in blocks(state[name], action.spec.axes[name], groups)
        if action.group in (labels := [label for label, _ in block.labels])
        for label in labels
        if label and label not in (*within, action.group) and groups[label].within[:1] == within[:1] != ()
    ]
    return [*dict.fromkeys(found)]


def _matched_heads(
    references: Sequence[State], state: State, actions: Sequence[Action], spec: SymmetrySpec
) -> Permutations:
    """Permutations of heads under which what no map within them changes agrees best; by group, with those around it."""
    correlations: dict[str, np.ndarray] = {}
    for action in actions:
        heads = [*action.spec.groups[action.group].within, *_beside(state, action)]
        if not heads or not {*heads} <= spec.groups.keys():
            continue
        of_state = _sides(state, action, heads)
        found = [_similarity(_sides(reference, action, heads), of_state, action) for reference in references]
        correlations[heads[-1]] = correlations.get(heads[-1], 0) + torch.stack(found).mean(0).numpy()
    permutations = match_all(correlations, spec.groups)
    return {name: permutations[name] for head in correlations for name in (*spec.groups[head].within, head)}


def _similarity(A: Mapping[float, Tensor], B: Mapping[float, Tensor], action: Action) -> Float[Tensor, "h h"]:
    """For all pairs of heads the cosine of F G', the product of both sides, which is the same in any basis."""

    def inner(one: Mapping[float, Tensor], other: Mapping[float, Tensor], pairs: str) -> Tensor:
        sides = [torch.einsum(pairs, one[power].flatten(0, -3), other[power].flatten(0, -3)) for power in (1.0, -1.0)]
        if action.planes:
            first, second = (_plane_parts(side, action.planes) for side in sides)
            return (first * second.conj()).real.sum(-1)
        return (sides[0] * sides[1]).sum((-2, -1))

    own = [inner(each, each, "hnd,hne->hde").clamp(min=1e-300).sqrt() for each in (A, B)]
    return inner(A, B, "hnd,kne->hkde") / own[0][:, None] / own[1]


def _plane_parts(C: Float[Tensor, "*n d d"], planes: Sequence[tuple[int, int]]) -> Tensor:
    """For each pair of dimensions what of a matrix turns and scales it, as a complex number."""
    i, j = torch.tensor(planes).T
    return torch.complex(C[..., i, i] + C[..., j, j], C[..., j, i] - C[..., i, j])


def _balancing(state: State, action: Action) -> Matrices:
    """The maps after which both sides of an action are of equal size: F'F = G'G, or so for each neuron or plane."""
    sides = _sides(state, action, action.spec.groups[action.group].within)
    plus, minus = (side.mT @ side for side in (sides[1.0], sides[-1.0]))
    if action.kind == "invertible":
        root = _power(plus, 0.5)
        inverse = _power(plus, -0.5)
        return _power(inverse @ _power(root @ minus @ root, 0.5) @ inverse, 0.5)
    sizes = [side.diagonal(dim1=-2, dim2=-1) for side in (plus, minus)]
    for i, j in action.planes:
        for size in sizes:
            size[..., [i, j]] = size[..., [i, j]].sum(-1, keepdim=True)
    alive = (sizes[0] > 0) & (sizes[1] > 0)
    return torch.diag_embed(torch.where(alive, sizes[1] / sizes[0], 1) ** 0.25)


def _power(P: Float[Tensor, "*n d d"], power: float) -> Float[Tensor, "*n d d"]:
    """A power of positive matrices."""
    sizes, V = torch.linalg.eigh(P)
    sizes = sizes.clamp(min=SMALLEST_SHARE * float(sizes.max()))
    return (V * sizes.unsqueeze(-2) ** power) @ V.mT
