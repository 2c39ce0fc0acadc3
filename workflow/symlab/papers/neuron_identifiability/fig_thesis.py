"""The paper's thesis in one picture: how identifiable neurons are against how high the unaligned barrier is."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.masks import sigma_mlp, w_asymmetric
from symlab.papers.neuron_identifiability.rows import MODEL, consecutive, describe, one_path, pair_objectives
from symlab.papers.neuron_identifiability.variants import add_labels, by_variant, variants_of
from symlab.plotting.numbers import typeset
from symlab.plotting.style import Axes, Figure, Style, panels
from symlab.plotting.units import FEW, over_pairs
from symlab.study.card import Drawing
from symlab.study.cases import Values
from symlab.study.claim import Claim, Found, Tables, at_most, statistic_of
from symlab.study.statistics import rank_correlation
from symlab.study.tables import last_epoch, need, some, where

FEWEST = 5
"""Kinds of networks of which a rank correlation is worth telling: four are in any order with a chance of 1 in 24."""
DRAWS = 2_000
"""Random orders of the kinds that a rank correlation is compared with."""
RAISED = 7
"""How many points above its mark a name is written, so that it does not lie on the band."""
LABELS = {"way": "way from random to optimal (objective)", "cost": r"median swap cost $\Delta$"}


def scatter(tables: Tables, style: Style) -> Figure:
    measured = {name: pairs for name in LABELS if (pairs := kinds(tables, name))}
    if not measured:
        raise UserError(
            f"it needs matching.csv or swap_costs.parquet, so switch on matching or identification in "
            f"{where(tables['barriers.csv'])}."
        )
    barriers = unaligned_barriers(tables)
    variants = add_labels(variants_of(barriers))
    looks = variant_looks(variants, style)
    highest = max(1.0, *(drop.mean for pairs in measured.values() for _, drop in pairs))
    figure, axes = panels(1, len(measured), 0.4 + 3.2 * len(measured), 3.1, sharex=False)
    for axis, (name, pairs), letter in zip(axes[0], measured.items(), "ab", strict=False):
        points = {x.case.key["variant"]: (x.array, y.array) for x, y in pairs}
        swept = [variant for variant in variants[w_asymmetric(variants)].index if variant in points]
        for _, members in variants.loc[swept].groupby("dataset", sort=False):
            band = np.array([[each.mean() for each in points[variant]] for variant in members.index])
            axis.plot(*band.T, color="0.8", linewidth=4, zorder=0, solid_capstyle="round")
        for variant, (x, y) in points.items():
            look = looks[variants.loc[variant, "label"]]
            # Of two values, both are shown: the ends of the bar.
            spreads = [np.std(each, ddof=1) if len(each) > FEW else np.ptp(each) / 2 for each in (x, y)]
            bars = {"xerr": spreads[0], "yerr": spreads[1], "elinewidth": 0.8, "capsize": 0}
            axis.errorbar(x.mean(), y.mean(), fmt=look.marker, color=look.color, markersize=6, **bars)
        correlation = rank_correlation([x.mean for x, _ in pairs], [y.mean for _, y in pairs])
        named = "" if math.isnan(correlation) else typeset(f"rank correlation {correlation:.2f} ({len(pairs)} kinds)")
        axis.set_title(f"{letter}   {named}", loc="left")
        axis.set_xlabel(LABELS[name])
        axis.set_ylabel("unaligned barrier:\ndrop of train accuracy (pp)")
        if name == "cost":
            _scale_by_root(axis, max(x.mean for x, _ in pairs))
        else:
            axis.set_xlim(-0.08, 1.08)
        axis.set_ylim(-0.05 * highest, 1.08 * highest)
    axes[0, -1].yaxis.label.set_visible(len(measured) == 1)
    shown_by = over_pairs(barriers).replace(", each drawn", ", at the ends of the bars")
    figure.suptitle(f"{shown_by}; W 1: W-asymmetric, $\\sigma_F$ = 1", size=style.font_size - 1)
    # Names are placed where the points are once titles and labels have taken their room.
    figure.draw_without_rendering()
    for axis, pairs in zip(axes[0], measured.values(), strict=True):
        _label(axis, [(x.mean, y.mean, _short(variants.loc[x.case.key["variant"]])) for x, y in pairs])
    return figure


def unaligned_barriers(tables: Tables) -> pd.DataFrame:
    """Rows of unaligned paths on train data.

    Raises:
        UserError: no accuracy is measured there.
    """
    rows = one_path(need(tables, "barriers.csv"), "train", aligned=False)
    asked = f"{where(tables['barriers.csv'])}.interpolation.splits"
    return some(rows[rows["drop_max_pp"].notna()], f"it needs a classification data set and train among {asked}.")


def kinds(tables: Tables, name: str) -> list[tuple[Values, Values]]:
    """Of each variant how identifiable its units are, by ``name``, and their unaligned drop in percentage points.

    ``way``: how far the identity comes from random permutations to the optimal one; ``cost``: the median cost of
    swapping two neurons in a layer, averaged over layers.
    """
    table = tables.get("matching.csv" if name == "way" else "swap_costs.parquet")
    if table is None or table.empty:
        return []
    if name == "way":
        found = by_variant(pair_objectives(last_epoch(table), layerwise=False), "way")
    else:
        # Swap costs are defined for elementwise nonlinearities.
        chosen = table[~sigma_mlp(table) & consecutive(table)]
        medians = chosen.groupby([*MODEL, "layer"], sort=False)["swap_cost"].median().reset_index()
        found = by_variant(describe(medians, table), "swap_cost", unit=MODEL[1:])
    return found.keyed("variant").beside(by_variant(unaligned_barriers(tables), "drop_max_pp").keyed("variant"))


def _short(variant: pd.Series) -> str:
    if variant["scheme"] != "w_asymmetric" or variant["activation"] == "sigma":
        return str(variant["label"]).split(",")[0]
    return f"W {variant['sigma_F']:g}"


def _scale_by_root(axis: Axes, highest: float) -> None:
    """Show signed square roots on the x axis, as the paper does for swap costs; ticks are in the table's unit."""
    axis.set_xscale("function", functions=(lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2))
    root = math.sqrt(max(highest, 1e-9))
    axis.set_xlim(-((0.08 * root) ** 2), (1.15 * root) ** 2)
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 1e9) if root / step <= 7)
    axis.set_xticks(ticks := [(step * n) ** 2 for n in range(int(1.1 * root / step) + 1)], [f"{t:g}" for t in ticks])


