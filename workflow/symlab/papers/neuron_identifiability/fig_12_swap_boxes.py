"""Figs. 12 and 13: distributions of swap costs by variant, and by intrinsic dimension k and sigma_F."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.looks import patches, variant_looks
from symlab.papers.neuron_identifiability.rows import consecutive
from symlab.papers.neuron_identifiability.variants import (
    Mask,
    add_labels,
    any_of,
    label_rows,
    name_variant,
    sigma_regimes,
)
from symlab.plotting.style import COLUMN, PAGE, Style, legend, name_axes, name_row, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, above, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def boxes_by_variant(tables: Tables, style: Style) -> Figure:
    """Fig. 12: distributions over disjoint consecutive pairs of all networks of the paper's variants, a column a layer.

    Two estimators are two rows, each with a scale of its own.
    """
    costs = swap_panels.split_estimators(tables)
    variants = add_labels(pd.concat(swap_panels.paper_variants(costs[swap_panels.MAHALANOBIS_NAME]).values()))
    looks = variant_looks(variants, style)
    by_estimator = {name: label_rows(table[consecutive(table)], variants) for name, table in costs.items()}
    rows = by_estimator[swap_panels.MAHALANOBIS_NAME]
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    lines = [(dataset, name) for dataset in datasets for name in costs]
    height = 1.1 + (0.5 + 0.27 * len(looks)) * len(lines)
    figure, axes = panels(len(lines), len(layers), PAGE, height, sharex="row")
    for row, (dataset, name) in enumerate(lines):
        rows = by_estimator[name]
        for column, layer in enumerate(layers):
            axis: Axes = axes[row, column]
            part = rows[(rows["dataset"] == dataset) & (rows["layer"] == layer)]
            axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
            for position, (label, look) in enumerate(looks.items()):
                chosen = part.loc[part["label"] == label, "swap_cost"]
                if chosen.empty:
                    _say_not_measured(axis, position)
                else:
                    swap_panels.draw_box(axis, chosen, position, 0.6, look, "horizontal")
            if row == 0:
                axis.set_title(f"layer {layer}")
        axes[row, 0].set_yticks(range(len(looks)), looks)
        axes[row, 0].set_ylim(len(looks) - 0.5, -0.5)
        if len(lines) > 1:
            name_row(
                axes[row, -1],
                swap_panels.join_lines(dataset if len(datasets) > 1 else "", name if len(costs) > 1 else ""),
            )
    name_axes(axes, swap_panels.COST_IN_TWO_LINES, "variant")
    figure.suptitle(
        swap_panels.join_lines(swap_panels.count_networks(rows), swap_panels.BOXES, swap_panels.beta_name(costs)),
        fontsize=style.font_size - 1,
    )
    return figure


def boxes_by_k(tables: Tables, style: Style) -> Figure:
    """Fig. 13: distributions over disjoint consecutive pairs of all networks by k and sigma_F, a column a layer.

    Two estimators are two rows, each with its own scale.
    """
    costs = {name: swap_panels.need_k(table) for name, table in swap_panels.split_estimators(tables).items()}
    sweep, scales = sigma_regimes(costs[swap_panels.MAHALANOBIS_NAME])
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    looks = variant_looks(sweep, style)
    looks = {label: looks[label] for label in chosen["label"].unique()}
    by_estimator = {name: label_rows(table[consecutive(table)], chosen) for name, table in costs.items()}
    rows = by_estimator[swap_panels.MAHALANOBIS_NAME]
    layers, dimensions = sorted(rows["layer"].unique()), sorted(rows["k"].unique())
    page = PAGE if len(layers) > 1 else COLUMN
    figure, axes = panels(len(costs), len(layers), page, 0.9 + 1.7 * len(costs), sharey="row")
    width = 0.8 / len(looks)
    for row, (name, rows) in enumerate(by_estimator.items()):
        for axis, layer in zip(axes[row], layers, strict=True):
            part = rows[rows["layer"] == layer]
            axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)
            for place, k in enumerate(dimensions):
                for index, (label, look) in enumerate(looks.items()):
                    of_variant = part.loc[(part["k"] == k) & (part["label"] == label), "swap_cost"]
                    position = place + (index - (len(looks) - 1) / 2) * width
                    swap_panels.draw_box(axis, of_variant, position, 0.85 * width, look, "vertical")
            axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
            if row == 0:
                axis.set_title(f"layer {layer}")
        if len(costs) > 1:
            name_row(axes[row, -1], name)
    name_axes(axes, "intrinsic dimension $k$", swap_panels.COST_IN_TWO_LINES)
    legend(
        figure,
        patches(looks),
        swap_panels.join_lines(swap_panels.count_networks(rows), swap_panels.BOXES, swap_panels.beta_name(costs)),
    )
    return figure


def _say_not_measured(axis: Axes, position: float) -> None:
    place = axis.get_yaxis_transform()
    axis.annotate("not measured", (0.5, position), xycoords=place, ha="center", va="center", fontsize="x-small")


def _seen_by_variant(tables: Tables) -> str:
    """Median costs in the tables' units, over layers."""
    costs = tables[swap_costs.MAHALANOBIS]
    variants = pd.concat(swap_panels.paper_variants(costs).values())
    chosen = costs[consecutive(costs) & costs["variant"].isin(variants.index)]
    told = []
    for variant in variants.index:
        medians = chosen[chosen["variant"] == variant].groupby("layer")["swap_cost"].median()
        listed = ", ".join(f"{value:.2g}" if abs(value) > 1e-9 else "0" for value in medians)
        told.append(f"{listed} ({name_variant(variants.loc[variant], latex=False)})")
    return f"The median swap costs Δ of the layers are {'; '.join(told)}."


