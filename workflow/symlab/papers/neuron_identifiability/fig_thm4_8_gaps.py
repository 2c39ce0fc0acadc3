"""Theorems 4.6 and 4.8: gaps of trained networks' fixed weights against the bounds on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, between, slope, spread, stated
from symlab.papers.neuron_identifiability.worst_rows import EXACT, NO_ALLOWANCE, divide, find_worst
from symlab.plotting.points import (
    assign_markers,
    color_entries,
    draw_points,
    fails,
    floor_of,
    hollow_entry,
    raise_to_floor,
    say_left_out,
    scale_log,
)
from symlab.plotting.rows import label_all, mean_std, need, where
from symlab.plotting.style import (
    PAGE,
    Look,
    Style,
    leave_out,
    legend,
    line_entry,
    mark_entry,
    mean_line,
    name_axes,
    name_row,
    ordered_colors,
    panels,
    set_ticks,
    variant_looks,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


GAPS = {
    "out": (r"$\gamma_{\mathrm{out}}$ of neurons (Thm. 4.6)", "out"),
    "in": (r"$\gamma_{\mathrm{in}}$ of inputs (Thm. 4.8)", "in"),
}
SPREAD = 0.7
"""Share of the distance between two layers over which their networks are spread."""


def against_bounds(tables: Tables, style: Style) -> Figure:
    """Figure thm4.8: gamma_out and gamma_in by layer with their bounds, a row a data set.

    Where centre gaps give it, a third panel has gamma_in against the width m with lines of slope 1/2.
    """
    rows, variants = label_all(need(tables, "network_gaps.csv"))
    fixed = rows[~((rows["gamma"] == 0) & (rows["sigma_F"].isna() | (rows["sigma_F"] == 0)))]
    if fixed.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with fixed weights, whose gaps are above 0; add one with "
            "scheme.sigma_F above 0."
        )
    looks = variant_looks(variants, style)
    widths = _widths(tables)
    gaps = [gap for gap in GAPS if gap in set(fixed["gap"])]
    datasets = list(fixed["dataset"].unique())
    n_columns = len(gaps) + (widths is not None)
    figure, axes = panels(len(datasets), n_columns, PAGE, 1.4 + 1.9 * len(datasets), sharex=False, sharey=False)
    edge = False
    for row, dataset in enumerate(datasets):
        for column, gap in enumerate(gaps):
            part = fixed[(fixed["dataset"] == dataset) & (fixed["gap"] == gap)]
            edge |= _by_layer(axes[row, column], part, looks, 72 * (PAGE - 1) / n_columns)
            if row == 0:
                axes[row, column].set_title(GAPS[gap][0])
        if len(datasets) > 1:
            name_row(axes[row, len(gaps) - 1], dataset)
    name_axes(axes, "layer", "gap (weight norm)")
    entries = [
        *color_entries(looks, fixed),
        mark_entry("lower and upper bound", "_", markersize=7),
        *hollow_entry(fails(fixed)),
    ]
    if edge:
        entries.append(mark_entry("at the edge: 0 up to rounding", "v"))
    if widths is not None:
        entries += _against_width(axes[0, -1], widths)
        leave_out(axes, [n_columns, *[len(gaps)] * (len(datasets) - 1)])
    missing = rows[~rows.index.isin(fixed.index)]
    legend(figure, entries, wrap_sentences([say_left_out(missing, rows, "F = 0 and with it the gaps")], PAGE, style))
    return figure


def _widths(tables: Tables) -> pd.DataFrame | None:
    table = tables.get("centre_gaps.csv")
    if table is None or "gamma_in" not in table:
        return None
    table = table[table["gamma_in"].notna()]
    return table if table["m"].nunique() > 1 else None


def _by_layer(axis: Axes, rows: pd.DataFrame, looks: dict[str, Look], width: float) -> bool:
    """Points with their bounds, side by side within a layer; whether some lie on the lower edge.

    ``width`` is the panel's in points of print, whose marks shrink where they are many.
    """
    floor = floor_of(rows[["gamma", "lower", "upper"]].to_numpy().ravel())
    layers = sorted(rows["layer"].unique())
    labels = [label for label in looks if label in set(rows["label"])]
    most = rows.groupby("label")[["mask_seed", "seed"]].apply(lambda part: len(part.drop_duplicates())).max()
    room = SPREAD * width / (len(layers) * len(labels) * most)
    bar, size = max(2.0, min(6.0, room)), max(2.0, min(3.5, room))
    for label in labels:
        of_label = rows[rows["label"] == label]
        networks = of_label.groupby(["mask_seed", "seed"]).ngroup()
        n = int(networks.max()) + 1
        step = SPREAD / (len(labels) * n)
        offset = (labels.index(label) - (len(labels) - 1) / 2) * SPREAD / len(labels)
        x = of_label["layer"] + offset + (networks - (n - 1) / 2) * step
        gamma, lower, upper = (raise_to_floor(of_label[name], floor) for name in ("gamma", "lower", "upper"))
        color, hollow = looks[label].color, fails(of_label)
        ends = np.array([gamma, lower, upper])
        axis.vlines(x, np.nanmin(ends, axis=0), np.nanmax(ends, axis=0), color=color, lw=0.8, alpha=0.6)
        for bound, name in ((lower, "lower"), (upper, "upper")):
            axis.plot(x, bound, color=color, linestyle="", marker="_", markersize=bar, label=f"{label} {name}")
        at_edge = (of_label["gamma"] < floor).to_numpy()
        for chosen, marker in ((~at_edge, "o"), (at_edge, "v")):
            draw_points(axis, x[chosen], gamma[chosen], hollow[chosen], color, marker, label, size)
    scale_log(np.array([axis]), "y")
    axis.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)
    axis.set_xticks(layers)
    return bool((rows["gamma"] < floor).any())


def _against_width(axis: Axes, gaps: pd.DataFrame) -> list[Artist]:
    """gamma_in against m for each k and fixed fraction, and the line of slope 1/2 from the smallest width's mean."""
    dimensions, fractions = sorted(gaps["k"].unique()), sorted(gaps["fixed_fraction"].unique())
    colors = dict(zip(dimensions, ordered_colors(len(dimensions)), strict=True))
    marks = assign_markers(fractions)
    axis.set_xscale("log", base=2)
    for (k, fraction), rows in gaps.groupby(["k", "fixed_fraction"]):
        stats = mean_std(rows, "m", "gamma_in")
        mean_line(axis, stats, Look(colors[k], "-", marks[fraction]), f"k = {k:g}, {fraction:g} fixed", band=False)
        rate = stats["mean"].iloc[0] * (stats["m"] / stats["m"].iloc[0]) ** 0.5
        axis.plot(stats["m"], rate, color="0.3", linestyle=":", label=f"rate, k = {k:g}, {fraction:g} fixed")
    scale_log(np.array([axis]), "y")
    ticks = sorted(gaps["m"].unique())
    set_ticks(axis.xaxis, ticks[:: -(-len(ticks) // 4)])
    axis.set_title(r"$\gamma_{\mathrm{in}}$ of sampled $F$")
    axis.set_xlabel("width $m$ (neurons)")
    axis.xaxis.label.set_visible(True)
    return [
        *(line_entry(f"$k$ = {k:g}", color=colors[k]) for k in dimensions),
        *(mark_entry(f"{100 * fraction:g} % fixed", marks[fraction]) for fraction in fractions),
        line_entry(r"slope 1/2", color="0.3", linestyle=":"),
    ]


FIGURES = (
    Drawing(
        "identifiability-thm4.8",
        "Gaps of trained networks and their bounds (Thms. 4.6, 4.8)",
        """\
Gaps of the fixed weights in trained networks, by layer, study `{study}`: γ_out, the smallest change of the projected
centres that a swap of two neurons makes (Theorem 4.6), and γ_in, the smallest that a swap of two inputs makes
(Theorem 4.8). Points are networks, side by side within a layer; horizontal marks are the lower bound and, for γ_in,
the upper one, joined to the point by a vertical line. Hollow points: an assumption of the theorem fails. Triangles at
the lower edge are gaps that are 0 up to rounding: two inputs, such as pixels that are always black, are the same on
all data. Networks without fixed weights have no gap and are named above.

Filled points should lie between their bounds. If the study measures centre gaps, a third panel has γ_in of sampled
fixed weights against the width m, with error bars over draws and dotted lines of slope 1/2 through the mean at the
smallest width: γ_in should grow like √m, so wide layers tell their inputs apart better and better, while γ_out
shrinks with width (Figure 11).
""",
        against_bounds,
    ),
)


def gap_of_neurons(tables: Tables) -> list[Found]:
    """Largest ratio of Thm. 4.6's lower bound to gamma_out."""
    table = tables["network_gaps.csv"]
    table = table[table["gap"] == "out"]
    return find_worst(table, divide(table["lower"], table["gamma"]))


def gap_of_inputs(tables: Tables) -> list[Found]:
    """Largest ratio of Thm. 4.8's lower bound to gamma_in, or of gamma_in to its upper bound."""
    table = tables["network_gaps.csv"]
    table = table[table["gap"] == "in"]
    ratios = pd.DataFrame(
        {"low": divide(table["lower"], table["gamma"]), "high": divide(table["gamma"], table["upper"])}
    )
    return find_worst(table, ratios.max(axis="columns", skipna=False))


def growth_of_gamma_in(tables: Tables) -> list[Found]:
    """Least-squares slope of log(mean gamma_in over draws) against log m, for each setting of F and data set.

    Over the widths m >= 12 (1/p + 1) log(d^2), p the fraction of fixed entries: Thm. 4.8 needs m to be large beside
    log(d^2) and the fourth moment of F's entries. The difference z of two entries has E z^4 / (E z^2)^2 =
    1.5 (1/p + 1), and from that width on, the least of the d^2 / 2 sums of m squares is above half its mean.
    """
    table = tables["centre_gaps.csv"]
    enough = 12 * (1 / table["fixed_fraction"] + 1) * np.log(table["d"].astype(float) ** 2)
    found, narrow = [], []
    for (dataset, sigma_F, fraction), rows in table.groupby(["dataset", "sigma_F", "fixed_fraction"], sort=False):
        case = f"{dataset}, sigma_F = {sigma_F:g}, fixed_fraction = {fraction:g}"
        gaps = rows[rows["m"] >= enough[rows.index]].pivot(index="m", columns="draw", values="gamma_in")
        if len(gaps) < 2:
            narrow.append(f"{case} from m = {enough[rows.index].min():.0f}")
            continue
        of_draws = np.array([slope(gaps[draw]) for draw in gaps])
        value = slope(gaps.mean(axis="columns", skipna=False))
        told = f"m = {gaps.index.min():g} to {gaps.index.max():g}"
        found.append(Measurement(value, len(of_draws), spread(of_draws), case, told))
    left = f"no two widths are large enough: {'; '.join(narrow)}"
    if not found:
        return [left]
    return [replace(each, detail=f"{each.detail}; {left}") for each in found] if narrow else [*found]


GROWTH_IN = between(0.4, 0.6)
CLAIMS = (
    stated(
        "identifiability-thm4.8-out",
        "identifiability-thm4.8",
        "The gap gamma_out between a layer's projected centres is above the lower bound of Theorem 4.6: "
        "largest ratio of the bound to the gap",
        EXACT,
        NO_ALLOWANCE,
        "network_gaps.csv",
        gap_of_neurons,
    ),
    stated(
        "identifiability-thm4.8-in",
        "identifiability-thm4.8",
        "The gap gamma_in of a layer's inputs lies between the bounds of Theorem 4.8: "
        "largest ratio of the lower bound to the gap, or of the gap to the upper bound",
        EXACT,
        NO_ALLOWANCE,
        "network_gaps.csv",
        gap_of_inputs,
    ),
    stated(
        "identifiability-thm4.8-growth",
        "identifiability-thm4.8",
        "The gap gamma_in grows with the width m as m^(1/2): slope of log mean gamma_in against log m, "
        "over the widths that are large beside log d",
        GROWTH_IN,
        "Theorem 4.8 predicts 0.5 for m to infinity; at finite widths the least of many sums is small, which steepens "
        "the slope, by less than a fifth of it from these widths on.",
        "centre_gaps.csv",
        growth_of_gamma_in,
        also=("identifiability-11",),
    ),
)
