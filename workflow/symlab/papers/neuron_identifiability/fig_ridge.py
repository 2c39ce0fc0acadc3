"""Figure ridge: how well two estimators of swap costs, Mahalanobis and ridge, agree (Appendices E.2 and G.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.rows import MODEL, consecutive
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, RIDGE, at_reported_beta
from symlab.papers.neuron_identifiability.swap_panels import name_dataset
from symlab.papers.neuron_identifiability.variants import (
    Mask,
    any_of,
    compared_variants,
    label_rows,
    list_layers,
    split_variants,
)
from symlab.plotting import style as plot
from symlab.plotting.pairs import mean_std
from symlab.plotting.units import mean_line
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Measurement, Tables, above, at_least, difference_of, mean, mean_of
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rank_correlation(tables: Tables, style: plot.Style) -> Figure:
    """Figure ridge: Spearman correlation of the two estimators' costs against beta, a line a variant, a panel a layer.

    The pairs are the disjoint consecutive ones, which every beta has. Undefined correlations are named.
    """
    every = need(tables, "estimators.csv")
    table = every[every["pairs"] == "consecutive"]
    if table["beta"].nunique() < 2:
        raise UserError(
            f"it needs consecutive pairs at two values of beta or more: list them in {where(every)}.ridge.beta."
        )
    variants = compared_variants(table)
    looks = variant_looks(variants, style)
    rows = label_rows(table, variants)
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    width = plot.PAGE if len(layers) > 1 else 0.6 * plot.PAGE
    figure, axes = plot.panels(len(datasets), len(layers), width, 1.3 + 1.6 * len(datasets))
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
            plot.name_row(axes[row, -1], name_dataset(rows[rows["dataset"] == dataset]))
    axes[0, 0].set_ylim(min(-0.1, axes[0, 0].get_ylim()[0]), 1.05)
    plot.name_axes(axes, r"ridge parameter $\beta$", "Spearman correlation")
    undefined = list_layers(rows[rows["spearman"].isna()], rows)
    note = f"no correlation (Mahalanobis costs constant or infinite): {undefined}" if undefined else ""
    defined = set(rows.loc[rows["spearman"].notna(), "label"])
    entries = plot.handles({label: look for label, look in looks.items() if label in defined})
    n = int(rows[MODEL].drop_duplicates().groupby("variant").size().max())
    told = "n = 1 network a point" if n == 1 else f"mean ± std over n = {n} networks"
    plot.legend(figure, entries, plot.wrap_sentences([told, note], width, style))
    return figure


def _seen(tables: Tables) -> str:
    rows = tables["estimators.csv"].query("pairs == 'consecutive' and spearman.notna()", engine="python")
    if rows.empty:
        return "No correlation is defined."
    least, most = rows["beta"].min(), rows["beta"].max()
    told = [f"{rows.loc[rows['beta'] == beta, 'spearman'].median():.2g} at β = {beta:g}" for beta in (least, most)]
    return f"The median rank correlation over kinds of networks and layers is {' and '.join(told)}."


FIGURES = (
    Drawing(
        "identifiability-ridge",
        "Agreement of the two swap-cost estimators",
        """\
