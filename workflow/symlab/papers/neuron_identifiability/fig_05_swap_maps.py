"""Figs. 5 (the data of 14) and 15: swap costs on Gaussian mixtures by intrinsic dimension k and sigma_F."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Tables, Verdict, above, at_least, at_most, between, mean, stated
from symlab.papers.neuron_identifiability.architectures import W_0, W_1
from symlab.papers.neuron_identifiability.swap_costs import (
    INTRINSIC_DIMENSIONS,
    LOW_COST,
    MAHALANOBIS,
    RIDGE,
    cheap_share_at,
    cheap_share_fall,
    measure_costs,
    median_growth_with_k,
    median_ratio_by_k,
    negative_share,
    share_by_k,
)
from symlab.papers.neuron_identifiability.swap_panels import (
    BOXES,
    COST,
    COST_IN_TWO_LINES,
    MAHALANOBIS_NAME,
    RIDGE_NAME,
    beta_name,
    choose_network,
    choose_reported,
    cost_matrix,
    count_complete,
    draw_box,
    draw_maps,
    join_lines,
    map_panels,
    need_k,
)
from symlab.plotting.rows import Mask, every_row, need, one_path, sigma_regimes
from symlab.plotting.style import Style, variant_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = r"$\sigma_F$"


def maps_by_k(tables: Tables, style: Style) -> Figure:
    """Fig. 5: m x m heat maps of the first layer of the first network, a row a sigma_F, a column a k."""
    matrices = {cell: cost_matrix(rows) for cell, rows in _cells_by_k(need(tables, "swap_costs.parquet")).items()}
    figure, axes = map_panels([*matrices], len({len(matrix) for matrix in matrices.values()}) == 1)
    draw_maps(figure, axes, {MAHALANOBIS_NAME: matrices})
    return figure


def ridge_maps_by_k(tables: Tables, style: Style) -> Figure:
    """Fig. 15: as Fig. 5 with ridge costs at the reported beta, and below the distributions of the same pairs."""
    ridge = choose_reported(need(tables, "ridge_swap_costs.parquet"))
    cells = {cell: rows[rows["j"] < count_complete(rows)] for cell, rows in _cells_by_k(ridge).items()}
    figure, axes = map_panels([*cells], False, 1)
    draw_maps(figure, axes[:-1], {RIDGE_NAME: {cell: cost_matrix(rows) for cell, rows in cells.items()}})
    sweep, _ = sigma_regimes(need_k(ridge))
    looks = variant_looks(sweep, style)
    scales = list(dict.fromkeys(scale for scale, _ in cells))
    for column, k in enumerate(dict.fromkeys(k for _, k in cells)):
        axis = axes[-1, column]
        if column:
            axis.sharey(axes[-1, 0])
            axis.tick_params(labelleft=False)
        for position, scale in enumerate(scales):
            rows = cells[scale, k]
            look = looks[sweep.loc[rows["variant"].iloc[0], "label"]]
            draw_box(axis, rows["swap_cost"], position, 0.6, look, "vertical")
        axis.set_xticks(range(len(scales)), [scale.removeprefix(SCALE + " = ") for scale in scales])
        axis.set_xlabel(SCALE)
        axis.set_ylabel(COST_IN_TWO_LINES if column == 0 else COST)
        axis.yaxis.label.set_visible(column == 0)
    figure.suptitle(join_lines(beta_name({RIDGE_NAME: ridge}), BOXES), fontsize=style.font_size - 1)
    return figure


def _cells_by_k(costs: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """The costs of the first layer of the first network by the names of sigma_F and k."""
    table = need_k(costs)
    sweep, scales = sigma_regimes(table)
    first = table[(table["layer"] == 1) & table["variant"].isin(sweep.index)]
    return {
        (rf"{SCALE} = {sigma_F:g}", f"$k$ = {k:g}"): choose_network(
            first[(first["sigma_F"] == sigma_F) & (first["k"] == k)]
        )
        for sigma_F in scales
        for k in sorted(first["k"].unique())
    }


FIGURES = (
    Drawing(
        "identifiability-5",
        "Swap costs by k and σ_F (also Fig. 14)",
        """\
