"""One order for the neurons of many networks: each is matched to the mean of the others, until none moves any more.

Permutations are to the common order, so that what takes one network to another and on to a third is what takes it there
directly (cycle consistency). Weights: MergeMany (Ainsworth et al. 2023, Algorithm 3). Activations: neuron i of the
common order and neuron j of a network are worth the mean over the other networks of the correlations of j with the
neurons that stand at i, so that each step is an exact assignment which raises the sum of correlations over all pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.activation_matching import (
    ActivationMatching,
    Shown,
    activation_matching,
    groups_meet,
    halves_of,
    trees,
)
from symlab.alignment.averaging import average
from symlab.alignment.matching import Permutations, compose, joint
from symlab.alignment.moments import PairMoments, record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import SMALLEST_GAIN, weight_matching
from symlab.batches import Inputs
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import SymmetrySpec, identity, inverse, validate
from symlab.symmetries.trace import Traced

METHODS = ("activation", "weight")
# Each step gains, so sweeps end; where groups meet in one activation that is not proven.
MOST_SWEEPS = 30
# Correlations have errors of some 1e-6; groups must gain as much a neuron to move.
SMALLEST_CORRELATION_GAIN = 1e-6


@dataclass(frozen=True)
class Universe:
    """Networks in one order, which is the first one's.

    Attributes:
        permutations: of each network, by group; the first network's are the identity.
        permuted: the networks' states, renumbered.
        sweeps: passes over the networks, the last of which changed nothing if ``settled``.
        by_weights, in_place: as of ``ActivationMatching``, each group with the networks of which it is so in the end.
    """

    permutations: tuple[Permutations, ...]
    permuted: tuple[dict[str, Tensor], ...]
    sweeps: int
    settled: bool
    by_weights: Mapping[str, Sequence[int]] = field(default_factory=dict)
    in_place: Mapping[str, Sequence[int]] = field(default_factory=dict)


def match_to_universe(
    traced: Traced,
    states: Sequence[Mapping[str, Tensor]],
    rng: np.random.Generator,
    x: Float[Tensor, "n ..."] | Inputs | None = None,
    rows: int = 1024,
    restarts: int = 1,
    shown: Shown = iter,
) -> Universe:
    """Permutations of some networks under which they agree best with each other.

    Args:
        states: by all names, tied tensors under each of them.
        rng: order of the steps of weight matching.
        x: inputs on which activations are compared, ``rows`` at a time; None compares weights.
        restarts: starts of weight matching in the first sweep, see ``weight_matching``.
        shown: wraps the batches of a pass over the data, for a progress bar.

    Raises:
        UserError: there are less than two networks, they do not fit the spec, or their values are not finite.
    """
    if len(states) < 2:
        raise UserError(f"networks are matched to each other, which takes at least two; got {len(states)}.")
    spec = traced.spec
    once = one_name_each(spec, states[0])
    pairs = None if x is None or groups_meet(spec) else _Pairs(traced, states, halves_of(x, rows), shown)
    permutations = [identity(spec) for _ in states]
    moved = [dict(state) for state in states]
    settled, sweeps = False, 0
    while not settled and sweeps < MOST_SWEEPS:
        settled = sweeps > 0
        by_weights: dict[str, list[int]] = {}
        in_place: dict[str, list[int]] = {}
        for n in range(len(states)):
            placed = [m for m in range(n if sweeps == 0 else len(states)) if m != n]
            others = [moved[m] for m in placed]
            if not others:
                continue
            if x is None:
                update = _by_weights(once, others, moved[n], rng, restarts if sweeps == 0 else 1)
            else:
                known = None if pairs is None else pairs.of(n, placed, permutations)
                found = activation_matching(traced, others, moved[n], x, rows, rng, shown, known)
                update = _worthwhile(found, spec)
                for groups, networks in ((found.by_weights, by_weights), (found.in_place, in_place)):
                    for group in groups:
                        networks.setdefault(group, []).append(n)
            if any((pi != np.arange(pi.shape[-1])).any() for pi in update.values()):
                settled = False
                permutations[n] = compose(permutations[n], update, spec.groups)
                moved[n] = permute(states[n], spec, permutations[n])
        sweeps += 1
    back = inverse(permutations[0], spec.groups)
    permutations = [compose(of_network, back, spec.groups) for of_network in permutations]
    permuted = [permute(state, spec, of_network) for state, of_network in zip(states, permutations, strict=True)]
    return Universe(tuple(permutations), tuple(permuted), sweeps, settled, by_weights, in_place)


class _Pairs:
    """Moments of all pairs of networks, recorded once in their own orders: renumbering them is cheap, a pass is not."""

    def __init__(
        self,
        traced: Traced,
        states: Sequence[Mapping[str, Tensor]],
        halves: Sequence[Sequence[Tensor] | Sequence[Inputs]],
        shown: Shown,
    ):
        self.groups = traced.spec.groups
        A, B = ({pair: states[pair[side]] for pair in combinations(range(len(states)), 2)} for side in (0, 1))
        self.halves = [record_pair_moments(traced, A, B, shown(half)) for half in halves]

    def of(
        self, n: int, others: Sequence[int], permutations: Sequence[Permutations]
    ) -> list[list[dict[str, PairMoments]]]:
        """For each half of the data and each other network its moments with network n, all renumbered."""
        return [[self._pair(half, other, n, permutations) for other in others] for half in self.halves]

    def _pair(
        self,
        half: Mapping[tuple[int, int], Mapping[str, PairMoments]],
        a: int,
        b: int,
        permutations: Sequence[Permutations],
    ) -> dict[str, PairMoments]:
        moments = half[min(a, b), max(a, b)]
        return {
            group: (of_group if a < b else of_group.swapped()).renumbered(
                *(joint(group, permutations[n], self.groups) for n in (a, b))
            )
            for group, of_group in moments.items()
        }


def one_name_each(spec: SymmetrySpec, state: Mapping[str, Tensor]) -> SymmetrySpec:
    """The spec with one name for each tensor of a state: tied weights count once."""
    validate(spec, state)
    first: dict[tuple[int, torch.Size], str] = {}
    names = {first.setdefault((tensor.data_ptr() or id(tensor), tensor.shape), name) for name, tensor in state.items()}
    return replace(spec, axes={name: axes for name, axes in spec.axes.items() if name in names})


def _by_weights(
    spec: SymmetrySpec,
    others: Sequence[Mapping[str, Tensor]],
    state: Mapping[str, Tensor],
    rng: np.random.Generator,
    restarts: int,
) -> Permutations:
    """What brings the weights closest to the others' mean; the identity where nothing is gained."""
    reference, moving = ({name: of[name] for name in spec.axes} for of in (average(others), state))
    matched = weight_matching(spec, reference, moving, rng, restarts)
    gained = matched.similarity - matched.histories[0][0] > SMALLEST_GAIN
    return matched.permutations if gained else identity(spec)


def _worthwhile(found: ActivationMatching, spec: SymmetrySpec) -> Permutations:
    """The permutations found, but the identity for trees of groups whose activations gain nothing from theirs."""
    kept = identity(spec)
    for root, tree in trees(spec.groups).items():
        gain, neurons = 0.0, 0
        for name in tree:
            if (S := found.correlations.get(name)) is not None:
                pi = joint(name, found.permutations, spec.groups)
                gain += float((S[np.arange(len(S)), pi] - np.diag(S)).sum())
                neurons += len(S)
        if gain > SMALLEST_CORRELATION_GAIN * neurons or root in found.by_weights:
            kept |= {name: found.permutations[name] for name in tree}
    return kept
