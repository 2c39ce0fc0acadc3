"""Theorems 4.6 and 4.8: gaps of trained networks' fixed weights against the bounds on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.fig_11_centre_gaps import slope_over_draws
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.points import (
    color_entries,
    draw_points,
    fails,
    hollow_entry,
    say_left_out,
    say_points_left_out,
)
from symlab.papers.neuron_identifiability.rows import assumptions_hold
from symlab.papers.neuron_identifiability.swap_panels import name_dataset
from symlab.papers.neuron_identifiability.variants import label_all
from symlab.papers.neuron_identifiability.worst_rows import bound_claim, divide, find_worst
from symlab.plotting import style as plot
from symlab.plotting.log_axes import scale_log
from symlab.plotting.pairs import mean_std
from symlab.plotting.units import mean_line
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, between
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


GAPS = {"out": r"$\gamma_{\mathrm{out}}$ of neurons (Thm. 4.6)", "in": r"$\gamma_{\mathrm{in}}$ of inputs (Thm. 4.8)"}
SPREAD = 0.7
"""Share of the distance between two layers over which their networks are spread."""


def against_bounds(tables: Tables, style: plot.Style) -> Figure:
    """Figure thm4.8: gamma_out and gamma_in over their lower bounds by data set and layer, with the upper bound.

    Where centre gaps give it, a third panel has gamma_in against the width m with lines of slope 1/2.
    """
    rows, variants = label_all(need(tables, "network_gaps.csv"))
    none = (rows["gamma"] == 0) & (rows["sigma_F"].isna() | (rows["sigma_F"] == 0))
    # A gap of 0 (two inputs that are the same on all data) has no place on a logarithmic axis.
    ratio = divide(rows["gamma"], rows["lower"].where(rows["lower"] > 0))
    shown = rows.assign(ratio=ratio, reach=divide(rows["upper"], rows["lower"]))[ratio > 0]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with fixed weights, whose gaps are above 0; add one with "
            "scheme.sigma_F above 0."
        )
    looks = variant_looks(variants, style)
    widths = _widths(tables)
    gaps = [gap for gap in GAPS if gap in set(shown["gap"])]
    n_columns = len(gaps) + (widths is not None)
    figure, axes = plot.panels(1, n_columns, plot.PAGE, 3.4, sharex=False, sharey=False)
    for axis, gap in zip(axes[0], gaps, strict=False):
        _by_layer(axis, shown[shown["gap"] == gap], looks)
        axis.set_title(GAPS[gap])
    plot.name_axes(axes, "layer", "gap / lower bound")
    entries = [
        *color_entries(looks, shown),
        plot.line_entry("lower bound", linewidth=0.8),
        plot.mark_entry("upper bound", "_", markersize=7),
        *hollow_entry(fails(shown)),
    ]
    if widths is not None:
        entries += _against_width(axes[0, -1], widths)
    left = ~none & ~rows.index.isin(shown.index)
    sentences = [
        say_left_out(rows[none], rows, "F = 0 and with it the gaps"),
        say_points_left_out(rows[left], rows[~none], "where gap or bound is 0 or undefined"),
    ]
    plot.legend(figure, entries, plot.wrap_sentences(sentences, plot.PAGE, style))
    return figure


def _widths(tables: Tables) -> pd.DataFrame | None:
    table = tables.get("centre_gaps.csv")
    if table is None or "gamma_in" not in table:
        return None
    table = table[table["gamma_in"].notna() & (table["fixed_fraction"] == table["fixed_fraction"].max())]
    return table if table["m"].nunique() > 1 else None


def _by_layer(axis: Axes, rows: pd.DataFrame, looks: dict[str, plot.Look]) -> None:
    """Points with their upper bounds, the networks of a layer of a data set side by side."""
    places = rows[["dataset", "layer"]].drop_duplicates().sort_values("layer", kind="stable")
    places = places.sort_values(
        "dataset", key=lambda names: names.map(list(rows["dataset"].unique()).index), kind="stable"
    )
    positions = {place: index for index, place in enumerate(places.itertuples(index=False, name=None))}
    labels = [label for label in looks if label in set(rows["label"])]
    axis.axhline(1, color="0.4", linewidth=0.8, zorder=0)
    for label in labels:
        part = rows[rows["label"] == label]
        at = np.array([positions[place] for place in part[["dataset", "layer"]].itertuples(index=False, name=None)])
        x = at + (labels.index(label) - (len(labels) - 1) / 2) * SPREAD / len(labels)
        color = looks[label].color
        draw_points(axis, x, part["ratio"], fails(part), color, "o", label)
        axis.plot(x, part["reach"], color=color, linestyle="", marker="_", markersize=6, label=f"{label} upper")
    scale_log(np.array([axis]), "y")
    several = rows["dataset"].nunique() > 1
    axis.set_xticks(range(len(positions)), [str(layer) for _, layer in positions])
    axis.set_xlim(-0.6, len(positions) - 0.4)
    if several:
        for dataset, own in rows.groupby("dataset", sort=False):
            columns = [index for place, index in positions.items() if place[0] == dataset]
            middle, name = (columns[0] + columns[-1]) / 2, name_dataset(own).replace("Gaussian mixture, ", "")
            axis.annotate(
                name,
                (middle, 1),
                (0, -2),
                axis.get_xaxis_transform(),
                "offset points",
                ha="center",
                va="top",
                fontsize="small",
            )
            if columns[0]:
                axis.axvline(columns[0] - 0.5, color="0.85", linewidth=0.8, zorder=0)
        low, high = axis.get_ylim()
        axis.set_ylim(low, high * (high / low) ** 0.12)


def _against_width(axis: Axes, gaps: pd.DataFrame) -> list[Artist]:
    """gamma_in against m for each k, and the line of slope 1/2 from the smallest width's mean."""
    dimensions = sorted(gaps["k"].unique())
    colors = dict(zip(dimensions, plot.ordered_colors(len(dimensions)), strict=True))
    axis.set_xscale("log", base=2)
    for k, rows in gaps.groupby("k"):
        stats = mean_std(rows, "m", "gamma_in")
        mean_line(axis, stats, plot.Look(colors[k], "-", "o"), f"k = {k:g}", band=False)
        rate = stats["mean"].iloc[0] * (stats["m"] / stats["m"].iloc[0]) ** 0.5
        axis.plot(stats["m"], rate, color="0.3", linestyle=":", label=f"rate, k = {k:g}")
    scale_log(np.array([axis]), "y")
    ticks = sorted(gaps["m"].unique())
    plot.set_ticks(axis.xaxis, ticks[:: -(-len(ticks) // 4)])
    axis.set_title(r"$\gamma_{\mathrm{in}}$ of sampled $F$")
    axis.set_xlabel("width $m$ (neurons)")
    axis.set_ylabel(r"$\gamma_{\mathrm{in}}$ (weight norm)")
    axis.yaxis.label.set_visible(True)
    return [
        *(plot.line_entry(f"$k$ = {k:g}", color=colors[k]) for k in dimensions),
        plot.line_entry(r"slope 1/2", color="0.3", linestyle=":"),
    ]


def _seen(tables: Tables) -> str:
    table = tables["network_gaps.csv"]
    ratio = divide(table["gamma"], table["lower"].where(table["lower"] > 0))
    told = []
    for gap, name in (("out", "γ_out"), ("in", "γ_in")):
        own = ratio[(table["gap"] == gap) & assumptions_hold(table)].dropna()
        if len(own):
            told.append(f"{name} is {own.min():.2g} to {own.max():.2g} times its lower bound")
        else:
            told.append(f"the assumptions about {name} hold in no case")
    return f"Where the assumptions hold, {' and '.join(told)}."


FIGURES = (
    Drawing(
        "identifiability-thm4.8",
        "Gaps of trained networks and their bounds (Thms. 4.6, 4.8)",
        """\
Gaps of the fixed weights of trained networks over their lower bounds, by layer, study `{study}`: γ_out, the smallest
change of the projected centres that a swap of two neurons makes (Theorem 4.6), and γ_in, the smallest that a swap of
two inputs makes (Theorem 4.8), which has an upper bound too. A point is a network; points must lie above the line, and
below the dash. Hollow points: an assumption fails. A third panel, where centre gaps are measured, has γ_in of sampled
fixed weights against the width m (mean ± std over draws), which should grow as √m.
""",
        against_bounds,
        _seen,
        "The paper has no such figure.",
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
        case = f"{dataset}, σ_F = {sigma_F:g}, {100 * fraction:g} % fixed"
        gaps = rows[rows["m"] >= enough[rows.index]].pivot(index="m", columns="draw", values="gamma_in")
        if len(gaps) < 2:
            narrow.append(f"{case} from m = {enough[rows.index].min():.0f}")
            continue
        found.append(slope_over_draws(rows[rows["m"].isin(gaps.index)], "gamma_in", case))
    left = f"no two widths are large enough: {'; '.join(narrow)}"
    if not found:
        return [left]
    first, *others = found
    return [replace(first, detail=f"{first.detail}; {left}"), *others] if narrow else [*found]


CLAIMS = (
    bound_claim(
        id="identifiability-thm4.8-out",
        statement="The gap γ_out between a layer's projected centres is above the lower bound of Theorem 4.6",
        quantity="largest ratio of the bound to the gap",
        tables=("network_gaps.csv",),
        measure=gap_of_neurons,
    ),
    bound_claim(
        id="identifiability-thm4.8-in",
        statement="The gap γ_in of a layer's inputs lies between the bounds of Theorem 4.8",
        quantity="largest ratio of the lower bound to the gap, or of the gap to the upper bound",
        tables=("network_gaps.csv",),
        measure=gap_of_inputs,
    ),
    Claim(
        id="identifiability-thm4.8-growth",
        statement="The gap γ_in grows with the width m as √m",
        quantity="slope of log mean γ_in against log m, over the widths that are large beside log d",
        bound=between(0.4, 0.6),
        owner="derived",
        origin="ours",
        reason="Theorem 4.8 predicts 0.5 for m to infinity; at finite widths the least of many sums is small, which "
        "steepens the slope, by less than a fifth of it from these widths on.",
        tables=("centre_gaps.csv",),
        measure=growth_of_gamma_in,
        also=("identifiability-11",),
    ),
)