Rank correlation (Spearman) between the swap costs of the two estimators, Mahalanobis and ridge, against the ridge
parameter β, a panel for each layer, study `{study}`. It is taken over the disjoint neighbouring neurons (0, 1), (2, 3),
… of one network; as β goes to 0 the ridge cost tends to the cost of exact functions (Theorem E.5). Where Mahalanobis
costs are all alike, as in standard networks, or infinite, there is no rank to compare.
""",
        rank_correlation,
        _seen,
        "The paper compares the estimators by their distributions (Figs. 12, 13) and maps alone.",
    ),
)


def measure_rank_correlation(tables: Tables, which: Mask) -> list[Measurement]:
    """Spearman correlation of both estimators' costs, mean over models, for each variant and layer.

    At the reported beta; over the pairs of the block, or the consecutive ones where there is no block.
    """
    table = tables["estimators.csv"]
    rows = table[table["reported"]]
    measured = []
    for case, of_variant in split_variants(rows, which):
        beta = of_variant["beta"].iloc[0]
        for layer, of_layer in of_variant.groupby("layer"):
            block = of_layer[of_layer["pairs"] == "block"]
            chosen = of_layer if block.empty else block
            told = f"β = {beta:g}, {chosen['n_pairs'].min():g} pairs of neurons a network"
            measured.append(mean_of(chosen["spearman"].to_numpy(), f"{case}, layer {layer}", told, "networks"))
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
            found = [_gap(lows, highs, name) for name in ("mahalanobis", "ridge")]
            gaps, errors, told = zip(*found, strict=True)
            n = min(len(of_variant.groupby(MODEL)) for _, of_variant in (*lows, *highs))
            case = f"layer {layer}" + (f", dataset = {dataset}" if several else "")
            # An undefined gap is the smallest, so that it is not passed over.
            worst = int(np.argmin(np.nan_to_num(gaps, nan=-np.inf, posinf=np.inf, neginf=-np.inf)))
            measured.append(Measurement(gaps[worst], n, None, case, "; ".join(told), errors[worst], "networks"))
    return measured


def _gap(
    lows: list[tuple[str, pd.DataFrame]], highs: list[tuple[str, pd.DataFrame]], estimator: str
) -> tuple[float, float | None, str]:
    """Lowest median of the second variants less the highest of the first, its error, and all medians for people."""
    medians = [
        {name: rows.groupby(MODEL)[f"swap_cost_{estimator}"].agg(_median).to_numpy() for name, rows in variants}
        for variants in (lows, highs)
    ]
    told = ", ".join(f"{name}: {mean(values):.3g}" for of_kind in medians for name, values in of_kind.items())
    # What is not a number ranks first on either side.
    highest = max(medians[0].values(), key=lambda values: (np.isnan(mean(values)), mean(values)))
    lowest = min(medians[1].values(), key=lambda values: (not np.isnan(mean(values)), mean(values)))
    with np.errstate(invalid="ignore"):
        gap = difference_of(lowest, highest)
    return gap.value, gap.error, f"{estimator}: {told}"


def _median(costs: pd.Series) -> float:
    # The median of pandas passes over what is not a number.
    return float(np.median(costs.to_numpy()))


CLAIMS = (
    Claim(
        id="identifiability-ridge-rank",
        statement="Both estimators put the swaps of networks with σ_F = 1 in the same order",
        quantity="Spearman correlation of the Mahalanobis and the ridge costs of a layer's pairs, at the reported β",
        bound=at_least(0.5),
        owner="ours",
        origin="ours",
        reason="The paper shows both as estimates of one quantity and states no number. They differ in the directions "
        "that they count and in the norm's part, so the order of single pairs may differ; 0.5 is far from unrelated "
        "ones.",
        tables=("estimators.csv",),
        why={
            "": "The estimators agree on which networks are dear, less on which pair of one layer is, whose costs "
            "differ by a tenth to a quarter only: ridge costs rise with the spread of the neurons' activations, which "
            "Mahalanobis costs do not see."
        },
        measure=partial(measure_rank_correlation, which=any_of(W_1, SYRE_1)),
    ),
    Claim(
        id="identifiability-ridge-order",
        statement="By both estimators, swaps cost less in standard networks and at σ_F = 0 than in W and syre networks "
        "with σ_F = 1",
        quantity="lowest median of the latter less highest of the former, by the estimator with the smaller "
        "difference, consecutive pairs",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The order of the variants is what the paper's figures have in common; no size is stated.",
        tables=(RIDGE, MAHALANOBIS),
        measure=at_reported_beta(partial(order_of_medians, low=any_of(STANDARD, W_0), high=any_of(W_1, SYRE_1))),
    ),
)
