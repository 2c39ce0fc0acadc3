"""Which neurons have the same place in two trainings, as a function: ``from symlab import diagnose``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from symlab.alignment.forward import outputs, watching
from symlab.errors import UserError
from symlab.identifiability.neuron_table import neuron_table
from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.identifiability.subspace import Covariance, principal_subspace
from symlab.own.align import align_models, correlations
from symlab.own.aligned import Aligned
from symlab.own.models import Models, check_counts, load_models, traced_symmetries
from symlab.own.modules import foreign
from symlab.own.network import State
from symlab.own.report import short_names
from symlab.products import fast_products

Parts = Mapping[str, tuple[Tensor | None, Tensor | None]]


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """For each neuron of A its partner in B and the costs of swaps; printed, how many are not identifiable.

    Attributes:
        neurons: a row a neuron: ``group``; ``neuron``; ``partner``, the neuron of B that is matched to it; ``itself``,
            whether that has the same number; ``correlation`` with its partner and ``own_correlation`` with the neuron
            of B of its number; ``cheapest``, by how much the squared norm of the trainable weights grows for its
            cheapest swap, and ``cost_rank``, the share of its swaps that cost less than that with its partner. Costs
            are means over both networks, and NaN in groups that no or several linear maps compute.
        aligned: B in the order of A.
    """

    neurons: pd.DataFrame
    aligned: Aligned

    def __str__(self) -> str:
        A, B = short_names(self.aligned.models.files)
        lines = [f"Neurons of {A} ({self.aligned.models.name}), identifiable if their partner in {B} has their number:"]
        for group, rows in self.neurons.groupby("group", sort=False):
            moved = ~rows["itself"]
            line = f"{group}: {int(moved.sum())} of {len(rows)} neurons are not identifiable; correlation with the "
            line += f"partner {rows['correlation'].mean():.2f}, with the neuron of the same number "
            line += f"{rows['own_correlation'].mean():.2f}"
            if rows["cheapest"].notna().all():
                costs = [f"{rows.loc[which, 'cheapest'].median():.3g}" for which in (moved, ~moved) if which.any()]
                line += f"; median cost of the cheapest swap: {' against '.join(costs)}"
                line += " (those that moved against those that did not)" if len(costs) > 1 else ""
            lines.append(line + ".")
        return "\n".join([*lines, *self.aligned.remarks])

    def __repr__(self) -> str:
        return f"Diagnosis({self.aligned.models.name}, {len(self.neurons)} neurons)"


@fast_products()
def diagnose(
    module: nn.Module | str,
    A: Any,
    B: Any,
    data: Any,
    *,
    fixed: Parts | None = None,
    explained_variance: float = 0.9,
    restarts: int = 3,
    seed: int = 0,
    **options: Any,
) -> Diagnosis:
    """Tell which neurons of A have their place in B, and what exchanging them would cost (Bürgin et al. 2026).

    Args:
        module, A, B, data, restarts, seed, options: as of ``symlab.align``.
        fixed: by name of a linear map's weight its fixed parts F and D, where weights are F + D * W and W is trained;
            None stands for F = 0 and for D = 1. By default entries that are equal in both networks are fixed.
        explained_variance: share of the variance of a layer's inputs that the subspace of costs has to explain.

    Raises:
        UserError: as ``symlab.align``; or weights do not have the form F + D * W.
    """
    check_counts(restarts=restarts)
    models = load_models(module, {"A": A, "B": B}, data, seed=seed, **options)
    traced = traced_symmetries(models)
    aligned = align_models(models, "activation", restarts, seed, traced)
    groups = [name for name, group in traced.spec.groups.items() if name in traced.spec.points and not group.within]
    if not groups:
        raise UserError(f"{models.name} has no neurons that one permutation renumbers, so there is none to tell of.")
    S_of = correlations(models, traced, aligned.permutations, groups)
    maps = _maps_of(models.module, traced.spec.axes, groups)
    states = tuple(map(models.network.by_all_names, models.states))
    costs = [_swap_costs(models, states, state, maps, fixed, explained_variance) for state in states]
    tables = []
    for group in groups:
        S, partner = S_of[group], aligned.permutations[group]
        of_group = (costs[0][group] + costs[1][group]) / 2 if group in maps else np.full(S.shape, np.nan)
        tables.append(neuron_table(of_group, S, partner).assign(group=group, partner=partner))
    columns = ["group", "neuron", "partner", "itself", "correlation", "own_correlation", "cheapest", "cost_rank"]
    return Diagnosis(pd.concat(tables, ignore_index=True)[columns], aligned)


def _maps_of(module: nn.Module, axes: Mapping[str, Any], groups: list[str]) -> dict[str, str]:
    """For each group that one linear map computes, and no other, that map's name."""
    linear = [name for name, child in module.named_modules() if isinstance(child, nn.Linear)]
    found = {group: [name for name in linear if axes.get(f"{name}.weight", (None,))[0] == group] for group in groups}
    return {group: names[0] for group, names in found.items() if len(names) == 1}


def _swap_costs(
    models: Models,
    states: tuple[State, ...],
    state: State,
    maps: Mapping[str, str],
    fixed: Parts | None,
    explained_variance: float,
) -> dict[str, np.ndarray]:
    """For each group the costs of swapping two of its neurons, on the subspace of what its linear map reads."""
    module, covariances = models.module, {name: Covariance() for name in maps.values()}

    def see(name: str, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        covariances[name].update(inputs[0].reshape(-1, inputs[0].shape[-1]))

    with watching(module, covariances, see), foreign("computing what linear maps read"):
        for batch in models.inputs().split(models.rows):
            outputs(module, state, batch)
    found = {}
    for group, name in maps.items():
        weight = f"{name}.weight"
        F, D = _shared(states, weight) if fixed is None else fixed.get(weight, (None, None))
        U = principal_subspace(covariances[name].covariance(), explained_variance).U.cpu()
        found[group] = swap_costs(realization_costs(state[weight].cpu(), F, D, U)).numpy()
    return found


def _shared(states: tuple[State, ...], weight: str) -> tuple[Tensor | None, Tensor | None]:
    """F and D of a weight whose entries are fixed where both networks have the same."""
    A, B = (state[weight].cpu() for state in states)
    same = A == B
    return (torch.where(same, A, 0.0), (~same).to(A.dtype)) if same.any() else (None, None)
