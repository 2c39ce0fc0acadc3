"""Swap costs, one row a pair of neurons i < j of a layer of a model: what Figs. 5, 12, 13 and 15 to 19 measure.

Statistics take all rows of a table for costs of one kind; ridge costs are narrowed to the reported beta first. A value
is the mean over draws of the masks, or over the networks of the only draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.rows import MODEL, same_dataset
from symlab.papers.neuron_identifiability.variants import Mask, split_variants
from symlab.study.claim import Measurement, Tables, mean, mean_of, standard_error

Statistic = Callable[[np.ndarray], float]
RIDGE = "ridge_swap_costs.parquet"
MAHALANOBIS = "swap_costs.parquet"
INTRINSIC_DIMENSIONS = (2, 8, 32)
SMALL = 0.1
"""Costs below this share of those at sigma_F = 1 are near zero: an order of magnitude."""

# What is added to ids and quantities, and the table, of either estimator.
ESTIMATORS = (("", "", MAHALANOBIS), ("ridge-", ", ridge estimate", RIDGE))
RIDGE_COUNTS_ERRORS = (
    "Ridge regression counts errors of the neurons' outputs too, so that hardly a swap is free of cost even where "
    "weights alone would make it so."
)


class Sample(NamedTuple):
    """One value for each unit of replication, and what the units are."""

    values: np.ndarray
    unit: str

    def measure(self, case: str = "", detail: str = "") -> Measurement:
        """The mean of the units' values."""
        return mean_of(self.values, case, detail, self.unit)


def positive_share(costs: np.ndarray) -> float:
    """Share of pairs whose swap raises the cost."""
    return _share(costs, costs > 0)


def negative_share(costs: np.ndarray) -> float:
    """Share of pairs whose swap lowers the cost."""
    return _share(costs, costs < 0)


def median(costs: np.ndarray) -> float:
    """Median cost."""
    return float(np.median(costs))


def cheap_share(costs: np.ndarray) -> float:
    """Share of pairs that cost less than a tenth of the median."""
    return _share(costs, costs < SMALL * np.median(costs))


def _share_below(level: float, costs: np.ndarray) -> float:
    return _share(costs, costs < level)


def _share(costs: np.ndarray, counted: np.ndarray) -> float:
    # A cost that is not a number would count as not small, not negative, not positive: as evidence for some claim.
    return float("nan") if np.isnan(costs).any() else float(np.mean(counted))


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
        named = f"β = {costs['beta'].iloc[0]:g}"
        return [replace(each, detail=f"{each.detail}, {named}" if each.detail else named) for each in found]

    return measured


def measure_costs(
    measure: Callable[..., list[Measurement]], table: str, **settings: Any
) -> Callable[[Tables], list[Measurement]]:
    """The measurement on one estimator's table; of ridge costs, on the reported beta alone."""
    measured = partial(measure, table=table, **settings)
    return at_reported_beta(measured) if table == RIDGE else measured


def near_zero_by_k(tables: Tables, table: str, small: Mask, large: Mask) -> list[Measurement]:
    """Share of ``small``'s first-layer costs below a tenth of the median of ``large``, for each k that both have."""
    costs, measured = tables[table], []
    for k in INTRINSIC_DIMENSIONS:
        of_k = costs[(costs["k"] == k) & (costs["layer"] == 1)]
        low, high = of_k[small(of_k)], of_k[large(of_k)]
        if len(low) and len(high):
            level = SMALL * mean(by_unit(high, median).values)
            shares = by_unit(low, partial(_share_below, level))
            told = f"below {level:.3g}; {100 * mean(by_unit(low, negative_share).values):.0f} % are negative"
            measured.append(shares.measure(f"k = {k}", told) if level > 0 else _undefined(shares, f"k = {k}"))
    return measured


def excess_by_k(tables: Tables, table: str, small: Mask, large: Mask, pairs: Mask) -> list[Measurement]:
    """By how much the median cost of ``large`` exceeds that of ``small``, for each layer and k that both have."""
    measured = []
    for layer, rows in tables[table].groupby("layer"):
        low, high = _by_k(rows, small, pairs, median), _by_k(rows, large, pairs, median)
        measured += [
            _difference(high[k], low[k], f"layer {layer}, k = {k}", f"against {mean(low[k].values):.3g}")
            for k in low
            if k in high
        ]
    return measured


def growth_with_k(tables: Tables, table: str, which: Mask, pairs: Mask, layers: list[int] | None) -> list[Measurement]:
    """Smallest step between the median costs at k = 2, 8, 32, for each of the layers (None: all) that has all three."""
    measured = []
    for layer, rows in tables[table].groupby("layer"):
        medians = _by_k(rows, which, pairs, median)
        if len(medians) < len(INTRINSIC_DIMENSIONS) or (layers is not None and layer not in layers):
            continue
        few, some, many = (medians[k] for k in INTRINSIC_DIMENSIONS)
        told = ", ".join(f"k = {k}: {mean(medians[k].values):.3g}" for k in INTRINSIC_DIMENSIONS)
        case = f"layer {layer}" if layers is None else ""
        steps = [_difference(some, few, case, told), _difference(many, some, case, told)]
        # A step that is not a number is the smallest, so that it is not passed over.
        measured.append(min(steps, key=lambda step: -math.inf if math.isnan(step.value) else step.value))
    return measured


