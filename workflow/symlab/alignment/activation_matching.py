"""Activation matching of networks whose groups of neurons may meet in one activation (tokens x channels).

Neurons of a group can be compared only over samples that mean the same in both networks. Where an activation is indexed
by another group too, that one has to be renumbered first: groups are matched in order, each with B renumbered as far as
it is known, and once more when all are. Without such activations this is one pass and ``matching.match_all``. Neurons
that are constant on the data, such as dead ones, correlate with none: their weights decide between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from symlab.alignment.averaging import average
from symlab.alignment.matching import Permutations, compose, joint, match_all
from symlab.alignment.moments import PairMoments, record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import weight_matching
from symlab.batches import Inputs
from symlab.symmetries.symmetry_spec import Axis, Concat, Group, Product, SymmetrySpec, identity
from symlab.symmetries.trace import Traced

SWEEPS = 2
# Correlations this close to 1 are taken for this close: their Fisher transform would be infinite.
RESOLVED = 1e-6

Shown = Callable[[Any], Iterable[Any]]
"""Wraps the batches of a pass over the data."""
Halves = dict[str, list[list[PairMoments]]]
"""Moments by group, for each half of the data by reference."""


@dataclass(frozen=True)
class ActivationMatching:
    """Permutations of all groups, and how each was found.

    Attributes:
        correlations: S of each group with activations that vary, in B's own order of the group, the groups that it
            meets renumbered.
        by_weights: groups of trees that have no such activations; they were matched by the weights.
        in_place: groups left as they are, because their best match is not above chance.
    """

    permutations: Permutations
    correlations: dict[str, Float[np.ndarray, "d d"]]
    by_weights: tuple[str, ...]
    in_place: tuple[str, ...]


def activation_matching(
    traced: Traced,
    references: Sequence[Mapping[str, Tensor]],
    state_B: Mapping[str, Tensor],
    x: Float[Tensor, "n ..."] | Inputs,
    rows: int,
    rng: np.random.Generator,
    shown: Shown = iter,
    known: Sequence[Sequence[Mapping[str, PairMoments]]] | None = None,
    record: Callable[..., Mapping[int, Mapping[str, PairMoments]]] = record_pair_moments,
) -> ActivationMatching:
    """Permutations of B under which its neurons correlate best with those of the references, in the mean over these.

    Args:
        references: states of networks whose neurons have one order; of one, B is matched to that.
        state_B: a state, as the references by all names, tied tensors under each of them.
        x: inputs, of which ``rows`` are passed through the networks at a time.
        rng: order of the steps of weight matching.
        shown: wraps the batches of a pass over the data, for a progress bar.
        known: of a network whose ``groups_meet`` nowhere, the moments on ``halves_of`` the inputs by reference, if they
            have been recorded already.
        record: takes moments, as ``record_pair_moments`` does.

    Raises:
        UserError: activations are not finite, or groups lie within two that do not lie within each other.
    """
    matching = _Matching(traced, references, state_B, halves_of(x, rows), shown, known, record)
    recorded = [root for root in matching.trees if matching.meetings(root)]
    entangled = [root for root in recorded if any(matching.meetings(root))]
    _first_sweep(matching, recorded)
    for _ in range(1, SWEEPS if entangled else 1):
        matching.match_by_weights(rng)
        for batch in _independent(matching, entangled):
            matching.match(batch)
    matching.match_by_weights(rng)
    in_place = [group for root in matching.in_place for group in matching.trees[root]]
    by_weights = [group for root in matching.without_activations() for group in matching.trees[root]]
    return ActivationMatching(matching.found, matching.correlations, tuple(by_weights), tuple(in_place))


def trees(groups: Mapping[str, Group]) -> dict[str, list[str]]:
    """For each group that lies within none, that group and all within it."""
    return {
        root: [name for name, group in groups.items() if root in (name, *group.within)]
        for root, described in groups.items()
        if not described.within
    }


def groups_meet(spec: SymmetrySpec) -> bool:
    """Whether some activation that tells neurons apart is indexed by groups of which none lies within the other."""
    return any(
        one not in spec.groups[other].within and other not in spec.groups[one].within
        for group, points in spec.points.items()
        for point in points
        for labels in _labels(Product(point.axes))
        if group in labels
        for one, other in combinations(sorted(labels), 2)
    )


def halves_of(x: Tensor | Inputs, rows: int) -> list[tuple[Tensor, ...] | tuple[Inputs, ...]]:
    """The batches of both halves of the data; one alone if there is one sample."""
    return [half.split(rows) for half in x.tensor_split(2) if len(half)]


def _first_sweep(matching: _Matching, recorded: Sequence[str]) -> None:
    """Match all trees, those first that have activations which no group of unknown order indexes."""
    waiting = list(recorded)
    while waiting:
        unsettled = {*waiting, *matching.without_activations()}
        ready = [root for root in waiting if any(not met & unsettled for met in matching.meetings(root))]
        if ready:
            matching.match(ready, [group for root in unsettled for group in matching.trees[root]])
        else:
            ready = waiting[:1]
            matching.match(ready)
        waiting = [root for root in waiting if root not in ready]


def _independent(matching: _Matching, roots: Sequence[str]) -> list[list[str]]:
    """The trees in batches of those that meet none of each other."""
    batches: list[list[str]] = []
    for root in roots:
        met = set().union(*matching.meetings(root))
        for batch in batches:
            if not met & {*batch} and not any(
                root in of_other for other in batch for of_other in matching.meetings(other)
            ):
                batch.append(root)
                break
        else:
            batches.append([root])
    return batches


class _Matching:
    """What has been found so far. Groups are matched by trees: a group that lies within none, and all within it."""

    def __init__(
        self,
        traced: Traced,
        references: Sequence[Mapping[str, Tensor]],
        state_B: Mapping[str, Tensor],
        halves: Sequence[Sequence[Tensor] | Sequence[Inputs]],
        shown: Shown,
        known: Sequence[Sequence[Mapping[str, PairMoments]]] | None,
        record: Callable[..., Mapping[int, Mapping[str, PairMoments]]],
    ):
        self.record = record
        self.traced, self.state_B, self.halves, self.shown = traced, state_B, halves, shown
        self.references, self.known = dict(enumerate(references)), known
        self.found = identity(traced.spec)
        self.correlations: dict[str, np.ndarray] = {}
        self.in_place: dict[str, None] = {}
        self.trees = trees(traced.spec.groups)
        self._meetings = {root: _meetings(root, members, traced.spec) for root, members in self.trees.items()}

    def meetings(self, root: str) -> list[frozenset[str]]:
        """For each block of activations that tells a tree's neurons apart the roots of other trees that index it."""
        return self._meetings[root]

    def without_activations(self) -> list[str]:
        """Roots of the trees whose neurons no activation has told apart."""
        return [root for root, members in self.trees.items() if not {*members} & self.correlations.keys()]

    def match(self, roots: Sequence[str], unsettled: Collection[str] = ()) -> None:
        """Match some trees anew by their activations, all others renumbered as found."""
        groups = self.traced.spec.groups
        members = [group for root in roots for group in self.trees[root]]
        start = identity(self.traced.spec)
        self.found |= {group: start[group] for group in members}
        telling = _by_group(self.known or self._recorded(members, {*unsettled, *members}))
        found = {group: _of_all(halves) for group, halves in telling.items()}
        permutations = match_all(found, groups)
        # Within one outer neuron two groups may meet (query heads and dimensions of values): one was unsettled so far.
        late = self._late(members, found, permutations, unsettled)
        if late:
            for group, halves in late.items():
                telling[group] = halves
                found[group] = _of_all(halves)[:, np.argsort(joint(group, permutations, groups))]
            permutations = match_all(found, groups)
        found = {group: S for group, S in found.items() if S.any()}
        self.correlations = {group: S for group, S in self.correlations.items() if group not in members} | found
        for root in roots:
            of_tree = [group for group in self.trees[root] if group in found]
            self.in_place.pop(root, None)
            if any(_is_above_chance(found[g], telling[g], joint(g, permutations, groups)) for g in of_tree):
                self.found |= {group: permutations[group] for group in self.trees[root]}
            elif of_tree:
                self.in_place[root] = None

    def _recorded(self, members: Collection[str], unsettled: Collection[str]) -> list[list[dict[str, PairMoments]]]:
        """For each half of the data and each reference its moments with B, which is renumbered as far as is known."""
        states_B = dict.fromkeys(self.references, permute(self.state_B, self.traced.spec, self.found))
        recorded = (
            self.record(self.traced, self.references, states_B, self.shown(half), members, unsettled)
            for half in self.halves
        )
        return [[dict(of_pair) for of_pair in of_half.values()] for of_half in recorded]

    def _late(
        self, members: Collection[str], found: Collection[str], permutations: Permutations, unsettled: Collection[str]
    ) -> Halves:
        """Moments of the members that had no samples while the others were unsettled, those renumbered."""
        waiting = [group for group in members if group not in found and self.traced.spec.points.get(group)]
        if not waiting or not found:
            return {}
        before = dict(self.found)
        self.found |= {group: permutations[group] for group in members}
        settled = {group for group in members if group in found}
        late = _by_group(self._recorded(waiting, {*unsettled, *members} - settled))
        self.found = before
        return late

    def match_by_weights(self, rng: np.random.Generator) -> None:
        """Let weights decide where activations do not: trees, groups within them and neurons that do not vary."""
        spec = self.traced.spec
        roots = [root for root in self.trees if root not in self.in_place and self._undecided(root)]
        if not roots:
            return
        renumbered = permute(self.state_B, spec, self.found)
        in_order = {
            group: self.correlations[group][:, joint(group, self.found, spec.groups)]
            for root in roots
            for group in self.trees[root]
            if group in self.correlations
        }
        matched = weight_matching(
            spec, average([*self.references.values()]), renumbered, rng, roots=roots, correlations=in_order
        ).permutations
        self.found = compose(self.found, matched, spec.groups)

    def _undecided(self, root: str) -> bool:
        """Whether two permutations of a tree may be worth the same in activations."""
        groups = self.traced.spec.groups
        members = self.trees[root]
        outer = {name for group in members for name in groups[group].within if group in self.correlations}
        if any(group not in self.correlations and group not in outer for group in members):
            return True
        return any(
            (~S.any(axis=axis)).sum() > 1
            for S in (self.correlations[group] for group in members if group in self.correlations)
            for axis in (0, 1)
        )