def _label(axis: Axes, points: list[tuple[float, float, str]]) -> None:
    """Write each point's name above and beside it, or higher where that is taken, with a thin line to its point."""
    from matplotlib.patheffects import withStroke

    scale, size = 72 / axis.figure.dpi, 7.5
    right_end = axis.bbox.x1 * scale
    places = [axis.transData.transform(point[:2]) * scale for point in points]
    taken = [(x - 4, x + 4, y) for x, y in places]
    for (x, y), (left, height), name in (
        (points[n][:2], places[n], points[n][2]) for n in sorted(range(len(points)), key=lambda n: points[n][1])
    ):
        width = 0.62 * size * len(name.replace("$", "").replace("\\sigma", "s"))
        right_start, left_start = left + 8, left - 8 - width
        # A name that is too wide for either side leaves the axis on the wider one.
        in_left_half = 2 * left < axis.bbox.x0 * scale + right_end
        wider = (RAISED, 1, right_start) if in_left_half else (RAISED, -1, left_start)
        free = (
            (shift, side, start)
            for shift in range(RAISED, 1000)
            for side, start in ((1, right_start), (-1, left_start))
            if axis.bbox.x0 * scale < start
            and start + width < right_end
            and all(
                start > far or start + width < near or abs(height + shift - up) > 1.3 * size for near, far, up in taken
            )
        )
        shift, side, start = next(free, wider)
        taken.append((start, start + width, height + shift))
        leader = {"arrowstyle": "-", "linewidth": 0.5, "color": "0.5", "shrinkA": 1, "shrinkB": 3}
        axis.annotate(
            name, (x, y), (8 * side, shift), textcoords="offset points", size=size, ha="left" if side > 0 else "right",
            va="center", arrowprops=leader if shift > RAISED + size else None, zorder=5,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )  # fmt: skip


