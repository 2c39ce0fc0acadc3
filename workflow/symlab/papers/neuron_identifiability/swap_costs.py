"""Swap costs, one row a pair of neurons i < j of a layer of a model: what Figs. 5, 12, 13 and 15 to 19 measure.

Statistics take all rows of a table for costs of one kind; ridge costs are narrowed to the reported beta first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.claim import Claim, Measurement, Tables, at_most, mean, mean_of, spread, stated
from symlab.papers.neuron_identifiability.architectures import W_1
from symlab.plotting.rows import MODEL, Mask, consecutive, every_row, same_dataset, signed_sqrt, split_variants

Statistic = Callable[[np.ndarray], float]
RIDGE = "ridge_swap_costs.parquet"
MAHALANOBIS = "swap_costs.parquet"
INTRINSIC_DIMENSIONS = (2, 8, 32)


LOW_COST = "Low-cost swaps are counted as those below a tenth of the layer's own median, so that no scale enters."
FROZEN_NORMS = (
    "By ridge regression a swap costs something even where F = 0 and D = 1, because the batch norms, which are left "
    "fixed, give neurons scales and offsets of their own."
)
# What is added to ids and statements, and the table, of either estimator.
ESTIMATORS = (("", "", MAHALANOBIS), ("ridge-", ", ridge estimate", RIDGE))


def negative_share(costs: np.ndarray) -> float:
    """Share of pairs whose swap lowers the cost."""
    return _share(costs, costs < 0)


def positive_share(costs: np.ndarray) -> float:
    """Share of pairs whose swap raises the cost."""
    return _share(costs, costs > 0)


def median(costs: np.ndarray) -> float:
    """Median cost."""
    return float(np.median(costs))


def cheap_share(costs: np.ndarray) -> float:
    """Share of pairs that cost less than a tenth of the median."""
    return _share(costs, costs < 0.1 * np.median(costs))


def _share(costs: np.ndarray, counted: np.ndarray) -> float:
    # A cost that is not a number would count as not small, not negative, not positive: as evidence for some claim.
    return float("nan") if np.isnan(costs).any() else float(np.mean(counted))


def largest(costs: np.ndarray) -> float:
    """Largest absolute cost."""
    return float(np.max(np.abs(costs)))


def median_root(costs: np.ndarray) -> float:
    """Median of the signed square roots."""
    return float(np.median(signed_sqrt(costs)))


def box_gap_to_zero(costs: np.ndarray) -> float:
    """Distance from zero to the interquartile range of the signed square roots; 0 if zero lies inside."""
    # Infinite costs make a quartile infinite or undefined; both are carried on.
    with np.errstate(invalid="ignore"):
        lower, upper = np.quantile(signed_sqrt(costs), [0.25, 0.75])
    return float(np.max([lower, -upper, 0.0]))


def middle_half(costs: np.ndarray) -> float:
    """How far from zero the interquartile range of the costs reaches, on either side."""
    # Infinite costs make a quartile infinite or undefined; both are carried on.
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(np.quantile(costs, [0.25, 0.75]))))


def at_reported_beta(measure: Callable[[Tables], list[Measurement]]) -> Callable[[Tables], list[Measurement]]:
    """The measurement on the ridge swap costs of the reported beta alone, which the details then name."""

    def measured(tables: Tables) -> list[Measurement]:
        costs = tables[RIDGE][tables[RIDGE]["reported"]]
        found = measure({**tables, RIDGE: costs})
        named = f"beta = {costs['beta'].iloc[0]:g}"
        return [replace(each, detail=f"{each.detail}, {named}" if each.detail else named) for each in found]

    return measured


def measure_costs(
    measure: Callable[..., list[Measurement]], table: str, **settings: Any
) -> Callable[[Tables], list[Measurement]]:
    """The measurement on one estimator's table; of ridge costs, on the reported beta alone."""
    measured = partial(measure, table=table, **settings)
    return at_reported_beta(measured) if table == RIDGE else measured


