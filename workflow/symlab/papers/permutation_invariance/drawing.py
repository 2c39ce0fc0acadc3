"""What the room's figures share: looks of sources and methods, means with standard errors, marks, what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.network_rows import DIRECT, METHODS
from symlab.papers.permutation_invariance.selection import (
    choose_first_rate,
    keep,
    select_trained,
)
from symlab.plotting.points import floor_of, raise_to_floor, scale_log
from symlab.plotting.rows import mean_std, where
from symlab.plotting.style import (
    COLUMN,
    PAGE,
    Look,
    Shared,
    Style,
    leave_out,
    line_entry,
    mean_line,
    name_axes,
    palette,
    panels,
    set_ticks,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

LEGENDS = {"gd": "GD", "sgd": "online SGD", "uniform": "uniform sample"}
"""Names of sources in legends."""
COLORS = {"gd": 0, "sgd": 2, "uniform": 1}
PATHS: dict[str, tuple[LineStyleType, str]] = {"direct": ("--", "s"), "permuted": ("-", "o")}
WIDTH = "student width $m$"
BARRIER = "barrier $B$ (population loss)"
PERMUTED = "permuted barrier (population loss)"
LR = "learning rate"
LAMBDA = r"position $\lambda$"
LOSS = "train loss (NLL)"
OVER_PAIRS = "mean ± s.e. over pairs"
OVER_RUNS = "mean ± s.e. over runs"
ON_EDGE = "lowest points: 0 up to rounding"
NOT_KEPT = "ended with a loss above 1e-5"
MARKS: dict[str, tuple[str, LineStyleType]] = {
    "M": ("$m = M$", (0, (3, 1, 1, 1))),
    "2M": ("$m = 2M$", (0, (1, 1.2))),
}
MARK_COLOR = "0.45"
CROSS: dict[str, Any] = {"marker": "x", "markersize": 5, "markeredgewidth": 1.4, "linestyle": ""}
STEP = 0.07
"""Height of a row of crosses above the curves, as a part of the panel."""


@dataclass(frozen=True)
class Curve:
    """A line to draw: columns x (the first), mean and se, how it looks and what it is called."""

    stats: pd.DataFrame
    look: Look
    label: str


def make_grid(n: int, sharex: Shared = "none", sharey: Shared = "all") -> tuple[Figure, np.ndarray, float]:
    """A figure with a grid of axes for n panels, at most three in a row, and its width in inches."""
    columns = min(n, 3)
    n_rows = -(-n // columns)
    width = PAGE if n > 1 else 1.5 * COLUMN
    figure, axes = panels(n_rows, columns, width, 1.0 + (2.3 if n > 1 else 2.6) * n_rows, sharex=sharex, sharey=sharey)
    return figure, axes, width


def label_grid(axes: np.ndarray, n: int, x: str, y: str) -> list[Axes]:
    """Label the axes of a grid, take those after the first n off, and give the n."""
    name_axes(axes, x, y)
    columns = axes.shape[1]
    leave_out(axes, [min(columns, n - columns * row) for row in range(len(axes))])
    return list(axes.flat[:n])


def key_of(table: pd.DataFrame, role: str) -> str:
    """The config's key of a table's grid, e.g. ``studies.students.teacher_student.widths``."""
    return f"{where(table)}.teacher_student.{role}"


def source_looks(sources: Iterable[str], style: Style) -> dict[tuple[str, str], Look]:
    """The look of each source's barriers by (source, path): a colour a source, a line and marker a path."""
    colors = palette(style)
    return {
        (source, path): Look(colors[COLORS[source]], line, marker)
        for source in LEGENDS
        if source in set(sources)
        for path, (line, marker) in PATHS.items()
    }


def name_path(source: str, path: str) -> str:
    """A source's path in legends, e.g. ``GD, direct``."""
    return f"{LEGENDS[source]}, {path}"


def look_by_name(looks: dict[tuple[str, str], Look]) -> dict[str, Look]:
    """The looks by their names in legends."""
    return {name_path(source, path): look for (source, path), look in looks.items()}


