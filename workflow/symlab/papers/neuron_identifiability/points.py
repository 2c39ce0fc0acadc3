"""How the figures of theorems draw cases: a point each, hollow where an assumption fails; what is left out is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from symlab.papers.neuron_identifiability.rows import assumptions_hold
from symlab.papers.neuron_identifiability.variants import list_layers
from symlab.plotting.style import MARKERS, Color, Look, mark_entry

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


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


def raise_to_floor(values: pd.Series, floor: float) -> Float[np.ndarray, " n"]:
    """The values, with those below the floor on it; NaN stays."""
    return np.maximum(values.to_numpy(dtype=float), floor)


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
