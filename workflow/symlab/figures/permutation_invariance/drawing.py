"""What the figures of students share: the looks of their sources, means with standard errors, marks, what is left out.

A source is how a student came about: "gd" (gradient descent on the population loss), "sgd" (online), or "uniform" (a
uniform sample of the global minima).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator
from matplotlib.typing import LineStyleType

from symlab.errors import UserError
from symlab.plotting.points import floor_of, floored, log_scale
from symlab.plotting.style import (
    COLUMN,
    PAGE,
    Look,
    Shared,
    Style,
    leave_out,
    name_axes,
    palette,
    panels,
)
from symlab.plotting.tables import where

SOURCES = {"gd": "GD", "sgd": "online SGD", "uniform": "uniform sample"}
COLORS = {"gd": 0, "sgd": 2, "uniform": 1}
PATHS: dict[str, tuple[LineStyleType, str]] = {"direct": ("--", "s"), "permuted": ("-", "o")}
WIDTH = "student width $m$"
BARRIER = "barrier $B$ (population loss)"
PERMUTED = "permuted barrier (population loss)"
OVER_PAIRS = "mean ± s.e. over pairs"
ON_EDGE = "lowest points: 0 up to rounding"
MARKS = {"M": ("$m = M$", (0, (3, 1, 1, 1))), "2M": ("$m = 2M$", (0, (1, 1.2)))}
MARK_COLOR = "0.45"


@dataclass(frozen=True)
class Curve:
    """A line to draw: columns x (the first), mean and se, how it looks and what it is called."""

    stats: pd.DataFrame
    look: Look
    label: str


def grid(n: int, sharex: Shared = "none", sharey: Shared = "all") -> tuple[Figure, np.ndarray, float]:
    """A figure with a grid of axes for n panels, at most three in a row, and its width in inches."""
    columns = min(n, 3)
    n_rows = -(-n // columns)
    width = PAGE if n > 1 else 1.5 * COLUMN
    figure, axes = panels(n_rows, columns, width, 1.0 + (2.3 if n > 1 else 2.6) * n_rows, sharex=sharex, sharey=sharey)
    return figure, axes, width


def finish(axes: np.ndarray, n: int, x: str, y: str) -> list[Axes]:
    """Label the axes of a grid, take those after the first n off, and give the n."""
    name_axes(axes, x, y)
    columns = axes.shape[1]
    leave_out(axes, [min(columns, n - columns * row) for row in range(len(axes))])
    return list(axes.flat[:n])


def key(table: pd.DataFrame, role: str) -> str:
    """The config's key of a table's grid, e.g. ``studies.students.teacher_student.widths``."""
    return f"{where(table)}.teacher_student.{role}"


def source_looks(sources: Iterable[str], style: Style) -> dict[tuple[str, str], Look]:
    """The look of each source's barriers by (source, path): a colour a source, a line and marker a path."""
    colors = palette(style)
    return {
        (source, path): Look(colors[COLORS[source]], line, marker)
        for source in SOURCES
        if source in set(sources)
        for path, (line, marker) in PATHS.items()
    }


def name(source: str, path: str) -> str:
    """A source's path in legends, e.g. ``GD, direct``."""
    return f"{SOURCES[source]}, {path}"


def named(looks: dict[tuple[str, str], Look]) -> dict[str, Look]:
    """The looks by their names in legends."""
    return {name(source, path): look for (source, path), look in looks.items()}


def mean_se(rows: pd.DataFrame, x: str, value: str) -> pd.DataFrame:
    """Columns x, mean, se of ``value`` at each x in rising order.

    The standard error se is std / sqrt(n), with n - 1 in the standard deviation; for a single row it is 0.
    """
    groups = rows.dropna(subset=[value]).groupby(x)[value]
    return groups.agg(["mean", "sem"]).fillna({"sem": 0.0}).rename(columns={"sem": "se"}).reset_index()


def barrier_curves(rows: pd.DataFrame, x: str, looks: dict[tuple[str, str], Look]) -> list[Curve]:
    """The mean direct and permuted barriers of each source of the looks that has rows."""
    return [
        Curve(mean_se(rows[rows["source"] == source], x, path), look, name(source, path))
        for (source, path), look in looks.items()
        if (rows["source"] == source).any()
    ]


def matched_curves(
    rows: pd.DataFrame, x: str, style: Style, assigned: pd.DataFrame | None = None, where: str = ""
) -> tuple[list[Curve], list[Curve]]:
    """Mean permuted barriers of trained students: matched by types (Algorithm 1), and by linear assignment.

    Args:
        assigned: the rows that the second shows, if not all; ``where`` says which in legends.
    """
    looks = {source: look for (source, path), look in source_looks(rows["source"], style).items() if path == "permuted"}
    by_types, by_assignment = [], []
    for source, look in looks.items():
        prefix = f"{SOURCES[source]}, " if len(looks) > 1 else ""
        part, other = (each[each["source"] == source] for each in (rows, rows if assigned is None else assigned))
        by_types.append(Curve(mean_se(part, x, "permuted"), look, f"{prefix}matched by types (Algorithm 1)"))
        stats = mean_se(other, x, "permuted_hungarian")
        if len(stats):
            color = palette(style)[3 if source == "gd" else 4]
            name = f"{prefix}matched by linear assignment{where}"
            by_assignment.append(Curve(stats, Look(color, "--", "D"), name))
    return by_types, by_assignment


