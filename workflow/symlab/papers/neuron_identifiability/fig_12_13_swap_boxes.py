"""Figs. 12 and 13: distributions of swap costs, by variant, and by intrinsic dimension k and sigma_F."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.masks import STANDARD, SYRE_1, W_0, W_1, Mask, any_of
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.rows import consecutive, signed_sqrt
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_regimes
from symlab.plotting.style import COLUMN, PAGE, Axes, Figure, Look, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, above, at_least, at_most
from symlab.study.facets import Panel, draw_grid, labelled


def boxes_by_variant(tables: Tables, style: Style) -> Figure:
    costs = swap_panels.split_estimators(tables)
    variants = swap_panels.paper_variants(costs["Mahalanobis"])
    looks = variant_looks(variants, style, linestyle="-", marker="")
    rows = _consecutive_pairs(costs, variants).assign(place=0)
    shift = {label: float(place) for place, label in enumerate(looks)}
    datasets, layers = list(rows["dataset"].unique()), sorted(rows["layer"].unique())
    lines = {}
    for dataset, name in product(datasets, costs):
        text = "\n".join([dataset] * (len(datasets) > 1) + [name] * (len(costs) > 1))
        lines[text] = rows[(rows["dataset"] == dataset) & (rows["estimator"] == name)]

    def axes(layer: int) -> dict[str, Any]:
        # One label for all: those of neighbours would run into each other.
        label = swap_panels.COST if layer == layers[(len(layers) - 1) // 2] else ""
        return labelled(label, "", yticks=(), ylim=(len(looks) - 0.4, -0.6))

    def finish(axis: Axes, line: pd.DataFrame) -> None:
        swap_panels.scale_roots(axis, "x", signed_sqrt(line["swap_cost"]))

    options = {"shift": shift, "width": 0.6, "orientation": "horizontal"}
    return _draw(lines, looks, axes, options, finish, sharex="row", height=0.5 + 0.27 * len(looks))


def boxes_by_k(tables: Tables, style: Style) -> Figure:
    costs = {name: swap_panels.need_k(table) for name, table in swap_panels.split_estimators(tables).items()}
    sweep, scales = sigma_regimes(costs["Mahalanobis"])
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    every = variant_looks(sweep, style, linestyle="-", marker="")
    looks = {label: look for label, look in every.items() if label in set(chosen["label"])}
    rows = _consecutive_pairs(costs, chosen)
    dimensions = sorted(rows["k"].unique())
    rows["place"] = rows["k"].map(dimensions.index)
    width = 0.8 / len(looks)
    shift = {label: (place - (len(looks) - 1) / 2) * width for place, label in enumerate(looks)}
    axes = labelled("intrinsic dimension $k$", swap_panels.COST.replace(" (", "\n("))

    def finish(axis: Axes, line: pd.DataFrame) -> None:
        axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
        swap_panels.scale_roots(axis, "y", signed_sqrt(line["swap_cost"]))

    lines = {name if len(costs) > 1 else "": rows[rows["estimator"] == name] for name in costs}
    options = {"shift": shift, "width": 0.85 * width}
    across = PAGE if rows["layer"].nunique() > 1 else COLUMN
    return _draw(lines, looks, lambda _: axes, options, finish, width=across, height=1.7)


def _consecutive_pairs(costs: dict[str, pd.DataFrame], variants: pd.DataFrame) -> pd.DataFrame:
    """Both estimators' rows of the variants, with their label."""
    parts = {name: label_rows(table[consecutive(table)], variants) for name, table in costs.items()}
    return pd.concat(part.assign(estimator=name) for name, part in parts.items())


def _draw(
    lines: dict[str, pd.DataFrame],
    looks: dict[str, Look],
    axes: Callable[[int], dict[str, Any]],
    options: dict[str, Any],
    finish: Callable[[Axes, pd.DataFrame], None],
    **of_grid: Any,
) -> Figure:
    """Boxes of the rows of each line, by its name, a panel a layer; ``finish`` is given what its line holds."""
    rows = pd.concat(lines.values())
    layers = sorted(rows["layer"].unique())

    def panel(line: pd.DataFrame, layer: int) -> Panel:
        part, titled = line[line["layer"] == layer], {**axes(layer), "title": f"layer {layer}"}
        return Panel(
            part, "place", "swap_cost", titled, swap_panels.draw_boxes, options, lambda axis: finish(axis, line)
        )

    grid = [[panel(line, layer) for layer in layers] for line in lines.values()]
    note = f"{swap_panels.count_networks(rows)}\nbox: quartiles and median, whiskers: 5th to 95th percentile"
    return draw_grid(grid, looks, rows_named=[name for name in lines if name], note=note, **of_grid)


