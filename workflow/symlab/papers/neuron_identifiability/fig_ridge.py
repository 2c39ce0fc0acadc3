"""Figure ridge: how well two estimators of swap costs, Mahalanobis and ridge, agree (Appendices E.2 and G.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, above, at_least, at_most, mean, mean_of, stated
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, RIDGE, at_reported_beta
from symlab.papers.neuron_identifiability.worst_rows import find_worst
from symlab.plotting.rows import (
    MODEL,
    Mask,
    any_of,
    compared_variants,
    consecutive,
    label_rows,
    list_layers,
    mean_std,
    need,
    split_variants,
    where,
)
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
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rank_correlation(tables: Tables, style: Style) -> Figure:
    """Figure ridge: Spearman correlation of the two estimators' costs against beta, a line a variant, a panel a layer.

    The pairs are the disjoint consecutive ones, which every beta has. Undefined correlations are named.
    """
    every = need(tables, "estimators.csv")
    table = every[every["pairs"] == "consecutive"]
    if table["beta"].nunique() < 2:
        raise UserError(
            f"it needs consecutive pairs at two values of beta or more, so list them in {where(every)}.ridge.beta."
        )
    variants = compared_variants(table)
    looks = variant_looks(variants, style)
    rows = label_rows(table, variants)
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
    undefined = list_layers(rows[rows["spearman"].isna()], rows)
    note = f"no correlation (Mahalanobis costs constant or infinite): {undefined}" if undefined else ""
    defined = set(rows.loc[rows["spearman"].notna(), "label"])
    entries = handles({label: look for label, look in looks.items() if label in defined})
    legend(figure, entries, wrap_sentences(["mean ± std over networks", note], width, style))
    return figure


FIGURES = (
    Drawing(
        "identifiability-ridge",
        "Agreement of the two swap-cost estimators",
        """\
Rank correlation (Spearman) between the swap costs of the two estimators, Mahalanobis and ridge, against the ridge
parameter β, one panel for each layer, study `{study}`. It is taken over disjoint neighbouring neurons (0, 1), (2, 3),
… of one network, and lines are means over networks with one standard deviation as error bars. Where Mahalanobis costs
are all alike, as in a standard network, or infinite, there is no rank to compare; the note above the panels names
these networks.

The claim about this agreement is judged at the reported β on all pairs of the block, not on the neighbouring ones;
both correlations are in `tables/estimators.csv`.

As β goes to 0 the ridge cost tends to the realization cost of exact functions (Theorem E.5), so where the data lie
close to the subspace, correlations should be high for small β. A large β prices errors low, and the order of the
pairs may then be another.
""",
        rank_correlation,
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
    lowest, highest = (np.array(list(of_kind.values())) for of_kind in medians)
    with np.errstate(invalid="ignore"):
        return float(np.min(highest) - np.max(lowest)), f"{estimator}: {told}"


def _median(costs: pd.Series) -> float:
    # The median of pandas passes over what is not a number.
    return float(np.median(costs.to_numpy()))


def cost_over_surrogate(tables: Tables) -> list[Found]:
    """Largest ratio of a relaxed realization cost to the bound of Thm. E.4."""
    table = tables["ridge_costs.csv"]
    return find_worst(table, table["bound_ratio_max"])


SOLVED = at_most(1 + 1e-4)
CLAIMS = (
    stated(
        "identifiability-ridge-rank",
        "identifiability-ridge",
        "Both estimators put the swaps of networks with sigma_F = 1 in the same order: Spearman correlation of the "
        "Mahalanobis and the ridge costs of a layer's pairs at the reported beta, mean over models",
        at_least(0.5),
        "The paper shows both as estimates of one quantity and states no number. They differ in the directions that "
        "they count and in the norm's part, so the order of single pairs may differ; 0.5 is far from unrelated ones.",
        "estimators.csv",
        partial(measure_rank_correlation, which=any_of(W_1, SYRE_1)),
    ),
    stated(
        "identifiability-ridge-order",
        "identifiability-ridge",
        "By both estimators, swaps cost less in standard networks and at sigma_F = 0 than in W and syre networks with "
        "sigma_F = 1: lowest median of the latter less highest of the former, by the estimator with the smaller "
        "difference, consecutive pairs",
        above(0),
        "The order of the variants is what the paper's figures have in common; no size is stated.",
        (RIDGE, MAHALANOBIS),
        at_reported_beta(partial(order_of_medians, low=any_of(STANDARD, W_0), high=any_of(W_1, SYRE_1))),
    ),
    stated(
        "identifiability-ridge-surrogate",
        "identifiability-ridge",
        "No relaxed realization cost is above its quadratic bound (Theorem E.4): largest ratio of cost to bound",
        SOLVED,
        "The theorem bounds the least cost; the solver stops a little above it: a ten-thousandth is left for that. "
        "L-BFGS tries the bound's own minimiser, so this one checks the implementation: costs come from the neurons' "
        "outputs, bounds from the inputs' moments.",
        "ridge_costs.csv",
        cost_over_surrogate,
    ),
)
