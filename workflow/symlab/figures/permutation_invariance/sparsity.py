"""Sparsity of students against their width, by learning rate (Fig. 5), and against the learning rate (Figs. 6, 13)."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import (
    MARK_COLOR,
    ON_EDGE,
    OVER_PAIRS,
    PERMUTED,
    SOURCES,
    WIDTH,
    Curve,
    draw_curve,
    finish,
    grid,
    kept_pairs,
    key,
    log_barriers,
    lowest,
    mark_entries,
    mark_widths,
    matched_curves,
    mean_se,
    not_drawn,
    of_teacher,
    rate,
    rate_name,
    teacher_name,
    teachers,
    whole_numbers,
)
from symlab.plotting.style import (
    COLUMN,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    name_axes,
    ordered,
    palette,
    panels,
    wrapped,
)
from symlab.plotting.tables import need

OVER_RUNS = "mean ± s.e. over runs"
LR = "learning rate"
STABILITY = "stability limit (mean)"
CROSS: dict[str, Any] = {"marker": "x", "markersize": 5, "markeredgewidth": 1.4, "linestyle": ""}
STEP = 0.07
"""Height of a row of crosses above the curves, as a part of the panel."""


def by_neuron_against_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 5: PQ index of the row norms against m, by learning rate and of uniform samples, a panel an (M, d).

    Runs that diverged or missed zero loss are left out; a cross above the curves is a width at which all of a line did.
    """
    table = need(tables, "sparsity_runs.csv")
    trained = table[table["source"] != "uniform"]
    column, values = rate(trained)
    if trained.empty or len(values) < 2 or table["m"].nunique() < 2:
        raise UserError(
            f"{key(table, 'sparsity')} needs trained runs of at least two values of c (or lr) and two of m."
        )
    lines: dict[str, LineStyleType] = {"gd": "-", "sgd": ":"}
    looks = {
        (source, value): Look(color, line, marker)
        for source, line in lines.items()
        if source in set(trained["source"])
        for value, color, marker in zip(values, ordered(len(values)), "osD^vPX" * len(values), strict=False)
    }
    several = trained["source"].nunique() > 1
    labels = {
        (source, value): rate_name(column, value) + (f", {SOURCES[source]}" if several else "")
        for source, value in looks
    }
    uniform = Look(palette(style)[1], (0, (4, 1.5)), "*")
    places = teachers(table)
    figure, axes, width = grid(len(places), sharex="all")
    crossed = False
    for axis, place in zip(axes.flat, places, strict=False):
        rows = of_teacher(table, *place)
        diverged = []
        for (source, value), look in looks.items():
            part = rows[(rows["source"] == source) & ((rows[column] - value).abs() < 1e-5 * abs(value))]
            runs = part[part["kept"].astype(bool)]
            draw_curve(axis, Curve(mean_se(runs, "m", "pq_rows"), look, labels[source, value]))
            gone = sorted(set(part["m"]) - set(runs["m"]))
            if gone:
                diverged.append((look, gone))
        sampled = mean_se(rows[rows["source"] == "uniform"], "m", "pq_rows")
        if len(sampled):
            draw_curve(axis, Curve(sampled, uniform, SOURCES["uniform"]))
        crossed |= bool(diverged)
        _crosses(axis, diverged)
        whole_numbers(axis)
        mark_widths(axis, place[0])
        axis.set_title(teacher_name(*place), pad=6)
    used = finish(axes, len(places), WIDTH, "PQ index of row norms")
    entries = handles({labels[line]: look for line, look in looks.items()})
    if (table["source"] == "uniform").any():
        entries += handles({SOURCES["uniform"]: uniform})
    if crossed:
        entries.append(Line2D([], [], color="0.4", label="no run reached a minimum", **CROSS))
    entries += mark_entries(used)
    legend(figure, entries, wrapped([_rate_note(column), _left_out(trained)], width, style))
    return figure


def _rate_note(column: str) -> str:
    return f"lr = $c\\,d / m$; {OVER_RUNS}" if column == "c" else OVER_RUNS


def _left_out(trained: pd.DataFrame) -> str:
    lost = int((~trained["kept"].astype(bool)).sum())
    return not_drawn(lost, len(trained), "trained runs", "they diverged or ended with a loss above 1e-5")


def _crosses(axis: Axes, lines: list[tuple[Look, list[float]]]) -> None:
    """Rows of crosses above everything drawn so far, one of each line that has any."""
    bottom, top = axis.get_ylim()
    part = STEP * len(lines)
    axis.set_ylim(bottom, bottom + (top - bottom) / (1 - part))
    for row, (look, x) in enumerate(lines):
        heights, up = [1 - STEP * (row + 0.5)] * len(x), axis.get_xaxis_transform()
        axis.plot(x, heights, color=look.color, transform=up, label="crosses", clip_on=False, **CROSS)