def lowest(curves: Iterable[Curve]) -> float:
    """The edge of a logarithmic axis for these curves, see ``floor_of``."""
    return floor_of(np.concatenate([curve.stats["mean"].to_numpy(dtype=float) for curve in curves]))


def draw_curve(axis: Axes, curve: Curve, floor: float = -np.inf) -> None:
    """Draw a line with error bars of one standard error.

    On a logarithmic axis ``floor`` is where means of 0 are put, without a bar; a bar that reaches 0 ends at half of it.
    """
    x, look = curve.stats.iloc[:, 0].to_numpy(dtype=float), curve.look
    mean, se = floored(curve.stats["mean"], floor), curve.stats["se"].to_numpy(dtype=float)
    se = np.where(curve.stats["mean"] < floor, 0.0, se)
    low, high = np.maximum(mean - se, floor / 2 if floor > 0 else -np.inf), mean + se
    axis.plot(x, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=curve.label)
    axis.errorbar(x, mean, yerr=[mean - low, high - mean], fmt="none", ecolor=look.color, capsize=1.5, elinewidth=0.8)


def mark_widths(axis: Axes, M: int) -> None:
    """Vertical lines at m = M and m = 2M where they lie within what is drawn; with M = 1 against m / M."""
    low, high = axis.get_xlim()
    for factor, (label, dashes) in zip((1, 2), MARKS.values(), strict=True):
        if low <= factor * M <= high:
            axis.axvline(factor * M, color=MARK_COLOR, linestyle=dashes, linewidth=1.0, zorder=0, label=f"_{label}")


def mark_entries(axes: Iterable[Axes]) -> list[Artist]:
    """Legend entries of the marks that are drawn somewhere."""
    drawn = {line.get_label() for axis in axes for line in axis.lines}
    return [
        Line2D([], [], color=MARK_COLOR, linestyle=dashes, linewidth=1.0, label=label)
        for label, dashes in MARKS.values()
        if f"_{label}" in drawn
    ]


def log_barriers(axes: np.ndarray) -> None:
    """Make the y axes logarithmic; labels within decades, where there are few of these, are powers of ten too."""
    log_scale(axes, "y")
    for axis in axes.flat:
        if not isinstance(axis.yaxis.get_major_locator(), MaxNLocator):
            axis.yaxis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf)))


def whole_numbers(axis: Axes) -> None:
    """Tick labels of the x axis at integers alone."""
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def teachers(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """The (M, d) of a table in their order."""
    return [(int(M), int(d)) for M, d in rows[["M", "d"]].drop_duplicates().itertuples(index=False)]


def of_teacher(rows: pd.DataFrame, M: int, d: int) -> pd.DataFrame:
    """The rows of one (M, d)."""
    return rows[(rows["M"] == M) & (rows["d"] == d)]


def teacher_name(M: int, d: int) -> str:
    """A teacher in titles: its width M and the input dimension d."""
    return f"$M$ = {M}, $d$ = {d}"


def kept_pairs(rows: pd.DataFrame, role: str) -> tuple[pd.DataFrame, str]:
    """The pairs both of whose ends were kept, and a sentence that counts the others; it is empty if there are none.

    Raises:
        UserError: no pair was kept.
    """
    kept = rows[rows["kept"].astype(bool)]
    if kept.empty:
        raise UserError(
            f"no pair of {key(rows, role)} was kept: in every one a run diverged or ended with a loss above 1e-5; "
            "lower lr or c, or train longer."
        )
    return kept, not_drawn(len(rows) - len(kept), len(rows), "pairs", "a run diverged or ended with a loss above 1e-5")


def not_drawn(n: int, of: int, what: str, why: str) -> str:
    """A sentence that counts what is not drawn; empty if everything is."""
    return f"{n} of {of} {what} not drawn: {why}" if n else ""


def joined(*phrases: str) -> str:
    """The phrases that are not empty as one sentence."""
    return "; ".join(filter(None, phrases))


def one_rate(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Uniform rows and trained ones of each teacher's first learning rate, and a sentence that says which these are.

    A learning rate is one if either lr or c = lr m / d is the same for all. The sentence is empty without trained rows.
    """
    trained = rows["source"] != "uniform"
    chosen, names = ~trained, []
    for place in teachers(rows[trained]):
        of_place = trained & (rows["M"] == place[0]) & (rows["d"] == place[1])
        column, values = rate(rows[of_place])
        chosen |= of_place & np.isclose(rows[column].astype(float), values[0])
        names.append(rate_name(column, values[0]))
    if not names:
        return rows, ""
    others = "" if chosen.all() else ", others not drawn"
    if len(set(names)) == 1:
        return rows[chosen], f"trained with {names[0]}{others}"
    return rows[chosen], f"trained with {', '.join(names)} (by panel){others}"


def rate(trained: pd.DataFrame) -> tuple[str, list[float]]:
    """What tells the learning rates of trained rows apart, "c" or "lr" (that with fewer values), and its values."""
    values = {
        column: list(dict.fromkeys(float(f"{value:.6g}") for value in trained[column].dropna()))
        for column in ("c", "lr")
    }
    column = "c" if len(values["c"]) <= len(values["lr"]) else "lr"
    return column, values[column]


def rate_name(column: str, value: float) -> str:
    """A learning rate in legends."""
    return f"$c$ = {value:g}" if column == "c" else f"lr = {value:g}"
