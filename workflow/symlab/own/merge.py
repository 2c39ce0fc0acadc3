"""Merging networks into one, as a function: ``from symlab import merge``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import save_file
from torch import Tensor, nn

from symlab.alignment.matching import compose
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.signs import signed_matching, signs_of
from symlab.alignment.universe import Universe, match_to_universe
from symlab.connectivity.merge import average_network, check_weights, scores
from symlab.own import report
from symlab.own.align import CHECKED_SAMPLES, check_group, check_method, known_axes, remarks_on, shown
from symlab.own.models import Models, load_models, traced_symmetries
from symlab.own.modules import foreign
from symlab.own.weights import unshared
from symlab.products import fast_products
from symlab.seeds import numpy_rng
from symlab.symmetries.signs import apply_flips
from symlab.symmetries.symmetry_spec import SymmetrySpec, identity
from symlab.symmetries.trace import Traced


@dataclass(frozen=True, repr=False)
class Merged:
    """Several networks as one; printed, what it is worth.

    Attributes:
        state: of the merged network, with the first network's names, types and order of neurons.
        universe: each network's permutation to that order (of the first the identity), and its state so renumbered and,
            if the ``group`` was "signed", with its signs turned.
        remarks: sentences: groups left in place or matched by weights and why, what was renamed or left out.
        spec: the groups, and which axes they act on.
        method: what neurons were compared by.
        weights: of the networks in the average; None if all count alike.
        repair: whether channels were rescaled, in the plain average too.
        models: the networks and the data.
    """

    state: dict[str, Tensor]
    universe: Universe
    remarks: tuple[str, ...]
    spec: SymmetrySpec
    method: str
    weights: tuple[float, ...] | None
    repair: bool
    models: Models

    @cached_property
    def plain(self) -> dict[str, Tensor]:
        """The average without renumbering, as ``state``."""
        return _average(self.models, self.models.states, self.weights, self.repair)

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Loss and accuracy of all networks, both averages, the ensemble and a constant; None without targets."""
        models = self.models
        if models.y is None:
            return None
        names = [str(each.path) for each in models.files]
        networks: dict[str, Mapping[str, Tensor]] = dict(zip(names, models.states, strict=True))
        for kind, average in ((report.PLAIN_AVERAGE, self.plain), (report.MERGED, self.state)):
            networks[kind] = models.network.state(average)
        ensemble = dict(zip(names, self.weights or [1.0] * len(names), strict=True))
        return scores(models.module, networks, models.inputs(), models.y, models.task, ensemble, models.rows)

    def save(self, path: str | Path) -> None:
        """Write the merged network's weights to a safetensors file."""
        save_file(unshared(self.state), path, metadata=self.models.files[0].metadata or None)

    def __str__(self) -> str:
        return report.of_merge(self)

    def __repr__(self) -> str:
        return f"Merged({self.models.name}, {len(self.models.files)} networks, method={self.method!r})"


@fast_products()
def merge(
    module: nn.Module | str,
    states: Sequence[Any],
    data: Any = None,
    method: str = "activation",
    *,
    group: str = "permutation",
    weights: Sequence[float] | None = None,
    repair: bool = False,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
    **options: Any,
) -> Merged:
    """Match networks to one order, each to the mean of the others until none moves, and average them.

    Args:
        module, data, method, group, restarts, seed, traced, options: as of ``symlab.align``. Batch norm statistics are
            estimated anew on the data. Signs are matched to the first network's, before the order is to the others'.
        states: weights of each network, at least two: state dicts, modules, or paths of files or folders.
        weights: of each network in the average, of any sum; default equal. They do not count in matching.
        repair: rescale the channels of layers with a bias to the networks' mean statistics (Jordan et al. 2023).

    Raises:
        UserError: the weights do not fit the module, the module cannot be traced, or an argument is missing or wrong.
    """
    check_method(method, data, traced)
    check_weights(weights, len(states))
    models = load_models(module, {f"states[{n}]": state for n, state in enumerate(states)}, data, seed=seed, **options)
    return merge_models(models, method, weights, repair, restarts, seed, traced, group)


@fast_products()
def merge_models(
    models: Models,
    method: str = "activation",
    weights: Sequence[float] | None = None,
    repair: bool = False,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
    group: str = "permutation",
) -> Merged:
    """As ``merge``, of networks that are loaded."""
    check_group(group, method)
    traced = traced_symmetries(models) if traced is None else traced
    traced = replace(traced, spec=known_axes(traced.spec, models.network))
    given = [models.network.by_all_names(state.converted()) for state in models.states]
    compared = models.x if method == "activation" else None
    rng = numpy_rng("merge", seed, "restarts")
    states: list[Mapping[str, Tensor]] = list(given)
    first, spec = [identity(traced.spec) for _ in states], traced.spec
    if group == "signed":
        flips = signs_of(models.module, traced, models.inputs()[:2], states[0], seed)
        for n in range(1, len(states)) if flips else ():
            found = signed_matching(traced, states[0], states[n], models.inputs(), models.rows, flips, rng, shown)
            first[n] = found.matching.permutations
            states[n] = apply_flips(permute(states[n], spec, first[n]), spec, flips, found.signs)
    universe = match_to_universe(traced, states, rng, compared, models.rows, restarts, shown)
    orders = (compose(*both, spec.groups) for both in zip(first, universe.permutations, strict=True))
    universe = replace(universe, permutations=tuple(orders))
    told = set()
    if models.x is not None:
        x = models.x[: min(models.rows, CHECKED_SAMPLES)]
        for state, permuted in zip(given, universe.permuted, strict=True):
            told.add(check_alignment(models.module, state, permuted, x, traced.jumps()))
    merged = _average(models, universe.permuted, weights, repair)
    names = [str(each.path) for each in models.files]
    kinds = (
        [f"{group} ({', '.join(names[n] for n in networks)})" for group, networks in groups.items()]
        for groups in (universe.by_weights, universe.in_place)
    )
    remarks = (*models.remarks, *remarks_on(*kinds), *sorted(told - {""}))
    chosen = None if weights is None else tuple(weights)
    return Merged(merged, universe, remarks, traced.spec, method, chosen, repair, models)


def _average(
    models: Models, states: Sequence[Mapping[str, Tensor]], weights: Sequence[float] | None, repair: bool
) -> dict[str, Tensor]:
    with foreign("computing the averaged network"):
        mean = average_network(models.module, states, models.x, weights, repair)
    return models.network.as_given(mean, models.files[0].tensors)