FIGURES = {
    "identifiability-thesis": Drawing(
        "Identifiable neurons, low barriers",
        "The thesis of the paper, study `{study}`: each point is a kind of network, at how identifiable its neurons "
        "are (a: how far the identity comes from random permutations to the optimal one by matching objective; b: "
        "the median cost of swapping two neurons, averaged over layers) and at the largest drop of train accuracy on "
        "the line between two unaligned networks. The grey band joins W-asymmetric networks in the order of σ_F: "
        "they differ in σ_F alone and are no independent evidence. Swap costs are not defined for σ-MLPs.",
        scatter,
        seen="The rank correlation of the unaligned barrier is {identity} with how near the identity comes to the "
        "optimum and {swap-cost} with the median swap cost.",
        differs="The paper has no such figure; its Figs. 3, 4 and 12 show the three quantities one by one.",
    ),
}


def correlate(tables: Tables, name: str) -> list[Found]:
    """Spearman's correlation over variants (and data sets) of a measure of identifiability and the unaligned barrier.

    Its standard error comes from drawing pairs (and networks) of each variant with replacement.
    """
    pairs = kinds(tables, name)
    if len(pairs) < FEWEST:
        return [f"needs {FEWEST} kinds of networks, has {len(pairs)}"]

    def statistic(*samples: np.ndarray) -> float:
        means = [sample.mean() for sample in samples]
        return rank_correlation(means[::2], means[1::2])

    samples = [each.array for pair in pairs for each in pair]
    found, drops = statistic_of(statistic, *samples), [drop.mean for _, drop in pairs]
    generator, ranks = np.random.default_rng(0), pd.Series(drops).rank()
    measured = pd.Series([each.mean for each, _ in pairs]).rank()
    orders = (generator.permutation(ranks) for _ in range(0 if math.isnan(found.value) else DRAWS))
    as_low = sum(np.corrcoef(measured, order)[0, 1] <= found.value for order in orders)
    told = f"{len(pairs)} kinds of networks; a share of {(1 + as_low) / (1 + DRAWS):.1g} of random orders of the kinds "
    told += "has one as low"
    unharmed = sum(drop == 0 for drop in drops)
    told += f"; {unharmed} of the kinds lose nothing, so they are tied" if unharmed > 1 else ""
    return [replace(found, detail=told)]


def _claim(table: str, measure: str, statement: str, quantity: str) -> Claim:
    return Claim(
        statement=statement,
        quantity=f"rank correlation over all kinds of networks of {quantity} and the largest drop of train accuracy on "
        "the unaligned path",
        bound=at_most(-0.8),
        owner="derived",
        origin="pilot",
        reason="The paper says that not structural but effective symmetry breaking allows unaligned connectivity; it "
        "gives no number. Fewer than one in a hundred random orders of nine kinds have a correlation this low, but "
        "three of six kinds; the details tell the share of each value's own. The kinds of one sweep differ in σ_F "
        "alone and are no independent evidence.",
        tables=(table, "barriers.csv"),
        measure=partial(correlate, name=measure),
    )


CLAIMS = {
    "identifiability-thesis-identity": _claim(
        *("matching.csv", "way", "The more identifiable the neurons, the lower the unaligned barrier"),
        "how near the identity comes to the optimal matching",
    ),
    "identifiability-thesis-swap-cost": _claim(
        *("swap_costs.parquet", "cost", "The more it costs to swap two neurons, the lower the unaligned barrier"),
        "the median swap cost",
    ),
}
