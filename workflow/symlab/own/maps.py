"""Rotations, scales and other linear maps beside renumbering: what ``group="orthogonal"`` and ``"full"`` do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from symlab.alignment.averaging import average, in_type
from symlab.alignment.matching import compose
from symlab.alignment.rotations import Mapped, foldable, map_by_activations, map_by_weights, prepared
from symlab.alignment.signs import signs_of
from symlab.alignment.universe import Universe
from symlab.connectivity.norm_statistics import batch_norms
from symlab.own.models import Models, shown
from symlab.own.report import KINDS_TOLD
from symlab.symmetries.actions import Action, actions_of
from symlab.symmetries.signs import Flip
from symlab.symmetries.symmetry_spec import identity
from symlab.symmetries.trace import Traced

# Of merging: passes over the networks, and the share of their distance from their mean that one must gain.
MOST_SWEEPS, SMALLEST_GAIN = 10, 1e-3

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Maps:
    """The maps that networks are aligned by.

    Attributes:
        actions: those that every network allows.
        flips: signs of neurons that no map acts on.
        scales: whether both sides of each map are brought to one size first, in all networks.
        remarks: sentences on what is mapped, and what is not and why.
    """

    actions: tuple[Action, ...]
    flips: tuple[Flip, ...]
    scales: bool
    remarks: tuple[str, ...]

    def prepared(self, state: State) -> dict[str, Tensor]:
        """The same network with gains folded, in float64."""
        return prepared(state, self.actions, self.scales)

    def align(
        self,
        models: Models,
        traced: Traced,
        references: Sequence[State],
        state: State,
        method: str,
        restarts: int,
        rng: np.random.Generator,
    ) -> Mapped:
        """A prepared network in the bases and order of others."""
        if method == "weight":
            return map_by_weights(traced, references, state, self.actions, rng, restarts)
        x, rows = models.inputs(), models.rows
        return map_by_activations(
            traced, references, state, self.actions, self.flips, x, rows, rng, models.network.dtype, shown
        )


def free_maps(models: Models, traced: Traced, states: Sequence[State], group: str, method: str, seed: int) -> Maps:
    """The maps that a group of symmetries has: rotations for "orthogonal", for "full" scales and all others too.

    Args:
        states: the networks, by all names.
    """
    x = models.inputs()[:2]
    found = actions_of(models.module, traced, x, states[0], seed)
    wanted = [action for action in found if group == "full" or action.kind != "scaled"]
    # What scales the inputs of a batch norm keeps the function only while its statistics are not estimated anew.
    means = {f"{name}.running_mean" for name in batch_norms(models.module)}
    normalised = [action.group for action in wanted if means & action.powers.keys()]
    wanted = [action for action in wanted if not means & action.powers.keys()]
    actions = [action for action in wanted if all(foldable(state, action) for state in states)]
    mapped = {action.group for action in actions if action.kind != "scaled"}
    flips = [] if method == "weight" else signs_of(models.module, traced, x, states[0], seed)
    around = {name for action in actions if action.group in mapped for name in action.spec.groups[action.group].within}
    remarks = [
        f"{action.group}: not mapped, for some gain of its norms is next to 0."
        for action in wanted
        if action not in actions
    ]
    if normalised:
        names = ", ".join(dict.fromkeys(normalised))
        remarks.append(
            f"Scales of what batch norms read are left, for averages estimate their statistics anew: {names}."
        )
    kinds: dict[str, dict[str, None]] = {}
    for action in actions:
        kinds.setdefault(KINDS_TOLD[action.kind], {})[action.group] = None
    remarks += [f"Mapped by {kind}: {', '.join(names)}." for kind, names in kinds.items()]
    kept = tuple(flip for flip in flips if flip.group not in mapped | around)
    if not actions:
        others = "renumbering and signs" if kept else "renumbering"
        besides = "nothing else" if normalised else "nothing"
        remarks.append(f"The group {group} holds {besides} that is free in this network but {others}.")
    return Maps(tuple(actions), kept, group == "full", tuple(remarks))


def in_one_basis(
    models: Models,
    traced: Traced,
    given: Sequence[State],
    group: str,
    method: str,
    restarts: int,
    seed: int,
    rng: np.random.Generator,
) -> tuple[Universe, tuple[str, ...]]:
    """Networks in the first one's bases and order: each is brought to the mean of the others until none comes closer.

    And sentences on what was mapped.

    Maps are to the common basis, so that from one network to another and on to a third is from the first to the third.
    """
    maps = free_maps(models, traced, given, group, method, seed)
    states = [maps.prepared(state) for state in given]
    orders = [identity(traced.spec) for _ in given]
    spread, sweeps, settled, matching = math.inf, 0, False, None
    while not settled and sweeps < MOST_SWEEPS:
        moved, renumbered = list(states), list(orders)
        for n in range(1, len(states)):
            others = [moved[m] for m in range(n if sweeps == 0 else len(states)) if m != n]
            found = maps.align(models, traced, others, moved[n], method, restarts, rng)
            moved[n], matching = found.state, found.matching
            renumbered[n] = compose(renumbered[n], found.permutations, traced.spec.groups)
        mean = average(moved)
        distance = sum(
            float((state[name] - mean[name]).square().sum())
            for state in moved
            for name in models.network.names
            if mean[name].is_floating_point()
        )
        sweeps, settled = sweeps + 1, distance > (1 - SMALLEST_GAIN) * spread
        if distance < spread:
            states, orders, spread = moved, renumbered, distance
    permuted = tuple(in_type(state, models.network.dtype) for state in states)
    left = ((), ()) if matching is None else (matching.by_weights, matching.in_place)
    told = (dict.fromkeys(groups, range(len(given))) for groups in left)
    return Universe(tuple(orders), permuted, sweeps, settled, *told), maps.remarks