Swap costs of all pairs of neurons in the first layer of one W-asymmetric network, study `{study}`: a row for each
σ_F, a column for each intrinsic dimension k of the Gaussian mixture (the same data as the paper's Figure 14). Shown
is sign(Δ)·√|Δ|, in units of weight norm; all panels share one colour scale, linear around 0 and logarithmic far from
it, saturating at the 99th percentile. Black marks an infinite cost. The median of the pairs stands above each panel.

Blue swaps are expensive, white ones free, red ones gain weight norm. With σ_F = 0 most should be near white or red;
with σ_F = 1 they should get more expensive with k, until only the diagonal is free.
""",
        maps_by_k,
    ),
    Drawing(
        "identifiability-15",
        "Ridge swap costs by k and σ_F",
        """\
Swap costs of all pairs of neurons in the first layer of one W-asymmetric network, estimated by ridge regression
(Definition E.3), study `{study}`: a row for each σ_F, a column for each intrinsic dimension k of the Gaussian
mixture. Shown is sign(Δ)·√|Δ|, in units of weight norm; all heat maps share one colour scale, linear around 0 and
logarithmic far from it, saturating at the 99th percentile. The median of the pairs stands above each map. The boxes
below are of the same pairs: quartiles with a line at the median, whiskers from the 5th to the 95th percentile, dots
beyond. β stands in the title: it is the study's `ridge.reported`.

The picture should be that of Figure 5: with σ_F = 0 most swaps near white, with σ_F = 1 more expensive the larger k,
until only the diagonal is free. Ridge costs are always finite, since a neuron that cannot realize a function may
approximate it.
""",
        ridge_maps_by_k,
    ),
)


def drop_falls_with_k(tables: Tables, which: Mask, ks: tuple[int, int, int]) -> list[Verdict]:
    """Whether the mean midpoint drop in train accuracy, unaligned, is ordered first > second >= third of ``ks``.

    The value is the smaller of the two steps, in percentage points.
    """
    rows = one_path(tables["barriers.csv"], "train", aligned=False)
    rows = rows[which(rows)]
    drops = [rows.loc[rows["k"] == k, "drop_mid_pp"].to_numpy() for k in ks]
    if not all(len(drop) for drop in drops):
        return []
    first, second, third = (mean(drop) for drop in drops)
    told = ", ".join(f"k = {k}: {mean(drop):.3g} pp ({len(drop)} pairs)" for k, drop in zip(ks, drops, strict=True))
    step = float(np.min([first - second, second - third]))
    return [Verdict(step, first > second >= third, min(len(drop) for drop in drops), None, detail=told)]


def _gmm_swap_costs(figure: str, estimate: str, table: str, also: tuple[str, ...]) -> tuple[Claim, ...]:
    """Swap costs of all pairs on Gaussian mixtures (Fig. 5 = 14; by ridge regression Fig. 15)."""
    return (
        stated(
            f"{figure}-negative",
            figure,
            f"At sigma_F = 0 many swaps lower the cost: share of negative swap costs in layer 1{estimate}",
            at_least(0.1),
            "The paper finds near-zero and negative costs to dominate; ten percent is more than stray pairs.",
            table,
            measure_costs(share_by_k, table, which=W_0, statistic=negative_share),
            also,
        ),
        stated(
            f"{figure}-near-zero",
            figure,
            "At sigma_F = 0 swaps are cheap: median swap cost in layer 1 as a fraction "
            f"of that at sigma_F = 1{estimate}",
            between(-0.1, 0.1),
            "The paper finds near-zero costs to dominate at sigma_F = 0; near zero is "
            "read as an order of magnitude below sigma_F = 1.",
            table,
            measure_costs(median_ratio_by_k, table, small=W_0, large=W_1),
            also,
        ),
        stated(
            f"{figure}-growth",
            figure,
            "At sigma_F = 1 swaps cost more the larger k is: smallest step "
            f"between the median layer-1 costs at k = 2, 8, 32{estimate}",
            above(0),
            "The paper finds a strong dependence on k in this order; no size "
            "is stated, so only the order is asked for.",
            table,
            measure_costs(median_growth_with_k, table, which=W_1, pairs=every_row),
            also,
        ),
        stated(
            f"{figure}-cheap-swaps",
            figure,
            "At sigma_F = 1 low-cost swaps are more common at k = 2 than at k "
            f"= 32: difference of their shares in layer 1{estimate}",
            above(0),
            f"The paper finds many low-cost swaps at k = 2 and none off the diagonal at k = 32. {LOW_COST}",
            table,
            measure_costs(cheap_share_fall, table, which=W_1),
            also,
        ),
        stated(
            f"{figure}-diagonal",
            figure,
            "At sigma_F = 1 and k = 32 only the diagonal is cheap: share of low-cost swaps off it "
            f"in layer 1{estimate}",
            at_most(0.01),
            f"The paper finds only the diagonal at low cost; one pair in a hundred is left for chance. {LOW_COST}",
            table,
            measure_costs(cheap_share_at, table, which=W_1, k=32),
            also,
        ),
    )


FIG_5_DROP = Claim(
    "identifiability-5-drop",
    "identifiability-5",
    "At sigma_F = 1 the unaligned midpoint drop of train accuracy falls with k: "
    "smaller of the steps from k = 2 to 8 and from 8 to 32",
    "k = 2 above k = 8, k = 8 not below k = 32",
    "The paper's drops are 46.4, 15.7 and 6.1 percentage points; their size "
    "depends on the mixture, their order is the claim.",
    ("barriers.csv",),
    partial(drop_falls_with_k, which=W_1, ks=INTRINSIC_DIMENSIONS),
    also=("identifiability-14",),
)


CLAIMS = (
    *_gmm_swap_costs("identifiability-5", "", MAHALANOBIS, also=("identifiability-14",)),
    FIG_5_DROP,
    *_gmm_swap_costs("identifiability-15", ", ridge estimate", RIDGE, also=()),
)
