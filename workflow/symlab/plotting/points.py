"""How the figures of theorems draw rows: hollow where an assumption fails, at the edge where a log axis ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from symlab.plotting.rows import assumptions_hold, list_layers
from symlab.plotting.style import Color, Look, mark_entry

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MARKERS = "osD^vPX*"
DECADES = 6
"""Decades below the largest value of an axis from which on values are rounding."""
FEW_DECADES, PART = 2.5, 0.5
"""Decades below which a logarithmic axis has labels within them too, and below which its labels are evenly spaced."""


def fails(rows: pd.DataFrame) -> Shaped[np.ndarray, " n"]:
    """Which rows' assumptions do not hold: those whose ``assumption`` says which."""
    return ~assumptions_hold(rows).to_numpy(dtype=bool)


def assign_markers(values: Iterable[Any]) -> dict[Any, str]:
    """A marker for each of the distinct values in their order."""
    return {value: MARKERS[index % len(MARKERS)] for index, value in enumerate(dict.fromkeys(values))}


def draw_points(
    axis: Axes,
    x: Any,
    y: Any,
    hollow: Shaped[np.ndarray, " n"],
    color: Color,
    marker: str,
    label: str,
    size: float | None = None,
) -> None:
    """Draw points, those of ``hollow`` with a white face; each kind is one line of the axes, labelled ``label``.

    Without a ``size`` in points they have that of all figures.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    for chosen, face in ((~hollow, color), (hollow, "white")):
        if chosen.any():
            axis.plot(
                x[chosen],
                y[chosen],
                linestyle="",
                marker=marker,
                markersize=size,
                markerfacecolor=face,
                markeredgecolor=color,
                markeredgewidth=0.8,
                label=label,
            )


def floor_of(values: Iterable[Any]) -> float:
    """The edge of a logarithmic axis for values that are 0 or but rounding (DECADES below the largest).

    It lies below all others, or is the smallest where there are none of those.
    """
    finite = np.array([value for value in values if np.isfinite(value)], dtype=float)
    regular = finite[finite > 10.0**-DECADES * finite.max(initial=0.0)]
    if not len(regular):
        return 1.0
    return float(regular.min() / 3 if len(regular) < len(finite) else regular.min())


def raise_to_floor(values: pd.Series, floor: float) -> Float[np.ndarray, " n"]:
    """The values, with those below the floor on it; NaN stays."""
    return np.maximum(values.to_numpy(dtype=float), floor)


def scale_log(axes: np.ndarray, which: str) -> None:
    """Make the x or y axes logarithmic, with labels also within decades where there are few of them.

    For axes that share their limits, with everything drawn.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    for axes_of in axes.flat:
        (axes_of.set_xscale if which == "x" else axes_of.set_yscale)("log", nonpositive="mask")
    for axes_of in axes.flat:
        axis: Axis = axes_of.xaxis if which == "x" else axes_of.yaxis
        low, high = sorted(axis.get_view_interval())
        axis.set_minor_formatter(NullFormatter())
        decades = np.log10(high / low)
        if decades < FEW_DECADES:
            evenly = decades < PART
            axis.set_major_locator(MaxNLocator(4) if evenly else LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter("{x:g}")


def say_left_out(rows: pd.DataFrame, of: pd.DataFrame, why: str) -> str:
    """A sentence that names the variants (and layers) of rows that cannot be drawn; empty if there are none."""
    return f"not drawn, {why}: {list_layers(rows, of)}" if len(rows) else ""


def say_points_left_out(rows: pd.DataFrame, of: pd.DataFrame, why: str) -> str:
    """A sentence that counts the points that cannot be drawn of variants that are; empty if there are none."""
    return f"{len(rows)} of {len(of)} points not drawn, {why}: {list_layers(rows, of)}" if len(rows) else ""


def color_entries(looks: dict[str, Look], shown: pd.DataFrame) -> list[Artist]:
    """Legend entries of the shown rows' labels, in the order of the looks."""
    present = set(shown["label"])
    return [mark_entry(label, "s", color=look.color, markersize=5) for label, look in looks.items() if label in present]


def marker_entries(names: dict[str, str]) -> list[Artist]:
    """Legend entries of markers by what they mean."""
    return [mark_entry(name, marker) for name, marker in names.items()]


def hollow_entry(hollow: Shaped[np.ndarray, " n"]) -> list[Artist]:
    """The legend entry of hollow points, if there are any."""
    if not hollow.any():
        return []
    return [mark_entry("hollow: an assumption fails", "o", markerfacecolor="white", markeredgecolor="0.4")]