def mean_se(rows: pd.DataFrame, x: str, value: str) -> pd.DataFrame:
    """Columns x, mean, se of ``value`` at each x in rising order.

    The standard error se is std / sqrt(n), with n - 1 in the standard deviation; for a single row it is 0.
    """
    groups = rows.dropna(subset=[value]).groupby(x)[value]
    return groups.agg(["mean", "sem"]).fillna({"sem": 0.0}).rename(columns={"sem": "se"}).reset_index()


def barrier_curves(rows: pd.DataFrame, x: str, looks: dict[tuple[str, str], Look]) -> list[Curve]:
    """The mean direct and permuted barriers of each source of the looks that has rows."""
    return [
        Curve(mean_se(rows[rows["source"] == source], x, path), look, name_path(source, path))
        for (source, path), look in looks.items()
        if (rows["source"] == source).any()
    ]


def matched_curves(
    rows: pd.DataFrame, x: str, style: Style, assigned: pd.DataFrame | None = None, widths: str = ""
) -> tuple[list[Curve], list[Curve]]:
    """Mean permuted barriers of trained students: matched by types (Algorithm 1), and by linear assignment.

    Args:
        assigned: the rows that the second shows, if not all; ``widths`` says which in legends.
    """
    looks = {source: look for (source, path), look in source_looks(rows["source"], style).items() if path == "permuted"}
    by_types, by_assignment = [], []
    for source, look in looks.items():
        prefix = f"{LEGENDS[source]}, " if len(looks) > 1 else ""
        part, other = (each[each["source"] == source] for each in (rows, rows if assigned is None else assigned))
        by_types.append(Curve(mean_se(part, x, "permuted"), look, f"{prefix}matched by types (Algorithm 1)"))
        stats = mean_se(other, x, "permuted_hungarian")
        if len(stats):
            color = palette(style)[3 if source == "gd" else 4]
            name = f"{prefix}matched by linear assignment{widths}"
            by_assignment.append(Curve(stats, Look(color, "--", "D"), name))
    return by_types, by_assignment


def find_floor(curves: Iterable[Curve]) -> float:
    """The edge of a logarithmic axis for these curves, see ``floor_of``."""
    return floor_of(np.concatenate([curve.stats["mean"].to_numpy(dtype=float) for curve in curves]))


def draw_curve(axis: Axes, curve: Curve, floor: float = -np.inf) -> None:
    """Draw a line with error bars of one standard error.

    On a logarithmic axis ``floor`` is where means of 0 are put, without a bar; a bar that reaches 0 ends at half of it.
    """
    x, look = curve.stats.iloc[:, 0].to_numpy(dtype=float), curve.look
    mean, se = raise_to_floor(curve.stats["mean"], floor), curve.stats["se"].to_numpy(dtype=float)
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
        line_entry(label, color=MARK_COLOR, linestyle=dashes, linewidth=1.0)
        for label, dashes in MARKS.values()
        if f"_{label}" in drawn
    ]


def scale_barriers(axes: np.ndarray) -> None:
    """Make the y axes logarithmic; labels within decades, where there are few of these, are powers of ten too."""
    from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator

    scale_log(axes, "y")
    for axis in axes.flat:
        if not isinstance(axis.yaxis.get_major_locator(), MaxNLocator):
            axis.yaxis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf)))


def tick_integers(axis: Axes) -> None:
    """Tick labels of the x axis at integers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def title_students(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each (M, d, m) by its name in titles."""
    return {
        f"{title_teacher(int(M), int(d))}, $m$ = {m}": part
        for (M, d, m), part in rows.groupby(["M", "d", "m"], sort=False)
    }


def title_teacher(M: int, d: int) -> str:
    """A teacher in titles: its width M and the input dimension d."""
    return f"$M$ = {M}, $d$ = {d}"


