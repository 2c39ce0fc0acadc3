"""Alignment by linear maps in closed form: streams by Procrustes, heads by what no map of them changes, then each head.

Order: gains are folded into what reads them and, if scales count, both sides of every map balanced, in all networks
(``prepared``; between balanced networks all maps are rotations); streams are rotated by Procrustes on activations, or
on weights; heads matched by their products W_q' W_k and W_o W_v, which are the same in any basis; bases within heads by
Procrustes of both sides; then the other neurons and their signs are matched as ever. By weights this is repeated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.activation_matching import ActivationMatching, Shown, activation_matching
from symlab.alignment.averaging import average, in_type
from symlab.alignment.matching import Permutations, compose, joint, match_all
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.signs import Signs, signed_matching
from symlab.alignment.universe import one_name_each
from symlab.alignment.weight_matching import weight_matching
from symlab.batches import Inputs
from symlab.symmetries.actions import Action, Matrices, act, fold, turning
from symlab.symmetries.signs import Flip, apply_flips
from symlab.symmetries.symmetry_spec import SymmetrySpec, blocks, identity
from symlab.symmetries.trace import Traced

# A gain this small beside the largest one is not divided by.
SMALLEST_GAIN = 1e-3
# Turns of balancing at most, and by how much the last one may differ from the identity.
MOST_BALANCINGS, BALANCED = 200, 1e-9
# Directions this small beside the largest one are balanced no further.
SMALLEST_SHARE = 1e-9
# By weights: passes over streams, heads and neurons, and what one must gain of similarity for another to follow.
MOST_SWEEPS, SMALLEST_GAIN_OF_SWEEP = 20, 1e-6

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Mapped:
    """A network in the bases of others: its ``prepared`` state renumbered, then mapped, then its signs turned.

    Attributes:
        state: its state in float64.
        permutations: of all groups; those that maps act on stay, but for heads.
        maps: the matrices, by the number of the action.
        matching: how the other groups were matched; None by weights.
        signs: by the number of a flip.
    """

    state: dict[str, Tensor]
    permutations: Permutations
    maps: dict[int, Matrices]
    matching: ActivationMatching | None = None
    signs: Signs = field(default_factory=dict)


def prepared(state: State, actions: Sequence[Action], scales: bool) -> dict[str, Tensor]:
    """The same network in float64, gains folded; if scales count, with both sides of every map of equal size."""
    result = in_type(state, torch.float64)
    for action in actions:
        result = fold(result, action)
    balanced = [action for action in actions if scales and not action.kind.startswith("orthogonal")]
    # Neighbours share weights: in turns until all are balanced, which is where all weights together are smallest.
    for _ in range(MOST_BALANCINGS if balanced else 0):
        moved = 0.0
        for action in balanced:
            M = _balancing(result, action)
            moved = max(moved, float((M - torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)).abs().max()))
            result = act(result, action, M)
        if moved < BALANCED:
            break
    return result


def foldable(state: State, action: Action) -> bool:
    """Whether no gain is so small that dividing by it loses digits."""
    sizes = [state[gain.name].abs() for gain in action.gains]
    return all(bool(size.min() > SMALLEST_GAIN * size.max()) for size in sizes)


def map_by_activations(
    traced: Traced,
    references: Sequence[State],
    state: State,
    actions: Sequence[Action],
    flips: Sequence[Flip],
    x: Tensor | Inputs,
    rows: int,
    rng: np.random.Generator,
    dtype: torch.dtype = torch.float32,
    shown: Shown = iter,
) -> Mapped:
    """Bring a network to the bases and order of others by activations, in the mean over these.

    Args:
        references, state: by all names, as ``prepared`` gives them.
        flips: signs that are matched too, if there is one reference; of groups that no map acts on.
        x: inputs, of which ``rows`` are passed through the networks at a time.
        rng, shown: as of ``activation_matching``.
    """
    spec = traced.spec
    record = partial(_crosses, traced, x=x, rows=rows, dtype=dtype, shown=shown)
    rotated, maps = _with_streams(references, state, actions, record)
    rest = replace(traced, spec=settled_spec(spec, actions, state))
    given, moved = [in_type(each, dtype) for each in references], in_type(rotated, dtype)
    signs: Signs = {}
    if flips and len(references) == 1:
        signed = signed_matching(rest, given[0], moved, x, rows, flips, rng, shown)
        matching, signs = signed.matching, signed.signs
    else:
        matching = activation_matching(rest, given, moved, x, rows, rng, shown)
    renumbered = apply_flips(permute(rotated, rest.spec, matching.permutations), rest.spec, flips, signs)
    result, heads, inner = _with_heads(references, renumbered, actions, spec)
    by_weights = tuple(group for group in matching.by_weights if group in rest.spec.free)
    matching = replace(matching, by_weights=by_weights)
    return Mapped(result, compose(matching.permutations, heads, spec.groups), maps | inner, matching, signs)


def map_by_weights(
    traced: Traced,
    references: Sequence[State],
    state: State,
    actions: Sequence[Action],
    rng: np.random.Generator,
    restarts: int,
) -> Mapped:
    """Bring a network to the bases and order of others by its weights, until they come no closer.

    Streams are rotated first by those weights alone along which no other neurons lie, as embeddings' and readouts'.
    """
    spec, reference = traced.spec, average(references)
    once = one_name_each(spec, state)
    done = Mapped(dict(state), identity(spec), {})
    similarity = _similarity_of(once, reference, state)
    for sweep in range(MOST_SWEEPS):
        unsettled = spec.free if sweep == 0 else ()
        rotated, maps = _with_streams([reference], done.state, actions, None, unsettled)
        in_bases, heads, inner = _with_heads([reference], rotated, actions, spec)
        rest = settled_spec(once, actions, state)
        A, B = ({name: each[name] for name in once.axes} for each in (reference, in_bases))
        order = weight_matching(rest, A, B, rng, restarts if sweep == 0 else 1).permutations
        moved = permute(in_bases, spec, order)
        gained = _similarity_of(once, reference, moved) - similarity
        if gained <= SMALLEST_GAIN_OF_SWEEP:
            break
        similarity += gained
        maps |= inner
        if done.maps:
            maps = {n: M @ _renumbered(done.maps[n], actions[n], heads) for n, M in maps.items()}
        done = Mapped(moved, compose(done.permutations, compose(heads, order, spec.groups), spec.groups), maps)
    return done


def _similarity_of(spec: SymmetrySpec, A: State, B: State) -> float:
    """The inner product of real weights over their norms."""
    pairs = [(A[name].double(), B[name].double()) for name in spec.axes if A[name].is_floating_point()]
    inner, a, b = (
        float(sum((one * other).sum() for one, other in each))
        for each in (pairs, [(a, a) for a, _ in pairs], [(b, b) for _, b in pairs])
    )
    return inner / (a * b) ** 0.5


def _renumbered(M: Matrices, action: Action, permutations: Permutations) -> Matrices:
    """Matrices for heads in another order, but for those that constants keep in place."""
    within = action.spec.groups[action.group].within
    if not within or within[-1] not in permutations:
        return M
    order = joint(within[-1], permutations, action.spec.groups)
    return M.flatten(0, -3)[torch.as_tensor(order)].reshape(M.shape)


def _of_heads(action: Action) -> bool:
    return action.kind in ("invertible", "planes") and bool(action.spec.groups[action.group].within)


def _with_streams(
    references: Sequence[State],
    state: State,
    actions: Sequence[Action],
    record: Callable[..., dict[str, Tensor]] | None,
    unsettled: Sequence[str] = (),
) -> tuple[dict[str, Tensor], dict[int, Matrices]]:
    """A network with streams, and what else is mapped and lies within no heads, in the bases of others.

    They are compared by the activations that are recorded, or by weights, but for those along ``unsettled`` groups.
    """
    streams = {n: each for n, each in enumerate(actions) if each.kind != "scaled" and not _of_heads(each)}
    groups = [action.group for action in streams.values()]
    known = {} if record is None else record(references, state, groups=groups)
    moved, maps = dict(state), {}
    for n, action in streams.items():
        C = known.get(action.group)
        maps[n] = procrustes(_cross(references, moved, action, unsettled) if C is None else C, action)
        moved = act(moved, action, maps[n])
    return moved, maps


def _with_heads(
    references: Sequence[State], state: State, actions: Sequence[Action], spec: SymmetrySpec
) -> tuple[dict[str, Tensor], Permutations, dict[int, Matrices]]:
    """A network with heads in the order of others, and in their bases; the order, of all groups, and the maps."""
    of_heads = {n: action for n, action in enumerate(actions) if _of_heads(action)}
    order = identity(spec) | _matched_heads(references, state, [*of_heads.values()], spec)
    moved, maps = permute(state, spec, order), {}
    for n, action in of_heads.items():
        maps[n] = procrustes(_cross(references, moved, action, ()), action)
        moved = act(moved, action, maps[n])
    return moved, order, maps


def procrustes(C: Float[Tensor, "*within d d"], action: Action) -> Matrices:
    """The rotations of an action with the largest inner product with matrices."""
    d = C.shape[-1]
    if action.planes:
        turns = _plane_parts(C, action.planes)
        return turning(torch.where(turns.abs() > 0, turns / turns.abs(), 1), action.planes)
    if action.kind != "orthogonal fixing ones":
        U, _, V = torch.linalg.svd(C)
        return U @ V
    ones = torch.ones(d, 1, dtype=C.dtype, device=C.device)
    across = torch.linalg.qr(torch.cat([ones, torch.eye(d, dtype=C.dtype, device=C.device)[:, 1:]], 1))[0][:, 1:]
    U, _, V = torch.linalg.svd(across.T @ C @ across)
    return across @ U @ V @ across.T + ones @ ones.T / d


def settled_spec(spec: SymmetrySpec, actions: Sequence[Action], state: State) -> SymmetrySpec:
    """The spec in which groups that maps, and invariants of heads, bring in order stay in place: what else to match."""
    settled = {action.group for action in actions if action.kind not in ("scaled", "planes")}
    for action in filter(_of_heads, actions):
        settled |= {*action.spec.groups[action.group].within, *_beside(state, action)}
    groups = {name: replace(group, fixed=group.fixed or name in settled) for name, group in spec.groups.items()}
    return replace(spec, groups=groups, points={name: of for name, of in spec.points.items() if name not in settled})


def _crosses(
    traced: Traced,
    references: Sequence[State],
    state: State,
    groups: Sequence[str],
    x: Any,
    rows: int,
    dtype: torch.dtype,
    shown: Shown,
) -> dict[str, Float[Tensor, "d d"]]:
    """For groups with activations the sum over inputs and references of a b', as float64."""
    states_A = {n: in_type(each, dtype) for n, each in enumerate(references)}
    states_B = dict.fromkeys(states_A, in_type(state, dtype))
    moments = record_pair_moments(traced, states_A, states_B, shown(x.split(rows)), groups)
    return {
        group: torch.stack([of_pair[group].cross for of_pair in moments.values()]).sum(0)
        for group in groups
        if all(group in of_pair and of_pair[group].n for of_pair in moments.values())
    }


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
                others = [*labels[:dim], *labels[dim + 1 :]]
                if at != number or {*others} & {*skipped, action.group}:
                    continue
                present = [labels.index(head) for head in heads if head in labels]
                rest = [n for n in range(len(labels)) if n not in (*present, dim)]
                rows = block.tensor.permute(*present, *rest, dim)
                shown = [size if head in labels else 1 for head, size in zip(heads, sizes, strict=True)]
                rows = rows.reshape(*shown, -1, rows.shape[-1])
                found[power].append(rows.expand(*sizes, -1, -1))
    d = groups[action.group].size
    none = torch.zeros(*sizes, 0, d, device=next(iter(state.values())).device)
    return {power: torch.cat([*rows, none], -2).double() for power, rows in found.items()}


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
    """The maps after which both sides of an action are of equal size: F'F = G'G, or so for each neuron or plane.

    Of an action with one side, as that on weights that are normalised before they are used, neurons get the size 1.
    """
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
    for one, other in ((0, 1), (1, 0)):
        if not sides[(1.0, -1.0)[other]].shape[-2]:
            sizes[other] = 1 / sizes[one]
    alive = (sizes[0] > 0) & (sizes[1] > 0)
    return torch.diag_embed(torch.where(alive, sizes[1] / sizes[0], 1) ** 0.25)


def _power(P: Float[Tensor, "*n d d"], power: float) -> Float[Tensor, "*n d d"]:
    """A power of positive matrices."""
    sizes, V = torch.linalg.eigh(P)
    sizes = sizes.clamp(min=SMALLEST_SHARE * float(sizes.max()))
    return (V * sizes.unsqueeze(-2) ** power) @ V.mT
