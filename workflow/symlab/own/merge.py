"""Merging networks into one, as a function: ``from symlab import merge``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import save_file
from torch import Tensor, nn

from symlab.alignment.matching import compose
from symlab.alignment.permute import permute
from symlab.alignment.signs import signed_matching, signs_of
from symlab.alignment.universe import Universe, match_to_universe
from symlab.connectivity.combine import Averaging, check_layers
from symlab.connectivity.least_squares import unfitted
from symlab.connectivity.merge import combined_network, scores
from symlab.connectivity.norm_statistics import running_statistics
from symlab.errors import UserError
from symlab.own import report
from symlab.own.align import CONTINUOUS, check_group, check_method, remarks_on
from symlab.own.maps import in_one_basis
from symlab.own.models import Models, check_counts, checked, load_models, shown, traced_symmetries
from symlab.own.modules import foreign
from symlab.own.weights import unshared
from symlab.products import fast_products
from symlab.seeds import numpy_rng
from symlab.symmetries.signs import apply_flips
from symlab.symmetries.symmetry_spec import SymmetrySpec, identity
from symlab.symmetries.trace import Traced
from symlab.words import counted


@dataclass(frozen=True, repr=False)
class Merged:
    """Several networks merged into one; printed, the summary that ``symlab merge`` prints.

    Attributes:
        states: the merged network's weights, with the first network's (or the base's) names, types and order of
            neurons; with ``averaging.until`` one a network: the same up to there, and what each keeps of its own.
        universe: each network's permutation to that order (of the first, or the base, the identity), and its state so
            renumbered and, if the ``group`` was "signed", with its signs turned. A base comes first.
        remarks: sentences: groups left in place or matched by weights and why, what was renamed or left out.
        spec: the groups, and which axes they act on.
        method: "activation" or "weight", by which neurons were compared.
        averaging: how networks in one order became one; the plain average was made so too.
        trunk: with ``averaging.until`` names of what is averaged.
        based: whether the first of the models is the base that the others were trained from.
        models: the networks and the data.
    """

    states: tuple[dict[str, Tensor], ...]
    universe: Universe
    remarks: tuple[str, ...]
    spec: SymmetrySpec
    method: str
    averaging: Averaging
    trunk: frozenset[str] | None
    based: bool
    models: Models

    @property
    def state(self) -> dict[str, Tensor]:
        """The merged network's weights, of several heads with the first."""
        return self.states[0]

    @property
    def plain(self) -> dict[str, Tensor]:
        """The average without renumbering, as ``state``."""
        return self.plain_states[0]

    @cached_property
    def plain_states(self) -> tuple[dict[str, Tensor], ...]:
        """The average without renumbering, as ``states``."""
        return _combined(self.models, self.models.states, self.averaging, self.trunk, self.based)

    @property
    def names(self) -> list[str]:
        """What the networks are called; a base is not among them."""
        return [str(each.path) for each in self.models.files[self.based :]]

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Loss and accuracy of all networks, both averages, the ensemble and a constant; None without targets."""
        models, names = self.models, self.names
        if models.scored is None:
            return None
        networks: dict[str, Mapping[str, Tensor]] = dict(zip(names, models.states[self.based :], strict=True))
        ensembles = {"ensemble": dict(zip(names, self.averaging.weights or [1.0] * len(names), strict=True))}
        for kind, states in ((report.PLAIN_AVERAGE, self.plain_states), (report.MERGED, self.states)):
            rows = [kind] if self.trunk is None else [f"{kind}, head of {name}" for name in names]
            networks |= {row: models.network.state(state) for row, state in zip(rows, states, strict=True)}
            if self.trunk is not None:
                ensembles = {kind: dict(zip(rows, ensembles["ensemble"].values(), strict=True)), **ensembles}
        if self.based:
            networks[f"base: {models.files[0].path}"] = models.states[0]
        return scores(models.module, networks, *models.scored, models.task, ensembles, models.rows, names)

    def save(self, path: str | Path) -> None:
        """Write the merged network's weights to a safetensors file; of several heads one each to a folder."""
        metadata = self.models.files[0].metadata or None
        if self.trunk is None:
            return save_file(unshared(self.state), path, metadata=metadata)
        Path(path).mkdir(parents=True, exist_ok=True)
        for n, state in enumerate(self.states, 1):
            save_file(unshared(state), Path(path) / f"{n}.safetensors", metadata=metadata)

    def __str__(self) -> str:
        models, universe = self.models, self.universe
        parts = [
            f"{counted(len(self.names), 'networks')} merged ({models.name}): "
            f"{counted(len(self.spec.free), 'groups')} of neurons, matched by {self.method}s in "
            f"{counted(universe.sweeps, 'sweeps')}.",
            *self._average(),
        ]
        if not universe.settled:
            parts += ["Neurons still moved in the last sweep: another --seed, or --method, may give a better match."]
        parts += [
            report.coverage(models.module, self.spec),
            *report.not_understood(self.spec.unsupported),
            *self.remarks,
        ]
        if models.x is not None:
            parts.append("The permuted networks compute what theirs do (checked on the data).")
        parts += report.judged(self.scores, report.MERGED, len(self.names), report.scored_samples(models))
        return "\n\n".join(parts)

    def _average(self) -> list[str]:
        """A sentence on how the networks were averaged, if it was not by the mean of their weights."""
        how = self.averaging
        kinds = {
            "mean": "the mean",
            "slerp": "the point on the arc between both, tensor by tensor",
            "ties": f"TIES, the mean of the largest {how.density:.0%} of the entries where signs agree",
            "least-squares": "layers fitted by least squares to the mean of what the networks' compute",
        }
        told = kinds[how.rule]
        told += f" of what each has learned since {self.models.files[0].path}, times {how.scale:g}" * self.based
        told += f"; weights of their own have {', '.join(how.layers)}" if how.layers else ""
        told += f"; only up to {how.until}, beyond which each keeps its own" if how.until is not None else ""
        told += "; channels rescaled to the statistics of the networks' (REPAIR)" * how.repair
        return [] if told == "the mean" else [f"Averaged by {told}. So is the plain average."]

    def __repr__(self) -> str:
        return f"Merged({self.models.name}, {len(self.names)} networks, method={self.method!r})"


@fast_products()
def merge(
    module: nn.Module | str,
    states: Iterable[Any],
    data: Any = None,
    method: str = "activation",
    *,
    group: str = "permutation",
    average: str = "mean",
    weights: Iterable[float] | None = None,
    layers: Mapping[str, Sequence[float]] | None = None,
    base: Any = None,
    scale: float = 1.0,
    density: float = 0.2,
    until: str | None = None,
    repair: bool = False,
    test: Any = None,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
    **options: Any,
) -> Merged:
    """Match networks to one order, each to the mean of the others until none moves, and average them.

    Args:
        module, data, method, group, test, restarts, seed, traced, options: as of ``symlab.align``. Batch norm
            statistics are estimated anew on the data. Signs are matched to the first network's, before the order is to
            the others'.
        states: weights of each network, at least two: state dicts, modules, or paths of files or folders.
        average: "mean", "slerp", "ties" or "least-squares", see ``symlab.connectivity.combine.Averaging``, as of the
            weights (which do not count in matching), layers, scale, density, until and repair.
        base: weights that all networks were trained from. It is matched with them and gives the order; the result is
            the base and ``scale`` times the average of what they have learned since.

    Raises:
        UserError: the weights do not fit the module, the module cannot be traced, or an argument is missing or wrong.
    """
    check_method(method, data, traced)
    check_group(group, method)
    check_counts(restarts=restarts)
    if isinstance(states, Mapping | nn.Module | str | Path):
        raise UserError(f"the networks to merge are given as one {type(states).__name__}; give a list of them.")
    states = list(states)
    averaging = Averaging(average, _shares(weights), layers or {}, scale, density, until, repair)
    averaging.check(len(states), base is not None)
    given = ({} if base is None else {"base": base}) | {f"states[{n}]": state for n, state in enumerate(states)}
    models = load_models(module, given, data, scored_on=test, seed=seed, **options)
    check_layers(averaging.layers, models.network.names)
    traced = traced_symmetries(models, traced)
    trunk = None
    if averaging.until is not None:
        trunk = frozenset(models.network.twins[name] for name in traced.names_up_to(averaging.until))
    ready = [models.network.by_all_names(state.converted()) for state in models.states]
    universe, mapped = _in_one_order(models, traced, ready, method, restarts, seed, group)
    told = checked(models, traced, zip(ready, universe.permuted, strict=True))
    left = unfitted(models.module, ready[0]) if averaging.rule == "least-squares" else []
    told += [f"Least squares leave these their mean: {', '.join(left)}."] if left else []
    merged = _combined(models, universe.permuted, averaging, trunk, base is not None)
    remarks = (*models.remarks, *mapped, *_remarks_on(models, universe), *told)
    return Merged(merged, universe, remarks, traced.spec, method, averaging, trunk, base is not None, models)


def _shares(weights: Iterable[float] | None) -> list[float] | None:
    try:
        return None if weights is None else [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise UserError(f"weights = {weights!r} are no numbers; give one for each network.") from None


def _remarks_on(models: Models, universe: Universe) -> list[str]:
    """Sentences on the groups that were not matched by activations, with the networks of which it is so."""
    names = [str(each.path) for each in models.files]
    kinds = (
        [f"{group} ({', '.join(names[n] for n in networks)})" for group, networks in groups.items()]
        for groups in (universe.by_weights, universe.in_place)
    )
    return remarks_on(*kinds)


def _in_one_order(
    models: Models,
    traced: Traced,
    given: Sequence[Mapping[str, Tensor]],
    method: str,
    restarts: int,
    seed: int,
    group: str,
) -> tuple[Universe, tuple[str, ...]]:
    """The networks renumbered to the first one's order, turned to its signs or mapped to its bases; what was mapped."""
    rng = numpy_rng("merge", seed, "restarts")
    if group in CONTINUOUS:
        return in_one_basis(models, traced, given, group, method, restarts, seed, rng)
    states: list[Mapping[str, Tensor]] = list(given)
    first, spec = [identity(traced.spec) for _ in states], traced.spec
    if group == "signed":
        flips = signs_of(models.module, traced, models.inputs()[:2], states[0], seed)
        for n in range(1, len(states)) if flips else ():
            found = signed_matching(traced, states[0], states[n], models.inputs(), models.rows, flips, rng, shown)
            first[n] = found.matching.permutations
            states[n] = apply_flips(permute(states[n], spec, first[n]), spec, flips, found.signs)
    compared = models.x if method == "activation" else None
    universe = match_to_universe(traced, states, rng, compared, models.rows, restarts, shown)
    orders = (compose(*both, spec.groups) for both in zip(first, universe.permutations, strict=True))
    return replace(universe, permutations=tuple(orders)), ()


def _combined(
    models: Models,
    states: Sequence[Mapping[str, Tensor]],
    averaging: Averaging,
    trunk: Collection[str] | None,
    based: bool,
) -> tuple[dict[str, Tensor], ...]:
    """The average of networks in one order; with a trunk what each is with that averaged."""
    # Tied tensors once, so that they count once.
    once = [{name: state[name] for name in models.network.names} for state in states]
    networks, base = once[based:], once[0] if based else None
    with foreign("computing the averaged network"):
        mean = combined_network(models.module, networks, models.x, averaging, base, models.rows)
        wholes = [mean]
        if trunk is not None:
            wholes = [own | {name: mean[name] for name in own if name in trunk} for own in networks]
            wholes = [whole | running_statistics(models.module, whole, models.x) for whole in wholes]
    return tuple(models.network.as_given(whole, models.files[0].tensors) for whole in wholes)