def cheap_share_fall(tables: Tables, table: str, which: Mask) -> list[Measurement]:
    """By how much the share of cheap first-layer swaps is larger at k = 2 than at k = 32."""
    shares = _by_k(_first(tables[table]), which, None, cheap_share)
    if not {2, 32} <= shares.keys():
        return []
    told = f"k = 2: {mean(shares[2].values):.3g}, k = 32: {mean(shares[32].values):.3g}"
    return [_difference(shares[2], shares[32], "", told)]


def cheap_share_at(tables: Tables, table: str, which: Mask, k: int) -> list[Measurement]:
    """Share of cheap first-layer swaps at one k."""
    shares = _by_k(_first(tables[table]), which, None, cheap_share)
    return [shares[k].measure()] if k in shares else []


def share_by_layer(tables: Tables, table: str, which: Mask, pairs: Mask, statistic: Statistic) -> list[Measurement]:
    """A statistic of the costs for each variant and layer."""
    return [
        sample.measure(f"{case}, layer {layer}")
        for case, rows in split_variants(tables[table], which)
        for layer, sample in _by_layer(rows, pairs, statistic).items()
    ]


def relative_by_layer(
    tables: Tables, table: str, which: Mask, statistic: Statistic, reference: Mask, pairs: Mask
) -> list[Measurement]:
    """A statistic of the costs in units of the lowest median cost of the reference's variants, for each layer."""
    costs = tables[table]
    measured = []
    for case, rows in split_variants(costs, which):
        others = [_by_layer(other, pairs, median) for _, other in split_variants(same_dataset(costs, rows), reference)]
        for layer, sample in _by_layer(rows, pairs, statistic).items():
            scales = [other[layer] for other in others if layer in other]
            if scales:
                # A median that is not a number is the lowest, so that it is not passed over.
                lowest = min(scales, key=lambda each: (not np.isnan(mean(each.values)), mean(each.values)))
                measured.append(_relative(sample, lowest, f"{case}, layer {layer}"))
    return measured


def by_unit(rows: pd.DataFrame, statistic: Statistic) -> Sample:
    """A statistic of each network's costs, averaged over the networks of a draw of masks where there are several."""
    networks = rows.groupby(MODEL, sort=False)["swap_cost"].agg(lambda costs: statistic(costs.to_numpy()))
    masks = networks.groupby("mask_seed")
    if masks.ngroups == 1:
        return Sample(networks.to_numpy(), "networks of one draw of masks")
    return Sample(np.array([mean(of_mask.to_numpy()) for _, of_mask in masks]), "draws of masks")


def _undefined(sample: Sample, case: str, detail: str = "") -> Measurement:
    return Measurement(math.nan, len(sample.values), None, case, detail, None, sample.unit)


def _difference(high: Sample, low: Sample, case: str, detail: str) -> Measurement:
    errors = standard_error(high.values), standard_error(low.values)
    error = None if errors[0] is None or errors[1] is None else math.hypot(errors[0], errors[1])
    with np.errstate(invalid="ignore"):
        value = float(np.float64(mean(high.values)) - mean(low.values))
    return Measurement(value, min(len(high.values), len(low.values)), None, case, detail, error, high.unit)


def _relative(sample: Sample, scale: Sample, case: str) -> Measurement:
    """Mean of the values as a multiple of a positive, finite scale; NaN where there is none."""
    centre, unit = mean(sample.values), mean(scale.values)
    told = f"{centre:.3g} against {unit:.3g}"
    if unit > 0 and np.isfinite(unit):
        errors = standard_error(sample.values), standard_error(scale.values)
        error = None
        if errors[0] is not None and errors[1] is not None:
            error = math.hypot(errors[0], errors[1] * centre / unit) / unit
        n = min(len(sample.values), len(scale.values))
        return Measurement(centre / unit, n, None, case, told, error, sample.unit)
    return _undefined(sample, case, told)


def _first(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["layer"] == 1]


def _by_k(table: pd.DataFrame, which: Mask, pairs: Mask | None, statistic: Statistic) -> dict[int, Sample]:
    """A statistic of the costs for each k of 2, 8, 32 that is there."""
    rows = table[which(table)] if pairs is None else table[which(table) & pairs(table)]
    found = {k: rows[rows["k"] == k] for k in INTRINSIC_DIMENSIONS}
    return {k: by_unit(of_k, statistic) for k, of_k in found.items() if len(of_k)}


def _by_layer(rows: pd.DataFrame, pairs: Mask, statistic: Statistic) -> dict[int, Sample]:
    """A statistic of the costs for each layer."""
    return {int(layer): by_unit(of_layer, statistic) for layer, of_layer in rows[pairs(rows)].groupby("layer")}
