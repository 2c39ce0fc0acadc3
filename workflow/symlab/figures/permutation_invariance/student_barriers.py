"""Barriers between students against their width: one teacher, several, and widths below the teacher's (Figs. 2-4, 10).

Barriers are in units of the population loss; ``direct`` is of the students as they are, ``permuted`` after matching.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import (
    BARRIER,
    ON_EDGE,
    OVER_PAIRS,
    PERMUTED,
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
    matched_curves,
    named,
    of_teacher,
    one_rate,
    source_looks,
    teacher_name,
    teachers,
    whole_numbers,
)
from symlab.plotting.points import log_scale
from symlab.plotting.style import (
    COLUMN,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    name_axes,
    ordered,
    panels,
    wrapped,
)
from symlab.plotting.tables import need

WIDTHS = "widths_barriers.csv"
RATIO = "student over teacher width $m / M$"


def against_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 2: barriers of the first (M, d) against m > M, trained students and uniform samples, direct and permuted."""
    table = need(tables, WIDTHS)
    return _above_teacher(table, teachers(table)[:1], style)


def by_teacher(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 10: as ``against_width``, a panel a teacher (M, d)."""
    table = need(tables, WIDTHS)
    if len(teachers(table)) < 2:
        raise UserError(f"{key(table, 'widths')} has one teacher (M, d) only; make it a list of grids with other M, d.")
    return _above_teacher(table, teachers(table), style)


def _above_teacher(table: pd.DataFrame, places: list[tuple[int, int]], style: Style) -> Figure:
    above = table[(table["m"] > table["M"]) & _is_any(table, places)]
    for M, d in places:
        if of_teacher(above, M, d)["m"].nunique() < 3:
            raise UserError(f"{key(table, 'widths')} needs at least three widths m above M = {M} (with d = {d}).")
    kept, missing = kept_pairs(above, "widths")
    rows, rates = one_rate(kept)
    looks = source_looks(rows["source"], style)
    curves = {place: barrier_curves(of_teacher(rows, *place), "m", looks) for place in places}
    floor = lowest(curve for of_place in curves.values() for curve in of_place)
    figure, axes, width = grid(len(places))
    for axis, (M, d) in zip(axes.flat, places, strict=False):
        for curve in curves[M, d]:
            draw_curve(axis, curve, floor)
        axis.set_xlim(left=M - 0.06 * (of_teacher(rows, M, d)["m"].max() - M))
        mark_widths(axis, M)
        whole_numbers(axis)
        axis.set_title(teacher_name(M, d))
    log_barriers(axes)
    used = finish(axes, len(places), WIDTH, BARRIER)
    edge = ON_EDGE if any((curve.stats["mean"] < floor).any() for every in curves.values() for curve in every) else ""
    entries = [*handles(named(looks)), *mark_entries(used)]
    legend(figure, entries, wrapped([joined(OVER_PAIRS, rates), missing, edge], width, style))
    return figure


def _is_any(table: pd.DataFrame, places: list[tuple[int, int]]) -> pd.Series:
    """Which rows are of one of some (M, d)."""
    return pd.Series([place in places for place in zip(table["M"], table["d"], strict=True)], index=table.index)


def ratio_against_relative_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 3: mean permuted over mean direct barrier of uniform samples against m / M > 1, a line an M.

    Bars are the standard error of a ratio of means to first order, from the residuals permuted - ratio * direct.
    """
    table = need(tables, "ratios_barriers.csv")
    rows = table[(table["source"] == "uniform") & (table["m"] > table["M"])]
    if rows.groupby("M")["m"].nunique().max() < 3 or rows.empty:
        raise UserError(f"{key(table, 'ratios')} needs uniform pairs at three values of ratio above 1 at least.")
    sizes = sorted(rows["M"].unique())
    width = 1.5 * COLUMN
    figure, axes = panels(1, 1, width, 3.4)
    axis: Axes = axes[0, 0]
    looks = {
        f"$M$ = {M}": Look(color, "-", marker)
        for M, color, marker in zip(sizes, ordered(len(sizes)), "os^DvPX*" * len(sizes), strict=False)
    }
    curves = [
        Curve(_ratios(rows[rows["M"] == M]), look, label) for M, (label, look) in zip(sizes, looks.items(), strict=True)
    ]
    floor = lowest(curves)
    for curve in curves:
        draw_curve(axis, curve, floor)
    mark_widths(axis, 1)
    log_scale(axes, "y")
    name_axes(axes, RATIO, "permuted / direct barrier")
    legend(figure, [*handles(looks), *mark_entries([axis])], "ratio of the means over pairs ± s.e.")
    return figure


def _ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns ratio (m / M), mean (ratio of mean barriers) and se at each width of one M."""
    found = []
    for m, part in rows.groupby("m"):
        direct, permuted = part["direct"].to_numpy(dtype=float), part["permuted"].to_numpy(dtype=float)
        ratio = permuted.mean() / direct.mean()
        residuals = permuted - ratio * direct
        se = residuals.std(ddof=1) / np.sqrt(len(part)) / direct.mean() if len(part) > 1 else 0.0
        found.append({"ratio": float(m) / part["M"].iloc[0], "mean": ratio, "se": se})
    return pd.DataFrame(found)


def below_and_above(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 4: permuted barrier of trained students against m, below and above M, by types; below M also by Hungarian.

    All widths on a logarithmic axis, those from M on a linear one, since the first branch is many times higher.
    """
    table = need(tables, WIDTHS)
    trained = table[table["source"] != "uniform"]
    places = [
        (M, d)
        for M, d in teachers(trained)
        if (of_teacher(trained, M, d)["m"] < M).any() and (of_teacher(trained, M, d)["m"] > M).any()
    ]
    if not places:
        raise UserError(
            f"{key(table, 'widths')} needs trained runs at widths m below M and above it; extend m and set runs."
        )
    M, d = places[0]
    kept, missing = kept_pairs(of_teacher(trained, M, d), "widths")
    rows, rates = one_rate(kept)
    curves, hungarian = matched_curves(rows, "m", style, rows[rows["m"] < M], " ($m < M$)")
    floor = lowest([*curves, *hungarian])
    figure, axes = panels(1, 2, PAGE, 3.6, sharex="none", sharey="none")
    left, right = axes[0]
    for curve in (*curves, *hungarian):
        draw_curve(left, curve, floor)
    for curve in curves:
        stats = curve.stats[curve.stats["m"] >= M]
        draw_curve(right, Curve(stats, curve.look, curve.label))
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    right.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    left.set_title("all widths", pad=14)
    right.set_title(r"$m \geq M$, linear scale", pad=14)
    for axis in (left, right):
        mark_widths(axis, M)
        whole_numbers(axis)
    log_barriers(axes[:, :1])
    name_axes(axes, WIDTH, PERMUTED)
    right.yaxis.label.set_visible(True)
    edge = ON_EDGE if any((curve.stats["mean"] < floor).any() for curve in (*curves, *hungarian)) else ""
    looks = {curve.label: curve.look for curve in (*curves, *hungarian)}
    sentences = [joined(teacher_name(M, d), OVER_PAIRS, rates), missing, edge]
    legend(figure, [*handles(looks), *mark_entries(axes.flat)], wrapped(sentences, PAGE, style))
    return figure