RIDGE_ROW = (
    "\n\nWhere the study estimates costs by ridge regression too (Definition E.3), a second row has these, of the same "
    "networks and pairs, at the β that the picture names."
)
FIGURES = {
    "identifiability-12": Drawing(
        "Swap-cost distributions by variant",
        "Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), …, over all networks of a kind, a panel "
        "for each layer, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm, on an axis that is linear "
        "around 0 and logarithmic far from it; a share of infinite costs is written at the right edge. The costs of "
        f"standard networks are 0 by definition.{RIDGE_ROW}",
        boxes_by_variant,
        seen="At σ_F = 1 {positive:%} of the swaps cost something. With weights fixed at 0 (σ_F = 0) the quartiles of "
        "the costs (not of their roots) are at most {around-zero} from 0, in units of the median cost at σ_F = 1.",
        differs="Costs of all layers share one axis, linear around 0 and logarithmic far from it.",
    ),
    "identifiability-13": Drawing(
        "Swap-cost distributions by k and σ_F",
        "Costs of swapping the disjoint neighbouring neurons (0, 1), (2, 3), … in W-asymmetric networks on Gaussian "
        "mixtures, by intrinsic dimension k and scale σ_F, a panel for each layer, study `{study}`. Shown is "
        f"sign(Δ)·√|Δ|, in units of weight norm; a share of infinite costs is written above its box.{RIDGE_ROW}",
        boxes_by_k,
        seen="The median cost at σ_F = 1 exceeds that at σ_F = 0 by {sigma}.",
        differs="The axis is linear around 0 and logarithmic far from it.",
    ),
}


_claim = partial(Claim, owner="derived", origin="ours", also=("identifiability-16",))
_measured = partial(swap_costs.measure_costs, pairs=consecutive)


def _around_zero(estimate: str, table: str, networks: str, which: Mask, why_so: str) -> Claim:
    """The claim by one estimator that swaps of networks without fixed weights are nearly free."""
    return _claim(
        statement=f"Beside those of networks with fixed weights, swap costs of those without ({networks}) are around "
        f"zero{estimate}",
        quantity="how far from 0 their interquartile range reaches on either side, in units of the median at σ_F = 1 "
        f"(the lower of W and syre), consecutive pairs{estimate}",
        bound=at_most(0.1),
        reason=f"{why_so}Costs grow with the squared gap of the centres (Theorem 4.5), which without fixed weights is "
        "0. Around zero is read as an order of magnitude below the cost at W 1 and syre 1, as near zero in Fig. 5. The "
        "threshold is one of costs, as it was before any run: on the figure's axis of roots a tenth is about a third "
        "as far out. "
        f"{SINCE}: the reason had spoken of the plot, and the paper shows this in Fig. 12 and says it in no sentence, "
        "of MNIST.",
        tables=(table,),
        measure=_measured(swap_costs.reach_by_layer, table, which=which, reference=any_of(W_1, SYRE_1)),
        why=swap_costs.RIDGE_COUNTS_ERRORS if table == swap_costs.RIDGE else "",
    )


def _by_k(name: str, estimate: str, table: str) -> dict[str, Claim]:
    """The claims of Fig. 13 by one estimator."""
    owner, further = swap_costs.owned(table)
    claim = partial(Claim, bound=above(0), owner=owner, origin="paper", tables=(table,))
    return {
        f"identifiability-13-{name}sigma": claim(
            statement=f"Swaps cost more at σ_F = 1 than at σ_F = 0, at every k and layer{estimate}",
            quantity=f"difference of the median costs, consecutive pairs{estimate}",
            reason=f"Q3 tells the regimes σ_F = 0 and 1 apart by their costs; no size is stated.{further}",
            measure=_measured(swap_costs.excess_by_k, table, small=W_0, large=W_1),
        ),
        f"identifiability-13-{name}growth": claim(
            statement=f"At σ_F = 1 swaps cost more the larger the data's dimension k is, in every layer{estimate}",
            quantity=f"smaller step between the median costs at k = 2, 8, 32, consecutive pairs{estimate}",
            reason=f"Q3 finds this dependence on k, without a size; the figure shows all layers.{further}",
            measure=_measured(swap_costs.growth_with_k, table, which=W_1),
        ),
    }


CLAIMS = {
    **{
        f"identifiability-12-{name}positive": _claim(
            statement=f"In networks with fixed weights (σ_F = 1) swapping two neurons costs something{estimate}",
            quantity=f"share of positive swap costs, consecutive pairs{estimate}",
            bound=at_least(0.95),
            reason="By Theorem 4.5 costs follow a leading term that is positive where fixed weights dominate; one pair "
            f"in twenty is left for outliers. {SINCE}: the paper shows this in Fig. 12, and no sentence tells it.",
            tables=(table,),
            measure=_measured(swap_costs.positive_by_layer, table, which=any_of(W_1, SYRE_1)),
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
for _estimator in swap_costs.ESTIMATORS:
    CLAIMS |= _by_k(*_estimator)
