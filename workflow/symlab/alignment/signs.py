"""Signs of a network's neurons: found, proven, and matched beside their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.alignment.activation_matching import ActivationMatching, Shown, activation_matching, groups_meet, halves_of
from symlab.alignment.forward import outputs
from symlab.alignment.matching import joint
from symlab.alignment.moments import PairMoments, record_pair_moments
from symlab.alignment.permute import differences, permute
from symlab.batches import Inputs
from symlab.errors import UserError
from symlab.symmetries.signs import Flip, Occurrence, apply_flips, find_flips, random_signs
from symlab.symmetries.symmetry_spec import SymmetrySpec, blocks, dim_of, shape
from symlab.symmetries.trace import Traced

# What random signs may change in an output of size 1, in machine epsilons: a wrong sign moves it by its size.
PROVEN_IN_EPS = 1e4

Signs = dict[int, Int[np.ndarray, "*within d"]]
"""By the number of a flip the signs of its group's neurons."""


def signs_of(
    module: nn.Module, traced: Traced, x: Tensor | Inputs, like: Mapping[str, Tensor], seed: int = 0
) -> list[Flip]:
    """The signs of neurons that are free beside their order, each proven by random signs at random weights.

    Args:
        module: the network that was traced.
        x: a few inputs.
        like: a state of it, by all names, near which the random weights are drawn.
        seed: of weights, signs and neurons that are drawn.
    """
    state = general_position(module, like, seed)
    rng = np.random.default_rng(seed)
    proven = []
    for flip in find_flips(traced.evaluated(state, x), seed):
        turned = apply_flips(state, traced.spec, [flip], random_signs(traced.spec, [flip], rng))
        scale, difference, _ = differences(outputs(module, state, x), outputs(module, turned, x))
        eps = max(torch.finfo(t.dtype).eps for t in state.values() if t.is_floating_point())
        if difference <= PROVEN_IN_EPS * eps * scale:
            proven.append(flip)
    return proven


def general_position(module: nn.Module, like: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """A state near another in which no entry of a tensor is 0 or alike; variances stay positive, tied weights tied."""
    generator = torch.Generator().manual_seed(seed)
    drawn: dict[tuple[int, torch.Size], Tensor] = {}
    state = {}
    for name, own in module.state_dict(keep_vars=True).items():
        key = (own.untyped_storage()._cdata, own.shape)
        if key not in drawn:
            value = like[name].detach().cpu()
            if value.is_floating_point() and value.isfinite().all():
                factors = 0.5 + torch.rand(value.shape, generator=generator)
                rest = 0.3 * torch.randn(value.shape, generator=generator)
                value = torch.where(value == 0, rest, value * factors).to(value.dtype)
            drawn[key] = value.to(own.device)
        state[name] = drawn[key]
    return state


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

    Neurons are assigned by the sizes of their correlations, at each point of a group apart. Then each gets the signs
    under which its correlations at all points, and the cosine of its weights with A's where flips turn them, add up to
    most. Groups are turned one after another, those within others first.

    Args:
        A, B: states by all names.
        x: inputs, of which ``rows`` are passed through the networks at a time.
        flips: as ``signs_of`` gives them.
        rng, shown: as of ``activation_matching``.

    Raises:
        UserError: two groups index one activation, so that one has to be renumbered before the other is compared.
    """
    if groups_meet(traced.spec):
        raise UserError("signs cannot be matched where two groups index one activation, as tokens and channels do.")
    spec = traced.spec
    classes = {group: _classes(group, spec, flips) for group in spec.points}
    halves = []
    for half in halves_of(x, rows):
        passes = []
        for n in range(max(map(len, classes.values()))):
            points = {group: of_group[n][1] for group, of_group in classes.items() if n < len(of_group)}
            part = replace(traced, spec=replace(spec, points=points))
            passes.append(record_pair_moments(part, {0: A}, {0: B}, shown(half))[0])
        halves.append({group: [each[group] for each in passes if group in each] for group in classes})
    free = {group: [any(parity) for parity, _ in of_group] for group, of_group in classes.items()}
    known = [[{group: _Unsigned(parts, free[group]) for group, parts in half.items()}] for half in halves]
    matching = activation_matching(traced, [A], B, x, rows, rng, shown, known)
    moved = permute(B, spec, matching.permutations)
    signs: Signs = {}
    for group in sorted(spec.groups, key=lambda name: -len(spec.groups[name].within)):
        numbers = [n for n, flip in enumerate(flips) if flip.group == group]
        if not numbers:
            continue
        order = joint(group, matching.permutations, spec.groups)
        found: list[tuple[tuple[int, ...], np.ndarray]] = []
        for n, (parity, _) in enumerate(classes.get(group, ())):
            moments = [half[group][n] for half in halves]
            both = moments[0] if len(moments) == 1 else moments[0].joined(moments[1])
            if both.n:
                found.append((parity, both.correlation()[np.arange(len(order)), order]))
        chosen = _best_signs(group, spec, [flips[n] for n in numbers], found, A, moved)
        signs |= dict(zip(numbers, chosen, strict=True))
        moved = apply_flips(moved, spec, flips, {n: signs[n] for n in numbers})
    return SignedMatching(matching, signs)


def _classes(group: str, spec: SymmetrySpec, flips: Sequence[Flip]) -> list[tuple[tuple[int, ...], tuple]]:
    """A group's points by which of its flips turn them."""
    own = [flip for flip in flips if flip.group == group]
    found: dict[tuple[int, ...], list] = {}
    for point in spec.points[group]:
        found.setdefault(tuple(int(point.value in flip.points) for flip in own), []).append(point)
    return [(parity, tuple(points)) for parity, points in found.items()]


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
    a, b = (list(blocks(state[name].double(), spec.axes[name], spec.groups))[number] for state in (A, B))
    last = [*(dim_of(outer, a.labels[dim][1], a.labels) for outer in spec.groups[group].within), dim]
    rest = [n for n in range(a.tensor.dim()) if n not in last]

    def summed(product_of: Tensor) -> np.ndarray:
        return (
            product_of.permute(*rest, *last).reshape(-1, int(np.prod(shape(group, spec.groups)))).sum(0).cpu().numpy()
        )

    return summed(a.tensor * b.tensor), summed(a.tensor**2), summed(b.tensor**2)
