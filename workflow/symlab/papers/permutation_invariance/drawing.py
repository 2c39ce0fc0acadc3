"""What the room's figures share: mean barriers with standard errors on a logarithmic axis, looks, marks, notes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance.students import DIRECT, MATCHINGS, UNIFORM, barriers, keep
from symlab.plotting.log_axes import floor_of
from symlab.plotting.style import PAGE, Look, Shared, Style, line_entry, mark_entry, palette
from symlab.plotting.types import Artist, Axes, Figure, LineStyleType
from symlab.study.facets import Panel, draw_grid, labelled, wrap
from symlab.study.tables import some, where

SHORT = {"gd": "GD", "sgd": "SGD", UNIFORM: "samples"}
"""Names of sources in legends."""
COLORS = {"gd": 0, "sgd": 2, UNIFORM: 1}
PATHS: dict[str, tuple[LineStyleType, str]] = {
    DIRECT: ("--", "s"),
    MATCHINGS["permuted"]: ("-", "o"),
    MATCHINGS["permuted_hungarian"]: ((0, (1, 1)), "D"),
    MATCHINGS["lowest"]: ((0, (4, 1.5)), "^"),
}
"""Line and marker of each matching."""
WIDTH = "student width $m$"
BARRIER = "barrier $B$ (population loss)"
LR = "learning rate"
MARKS: dict[int, tuple[str, LineStyleType]] = {1: ("$m = M$", (0, (3, 1, 1, 1))), 2: ("$m = 2M$", (0, (1, 1.2)))}
MARK_COLOR = "0.45"
ZERO = "0 up to rounding"
BARRIERS = "Loss barrier on the straight line between two students of m neurons"
STUDENTS = (
    "of students trained by gradient descent (GD) or online SGD and of uniform samples of the global minima, as they "
    "are (direct) and matched by type and rank (Algorithm 1) or by linear assignment"
)
NOT_DRAWN = "Pairs with a run that diverged or ended with a loss above 1e-5 are not drawn."


def key_of(table: pd.DataFrame, role: str) -> str:
    """The config's key of a table's grid, e.g. ``studies.students.teacher_student.widths``."""
    return f"{where(table)}.teacher_student.{role}"


def source_looks(style: Style) -> dict[str, Look]:
    """The look of each source and matching: a colour a source, a line and a marker a matching."""
    colors = palette(style)
    return {
        f"{short}, {path}": Look(colors[COLORS[source]], *look)
        for source, short in SHORT.items()
        for path, look in PATHS.items()
    }


def label(rows: pd.DataFrame) -> pd.DataFrame:
    """Barriers with the ``label`` of their source and matching."""
    return rows.assign(label=rows["source"].map(SHORT) + ", " + rows["matching"])


def draw_means(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str, floor: float = -np.inf) -> None:
    """Draw means with bars of one standard error; below ``floor`` they are 0: open marks on the x axis."""
    stats = rows.groupby(x)[y].agg(["mean", "sem"]).fillna({"sem": 0.0})
    zero = stats["mean"] < floor
    mean = stats["mean"].mask(zero)
    # On a logarithmic axis a bar that reaches 0 ends at half the floor.
    low = np.minimum(stats["sem"], mean - (floor / 2 if floor > 0 else -np.inf))
    axis.plot(mean.index, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=label)
    axis.errorbar(mean.index, mean, [low, stats["sem"]], fmt="none", ecolor=look.color, capsize=1.5, elinewidth=0.8)
    if zero.any():
        (marks,) = axis.plot(mean.index[zero], np.zeros(zero.sum()), look.marker, color=look.color)
        marks.set(markerfacecolor="white", transform=axis.get_xaxis_transform(), clip_on=False, label=f"_{ZERO}")


def mark_widths(M: float, factors: Sequence[int], axis: Axes, integers: bool = False) -> None:
    """Vertical lines at m = M or m = 2M, with M = 1 against m / M; tick labels at ``integers`` alone."""
    from matplotlib.ticker import MaxNLocator

    if integers:
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for factor in factors:
        label, dashes = MARKS[factor]
        axis.axvline(factor * M, color=MARK_COLOR, linestyle=dashes, linewidth=1.0, zorder=0, label=f"_{label}")


def width_marks(factors: Sequence[int] = (2,)) -> list[Artist]:
    """Their entries of a legend."""
    return [line_entry(MARKS[each][0], color=MARK_COLOR, linestyle=MARKS[each][1], linewidth=1.0) for each in factors]


def draw_barriers(
    table: pd.DataFrame,
    x: str,
    by: Sequence[str],
    role: str,
    style: Style,
    more: Sequence[Panel] = (),
    looks: Mapping[str, Look] | None = None,
    entries: Sequence[Artist] = (),
    *,
    axes: Mapping[str, Any] | None = None,
    sharex: Shared = False,
    sharey: Shared = True,
    only_matched: bool = False,
    marks: Sequence[int] = (2,),
) -> Figure:
    """Mean barriers against a column on a logarithmic axis, a panel for each value of the columns ``by``.

    Args:
        table: rows of pairs, kept or not.
        role: of the grid that they are of, which an error names.
        marks: of which multiples of M there is a line.
        more: panels after these, with the ``looks`` of lines that are theirs alone and more ``entries`` of the legend.

    Raises:
        UserError: no pair was kept.
    """
    some(
        keep(table),
        f"no pair of {key_of(table, role)} was kept: in every one a run diverged or ended with a loss above 10⁻⁵; "
        "lower lr or c, or train longer.",
    )
    rows = label(barriers(table))
    rows = rows[rows["matching"] != DIRECT] if only_matched else rows
    means = rows.groupby(["label", x, *by])["barrier"].mean()
    # A mean may be computed twice, in another order.
    floor = 0.999 * floor_of(means)
    grid = []
    for values, part in rows.groupby(list(by), sort=False):
        title = ", ".join(f"${name}$ = {value:g}" for name, value in zip(by, values, strict=True))
        given = {**labelled(WIDTH, BARRIER, "y", title=title), **(axes or {})}
        mark = partial(mark_widths, 1 if x == "ratio" else part["M"].iloc[0], marks, integers=x == "m")
        grid.append(Panel(part, x, "barrier", given, draw_means, {"floor": floor}, mark))
    grid += more
    entries = [*entries, *width_marks(marks)]
    entries += [mark_entry(ZERO, "o", markerfacecolor="white")] if (means < floor).any() else []
    return draw_grid(
        wrap(grid), {**source_looks(style), **(looks or {})}, entries=entries, sharex=sharex,
        sharey=sharey, width=PAGE, height=2.6 if len(grid) < 3 else 2.3,
        note=say_pairs(table),
    )  # fmt: skip


def say_pairs(table: pd.DataFrame, what: str = "pairs") -> str:
    """What points and bars are, of how many pairs (or students) of each source, and how many are left out."""
    table = table.assign(number=table.get("pairs", 1))
    kept, place = keep(table), [name for name in ("M", "d", "m", "lr") if name in table]
    numbers = []
    for source, short in SHORT.items():
        if len(rows := kept[kept["source"] == source]):
            counts = rows.groupby(place, dropna=False)["number"].sum()
            low, high = counts.min(), counts.max()
            numbers.append(f"{short} {low:,}" + (f" to {high:,}" if high > low else ""))
    every, lost = table["number"].sum(), table["number"].sum() - kept["number"].sum()
    left_out = f"; {lost:,} of {every:,} {what} not kept" if lost else ""
    return f"mean ± s.e. over {what} ({', '.join(numbers)} at each point){left_out}"


def width_axis(widths: pd.Series) -> dict[str, Any]:
    """A logarithmic axis with a label at some of the widths where they differ by 10 times or more."""
    values = sorted(widths.unique())
    scale = {"xscale": "log", "xticks": values[:: -(-len(values) // 6)]} if values[-1] >= 10 * values[0] else {}
    return {"xlabel": "width", **scale}
