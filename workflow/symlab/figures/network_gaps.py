"""Gaps of trained networks' fixed weights against the bounds on them (Thms. 4.6 and 4.8)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from symlab.errors import UserError
from symlab.plotting.points import (
    colors_of,
    fails,
    floor_of,
    floored,
    hollow_entry,
    left_out,
    log_scale,
    markers,
    points,
    with_labels,
)
from symlab.plotting.style import (
    PAGE,
    Look,
    Style,
    leave_out,
    legend,
    mean_line,
    name_axes,
    name_row,
    ordered,
    panels,
    variant_looks,
    wrapped,
)
from symlab.plotting.tables import mean_std, need, where

GAPS = {
    "out": (r"$\gamma_{\mathrm{out}}$ of neurons (Thm. 4.6)", "out"),
    "in": (r"$\gamma_{\mathrm{in}}$ of inputs (Thm. 4.8)", "in"),
}
SPREAD = 0.7
"""Share of the distance between two layers over which their networks are spread."""


def against_bounds(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure thm4.8: gamma_out and gamma_in by layer with their bounds, a row a data set.

    Where centre gaps give it, a third panel has gamma_in against the width m with lines of slope 1/2.
    """
    rows, variants = with_labels(need(tables, "network_gaps.csv"))
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
        *colors_of(looks, fixed),
        Line2D([], [], color="0.4", linestyle="", marker="_", markersize=7, label="lower and upper bound"),
        *hollow_entry(fails(fixed)),
    ]
    if edge:
        entries.append(Line2D([], [], color="0.4", linestyle="", marker="v", label="at the edge: 0 up to rounding"))
    if widths is not None:
        entries += _against_width(axes[0, -1], widths)
        leave_out(axes, [n_columns, *[len(gaps)] * (len(datasets) - 1)])
    missing = rows[~rows.index.isin(fixed.index)]
    legend(figure, entries, wrapped([left_out(missing, rows, "F = 0 and with it the gaps")], PAGE, style))
    return figure


def _widths(tables: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
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
        gamma, lower, upper = (floored(of_label[name], floor) for name in ("gamma", "lower", "upper"))
        color, hollow = looks[label].color, fails(of_label)
        ends = np.array([gamma, lower, upper])
        axis.vlines(x, np.nanmin(ends, axis=0), np.nanmax(ends, axis=0), color=color, lw=0.8, alpha=0.6)
        for bound, name in ((lower, "lower"), (upper, "upper")):
            axis.plot(x, bound, color=color, linestyle="", marker="_", markersize=bar, label=f"{label} {name}")
        below = (of_label["gamma"] < floor).to_numpy()
        for chosen, marker in ((~below, "o"), (below, "v")):
            points(axis, x[chosen], gamma[chosen], hollow[chosen], color, marker, label, size)
    log_scale(np.array([axis]), "y")
    axis.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)
    axis.set_xticks(layers)
    return bool((rows["gamma"] < floor).any())


def _against_width(axis: Axes, gaps: pd.DataFrame) -> list[Artist]:
    """gamma_in against m for each k and fixed fraction, and the line of slope 1/2 from the smallest width's mean."""
    dimensions, fractions = sorted(gaps["k"].unique()), sorted(gaps["fixed_fraction"].unique())
    colors = dict(zip(dimensions, ordered(len(dimensions)), strict=True))
    marks = markers(fractions)
    axis.set_xscale("log", base=2)
    for (k, fraction), rows in gaps.groupby(["k", "fixed_fraction"]):
        stats = mean_std(rows, "m", "gamma_in")
        mean_line(axis, stats, Look(colors[k], "-", marks[fraction]), f"k = {k:g}, {fraction:g} fixed", band=False)
        rate = stats["mean"].iloc[0] * (stats["m"] / stats["m"].iloc[0]) ** 0.5
        axis.plot(stats["m"], rate, color="0.3", linestyle=":", label=f"rate, k = {k:g}, {fraction:g} fixed")
    log_scale(np.array([axis]), "y")
    ticks = sorted(gaps["m"].unique())
    axis.xaxis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // 4)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_title(r"$\gamma_{\mathrm{in}}$ of sampled $F$")
    axis.set_xlabel("width $m$ (neurons)")
    axis.xaxis.label.set_visible(True)
    return [
        *(Line2D([], [], color=colors[k], label=f"$k$ = {k:g}") for k in dimensions),
        *(
            Line2D([], [], color="0.4", linestyle="", marker=marks[fraction], label=f"{100 * fraction:g} % fixed")
            for fraction in fractions
        ),
        Line2D([], [], color="0.3", linestyle=":", label=r"slope 1/2"),
    ]
