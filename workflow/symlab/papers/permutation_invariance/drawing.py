"""What the room's figures share: looks of sources and methods, means with standard errors, marks, what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.network_rows import DIRECT, METHODS
from symlab.papers.permutation_invariance.selection import UNIFORM, choose_first_rate, keep, name_rate, select_trained
from symlab.plotting import style as plot
from symlab.plotting.log_axes import floor_of, scale_log
from symlab.plotting.units import draw_units
from symlab.study.tables import where

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

LEGENDS = {"gd": "GD", "sgd": "online SGD", "uniform": "samples"}
"""Names of sources in legends."""
COLORS = {"gd": 0, "sgd": 2, "uniform": 1}
PATHS: dict[str, tuple[LineStyleType, str, str]] = {
    "direct": ("--", "s", "direct"),
    "permuted": ("-", "o", "Algorithm 1"),
    "permuted_hungarian": ((0, (1, 1)), "D", "linear assignment"),
}
"""Line, marker and name of each column of barriers."""
WIDTH = "student width $m$"
BARRIER = "barrier $B$ (population loss)"
PERMUTED = "permuted barrier (population loss)"
LR = "learning rate"
LAMBDA = r"position $\lambda$"
LOSS = "train loss (NLL)"
NOT_KEPT = "ended with a loss above 10⁻⁵"
MARKS: dict[str, tuple[str, LineStyleType]] = {"M": ("$m = M$", (0, (3, 1, 1, 1))), "2M": ("$m = 2M$", (0, (1, 1.2)))}
MARK_COLOR = "0.45"
CROSS: dict[str, Any] = {"marker": "x", "markersize": 5, "markeredgewidth": 1.4, "linestyle": ""}
STEP = 0.07
"""Height of a row of crosses above the curves, or of zeros below them, as a part of the panel."""


@dataclass(frozen=True)
class Curve:
    """A line to draw: columns x (the first), mean and se, how it looks and what it is called."""

    stats: pd.DataFrame
    look: plot.Look
    label: str


def make_grid(n: int, sharex: plot.Shared = "none", sharey: plot.Shared = "all") -> tuple[Figure, np.ndarray, float]:
    """A figure with a grid of axes for n panels, at most three in a row, and its width in inches."""
    columns = min(n, 3)
    n_rows = -(-n // columns)
    width = plot.PAGE if n > 1 else 1.5 * plot.COLUMN
    figure, axes = plot.panels(
        n_rows, columns, width, 1.0 + (2.3 if n > 1 else 2.6) * n_rows, sharex=sharex, sharey=sharey
    )
    return figure, axes, width


def label_grid(axes: np.ndarray, n: int, x: str, y: str) -> list[Axes]:
    """Label the axes of a grid, take those after the first n off, and give the n."""
    plot.name_axes(axes, x, y)
    columns = axes.shape[1]
    plot.leave_out(axes, [min(columns, n - columns * row) for row in range(len(axes))])
    return list(axes.flat[:n])


def key_of(table: pd.DataFrame, role: str) -> str:
    """The config's key of a table's grid, e.g. ``studies.students.teacher_student.widths``."""
    return f"{where(table)}.teacher_student.{role}"


def source_looks(
    sources: Iterable[str], style: plot.Style, paths: Iterable[str] = PATHS
) -> dict[tuple[str, str], plot.Look]:
    """The look of each source's barriers by (source, path): a colour a source, a line and marker a path.

    Samples have one matching, since linear assignment finds no other than Algorithm 1 on the axes.
    """
    colors = plot.palette(style)
    return {
        (source, path): plot.Look(colors[COLORS[source]], *PATHS[path][:2])
        for source in LEGENDS
        if source in set(sources)
        for path in paths
        if (source, path) != (UNIFORM, "permuted_hungarian")
    }


def name_path(source: str, path: str) -> str:
    """A source's path in legends, e.g. ``GD, direct``."""
    return f"{LEGENDS[source]}, {PATHS[path][2]}"


def look_by_name(looks: dict[tuple[str, str], plot.Look]) -> dict[str, plot.Look]:
    """The looks by their names in legends."""
    return {name_path(source, path): look for (source, path), look in looks.items()}


def mean_se(rows: pd.DataFrame, x: str, value: str) -> pd.DataFrame:
    """Columns x, mean, se of ``value`` at each x in rising order.

    The standard error se is std / sqrt(n), with n - 1 in the standard deviation; for a single row it is 0.
    """
    groups = rows.dropna(subset=[value]).groupby(x)[value]
    return groups.agg(["mean", "sem"]).fillna({"sem": 0.0}).rename(columns={"sem": "se"}).reset_index()


def barrier_curves(rows: pd.DataFrame, x: str, looks: dict[tuple[str, str], plot.Look]) -> list[Curve]:
    """The mean barriers of each source and path of the looks that the rows have."""
    return [
        Curve(stats, look, name_path(source, path))
        for (source, path), look in looks.items()
        if len(stats := mean_se(rows[rows["source"] == source], x, path))
    ]


def find_floor(curves: Iterable[Curve]) -> float:
    """The edge of a logarithmic axis for these curves, see ``floor_of``."""
    return floor_of(np.concatenate([curve.stats["mean"].to_numpy(dtype=float) for curve in curves]))