def _joined(parts: Sequence[PairMoments]) -> PairMoments:
    return parts[0] if len(parts) == 1 else parts[0].joined(parts[1])


def _by_group(moments: Sequence[Sequence[Mapping[str, PairMoments]]]) -> Halves:
    return {
        group: [[of_pair[group] for of_pair in of_half] for of_half in moments]
        for group in moments[0][0]
        if moments[0][0][group].n
    }


def _of_all(halves: Sequence[Sequence[PairMoments]]) -> Float[np.ndarray, "d d"]:
    """The correlations on all of the data, in the mean over the references."""
    return _mean_correlation(map(_joined, zip(*halves, strict=True)))


def _mean_correlation(moments: Iterable[PairMoments]) -> Float[np.ndarray, "d d"]:
    return np.mean([of_pair.correlation() for of_pair in moments], axis=0)


def _is_above_chance(
    S: Float[np.ndarray, "d d"], halves: Sequence[Sequence[PairMoments]], pi: Int[np.ndarray, " d"]
) -> bool:
    """Whether a match is worth more than the best of as many correlations that differ by their sampling error alone.

    Correlations are compared by their Fisher transform z, whose error is the same for all. The error of those of all
    samples is half the deviation of the differences between the halves' (they are independent), which counts samples
    that are alike, as neighbouring pixels are, for what they are worth. The largest of d values with error s is
    s sqrt(2 ln d) above their mean at most, in expectation.
    """
    if len(halves) < 2:
        return True
    z, first, second = (
        np.arctanh(np.clip(each, RESOLVED - 1, 1 - RESOLVED)) for each in (S, *map(_mean_correlation, halves))
    )
    error = float(np.std(first - second)) / 2
    return float(z[np.arange(len(z)), pi].mean() - z.mean()) > error * math.sqrt(2 * math.log(len(z)))


def _meetings(root: str, members: Collection[str], spec: SymmetrySpec) -> list[frozenset[str]]:
    """For each block of the values in which members of a tree are recorded the roots of other trees in it."""
    found = []
    for group in members:
        for point in spec.points.get(group, ()):
            for labels in _labels(Product(point.axes)):
                if group in labels:
                    found.append(frozenset(_root(name, spec.groups) for name in labels) - {root})
    return list(dict.fromkeys(found))


def _root(group: str, groups: Mapping[str, Group]) -> str:
    return (*groups[group].within, group)[0]


def _labels(axis: Axis) -> list[frozenset[str]]:
    """The groups that index each block of an axis."""
    if isinstance(axis, Concat):
        return [labels for part in axis.parts for labels in _labels(part)]
    if isinstance(axis, Product):
        return [frozenset().union(*chosen) for chosen in product(*map(_labels, axis.parts))]
    return [frozenset([axis] if isinstance(axis, str) else [])]
