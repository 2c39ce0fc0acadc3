"""Fig. 12: distributions of swap costs by variant."""

from functools import partial

import pandas as pd

from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.looks import box_looks
from symlab.papers.neuron_identifiability.masks import STANDARD, SYRE_1, W_0, W_1, Mask, any_of
from symlab.papers.neuron_identifiability.rows import consecutive, signed_sqrt
from symlab.papers.neuron_identifiability.variants import label_rows
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, at_least, at_most
from symlab.study.facets import Panel, draw_grid, labelled


def boxes_by_variant(tables: Tables, style: Style) -> Figure:
    costs = swap_panels.split_estimators(tables)
    variants = swap_panels.paper_variants(costs["Mahalanobis"])
    looks = box_looks(variants, style)
    rows = pd.concat(
        label_rows(table[consecutive(table)], variants).assign(estimator=name, place=0) for name, table in costs.items()
    )
    shift = {label: float(place) for place, label in enumerate(looks)}
    datasets, layers = list(rows["dataset"].unique()), sorted(rows["layer"].unique())

    def panel(part: pd.DataFrame, layer: int) -> Panel:
        # One label for all: those of neighbours would run into each other.
        label = swap_panels.COST if layer == layers[(len(layers) - 1) // 2] else ""
        axes = labelled(label, "", title=f"layer {layer}", yticks=(), ylim=(len(looks) - 0.4, -0.6))
        options = {"shift": shift, "width": 0.6, "orientation": "horizontal"}
        finish = partial(swap_panels.scale_roots, which="x", roots=signed_sqrt(part["swap_cost"]))
        return Panel(part[part["layer"] == layer], "place", "swap_cost", axes, swap_panels.draw_boxes, options, finish)

    lines = [(dataset, name) for dataset in datasets for name in costs]
    grid = [
        [panel(rows[(rows["dataset"] == dataset) & (rows["estimator"] == name)], layer) for layer in layers]
        for dataset, name in lines
    ]
    named = [(dataset if len(datasets) > 1 else "", name if len(costs) > 1 else "") for dataset, name in lines]
    return draw_grid(
        grid, looks, sharex="row", height=0.5 + 0.27 * len(looks),
        rows_named=["\n".join(filter(None, texts)) for texts in named],
        note=f"{swap_panels.count_networks(rows)}\n{swap_panels.BOXES}",
    )  # fmt: skip


RIDGE_ROW = """
Where the study estimates costs by ridge regression too (Definition E.3), a second row has these, of the same networks
and pairs, at the β that the picture names.
"""
FIGURES = {
    "identifiability-12": Drawing(
        "Swap-cost distributions by variant",
        """\
Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), …, over all networks of a kind, a panel for each
layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm, on an axis that is linear around 0 and
logarithmic far from it; a share of infinite costs is written at the right edge. The costs of standard networks are 0 by
definition.
"""
        + RIDGE_ROW,
        boxes_by_variant,
        seen="At σ_F = 1 {positive:%} of the swaps cost something. With weights fixed at 0 (σ_F = 0) the quartiles of "
        "the costs are at most {around-zero} from 0, in units of the median cost at σ_F = 1.",
        differs="Costs of all layers share one axis, linear around 0 and logarithmic far from it.",
    ),
}


_claim = partial(Claim, owner="paper", origin="ours", also=("identifiability-16",))


def _around_zero(estimate: str, table: str, networks: str, which: Mask, why_so: str) -> Claim:
    """The claim by one estimator that swaps of networks without fixed weights are nearly free."""
    return _claim(
        statement=f"Beside those of networks with fixed weights, swap costs of those without ({networks}) are around "
        f"zero{estimate}",
        quantity="how far from 0 their interquartile range reaches on either side, in units of the median at σ_F = 1 "
        f"(the lower of W and syre), consecutive pairs{estimate}",
        bound=at_most(0.1),
        reason=f"{why_so}Around zero is read as an order of magnitude below the costs that the same plot shows at W 1 "
        "and syre 1.",
        tables=(table,),
        measure=swap_costs.measure_costs(
            swap_costs.reach_by_layer, table, which=which, reference=any_of(W_1, SYRE_1), pairs=consecutive
        ),
        why=swap_costs.RIDGE_COUNTS_ERRORS if table == swap_costs.RIDGE else "",
    )


CLAIMS = {
    **{
        f"identifiability-12-{name}positive": _claim(
            statement=f"In networks with fixed weights (σ_F = 1) swapping two neurons costs something{estimate}",
            quantity=f"share of positive swap costs, consecutive pairs{estimate}",
            bound=at_least(0.95),
            reason="The figure's point is positive costs at W 1 and syre 1; one pair in twenty is left for outliers.",
            tables=(table,),
            measure=swap_costs.measure_costs(
                swap_costs.positive_by_layer, table, which=any_of(W_1, SYRE_1), pairs=consecutive
            ),
        )
        for name, estimate, table in swap_costs.ESTIMATORS
    },
    # By the Mahalanobis form standard networks lie at zero by definition.
    "identifiability-12-around-zero": _around_zero("", swap_costs.MAHALANOBIS, "σ_F = 0", W_0, ""),
    "identifiability-12-ridge-around-zero": _around_zero(
        *(", ridge estimate", swap_costs.RIDGE, "standard and σ_F = 0", any_of(STANDARD, W_0)),
        "By ridge regression a swap costs something even in standard networks: their batch norms, which are left "
        "fixed, give neurons scales and offsets of their own. ",
    ),
}
