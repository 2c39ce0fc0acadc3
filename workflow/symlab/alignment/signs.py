"""Signs of a network's neurons: found, proven, and matched beside their order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.alignment.activation_matching import ActivationMatching, Shown, activation_matching
from symlab.alignment.matching import compose, joint
from symlab.alignment.moments import PairMoments, record_pair_moments
from symlab.alignment.permute import permute
from symlab.batches import Inputs
from symlab.symmetries.evaluated import Occurrence
from symlab.symmetries.proof import general_passes, proven
from symlab.symmetries.signs import Flip, apply_flips, find_flips, random_signs
from symlab.symmetries.symmetry_spec import Point, SymmetrySpec, blocks, identity, neurons_last, shape
from symlab.symmetries.trace import Traced

# Draws of signs.
PROOFS = 3

Signs = dict[int, Int[np.ndarray, "*within d"]]
"""By the number of a flip the signs of its group's neurons."""


def signs_of(
    module: nn.Module, traced: Traced, x: Tensor | Inputs, like: Mapping[str, Tensor], seed: int = 0
) -> list[Flip]:
    """The signs of neurons that are free beside their order, each proven by random signs at random weights in float64.

    Args:
        module: the network that was traced.
        x: a few inputs.
        like: a state of it, by all names, near which the random weights are drawn.
        seed: of weights and signs that are drawn.
    """
    passes = general_passes(module, traced, x, like, seed)
    rng = np.random.default_rng(seed)

    def exact(flip: Flip) -> bool:
        signs = random_signs(traced.spec, [flip], rng)
        # Of two heads both signs are 1 once in four draws, which proves nothing.
        signs[0][tuple(rng.integers(size) for size in signs[0].shape)] = -1
        return proven(passes, lambda state: apply_flips(state, traced.spec, [flip], signs)) is not None

    return [flip for flip in find_flips(passes) if all(exact(flip) for _ in range(PROOFS))]


class _Unsigned(PairMoments):
    """Moments at several points of a group, correlated without regard to signs at those where they are free."""

    def __init__(self, parts: Sequence[PairMoments], free: Sequence[bool]):
        self.d, self.n = parts[0].d, sum(part.n for part in parts)
        self.parts, self.free = list(parts), list(free)

    def joined(self, other: PairMoments) -> PairMoments:
        """The moments of the samples of both."""
        assert isinstance(other, _Unsigned)
        return _Unsigned([a.joined(b) for a, b in zip(self.parts, other.parts, strict=True)], self.free)

    def correlation(self) -> Float[np.ndarray, "d d"]:
        """The mean over the points of the correlations, or of their sizes."""
        found = [
            np.abs(part.correlation()) if free else part.correlation()
            for part, free in zip(self.parts, self.free, strict=True)
            if part.n
        ]
        return np.mean(found, axis=0)


@dataclass(frozen=True)
class SignedMatching:
    """A matching of neurons and their signs.

    Attributes:
        matching: permutations, and how each group was found; its correlations are sizes where signs are free.
        signs: by the number of each flip, of the neurons at their new positions.
    """

    matching: ActivationMatching
    signs: Signs


def signed_matching(
    traced: Traced,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    x: Tensor | Inputs,
    rows: int,
    flips: Sequence[Flip],
    rng: np.random.Generator,
    shown: Shown = iter,
) -> SignedMatching:
    """The order and signs of B's neurons under which their activations agree best with A's.

    Where a sign is that of a norm's gain, both networks' gains are made positive first: trained ones nearly always are,
    and what the norm reads tells more of a neuron than the size of a correlation. By the other flips neurons are
    assigned by the sizes of their correlations, at each point of a group apart. Then each gets the signs under which
    its correlations at all points, and the cosine of its weights with A's where flips turn them, add up to most.
    Groups are turned one after another, outer ones first.

    Args:
        A, B: states by all names.
        x: inputs, of which ``rows`` are passed through the networks at a time.
        flips: as ``signs_of`` gives them.
        rng, shown: as of ``activation_matching``.
    """
    spec = traced.spec
    by_gain = [n for n, flip in enumerate(flips) if flip.gain]
    others = [n for n, flip in enumerate(flips) if not flip.gain]
    A_positive, B_positive = (
        apply_flips(state, spec, flips, {n: _gain_signs(flips[n], spec, state) for n in by_gain}) for state in (A, B)
    )
    found = _matched(traced, A_positive, B_positive, x, rows, [flips[n] for n in others], rng, shown)
    signs = {n: found.signs[k] for k, n in enumerate(others) if k in found.signs}
    moved = apply_flips(permute(B, spec, found.matching.permutations), spec, flips, signs)
    for n in by_gain:
        signs[n] = _gain_signs(flips[n], spec, A) * _gain_signs(flips[n], spec, moved)
    return SignedMatching(found.matching, signs)


