"""Merging networks into one, as a function: ``from symlab import merge``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from symlab.alignment.align import CHECKED_SAMPLES, complete, symmetries
from symlab.alignment.averaging import average
from symlab.alignment.forward import batch_rows, outputs
from symlab.alignment.permute import check_alignment
from symlab.alignment.universe import Universe, match_to_universe
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.repair import folded, with_goal_statistics
from symlab.errors import UserError
from symlab.products import fast_products
from symlab.seeds import numpy_rng
from symlab.symmetries.trace import Traced


@dataclass(frozen=True)
class Merged:
    """Several networks as one.

    Attributes:
        state: of the merged network, by the module's names, in the first network's order and types.
        universe: each network's permutation to that order (of the first the identity), and its permuted state.
    """

    state: dict[str, Tensor]
    universe: Universe


@fast_products()
def merge(
    module: nn.Module,
    states: Sequence[Mapping[str, Tensor]],
    data: Float[Tensor, "n ..."] | Int[Tensor, "n ..."] | None = None,
    method: str = "activation",
    *,
    weights: Sequence[float] | None = None,
    repair: bool = False,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
) -> Merged:
    """Match networks to one order, each to the mean of the others until none moves, and average them.

    Args:
        module, data, method, restarts, seed, traced: as of ``symlab.align``. Batch norm statistics are estimated anew
            on the data.
        states: ``module.state_dict()`` of each network, at least two.
        weights: of each network in the average, positive, of any sum; default equal. They do not count in matching.
        repair: rescale the channels of layers with a bias to the networks' mean statistics (Jordan et al. 2023).

    Raises:
        UserError: the states do not fit the module, the module cannot be traced, or an argument is missing or wrong.
    """
    traced = symmetries(module, data, method, traced)
    check_weights(weights, len(states))
    known = [complete(module, state, f"states[{n}]") for n, state in enumerate(states)]
    x = data if method == "activation" else None
    rows = 1 if data is None else batch_rows(data)
    universe = match_to_universe(traced, known, numpy_rng("merge", seed, "restarts"), x, rows, restarts)
    if data is not None:
        for state, permuted in zip(known, universe.permuted, strict=True):
            check_alignment(module, state, permuted, data[:CHECKED_SAMPLES])
    return Merged(average_network(module, universe.permuted, data, weights, repair), universe)


def check_weights(weights: Sequence[float] | None, n: int) -> None:
    """Check that there is a positive weight for each of n networks, or none at all.

    Raises:
        UserError: there is not.
    """
    if weights is None:
        return
    if len(weights) != n:
        raise UserError(f"there are {len(weights)} weights for {n} networks; give one a network.")
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise UserError(f"the weights are {', '.join(f'{weight:g}' for weight in weights)}; all must be positive.")


@fast_products()
def average_network(
    module: nn.Module,
    states: Sequence[Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."] | None,
    weights: Sequence[float] | None = None,
    repair: bool = False,
) -> dict[str, Tensor]:
    """The network of the mean weights, with batch norm statistics of its own on x, and REPAIR written into its weights.

    Raises:
        UserError: it has batch norms, or REPAIR is asked for, and there are no inputs; no layer can be rescaled.
    """
    if repair:
        if x is None:
            raise UserError("REPAIR needs inputs to measure channel statistics on: give them as data.")
        rescaling, ends = with_goal_statistics(module, states, x, foldable=True)
        goal = average(ends, weights)
        mean = folded({**goal, **running_statistics(rescaling, goal, x)})
    else:
        mean = average(states, weights)
    return {**mean, **running_statistics(module, mean, x)}


@fast_products()
def scores(
    module: nn.Module,
    states: Mapping[str, Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."],
    y: Tensor,
    task: str,
    ensemble: Mapping[str, float],
    rows: int | None = None,
) -> pd.DataFrame:
    """Mean loss and accuracy of some networks, and of an ensemble of them.

    Args:
        states: networks by name.
        task: "classification" (cross-entropy, integer y [n]) or "regression" (squared error of one output, y [n]).
        ensemble: by name the weights with which outputs (logits) are averaged.
        rows: inputs in one forward pass; by default ``forward.batch_rows``.

    Returns:
        One row a network, the last one "ensemble": ``network``, ``loss``, ``loss_error``, ``accuracy`` (a fraction; NaN
        for regression and where the loss is no number), ``accuracy_error``; errors are standard errors of the means
        over samples.
    """
    losses: dict[str, list[Tensor]] = {name: [] for name in (*states, "ensemble")}
    right: dict[str, list[Tensor]] = {name: [] for name in losses}
    rows = rows or batch_rows(x)
    for x_batch, y_batch in zip(x.split(rows), y.split(rows), strict=True):
        of_batch = {name: outputs(module, state, x_batch) for name, state in states.items()}
        total = sum(ensemble.values())
        weighted = [weight / total * of_batch[name] for name, weight in ensemble.items()]
        of_batch["ensemble"] = torch.stack(weighted).sum(dim=0)
        for name, out in of_batch.items():
            if task == "classification":
                losses[name].append(functional.cross_entropy(out, y_batch, reduction="none"))
                right[name].append(out.argmax(dim=-1) == y_batch)
            else:
                losses[name].append((out.flatten() - y_batch).square())
    return pd.DataFrame(
        {"network": name, **_mean("loss", losses[name])}
        | _mean("accuracy", right[name] if math.isfinite(float(torch.cat(losses[name]).mean())) else [])
        for name in losses
    )


def _mean(name: str, parts: Sequence[Tensor]) -> dict[str, float]:
    """The mean of values and its standard error; NaN of none (and the error of one)."""
    values = torch.cat([part.double() for part in parts]) if parts else torch.full((1,), math.nan)
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return {name: float(values.mean()), f"{name}_error": error}
