"""Swap costs by two estimators, Mahalanobis and ridge: the rows to set side by side, and how well their ranks agree."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from symlab.errors import UserError
from symlab.plotting.style import (
    PAGE,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    name_row,
    panels,
    variant_looks,
    wrapped,
)
from symlab.plotting.tables import compared, labelled, mean_std, named_layers, need, where
from symlab.identifiability.estimators import reported_beta

MAHALANOBIS, RIDGE = "Mahalanobis", "ridge"
_NETWORK = ["variant", "mask_seed", "seed"]


def at_reported_beta(ridge: pd.DataFrame) -> pd.DataFrame:
    """The ridge costs at ``reported_beta``."""
    return ridge[ridge["beta"] == reported_beta(ridge["beta"].value_counts())]


def estimates(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Swap costs by estimator: Mahalanobis alone, or it and the ridge costs at the reported beta.

    Where ridge costs are given, a variant's Mahalanobis costs are those of the networks that have ridge costs.
    """
    costs = need(tables, "swap_costs.parquet")
    ridge = tables.get("ridge_swap_costs.parquet")
    if ridge is None or ridge.empty:
        return {MAHALANOBIS: costs}
    ridge = at_reported_beta(ridge)
    measured = pd.MultiIndex.from_frame(ridge[_NETWORK].drop_duplicates())
    both = pd.MultiIndex.from_frame(costs[_NETWORK]).isin(measured) | ~costs["variant"].isin(ridge["variant"])
    return {MAHALANOBIS: costs[both], RIDGE: ridge}


def beta_name(costs: dict[str, pd.DataFrame]) -> str:
    """The beta of the ridge costs as a title says it, empty where there are none."""
    return rf"ridge: $\beta$ = {costs[RIDGE]['beta'].iloc[0]:g}" if RIDGE in costs else ""


def rank_correlation(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure ridge: Spearman correlation of the two estimators' costs against beta, a line a variant, a panel a layer.

    The pairs are the disjoint consecutive ones, which every beta has. Undefined correlations are named.
    """
    every = need(tables, "estimators.csv")
    table = every[every["pairs"] == "consecutive"]
    if table["beta"].nunique() < 2:
        raise UserError(
            f"it needs consecutive pairs at two values of beta or more, so list them in {where(every)}.ridge.beta."
        )
    variants = compared(table)
    looks = variant_looks(variants, style)
    rows = labelled(table, variants)
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    width = PAGE if len(layers) > 1 else 0.6 * PAGE
    figure, axes = panels(len(datasets), len(layers), width, 1.3 + 1.6 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, layer in enumerate(layers):
            axis = axes[row, column]
            axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
            part = rows[(rows["dataset"] == dataset) & (rows["layer"] == layer) & rows["spearman"].notna()]
            for label, look in looks.items():
                mean_line(axis, mean_std(part[part["label"] == label], "beta", "spearman"), look, label, band=False)
            axis.set_xscale("log")
            if row == 0:
                axis.set_title(f"layer {layer}")
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    axes[0, 0].set_ylim(min(-0.1, axes[0, 0].get_ylim()[0]), 1.05)
    name_axes(axes, r"ridge parameter $\beta$", "Spearman correlation")
    undefined = named_layers(rows[rows["spearman"].isna()], rows)
    note = f"no correlation (Mahalanobis costs constant or infinite): {undefined}" if undefined else ""
    defined = set(rows.loc[rows["spearman"].notna(), "label"])
    entries = handles({label: look for label, look in looks.items() if label in defined})
    legend(figure, entries, wrapped(["mean ± std over networks", note], width, style))
    return figure
