"""Grids of panels with lines or points, from tidy rows: what most figures are.

``facets`` makes a panel for each value of two columns; ``draw_grid`` takes panels that have nothing in common. A line
is what has one value of the column ``line``; it has the look of that name in every panel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from symlab.plotting.log_axes import scale_log
from symlab.plotting.settings import Style
from symlab.plotting.style import (
    MARKERS,
    PAGE,
    Look,
    Shared,
    handles,
    legend,
    name_row,
    ordered_colors,
    palette,
    panels,
    set_ticks,
)
from symlab.plotting.types import Artist, Axes, Figure
from symlab.plotting.units import draw_units

TICKS = {"xticks", "yticks"}
BARS: dict[str, Any] = {"band": False}
"""Options of ``draw_units``: bars, no band."""
Draw = Callable[..., None]
"""Draws one line: (axis, rows, x, y, look, label, **options)."""


@dataclass(frozen=True)
class Panel:
    """One panel: its rows, the columns drawn against each other, its axes."""

    rows: pd.DataFrame
    x: str
    y: str
    axes: Mapping[str, Any] = field(default_factory=dict)
    """What ``Axes.set`` takes; ``xticks`` and ``yticks`` are plain numbers; a ``log`` scale has few."""
    draw: Draw = draw_units
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of ``draw``."""
    more: Callable[[Axes], object] | None = None
    """Draws what is no line of rows: a threshold, a predicted curve."""


def facets(
    rows: pd.DataFrame,
    x: str,
    y: str,
    looks: Mapping[str, Look],
    *,
    row: str | None = None,
    column: str | None = None,
    line: str = "label",
    axes: Mapping[str, Any],
    title: Callable[[Any], str] | None = None,
    draw: Draw = draw_units,
    more: Callable[[Axes, pd.DataFrame], object] | None = None,
    options: Mapping[str, Any] | None = None,
    most: int = 0,
    **of_grid: Any,
) -> Figure:
    """A panel for each value of ``row`` and ``column`` that rows have, in the order in which they come.

    Args:
        axes: as a ``Panel`` has it, of all panels.
        title: what is written above a panel of a value of ``column`` (without columns, of ``row``); the value itself
            if None.
        more: given each panel's axes and rows, draws what is no line.
        most: panels in a line where there is ``column`` alone; further ones go below. 0: any number.
        of_grid: keywords of ``draw_grid``; rows are named by their values where there are several, and columns too.
    """
    of_row, of_column = (list(dict.fromkeys(rows[by])) if by else [None] for by in (row, column))
    named, name = column or row, title or str

    def panel(at: Any, across: Any) -> Panel:
        part = rows if row is None else rows[rows[row] == at]
        part = part if column is None else part[part[column] == across]
        value = across if column else at
        above = {"title": name(value)} if named and (row is None or column is None or at == of_row[0]) else {}
        added = (lambda axis: more(axis, part)) if more else None
        return Panel(part, x, y, {**axes, **above}, draw, options or {}, added)

    if column and len(of_row) > 1:
        of_grid.setdefault("rows_named", [str(at) for at in of_row])
    grid = [[panel(at, across) for across in part] for at in of_row for part in wrap(of_column, most or len(of_column))]
    return draw_grid(grid, looks, line=line, **of_grid)


def wrap(panels: Sequence[Any], most: int = 3) -> list[list[Any]]:
    """Panels in rows of so many at most."""
    return [list(panels[start : start + most]) for start in range(0, len(panels), most)]


def labelled(x: str, y: str, log: str = "", **more: Any) -> dict[str, Any]:
    """The axes of a ``Panel``: their labels, which of them are logarithmic ("x", "y" or "xy"), and more."""
    return {"xlabel": x, "ylabel": y, **{f"{which}scale": "log" for which in log}, **more}


