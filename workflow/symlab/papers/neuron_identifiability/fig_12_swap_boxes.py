"""Figs. 12 and 13: distributions of swap costs by variant, and by intrinsic dimension k and sigma_F."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symlab.papers.card import Drawing
from symlab.papers.claim import Tables, above, at_least, at_most, stated
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.swap_costs import (
    ESTIMATORS,
    MAHALANOBIS,
    box_gap_to_zero,
    claim_around_zero,
    measure_costs,
    median_excess_by_k,
    median_growth_with_k,
    median_over_baselines,
    median_root,
    positive_share,
    relative_by_layer,
    share_in_first_layer,
)
from symlab.papers.neuron_identifiability.swap_panels import (
    BOXES,
    COST_IN_TWO_LINES,
    MAHALANOBIS_NAME,
    RIDGE_NAME,
    beta_name,
    draw_box,
    join_lines,
    need_k,
    split_estimators,
)
from symlab.plotting.rows import any_of, compared_variants, consecutive, label_rows, sigma_regimes
from symlab.plotting.style import COLUMN, PAGE, Style, legend, name_axes, name_row, panels, patches, variant_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def boxes_by_variant(tables: Tables, style: Style) -> Figure:
    """Fig. 12: distributions over disjoint consecutive pairs of all networks by variant, a column a layer.

    Two estimators are two rows, each panel with its own scale.
    """
    costs = split_estimators(tables)
    variants = compared_variants(costs[MAHALANOBIS_NAME])
    looks = variant_looks(variants, style)
    by_estimator = {name: label_rows(table[consecutive(table)], variants) for name, table in costs.items()}
    rows = by_estimator[MAHALANOBIS_NAME]
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    lines = [(dataset, name) for dataset in datasets for name in costs]
    height = 1.1 + (0.5 + 0.27 * len(looks)) * len(lines)
    figure, axes = panels(len(lines), len(layers), PAGE, height, sharex="col" if len(costs) == 1 else False)
    for row, (dataset, name) in enumerate(lines):
        rows = by_estimator[name]
        for column, layer in enumerate(layers):
            axis: Axes = axes[row, column]
            part = rows[(rows["dataset"] == dataset) & (rows["layer"] == layer)]
            for position, (label, look) in enumerate(looks.items()):
                chosen = part.loc[part["label"] == label, "swap_cost"]
                if chosen.empty and name == RIDGE_NAME:
                    _say_not_measured(axis, position)
                else:
                    draw_box(axis, chosen, position, 0.6, look, "horizontal")
            if row == 0:
                axis.set_title(f"layer {layer}")
        axes[row, 0].set_yticks(range(len(looks)), looks)
        axes[row, 0].set_ylim(len(looks) - 0.5, -0.5)
        if len(lines) > 1:
            name_row(axes[row, -1], join_lines(dataset if len(datasets) > 1 else "", name if len(costs) > 1 else ""))
    name_axes(axes, COST_IN_TWO_LINES, "variant")
    figure.suptitle(join_lines(BOXES, beta_name(costs)), fontsize=style.font_size - 1)
    return figure


def boxes_by_k(tables: Tables, style: Style) -> Figure:
    """Fig. 13: distributions over disjoint consecutive pairs of all networks by k and sigma_F, a column a layer.

    Two estimators are two rows, each with its own scale.
    """
    costs = {name: need_k(table) for name, table in split_estimators(tables).items()}
    sweep, scales = sigma_regimes(costs[MAHALANOBIS_NAME])
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    looks = variant_looks(sweep, style)
    looks = {label: looks[label] for label in chosen["label"].unique()}
    by_estimator = {name: label_rows(table[consecutive(table)], chosen) for name, table in costs.items()}
    rows = by_estimator[MAHALANOBIS_NAME]
    layers, dimensions = sorted(rows["layer"].unique()), sorted(rows["k"].unique())
    page = PAGE if len(layers) > 1 else COLUMN
    figure, axes = panels(len(costs), len(layers), page, 0.9 + 1.7 * len(costs), sharey="row")
    width = 0.8 / len(looks)
    for row, (name, rows) in enumerate(by_estimator.items()):
        for axis, layer in zip(axes[row], layers, strict=True):
            part = rows[rows["layer"] == layer]
            for place, k in enumerate(dimensions):
                for index, (label, look) in enumerate(looks.items()):
                    of_variant = part.loc[(part["k"] == k) & (part["label"] == label), "swap_cost"]
                    position = place + (index - (len(looks) - 1) / 2) * width
                    draw_box(axis, of_variant, position, 0.85 * width, look, "vertical")
            axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
            if row == 0:
                axis.set_title(f"layer {layer}")
        if len(costs) > 1:
            name_row(axes[row, -1], name)
    name_axes(axes, "intrinsic dimension $k$", COST_IN_TWO_LINES)
    legend(figure, patches(looks), join_lines(BOXES, beta_name(costs)))
    return figure


def _say_not_measured(axis: Axes, position: float) -> None:
    place = axis.get_yaxis_transform()
    axis.annotate("not measured", (0.5, position), xycoords=place, ha="center", va="center", fontsize="x-small")


FIGURES = (
    Drawing(
        "identifiability-12",
        "Swap-cost distributions by variant",
        """\