def share_by_k(tables: Tables, table: str, which: Mask, statistic: Statistic) -> list[Measurement]:
    """A statistic of the first layer's costs, mean over models, for each intrinsic dimension k of the data."""
    return [mean_of(values, f"k = {k}") for k, values in _by_k(tables[table], which, every_row, statistic).items()]


def median_ratio_by_k(tables: Tables, table: str, small: Mask, large: Mask) -> list[Measurement]:
    """Median first-layer cost of ``small`` as a fraction of that of ``large``, for each k that both have."""
    low = _by_k(tables[table], small, every_row, median)
    high = _by_k(tables[table], large, every_row, median)
    return [_relative(low[k], mean(high[k]), f"k = {k}") for k in low if k in high]


def median_excess_by_k(tables: Tables, table: str, small: Mask, large: Mask, pairs: Mask) -> list[Measurement]:
    """By how much the median first-layer cost of ``large`` exceeds that of ``small``, for each k that both have."""
    low = _by_k(tables[table], small, pairs, median)
    high = _by_k(tables[table], large, pairs, median)
    return [
        Measurement(
            mean(high[k]) - mean(low[k]), len(high[k]), spread(high[k]), f"k = {k}", f"against {mean(low[k]):.3g}"
        )
        for k in low
        if k in high
    ]


def median_growth_with_k(tables: Tables, table: str, which: Mask, pairs: Mask) -> list[Measurement]:
    """Smallest step between the median first-layer costs at k = 2, 8, 32; nothing unless all three are there."""
    medians = _by_k(tables[table], which, pairs, median)
    if len(medians) < len(INTRINSIC_DIMENSIONS):
        return []
    means = [mean(medians[k]) for k in INTRINSIC_DIMENSIONS]
    with np.errstate(invalid="ignore"):
        step = float(np.min(np.diff(means)))
    told = ", ".join(f"k = {k}: {value:.3g}" for k, value in zip(INTRINSIC_DIMENSIONS, means, strict=True))
    return [Measurement(step, min(len(values) for values in medians.values()), None, detail=told)]


def cheap_share_fall(tables: Tables, table: str, which: Mask) -> list[Measurement]:
    """By how much the share of cheap first-layer swaps is larger at k = 2 than at k = 32."""
    shares = _by_k(tables[table], which, every_row, cheap_share)
    if not {2, 32} <= shares.keys():
        return []
    few, many = shares[32], shares[2]
    told = f"k = 2: {mean(many):.3g}, k = 32: {mean(few):.3g}"
    return [Measurement(mean(many) - mean(few), len(many), spread(many), detail=told)]


def cheap_share_at(tables: Tables, table: str, which: Mask, k: int) -> list[Measurement]:
    """Share of cheap first-layer swaps at one k."""
    shares = _by_k(tables[table], which, every_row, cheap_share)
    return [mean_of(shares[k])] if k in shares else []


def share_in_first_layer(
    tables: Tables, table: str, which: Mask, pairs: Mask, statistic: Statistic
) -> list[Measurement]:
    """A statistic of the first layer's costs, mean over models, for each variant."""
    return [
        mean_of(values[1], case)
        for case, rows in split_variants(tables[table], which)
        if 1 in (values := _by_layer(rows, pairs, statistic))
    ]


def share_by_layer(tables: Tables, table: str, which: Mask, pairs: Mask, statistic: Statistic) -> list[Measurement]:
    """A statistic of the costs, mean over models, for each variant and layer."""
    return [
        mean_of(values, f"{case}, layer {layer}")
        for case, rows in split_variants(tables[table], which)
        for layer, values in _by_layer(rows, pairs, statistic).items()
    ]


def largest_share_over_layers(
    tables: Tables, table: str, which: Mask, pairs: Mask, statistic: Statistic
) -> list[Measurement]:
    """A statistic of the costs, mean over models, in the layer where it is largest, for each variant."""
    measured = []
    for case, rows in split_variants(tables[table], which):
        values = _by_layer(rows, pairs, statistic)
        # A layer without a value ranks first, so that it is not passed over.
        layer = max(values, key=lambda layer: (np.isnan(mean(values[layer])), mean(values[layer])))
        told = ", ".join(f"layer {each}: {mean(values[each]):.3g}" for each in values)
        measured.append(mean_of(values[layer], case, told))
    return measured


