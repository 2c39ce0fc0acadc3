"""Barriers between students by input dimension d (Fig. 11) and by the teacher's width M (Fig. 12)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import (
    BARRIER,
    ON_EDGE,
    OVER_PAIRS,
    WIDTH,
    Curve,
    barrier_curves,
    draw_curve,
    finish,
    grid,
    joined,
    kept_pairs,
    key,
    log_barriers,
    lowest,
    mark_entries,
    mark_widths,
    named,
    one_rate,
    source_looks,
    whole_numbers,
)
from symlab.plotting.style import PAGE, Style, handles, legend, wrapped
from symlab.plotting.tables import need

SLOPE = r"slope $-1$"


def by_dimension(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 11: barriers of the first M against m, a panel a d, and in the last panel against d at the m nearest 2M."""
    table = need(tables, "dimensions_barriers.csv")
    of_M = table[table["M"] == table["M"].iloc[0]]
    if of_M["d"].nunique() < 2:
        raise UserError(f"{key(table, 'dimensions')} needs at least two values of d.")
    kept, missing = kept_pairs(of_M[of_M["m"] > of_M["M"]], "dimensions")
    rows, rates = one_rate(kept)
    M, dimensions = int(rows["M"].iloc[0]), sorted(rows["d"].unique())
    # A source may be there at some d alone, e.g. trained students.
    m = min(sorted(rows["m"].unique()), key=lambda m: abs(m - 2 * M))
    looks = source_looks(rows["source"], style)
    of_dimension = {d: barrier_curves(rows[rows["d"] == d], "m", looks) for d in dimensions}
    across = barrier_curves(rows[rows["m"] == m], "d", looks)
    floor = lowest([*across, *(curve for curves in of_dimension.values() for curve in curves)])
    n = len(dimensions) + 1
    figure, axes, _ = grid(n, sharey="all")
    for index, (axis, (d, curves)) in enumerate(zip(axes.flat, of_dimension.items(), strict=False)):
        for curve in curves:
            draw_curve(axis, curve, floor)
        mark_widths(axis, M)
        whole_numbers(axis)
        axis.set_title(f"{_letter(index)}   $d$ = {d}", loc="left")
    last: Axes = axes.flat[n - 1]
    for curve in across:
        draw_curve(last, curve, floor)
    _reference(last, across)
    last.set_title(f"{_letter(n - 1)}   $m$ = {m}", loc="left")
    last.set_xscale("log")
    last.xaxis.set_minor_locator(NullLocator())
    last.xaxis.set_major_locator(FixedLocator(_spread(dimensions)))
    last.xaxis.set_major_formatter("{x:g}")
    log_barriers(axes)
    used = finish(axes, n, WIDTH, BARRIER)
    last.set_xlabel("input dimension $d$")
    for axis in used:
        axis.xaxis.label.set_visible(True)
    edge = any((curve.stats["mean"] < floor).any() for curves in (across, *of_dimension.values()) for curve in curves)
    entries = [
        *handles(named(looks)),
        Line2D([], [], color="0.6", linewidth=1.2, label=SLOPE),
        *mark_entries(used),
    ]
    sentences = [joined(f"$M$ = {M}", OVER_PAIRS, rates), missing, ON_EDGE if edge else ""]
    legend(figure, entries, wrapped(sentences, PAGE, style))
    return figure


def _letter(index: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[index % 26]


def _spread(values: list[int]) -> list[int]:
    """At most five of the values, first and last among them: more labels would touch."""
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), 4)).round().astype(int))
    return [values[index] for index in chosen]


def _reference(axis: Axes, curves: list[Curve]) -> None:
    """A line of slope -1 through the logarithmic mean of all points of some curves against d."""
    points = np.concatenate([curve.stats[["d", "mean"]].to_numpy(dtype=float) for curve in curves])
    points = points[points[:, 1] > 0]
    height = np.exp(np.log(points).sum(axis=1).mean())
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    axis.plot(ends, height / ends, color="0.6", linewidth=1.2, zorder=0, label=SLOPE)


def by_teacher_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 12: barriers against m / M > 1 at the first d, a panel an M."""
    table = need(tables, "teachers_barriers.csv")
    of_d = table[(table["d"] == table["d"].iloc[0]) & (table["m"] > table["M"])]
    if of_d["M"].nunique() < 2:
        raise UserError(f"{key(table, 'teachers')} needs at least two values of M, with widths m above each.")
    kept, missing = kept_pairs(of_d, "teachers")
    rows, rates = one_rate(kept.assign(relative=kept["m"] / kept["M"]))
    looks = source_looks(rows["source"], style)
    curves = {M: barrier_curves(part, "relative", looks) for M, part in rows.groupby("M")}
    floor = lowest(curve for of_M in curves.values() for curve in of_M)
    figure, axes, width = grid(len(curves), sharex="all")
    for axis, (M, of_M) in zip(axes.flat, curves.items(), strict=False):
        for curve in of_M:
            draw_curve(axis, curve, floor)
        axis.set_title(f"$M$ = {M}")
    log_barriers(axes)
    used = finish(axes, len(curves), "relative width $m / M$", BARRIER)
    for axis in used:
        mark_widths(axis, 1)
    edge = any((curve.stats["mean"] < floor).any() for of_M in curves.values() for curve in of_M)
    sentences = [joined(f"$d$ = {rows['d'].iloc[0]}", OVER_PAIRS, rates), missing, ON_EDGE if edge else ""]
    legend(figure, [*handles(named(looks)), *mark_entries(used)], wrapped(sentences, width, style))
    return figure
