"""Fig. 13: distributions of swap costs by intrinsic dimension k and sigma_F."""

from functools import partial

import pandas as pd

from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.fig_12_swap_boxes import RIDGE_ROW
from symlab.papers.neuron_identifiability.looks import box_looks
from symlab.papers.neuron_identifiability.masks import W_0, W_1
from symlab.papers.neuron_identifiability.rows import consecutive, signed_sqrt
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_regimes
from symlab.plotting.style import COLUMN, PAGE, Axes, Figure, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, above
from symlab.study.facets import Panel, draw_grid, labelled


def boxes_by_k(tables: Tables, style: Style) -> Figure:
    costs = {name: swap_panels.need_k(table) for name, table in swap_panels.split_estimators(tables).items()}
    sweep, scales = sigma_regimes(costs["Mahalanobis"])
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    labels = list(chosen["label"].unique())
    looks = {label: look for label, look in box_looks(sweep, style).items() if label in labels}
    rows = pd.concat(
        label_rows(table[consecutive(table)], chosen).assign(estimator=name) for name, table in costs.items()
    )
    dimensions = sorted(rows["k"].unique())
    rows["place"] = rows["k"].map(dimensions.index)
    width = 0.8 / len(looks)
    shift = {label: (place - (len(looks) - 1) / 2) * width for place, label in enumerate(looks)}

    def panel(part: pd.DataFrame, layer: int) -> Panel:
        def finish(axis: Axes) -> None:
            axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
            swap_panels.scale_roots(axis, "y", signed_sqrt(part["swap_cost"]))

        axes = labelled("intrinsic dimension $k$", swap_panels.COST.replace(" (", "\n("), title=f"layer {layer}")
        options = {"shift": shift, "width": 0.85 * width}
        return Panel(part[part["layer"] == layer], "place", "swap_cost", axes, swap_panels.draw_boxes, options, finish)

    layers = sorted(rows["layer"].unique())
    return draw_grid(
        [[panel(rows[rows["estimator"] == name], layer) for layer in layers] for name in costs], looks,
        width=PAGE if len(layers) > 1 else COLUMN, height=1.7, rows_named=list(costs) if len(costs) > 1 else (),
        note=f"{swap_panels.count_networks(rows)}\n{swap_panels.BOXES}",
    )  # fmt: skip


FIGURES = {
    "identifiability-13": Drawing(
        "Swap-cost distributions by k and σ_F",
        """\
Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), … in W-asymmetric networks on Gaussian mixtures, by
intrinsic dimension k and scale σ_F, a panel for each layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight
norm; a share of infinite costs is written above its box.
"""
        + RIDGE_ROW,
        boxes_by_k,
        seen="The median cost at σ_F = 1 exceeds that at σ_F = 0 by {sigma}.",
        differs="The axis is linear around 0 and logarithmic far from it.",
    ),
}

_claim = partial(Claim, bound=above(0), owner="paper", origin="paper")
CLAIMS = {
    claim: made
    for name, estimate, table in swap_costs.ESTIMATORS
    for claim, made in {
        f"identifiability-13-{name}sigma": _claim(
            statement=f"Swaps cost more at σ_F = 1 than at σ_F = 0, at every k and layer{estimate}",
            quantity=f"difference of the median costs, consecutive pairs{estimate}",
            reason="Q3 tells the regimes σ_F = 0 and 1 apart by their costs; no size is stated.",
            tables=(table,),
            measure=swap_costs.measure_costs(swap_costs.excess_by_k, table, small=W_0, large=W_1, pairs=consecutive),
        ),
        f"identifiability-13-{name}growth": _claim(
            statement=f"At σ_F = 1 swaps cost more the larger the data's dimension k is, in every layer{estimate}",
            quantity=f"smaller step between the median costs at k = 2, 8, 32, consecutive pairs{estimate}",
            reason="Q3 finds this dependence on k, without a size; the figure shows all layers.",
            tables=(table,),
            measure=swap_costs.measure_costs(swap_costs.growth_with_k, table, which=W_1, pairs=consecutive),
        ),
    }.items()
}
