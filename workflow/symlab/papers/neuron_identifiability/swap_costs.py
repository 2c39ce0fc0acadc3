"""Swap costs, one row a pair of neurons i < j of a layer of a network: what Figs. 5, 12, 13 and 15 to 19 measure.

Measurements take costs of one kind: of ridge costs those at the reported beta. A value is the mean over draws of the
masks, or over the networks of the only draw.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.masks import W_1, Mask, every_row
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.rows import MODEL, describe
from symlab.papers.neuron_identifiability.variants import by_variant
from symlab.study.cases import Cases
from symlab.study.claim import Found, Owner, Tables, worst_of_each
from symlab.study.tables import need

Statistic = Callable[[np.ndarray], Any]
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


def owned(table: str) -> tuple[Owner, str]:
    """Whose the statements of Q3 are by one estimator, and what that adds to their reasons."""
    if table == MAHALANOBIS:
        return "paper", ""
    return "derived", (
        f" {SINCE}: Q3 speaks of the Mahalanobis estimate; that ridge regression estimates the same quantity "
        "(Appendix G.3) carries it over."
    )


def costs_by_network(
    costs: pd.DataFrame,
    statistic: Statistic,
    which: Mask = every_row,
    by: Sequence[str] = ("layer",),
    name: str = "{name}, layer {layer}",
) -> Cases:
    """A statistic of each network's costs, by variant and further columns.

    Of several draws of the masks each counts once, with the mean of its networks.
    """
    rows = costs[which(costs)]
    networks = rows.groupby([*MODEL, *by], sort=False)["swap_cost"].agg(lambda each: statistic(each.to_numpy()))
    masks = rows["mask_seed"].nunique() > 1
    unit = MODEL[1:2] if masks else MODEL[1:]
    found = by_variant(describe(networks.reset_index(), costs), "swap_cost", by=by, unit=unit, name=name)
    return replace(found, unit="draws of masks" if masks else "networks of one draw of masks")


def is_below(costs: pd.Series, level: pd.Series | float) -> pd.Series:
    """1 where a cost is below a level, else 0; NaN where one of them is, which is evidence of nothing."""
    return (costs < level).astype(float).where(costs.notna() & pd.notna(level))


def cheap_share(costs: np.ndarray) -> float:
    """Share of pairs that cost less than a tenth of the median."""
    return float(is_below(pd.Series(costs), SMALL * np.median(costs)).mean(skipna=False))


def middle_half(costs: np.ndarray) -> float:
    """How far from zero the interquartile range of the costs reaches, on either side."""
    # Infinite costs make a quartile infinite or undefined; both are carried on.
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(np.quantile(costs, [0.25, 0.75]))))


def reported(tables: Tables, table: str) -> pd.DataFrame:
    """One estimator's costs; of ridge costs those at the beta that the study reports."""
    costs = need(tables, table)
    return costs[costs["reported"]] if table == RIDGE else costs


def measure_costs(
    measure: Callable[..., list[Found]], table: str, pairs: Mask = every_row, **settings: Any
) -> Callable[[Tables], list[Found]]:
    """The measurement on one estimator's costs of some pairs; details of ridge costs name their beta."""

    def measured(tables: Tables) -> list[Found]:
        costs = reported(tables, table)
        found = measure(costs[pairs(costs)], **settings)
        return [say_beta(each, costs) for each in found] if table == RIDGE else found

    return measured


def say_beta(found: Found, ridge: pd.DataFrame) -> Found:
    """The measurement with the beta of the ridge costs that it is from in its detail."""
    if isinstance(found, str):
        return found
    return replace(found, detail=", ".join(filter(None, [found.detail, f"β = {ridge['beta'].iloc[0]:g}"])))


def of_mixtures(costs: pd.DataFrame) -> pd.Series:
    """First-layer costs at the k of the paper."""
    return (costs["layer"] == 1) & costs["k"].isin(INTRINSIC_DIMENSIONS)


def near_zero_by_k(costs: pd.DataFrame, small: Mask, large: Mask) -> list[Found]:
    """Share of ``small``'s costs below a tenth of the median of ``large``, for each k that both have."""
    levels = {each.case.key["k"]: SMALL * each.mean for each in costs_by_network(costs, np.median, large)}
    level = costs["k"].map(levels)
    rows = costs[level.notna()]
    near, negative = (
        costs_by_network(rows.assign(swap_cost=is_below(rows["swap_cost"], bound)), np.mean, small, name="k = {k:g}")
        for bound in (level.where(level > 0)[rows.index], 0.0)
    )
    below_zero = {each.case: 100 * each.mean for each in negative}
    told = "below {:.3g}; {:.0f} % are negative".format
    return near.detailed(lambda each: told(levels[each.case.key["k"]], below_zero[each.case])).means()


def excess_by_k(costs: pd.DataFrame, small: Mask, large: Mask) -> list[Found]:
    """By how much the median cost of ``large`` exceeds that of ``small``, for each layer and k that both have."""
    rows = costs[costs["k"].isin(INTRINSIC_DIMENSIONS)]
    low, high = (costs_by_network(rows, np.median, which, name="layer {layer}, k = {k:g}") for which in (small, large))
    return high.differences(low.keyed("layer", "k"))


def growth_with_k(costs: pd.DataFrame, which: Mask, name: str = "layer {layer}") -> list[Found]:
    """Smallest step between the median costs at k = 2, 8, 32, for each layer."""
    by_k = costs_by_network(costs, np.median, which, name=name)
    at_k = [by_k.at(k=k).keyed("layer") for k in INTRINSIC_DIMENSIONS]
    steps = [step for few, many in pairwise(at_k) for step in many.differences(few)]
    return worst_of_each(steps, operator.neg) if all(map(len, at_k)) else []


def cheap_shares(costs: pd.DataFrame) -> Cases:
    """Share of cheap swaps at sigma_F = 1 and each k."""
    return costs_by_network(costs, cheap_share, W_1, name="")


def cheap_share_fall(costs: pd.DataFrame) -> list[Found]:
    """By how much it is larger at k = 2 than at k = 32."""
    shares = cheap_shares(costs)
    return shares.at(k=2).differences(shares.at(k=32).keyed())


def positive_by_layer(costs: pd.DataFrame, which: Mask) -> list[Found]:
    """Share of pairs whose swap raises the cost, for each variant and layer."""
    raised = costs.assign(swap_cost=is_below(-costs["swap_cost"], 0.0))
    return costs_by_network(raised, np.mean, which).means()


def reach_by_layer(costs: pd.DataFrame, which: Mask, reference: Mask) -> list[Found]:
    """``middle_half`` of the costs in units of the lowest median cost of the reference's variants, for each layer."""
    scale = costs_by_network(costs, np.median, reference).extreme(operator.neg, "dataset", "layer")
    return costs_by_network(costs, middle_half, which).ratios(scale)