def draw_grid(
    grid: Sequence[Sequence[Panel]],
    looks: Mapping[str, Look],
    *,
    line: str = "label",
    width: float = PAGE,
    height: float = 2.0,
    sharex: Shared = True,
    sharey: Shared = "row",
    rows_named: Sequence[str] = (),
    entries: Sequence[Artist] = (),
    note: str = "",
) -> Figure:
    """Panels in rows, with one legend above them.

    Args:
        looks: of every line, by its name; those that a panel draws are in the legend, in this order.
        line: column with each row's line.
        width: of the figure in inches; ``height`` that of a row of panels.
        sharex: which panels have the same limits along x, ``sharey`` along y; what is shared is labelled at the edge.
        rows_named: what is written to the right of each row.
        entries: more entries of the legend.
        note: what stands above the legend: how many units, what a band is.

    Raises:
        UserError: there are no panels.
    """
    columns = max(map(len, grid), default=0)
    figure, axes = panels(len(grid), columns, width, 0.9 + height * len(grid), sharex=sharex, sharey=sharey)
    placed = [each for row, along in zip(axes, grid, strict=True) for each in zip(row, along, strict=False)]
    for axis, panel in placed:
        _draw_panel(axis, panel, looks, line)
    for row, along in zip(axes, grid, strict=True):
        for axis in row[len(along) :]:
            axis.remove()
    _hide_inner_labels(axes, grid, sharex, sharey)
    _scale(placed)
    for row, along, name in zip(axes, grid, rows_named, strict=False):
        name_row(row[len(along) - 1], name)
    drawn = {name for _, panel in placed if line in panel.rows for name in panel.rows[line]}
    shown = {name: look for name, look in looks.items() if name in drawn}
    marked = any(panel.options.get("marker", True) for _, panel in placed)
    if all_entries := [*handles(shown, marker=marked), *entries]:
        legend(figure, all_entries, note)
    return figure


def _draw_panel(axis: Axes, panel: Panel, looks: Mapping[str, Look], line: str) -> None:
    for name in looks:
        if line in panel.rows and len(part := panel.rows[panel.rows[line] == name]):
            panel.draw(axis, part, panel.x, panel.y, looks[name], name, **panel.options)
    if panel.more:
        panel.more(axis)
    axis.set(**{name: value for name, value in panel.axes.items() if name not in TICKS})


def _hide_inner_labels(axes: np.ndarray, grid: Sequence[Sequence[Panel]], sharex: Shared, sharey: Shared) -> None:
    for at, along in enumerate(grid):
        for across, axis in enumerate(axes[at, : len(along)]):
            lowest = all(across >= len(below) for below in grid[at + 1 :])
            axis.xaxis.label.set_visible(lowest or sharex in (False, "none", "row"))
            axis.tick_params(labelbottom=lowest or sharex in (False, "none", "row"))
            axis.yaxis.label.set_visible(across == 0 or sharey in (False, "none", "col"))


def _scale(placed: Sequence[tuple[Axes, Panel]]) -> None:
    for which in ("x", "y"):
        if logarithmic := [axis for axis, panel in placed if panel.axes.get(f"{which}scale") == "log"]:
            scale_log(np.array(logarithmic), which)
        for axis, panel in placed:
            if f"{which}ticks" in panel.axes:
                set_ticks(getattr(axis, f"{which}axis"), panel.axes[f"{which}ticks"])


def assign_looks(names: Sequence[str], style: Style, ordered: bool = False, marked: bool = True) -> dict[str, Look]:
    """A look for each name: colours from the palette, or from dark to light where names are ``ordered`` by a quantity.

    Args:
        marked: whether lines have a marker each.
    """
    colors = ordered_colors(len(names)) if ordered else palette(style, len(names))
    marks = [MARKERS[at % len(MARKERS)] if marked else "" for at in range(len(names))]
    return {name: Look(color, "-", mark) for name, color, mark in zip(names, colors, marks, strict=True)}


def draw_rows(
    axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str, *, join: bool = False, **options: Any
) -> None:
    """Draw a mark for each row, joined by a line in rising x if asked; ``options`` are those of ``Axes.plot``."""
    of = rows.sort_values(x) if join else rows
    style = {"color": look.color, "marker": look.marker, "linestyle": look.linestyle if join else ""}
    axis.plot(of[x], of[y], label=label, markerfacecolor=look.face, **{**style, **options})


def draw_each(
    axis: Axes,
    rows: pd.DataFrame,
    x: str,
    y: str,
    look: Look,
    label: str,
    *,
    unit: Sequence[str] = ("seed",),
    **options: Any,
) -> None:
    """Draw a thin line for each unit."""
    for number, (_, of) in enumerate(rows.groupby(list(unit), sort=False)):
        name = label if number == 0 else "_"
        draw_rows(axis, of, x, y, look, name, join=True, **{"linewidth": 0.8, "markersize": 2, **options})