def check_rates(table: pd.DataFrame) -> None:
    """Refuse to draw against the learning rate where there are not three.

    Raises:
        UserError: names the key.
    """
    if select_trained(table)["lr"].nunique() < 3:
        raise UserError(f"{key_of(table, 'learning_rates')} needs trained runs of at least three values of lr.")


def keep_pairs(rows: pd.DataFrame, role: str) -> tuple[pd.DataFrame, str]:
    """The pairs both of whose ends were kept, and a sentence that counts the others; it is empty if there are none.

    Raises:
        UserError: no pair was kept.
    """
    kept = keep(rows)
    if kept.empty:
        raise UserError(
            f"no pair of {key_of(rows, role)} was kept: in every one a run diverged or {NOT_KEPT}; "
            "lower lr or c, or train longer."
        )
    return kept, say_not_drawn(len(rows) - len(kept), len(rows), "pairs", f"a run diverged or {NOT_KEPT}")


def say_not_drawn(n: int, of: int, what: str, why: str) -> str:
    """A sentence that counts what is not drawn; empty if everything is."""
    return f"{n} of {of} {what} not drawn: {why}" if n else ""


def join_phrases(*phrases: str) -> str:
    """The phrases that are not empty as one sentence."""
    return "; ".join(filter(None, phrases))


def say_runs_not_drawn(trained: pd.DataFrame) -> str:
    """A sentence that counts the trained runs that were not kept; empty if all were."""
    return say_not_drawn(
        len(trained) - len(keep(trained)), len(trained), "trained runs", f"they diverged or {NOT_KEPT}"
    )


def say_edge(curves: Iterable[Curve], floor: float) -> str:
    """A sentence on points at the edge of a logarithmic axis; empty if none are."""
    return ON_EDGE if any((curve.stats["mean"] < floor).any() for curve in curves) else ""


def take_first_rate(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """``choose_first_rate``, and a sentence that says which rates these are; it is empty without trained rows."""
    chosen, names = choose_first_rate(rows)
    if not names:
        return rows, ""
    others = "" if len(chosen) == len(rows) else ", others not drawn"
    if len(set(names)) == 1:
        return chosen, f"trained with {names[0]}{others}"
    return chosen, f"trained with {', '.join(names)} (by panel){others}"


def draw_crosses(axis: Axes, lines: list[tuple[Look, list[float]]]) -> None:
    """Rows of crosses above everything drawn so far, one of each line that has any."""
    bottom, top = axis.get_ylim()
    part = STEP * len(lines)
    axis.set_ylim(bottom, bottom + (top - bottom) / (1 - part))
    for row, (look, x) in enumerate(lines):
        heights, up = [1 - STEP * (row + 0.5)] * len(x), axis.get_xaxis_transform()
        axis.plot(x, heights, color=look.color, transform=up, label="crosses", clip_on=False, **CROSS)


def scale_widths(axis: Axes, widths: pd.Series) -> None:
    """A logarithmic axis with a label at every other width (or every one) where widths differ by 10 times or more."""
    values = sorted(widths.unique())
    if values[-1] < 10 * values[0]:
        return
    axis.set_xscale("log")
    set_ticks(axis.xaxis, values[:: -(-len(values) // 6)])


def draw_paths(axis: Axes, rows: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Loss along lambda of each method, mean and standard deviation over pairs."""
    for method, look in looks.items():
        mean_line(axis, mean_std(rows[rows["method"] == method], "lambda", "loss"), look, method, band=True)
    for line in axis.lines:
        line.set_marker("")


def method_looks(rows: pd.DataFrame, style: Style) -> dict[str, Look]:
    """The look of each method: direct first, then those of matching in their order."""
    colors = palette(style)
    direct = METHODS[DIRECT]
    others = [method for method in dict.fromkeys(rows["method"]) if method != direct]
    known = {
        METHODS["weight"]: Look(colors[0], "-", "o"),
        METHODS["activation"]: Look(colors[2], (0, (5, 1.5)), "^"),
    }
    other = Look(colors[4], (0, (1, 1)), "D")
    return {direct: Look(colors[1], "--", "s")} | {method: known.get(method, other) for method in others}