def _seen_by_k(tables: Tables) -> str:
    costs = swap_panels.need_k(tables[swap_costs.MAHALANOBIS])
    chosen = costs[consecutive(costs) & W_1(costs)]
    told = [
        f"{', '.join(f'{value:.2g}' for value in rows.groupby('k')['swap_cost'].median())} in layer {layer}"
        for layer, rows in chosen.groupby("layer")
    ]
    ks = ", ".join(f"{k:g}" for k in sorted(chosen["k"].unique()))
    return f"At σ_F = 1 the median swap costs Δ at k = {ks} are {'; '.join(told)}."


RIDGE_ROW = """
The second row, where there is one, has costs estimated by ridge regression (Definition E.3) of the same networks and
pairs, at the β above.
"""
FIGURES = (
    Drawing(
        "identifiability-12",
        "Swap-cost distributions by variant",
        """\
Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), …, over all networks of a kind, a panel for each
layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm; a share of infinite costs is written at the
right edge. The costs of standard networks are 0 by definition.
"""
        + RIDGE_ROW,
        boxes_by_variant,
        _seen_by_variant,
        "All layers of a row share one axis.",
    ),
    Drawing(
        "identifiability-13",
        "Swap-cost distributions by k and σ_F",
        """\
Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), … in W-asymmetric networks on Gaussian mixtures, by
intrinsic dimension k and scale σ_F, a panel for each layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight
norm; a share of infinite costs is written above its box.
"""
        + RIDGE_ROW,
        boxes_by_k,
        _seen_by_k,
    ),
)


def _around_zero(
    name: str, estimate: str, table: str, networks: str, which: Mask, why_so: str, also: tuple[str, ...]
) -> Claim:
    return Claim(
        id=f"identifiability-12-{name}around-zero",
        statement=f"Beside those of networks with fixed weights, swap costs of those without ({networks}) are around "
        f"zero{estimate}",
        quantity="how far from 0 their interquartile range reaches on either side, in units of the median at σ_F = 1 "
        f"(the lower of W and syre), consecutive pairs{estimate}",
        bound=at_most(0.1),
        owner="paper",
        origin="ours",
        reason=f"{why_so}Around zero is read as an order of magnitude below the costs that the same plot shows at W 1 "
        "and syre 1.",
        tables=(table,),
        measure=swap_costs.measure_costs(
            swap_costs.relative_by_layer,
            table,
            which=which,
            statistic=swap_costs.middle_half,
            reference=any_of(W_1, SYRE_1),
            pairs=consecutive,
        ),
        also=(*also, "identifiability-18", "identifiability-19"),
        why={"": swap_costs.RIDGE_COUNTS_ERRORS} if table == swap_costs.RIDGE else {},
    )


FIG_12 = (
    *(
        Claim(
            id=f"identifiability-12-{name}positive",
            statement=f"In networks with fixed weights (σ_F = 1) swapping two neurons costs something{estimate}",
            quantity=f"share of positive swap costs, consecutive pairs{estimate}",
            bound=at_least(0.95),
            owner="paper",
            origin="ours",
            reason="The figure's point is positive costs at W 1 and syre 1; one pair in twenty is left for outliers.",
            tables=(table,),
            measure=swap_costs.measure_costs(
                swap_costs.share_by_layer,
                table,
                which=any_of(W_1, SYRE_1),
                pairs=consecutive,
                statistic=swap_costs.positive_share,
            ),
            also=("identifiability-18", "identifiability-19"),
        )
        for name, estimate, table in swap_costs.ESTIMATORS
    ),
    # By the Mahalanobis form standard networks lie at zero by definition.
    _around_zero("", "", swap_costs.MAHALANOBIS, "σ_F = 0", W_0, "", ("identifiability-17",)),
    _around_zero(
        *("ridge-", ", ridge estimate", swap_costs.RIDGE, "standard and σ_F = 0"),
        any_of(STANDARD, W_0),
        "By ridge regression a swap costs something even in standard networks: their batch norms, which are left "
        "fixed, give neurons scales and offsets of their own. ",
        ("identifiability-16", "identifiability-17"),
    ),
)
FIG_13 = tuple(
    claim
    for name, estimate, table in swap_costs.ESTIMATORS
    for claim in (
        Claim(
            id=f"identifiability-13-{name}sigma",
            statement=f"Swaps cost more at σ_F = 1 than at σ_F = 0, at every k and layer{estimate}",
            quantity=f"difference of the median costs, consecutive pairs{estimate}",
            bound=above(0),
            owner="paper",
            origin="paper",
            reason="Q3 tells the regimes σ_F = 0 and 1 apart by their costs; no size is stated.",
            tables=(table,),
            measure=swap_costs.measure_costs(swap_costs.excess_by_k, table, small=W_0, large=W_1, pairs=consecutive),
        ),
        Claim(
            id=f"identifiability-13-{name}growth",
            statement=f"At σ_F = 1 swaps cost more the larger the data's dimension k is, in every layer{estimate}",
            quantity=f"smaller step between the median costs at k = 2, 8, 32, consecutive pairs{estimate}",
            bound=above(0),
            owner="paper",
            origin="paper",
            reason="Q3 finds this dependence on k, without a size; the figure shows all layers.",
            tables=(table,),
            measure=swap_costs.measure_costs(
                swap_costs.growth_with_k, table, which=W_1, pairs=consecutive, layers=None
            ),
        ),
    )
)


CLAIMS = (*FIG_12, *FIG_13)