Distribution of the swap costs of disjoint neighbouring neurons (0, 1), (2, 3), … over all networks of a kind, one
panel for each layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm. Boxes span the quartiles with a
line at the median, whiskers the 5th to the 95th percentile, dots lie beyond; a share of infinite costs is written at
the right edge if there is one.

Standard networks cost nothing to permute. Costs should stay around zero for σ_F = 0 and lie clearly above it for
W-asymmetric and syre networks with σ_F ≥ 1.

If the study has ridge costs too (Definition E.3: what approximating the other neuron's function costs in squared
error, divided by β, and in squared weights), the second row shows them for the same networks and pairs. β stands in
the title: it is the study's `ridge.reported`. Every panel has its own scale. The two estimators should put the kinds
of networks into the same order; ridge costs count errors of outputs, so they may be positive throughout, but should
be small where σ_F = 0.
""",
        boxes_by_variant,
    ),
    Drawing(
        "identifiability-13",
        "Swap-cost distributions by k and σ_F",
        """\
Distribution of the swap costs of disjoint neighbouring neurons (0, 1), (2, 3), … in W-asymmetric networks on Gaussian
mixtures, by intrinsic dimension k and scale σ_F, one panel for each layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in
units of weight norm. Boxes span the quartiles with a line at the median, whiskers the 5th to the 95th percentile,
dots lie beyond; a share of infinite costs is written above its box if there is one.

Without fixed weights costs should stay around zero at every k; with them they should grow with k.

If the study has ridge costs too (Definition E.3: what approximating the other neuron's function costs in squared
error, divided by β, and in squared weights), the second row shows them for the same networks and pairs. β stands in
the title: it is the study's `ridge.reported`. Each row has its own scale. Both estimators should show the same growth
with k; ridge costs are finite where Mahalanobis costs are not.
""",
        boxes_by_k,
    ),
)


FIG_12 = (
    *(
        claim
        for name, estimate, table in ESTIMATORS
        for claim in (
            stated(
                f"identifiability-12-{name}positive",
                "identifiability-12",
                "Swaps in networks with sigma_F = 1 cost something: share of positive swap costs in layer 1, "
                f"consecutive pairs{estimate}",
                at_least(0.95),
                "The figure's point is positive costs at W 1 and syre 1; one pair in twenty is left for outliers.",
                table,
                measure_costs(
                    share_in_first_layer,
                    table,
                    which=any_of(W_1, SYRE_1),
                    pairs=consecutive,
                    statistic=positive_share,
                ),
            ),
            stated(
                f"identifiability-12-{name}large",
                "identifiability-12",
                "Swaps in networks with sigma_F = 1 are expensive: median swap cost in multiples of the "
                f"largest |median| of standard networks and sigma_F = 0, consecutive pairs{estimate}",
                at_least(10),
                "The figure's point is large costs at W 1 and syre 1 beside costs around "
                "zero; large is read as an order of magnitude more.",
                table,
                measure_costs(
                    median_over_baselines,
                    table,
                    which=any_of(W_1, SYRE_1),
                    baselines=any_of(STANDARD, W_0),
                    pairs=consecutive,
                ),
            ),
        )
    ),
    stated(
        "identifiability-12-around-zero",
        "identifiability-12",
        "Swap costs of standard networks and sigma_F = 0 lie around zero: distance of the interquartile range of "
        "signed square roots from 0, in units of the median at W sigma_F = 1, consecutive pairs",
        at_most(0.1),
        "The figure's point is costs around zero; around is read as within a "
        "tenth of the median at W 1, on the scale of the plot.",
        MAHALANOBIS,
        measure_costs(
            relative_by_layer,
            MAHALANOBIS,
            which=any_of(STANDARD, W_0),
            statistic=box_gap_to_zero,
            reference=W_1,
            reference_statistic=median_root,
            pairs=consecutive,
        ),
    ),
    claim_around_zero("identifiability-12", any_of(STANDARD, W_0), "standard networks and sigma_F = 0", consecutive),
)
FIG_13 = tuple(
    claim
    for name, estimate, table in ESTIMATORS
    for claim in (
        stated(
            f"identifiability-13-{name}sigma",
            "identifiability-13",
            "Swaps cost more at sigma_F = 1 than at sigma_F = 0: difference of the median layer-1 costs, "
            f"consecutive pairs{estimate}",
            above(0),
            "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
            table,
            measure_costs(median_excess_by_k, table, small=W_0, large=W_1, pairs=consecutive),
        ),
        stated(
            f"identifiability-13-{name}growth",
            "identifiability-13",
            "At sigma_F = 1 swaps cost more the larger k is: smallest step between the "
            f"median layer-1 costs at k = 2, 8, 32, consecutive pairs{estimate}",
            above(0),
            "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
            table,
            measure_costs(median_growth_with_k, table, which=W_1, pairs=consecutive),
        ),
    )
)


CLAIMS = (*FIG_12, *FIG_13)