def draw_curve(axis: Axes, curve: Curve, floor: float = -np.inf) -> None:
    """Draw a line with error bars of one standard error, which ends where means are below ``floor``.

    On a logarithmic axis those are 0 up to rounding: see ``draw_zeros``. A bar that reaches 0 ends at half the floor.
    """
    stats, look = curve.stats, curve.look
    x = stats.iloc[:, 0].to_numpy(dtype=float)
    mean, se = stats["mean"].where(stats["mean"] >= floor).to_numpy(dtype=float), stats["se"].to_numpy(dtype=float)
    low, high = np.maximum(mean - se, floor / 2 if floor > 0 else -np.inf), mean + se
    axis.plot(x, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=curve.label)
    axis.errorbar(x, mean, yerr=[mean - low, high - mean], fmt="none", ecolor=look.color, capsize=1.5, elinewidth=0.8)


def draw_zeros(curves: dict[Axes, list[Curve]], floor: float) -> None:
    """Means below the floor as open marks in a strip of their own under the logarithmic y axes, which are one scale.

    Nothing is drawn where there are none. Ticks are those that the axes have when this is called.
    """
    zeros = {
        axis: [(curve, x) for curve in of_axis if len(x := curve.stats.loc[curve.stats["mean"] < floor].iloc[:, 0])]
        for axis, of_axis in curves.items()
    }
    if not any(zeros.values()):
        return
    bottom = min(axis.get_ylim()[0] for axis in curves)
    top = max(axis.get_ylim()[1] for axis in curves)
    lowest = bottom / (top / bottom) ** (2 * STEP)
    middle = np.sqrt(lowest * bottom)
    for axis, of_axis in zeros.items():
        ticks = [tick for tick in axis.get_yticks() if bottom <= tick <= top]
        minor = [tick for tick in axis.get_yticks(minor=True) if bottom <= tick <= top]
        axis.set_yticks([*ticks, middle], [*(_write_power(tick) for tick in ticks), "0"])
        axis.set_yticks(minor, [], minor=True)
        axis.set_ylim(lowest, top)
        axis.axhline(bottom, color="0.8", linewidth=0.8, zorder=0, label="_zeros")
        for curve, x in of_axis:
            axis.plot(
                x, [middle] * len(x), color=curve.look.color, marker=curve.look.marker, markerfacecolor="white",
                linestyle="", label="_zeros",
            )  # fmt: skip


def _write_power(tick: float) -> str:
    exponent = int(np.floor(np.log10(tick) + 1e-9))
    factor = tick / 10.0**exponent
    return f"$10^{{{exponent}}}$" if abs(factor - 1) < 1e-6 else f"${factor:g} \\times 10^{{{exponent}}}$"


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
        plot.line_entry(label, color=MARK_COLOR, linestyle=dashes, linewidth=1.0)
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


def say_pairs(rows: pd.DataFrame, against: str | list[str] = "m", what: str = "pairs") -> str:
    """What points and bars are, with how many pairs (or runs) there are of each source at a width (rate, ...)."""
    told = []
    for source in LEGENDS:
        counts = rows[rows["source"] == source].groupby(against, dropna=False).size()
        if len(counts):
            low, high = counts.min(), counts.max()
            told.append(f"{LEGENDS[source]} {low}" + (f" to {high}" if high > low else ""))
    return f"mean ± s.e. over {what} ({', '.join(told)} at each point)"


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


def say_runs_not_drawn(trained: pd.DataFrame, column: str) -> str:
    """A sentence that counts, at each learning rate, the trained runs that were not kept; empty if all were."""
    told = []
    for rate, rows in trained.groupby(trained[column].round(6)):
        lost = len(rows) - len(keep(rows))
        if lost:
            told.append(f"{'all' if lost == len(rows) else f'{lost} of'} {len(rows)} at {name_rate(column, rate)}")
    return f"runs not drawn, which diverged or {NOT_KEPT}: {', '.join(told)}" if told else ""


def take_first_rate(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """``choose_first_rate``, and a sentence that says which rates these are; it is empty without trained rows."""
    chosen, names = choose_first_rate(rows)
    if not names:
        return rows, ""
    others = "" if len(chosen) == len(rows) else ", others not drawn"
    if len(set(names)) == 1:
        return chosen, f"trained with {names[0]}{others}"
    return chosen, f"trained with {', '.join(names)} (by panel){others}"


def draw_crosses(axis: Axes, lines: list[tuple[plot.Look, list[float]]]) -> None:
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
    plot.set_ticks(axis.xaxis, values[:: -(-len(values) // 6)])


def draw_paths(axis: Axes, rows: pd.DataFrame, looks: dict[str, plot.Look]) -> None:
    """Loss along lambda of each method, as ``draw_units`` draws it."""
    for method, look in looks.items():
        chosen = rows[rows["method"] == method]
        if len(chosen):
            draw_units(axis, chosen, "lambda", "loss", look, method, band=True, marker=False)


def method_looks(rows: pd.DataFrame, style: plot.Style) -> dict[str, plot.Look]:
    """The look of each method: direct first, then those of matching in their order."""
    colors = plot.palette(style)
    direct = METHODS[DIRECT]
    others = [method for method in dict.fromkeys(rows["method"]) if method != direct]
    known = {
        METHODS["weight"]: plot.Look(colors[0], "-", "o"),
        METHODS["activation"]: plot.Look(colors[2], (0, (5, 1.5)), "^"),
    }
    other = plot.Look(colors[4], (0, (1, 1)), "D")
    return {direct: plot.Look(colors[1], "--", "s")} | {method: known.get(method, other) for method in others}