def _gain_signs(flip: Flip, spec: SymmetrySpec, state: Mapping[str, Tensor]) -> Int[np.ndarray, "*within d"]:
    """The signs of the gain that a flip turns."""
    assert flip.gain is not None
    ones = {flip.gain[0]: torch.ones_like(state[flip.gain[0]])}
    of_neurons = _inner_products(*flip.gain, flip.group, spec, state, ones)[0]
    return np.where(of_neurons < 0, -1, 1).reshape(shape(flip.group, spec.groups))


def _matched(
    traced: Traced,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    x: Tensor | Inputs,
    rows: int,
    flips: Sequence[Flip],
    rng: np.random.Generator,
    shown: Shown,
) -> SignedMatching:
    """``signed_matching`` by correlations alone."""
    spec = traced.spec
    classes = {group: _classes(group, spec, flips) for group in spec.points}
    record = partial(_record_unsigned, classes)
    matching = activation_matching(traced, [A], B, x, rows, rng, shown, record=record)
    moved = permute(B, spec, matching.permutations)
    moments = record(traced, {0: A}, {0: moved}, shown(x.split(rows)))[0]
    signs: Signs = {}
    for group in sorted(spec.groups, key=lambda name: len(spec.groups[name].within)):
        numbers = [n for n, flip in enumerate(flips) if flip.group == group]
        if not numbers:
            continue
        found = _evidence(group, numbers, spec, classes, moments)
        chosen = _best_signs(group, spec, [flips[n] for n in numbers], found, A, moved)
        signs |= dict(zip(numbers, chosen, strict=True))
        moved = apply_flips(moved, spec, flips, {n: signs[n] for n in numbers})
        for name, of_group in classes.items():
            if group in spec.groups[name].within:
                classes[name] = _turned(name, numbers, spec, of_group, moments[name], signs)
    if not matching.by_weights:
        return SignedMatching(matching, signs)
    # What weights decide could not be matched while the signs of the neurons beside were unknown.
    again = activation_matching(traced, [A], moved, x, rows, rng, shown)
    late = {name: pi if name in again.by_weights else identity(spec)[name] for name, pi in again.permutations.items()}
    for n, of_flip in signs.items():
        order = joint(flips[n].group, late, spec.groups)
        signs[n] = of_flip.reshape(-1)[order].reshape(of_flip.shape)
    permutations = compose(matching.permutations, late, spec.groups)
    return SignedMatching(replace(matching, permutations=permutations), signs)


Classes = list[tuple[frozenset[int], tuple[Point, ...]]]
"""A group's points by which flips, of its own or of groups that it lies within, turn them."""


def _classes(group: str, spec: SymmetrySpec, flips: Sequence[Flip]) -> Classes:
    """The points at which a group's neurons are compared: if there are any, those that no other group's flips turn."""
    known = {n for n, flip in enumerate(flips) if flip.group in (group, *spec.groups[group].within)}
    by_point = {
        point: frozenset(n for n, flip in enumerate(flips) if flip.turns(point, group, spec.groups))
        for point in spec.points[group]
    }
    found: dict[frozenset[int], list[Point]] = {}
    for point in [point for point, by in by_point.items() if by <= known] or list(by_point):
        found.setdefault(by_point[point] & known, []).append(point)
    return [(by, tuple(points)) for by, points in found.items()]


def _evidence(
    group: str,
    numbers: Sequence[int],
    spec: SymmetrySpec,
    classes: Mapping[str, Classes],
    moments: Mapping[str, _Unsigned],
) -> list[tuple[tuple[int, ...], Float[np.ndarray, " n"]]]:
    """By which of a group's flips some points are turned, and how its neurons correlate there.

    Of the groups that lie within it those points count that none of their own flips turns.
    """
    found = []
    for name, of_group in classes.items():
        if group not in (name, *spec.groups[name].within):
            continue
        for (by, _), part in zip(of_group, moments[name].parts, strict=True):
            if part.n and by and by <= {*numbers}:
                S = np.diagonal(part.correlation()).reshape(shape(name, spec.groups))
                of_neurons = S.reshape(*S.shape[: len(spec.groups[group].within) + 1], -1).mean(-1)
                found.append((tuple(int(n in by) for n in numbers), of_neurons.reshape(-1)))
    return found