def median_over_baselines(tables: Tables, table: str, which: Mask, baselines: Mask, pairs: Mask) -> list[Measurement]:
    """Median cost in multiples of the largest |median| among the baselines, for each variant and layer."""
    costs = tables[table]
    measured = []
    for case, rows in split_variants(costs, which):
        others = [
            _by_layer(baseline, pairs, median) for _, baseline in split_variants(same_dataset(costs, rows), baselines)
        ]
        for layer, values in _by_layer(rows, pairs, median).items():
            scales = [abs(mean(other[layer])) for other in others if layer in other]
            if scales:
                measured.append(_relative(values, float(np.max(scales)), f"{case}, layer {layer}"))
    return measured


def relative_by_layer(
    tables: Tables,
    table: str,
    which: Mask,
    statistic: Statistic,
    reference: Mask,
    reference_statistic: Statistic,
    pairs: Mask,
) -> list[Measurement]:
    """A statistic of the costs in units of a statistic of the reference's costs, for each variant and layer."""
    costs = tables[table]
    measured = []
    for case, rows in split_variants(costs, which):
        near = same_dataset(costs, rows)
        scales = _by_layer(near[reference(near)], pairs, reference_statistic)
        for layer, values in _by_layer(rows, pairs, statistic).items():
            if layer in scales:
                measured.append(_relative(values, mean(scales[layer]), f"{case}, layer {layer}"))
    return measured


def _relative(values: np.ndarray, scale: float, case: str) -> Measurement:
    """Mean of the values as a multiple of a positive scale; infinite over a scale of 0, NaN where there is none."""
    centre = mean(values)
    told = f"{centre:.3g} against {scale:.3g}"
    if scale > 0 and np.isfinite(scale):
        deviation = spread(values)
        return Measurement(centre / scale, len(values), None if deviation is None else deviation / scale, case, told)
    value = np.inf if scale == 0 and centre > 0 else np.nan
    return Measurement(value, len(values), None, case, told)


def _by_k(table: pd.DataFrame, which: Mask, pairs: Mask, statistic: Statistic) -> dict[int, np.ndarray]:
    """Values of a statistic of the first layer's costs, one a model, for each k of 2, 8, 32 that is there."""
    rows = table[which(table) & (table["layer"] == 1) & pairs(table)]
    found = {k: rows[rows["k"] == k] for k in INTRINSIC_DIMENSIONS}
    return {k: _by_model(of_k, statistic) for k, of_k in found.items() if len(of_k)}


def _by_layer(rows: pd.DataFrame, pairs: Mask, statistic: Statistic) -> dict[int, np.ndarray]:
    """Values of a statistic of a layer's costs, one a model, for each layer."""
    return {int(layer): _by_model(of_layer, statistic) for layer, of_layer in rows[pairs(rows)].groupby("layer")}


def _by_model(rows: pd.DataFrame, statistic: Statistic) -> np.ndarray:
    return np.array([statistic(costs.to_numpy()) for _, costs in rows.groupby(MODEL, sort=False)["swap_cost"]])


def claim_around_zero(figure: str, which: Mask, networks: str, pairs: Mask) -> Claim:
    """Ridge costs where nothing breaks the symmetry (Figs. 12, 16, 17)."""
    among = "consecutive pairs" if pairs is consecutive else "first 128 neurons"
    return stated(
        f"{figure}-ridge-around-zero",
        figure,
        f"Swap costs of {networks} lie around zero: how far from 0 their interquartile range reaches on either side, "
        f"in units of the median at W sigma_F = 1, {among}, ridge estimate",
        at_most(0.1),
        f"{FROZEN_NORMS} Around zero is therefore measured by the costs that the same plot shows at W 1, and read as "
        "an order of magnitude below them.",
        RIDGE,
        measure_costs(
            relative_by_layer,
            RIDGE,
            which=which,
            statistic=middle_half,
            reference=W_1,
            reference_statistic=median,
            pairs=pairs,
        ),
    )