def against_learning_rate(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 6: PQ index of all entries (and of those above 1e-3), and below it the number of zero rows, against lr.

    A column an (M, d, m). The vertical line is 2 / lambda_max of the Hessian, mean over runs that ended without zero
    rows. Runs that diverged or missed zero loss are left out; a cross is a learning rate at which some diverged.
    """
    table = need(tables, "learning_rates_runs.csv")
    trained = table[table["source"] != "uniform"]
    _check_rates(table, trained)
    colors = palette(style)
    indices = {
        "pq_entries": ("all entries", Look(colors[0], "-", "o")),
        "pq_entries_cleaned": ("entries below $10^{-3}$ set to 0", Look(colors[2], "--", "s")),
    }
    zero = Look(colors[3], "-", "^")
    students = _students(trained)
    width = 1.5 * COLUMN if len(students) == 1 else PAGE
    figure, axes = panels(2, len(students), width, 4.6, sharex="col", sharey="row")
    limits, crossed = False, False
    for (above, below), (student, rows) in zip(axes.T, students.items(), strict=True):
        diverged = rows["diverged"].astype(bool)
        runs = rows[rows["kept"].astype(bool)]
        for column, (label, look) in indices.items():
            draw_curve(above, Curve(mean_se(runs, "lr", column), look, label))
        draw_curve(below, Curve(mean_se(runs, "lr", "zero_rows"), zero, "zero rows"))
        limit = runs.loc[runs["zero_rows"] == 0, "stability_limit"].mean()
        for axis in (above, below):
            if pd.notna(limit):
                limits = True
                axis.axvline(limit, color=MARK_COLOR, linestyle=(0, (1, 1.2)), zorder=0, linewidth=1.0, label=STABILITY)
        if diverged.any():
            crossed = True
            _crosses(above, [(Look((0.3, 0.3, 0.3)), sorted(rows.loc[diverged, "lr"].unique()))])
        above.set_title(student, pad=6)
        below.set_ylim(-0.05, max(1.0, below.get_ylim()[1]))
    name_axes(axes, LR, "zero rows of $W$")
    for above in axes[0]:
        above.set_ylabel("PQ index of entries")
    entries = handles({label: look for label, look in indices.values()} | {"zero rows": zero})
    if limits:
        entries.append(
            Line2D([], [], color=MARK_COLOR, linestyle=(0, (1, 1.2)), lw=1.0, label=r"$2/\lambda_{\max}$, no zero rows")
        )
    if crossed:
        entries.append(Line2D([], [], color="0.3", label="some or all runs diverged", **CROSS))
    legend(figure, entries, wrapped([OVER_RUNS, _left_out(trained)], width, style))
    return figure


def barrier_against_learning_rate(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 13: permuted barrier of trained students against the learning rate, a panel an (M, d, m)."""
    table = need(tables, "learning_rates_barriers.csv")
    trained = table[table["source"] != "uniform"]
    _check_rates(table, trained)
    rows, missing = kept_pairs(trained, "learning_rates")
    students = _students(rows)
    curves = {
        student: [curve for drawn in matched_curves(part, "lr", style) for curve in drawn]
        for student, part in students.items()
    }
    floor = lowest(curve for of_student in curves.values() for curve in of_student)
    figure, axes, width = grid(len(students), sharex="all")
    for axis, (student, of_student) in zip(axes.flat, curves.items(), strict=False):
        for curve in of_student:
            draw_curve(axis, curve, floor)
        axis.set_title(student)
    log_barriers(axes)
    finish(axes, len(students), LR, PERMUTED)
    edge = any((curve.stats["mean"] < floor).any() for of_student in curves.values() for curve in of_student)
    entries = handles({curve.label: curve.look for of_student in curves.values() for curve in of_student})
    legend(figure, entries, wrapped([OVER_PAIRS, missing, ON_EDGE if edge else ""], width, style))
    return figure


def _check_rates(table: pd.DataFrame, trained: pd.DataFrame) -> None:
    if trained["lr"].nunique() < 3:
        raise UserError(f"{key(table, 'learning_rates')} needs trained runs of at least three values of lr.")


def _students(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each (M, d, m) by its name in titles."""
    return {
        f"{teacher_name(int(M), int(d))}, $m$ = {m}": part
        for (M, d, m), part in rows.groupby(["M", "d", "m"], sort=False)
    }