def _turned(
    name: str, numbers: Sequence[int], spec: SymmetrySpec, classes: Classes, moments: _Unsigned, signs: Signs
) -> Classes:
    """A group's classes without the flips of one that it lies within, by whose signs its moments are turned."""
    sizes = shape(name, spec.groups)
    for (by, _), part in zip(classes, moments.parts, strict=True):
        for n in by.intersection(numbers) if part.n else ():
            of_outer = signs[n].reshape(*signs[n].shape, *(1 for _ in sizes[signs[n].ndim :]))
            factors = torch.as_tensor(np.broadcast_to(of_outer, sizes).reshape(-1).copy()).to(part.cross)
            part.cross, part.sum_b = part.cross * factors, part.sum_b * factors
    return [(by - {*numbers}, points) for by, points in classes]


def _record_unsigned(
    classes: Mapping[str, Classes],
    traced: Traced,
    states_A: Mapping[int, Mapping[str, Tensor]],
    states_B: Mapping[int, Mapping[str, Tensor]],
    batches: Iterable[Any],
    groups: Collection[str] | None = None,
    unsettled: Collection[str] = (),
) -> dict[int, dict[str, _Unsigned]]:
    """As ``record_pair_moments``, for each class of a group's points apart."""
    kept = list(batches)
    wanted = {group: of_group for group, of_group in classes.items() if groups is None or group in groups}
    passes = []
    for n in range(max(map(len, wanted.values()), default=0)):
        points = {group: of_group[n][1] for group, of_group in wanted.items() if n < len(of_group)}
        part = replace(traced, spec=replace(traced.spec, points=points))
        passes.append(record_pair_moments(part, states_A, states_B, kept, None, unsettled))
    return {
        key: {
            group: _Unsigned([each[key][group] for each in passes[: len(of_group)]], [bool(by) for by, _ in of_group])
            for group, of_group in wanted.items()
        }
        for key in states_A
    }


def _best_signs(
    group: str,
    spec: SymmetrySpec,
    flips: Sequence[Flip],
    correlations: Sequence[tuple[tuple[int, ...], Float[np.ndarray, " n"]]],
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
) -> list[Int[np.ndarray, "*within d"]]:
    """For each flip of a group the signs of its neurons, which stand in their order."""
    sizes = shape(group, spec.groups)
    turned: dict[tuple[str, Occurrence], list[int]] = {}
    for n, flip in enumerate(flips):
        for name, where in flip.turned.items():
            for occurrence in where:
                turned.setdefault((name, occurrence), []).append(n)
    inner = {key: _inner_products(*key, group, spec, A, B) for key in turned if key[0] in A}
    norm = np.sqrt(sum(square for _, square, _ in inner.values()) * sum(square for _, _, square in inner.values()))
    choices = list(product((1, -1), repeat=len(flips)))
    worth = []
    for signs in choices:
        of_weights = sum(np.prod([signs[n] for n in turned[key]]) * each[0] for key, each in inner.items())
        total = of_weights / np.maximum(norm, 1e-300)
        for parity, S in correlations:
            total = total + np.prod([sign for sign, odd in zip(signs, parity, strict=True) if odd]) * S
        worth.append(total)
    best = np.argmax(np.round(worth, 6), axis=0)
    return [np.array([choice[n] for choice in choices])[best].reshape(sizes) for n in range(len(flips))]


def _inner_products(
    name: str, occurrence: Occurrence, group: str, spec: SymmetrySpec, A: Mapping[str, Tensor], B: Mapping[str, Tensor]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """By neuron of a group <A, B>, <A, A> and <B, B> of the entries at an occurrence."""
    number, dim = occurrence
    n = int(np.prod(shape(group, spec.groups)))
    found = (list(blocks(state[name].double(), spec.axes[name], spec.groups))[number] for state in (A, B))
    a, b = (neurons_last(block, dim, spec.groups).reshape(-1, n) for block in found)
    return tuple((one * other).sum(0).cpu().numpy() for one, other in ((a, b), (a, a), (b, b)))  # type: ignore[return-value]
