"""Measurements on costs by ridge regression (Def. E.3): which beta is judged, and whether both estimators agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, Tables, mean, mean_of
from symlab.claims.swap_costs import consecutive
from symlab.claims.variants import MODEL, Mask, split_variants
from symlab.identifiability.estimators import reported_beta

RIDGE = "ridge_swap_costs.parquet"
MAHALANOBIS = "swap_costs.parquet"


def at_reported_beta(measure: Callable[[Tables], list[Measurement]]) -> Callable[[Tables], list[Measurement]]:
    """The measurement on the ridge swap costs of the reported beta alone, which the details then name."""

    def measured(tables: Tables) -> list[Measurement]:
        costs = tables[RIDGE]
        beta = reported_beta(costs["beta"].value_counts())
        found = measure({**tables, RIDGE: costs[costs["beta"] == beta]})
        return [replace(each, detail=_joined(each.detail, f"beta = {beta:g}")) for each in found]

    return measured


def rank_correlation(tables: Tables, which: Mask) -> list[Measurement]:
    """Spearman correlation of both estimators' costs, mean over models, for each variant and layer.

    At the reported beta; over the pairs of the block, or the consecutive ones where there is no block.
    """
    table = tables["estimators.csv"]
    beta = reported_beta(table.groupby("beta")["n_pairs"].sum())
    rows = table[table["beta"] == beta]
    measured = []
    for case, of_variant in split_variants(rows, which):
        for layer, of_layer in of_variant.groupby("layer"):
            block = of_layer[of_layer["pairs"] == "block"]
            chosen = of_layer if block.empty else block
            told = f"beta = {beta:g}, {chosen['n_pairs'].min():g} pairs a model"
            measured.append(mean_of(chosen["spearman"].to_numpy(), f"{case}, layer {layer}", told))
    return measured


def order_of_medians(tables: Tables, low: Mask, high: Mask) -> list[Measurement]:
    """By how much the lowest median cost of ``high`` exceeds the highest of ``low``, by the estimator that says less.

    One value a data set and layer, from the consecutive pairs of the same networks; medians are means over models. Both
    kinds of variants are needed.
    """
    key = [*MODEL, "layer", "i", "j"]
    ridge, mahalanobis = (tables[name][consecutive(tables[name])] for name in (RIDGE, MAHALANOBIS))
    both = ridge.merge(mahalanobis[[*key, "swap_cost"]], on=key, suffixes=("_ridge", "_mahalanobis"))
    several = both["dataset"].nunique() > 1
    measured = []
    for (dataset, layer), rows in both.groupby(["dataset", "layer"], sort=False):
        lows, highs = split_variants(rows, low), split_variants(rows, high)
        if lows and highs:
            gaps, told = zip(*(_gap(lows, highs, name) for name in ("mahalanobis", "ridge")), strict=True)
            n = min(len(of_variant.groupby(MODEL)) for _, of_variant in (*lows, *highs))
            case = f"layer {layer}" + (f", dataset = {dataset}" if several else "")
            # Of an undefined gap and a defined one, np.min gives the undefined.
            measured.append(Measurement(float(np.min(gaps)), n, None, case, "; ".join(told)))
    return measured


def _gap(
    lows: list[tuple[str, pd.DataFrame]], highs: list[tuple[str, pd.DataFrame]], estimator: str
) -> tuple[float, str]:
    """Lowest median of the second variants less the highest of the first, and all medians for people."""
    medians = [
        {name: mean(rows.groupby(MODEL)[f"swap_cost_{estimator}"].agg(_median).to_numpy()) for name, rows in variants}
        for variants in (lows, highs)
    ]
    told = ", ".join(f"{name}: {value:.3g}" for of_kind in medians for name, value in of_kind.items())
    below, above = (np.array(list(of_kind.values())) for of_kind in medians)
    with np.errstate(invalid="ignore"):
        return float(np.min(above) - np.max(below)), f"{estimator}: {told}"


def _median(costs: pd.Series) -> float:
    # The median of pandas passes over what is not a number.
    return float(np.median(costs.to_numpy()))


def _joined(*texts: str) -> str:
    return ", ".join(text for text in texts if text)
