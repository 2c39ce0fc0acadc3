"""How the figures of theorems draw cases: a mark each, hollow where an assumption fails; what is left out is told."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.rows import assumptions_hold
from symlab.plotting.style import Artist, Axes, Look, Style, mark_entry


def point_looks(variants: pd.DataFrame, style: Style) -> dict[str, Look]:
    """The looks of variants whose cases are points: their colours, one marker, no line."""
    return {label: replace(look, linestyle="", marker="o") for label, look in variant_looks(variants, style).items()}


def mark_hollow(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``hollow``: whether an assumption fails."""
    return rows.assign(hollow=~assumptions_hold(rows))


def draw_cases(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str, **options: Any) -> None:
    """Draw a mark for each row, with a white face where its ``hollow`` is true.

    ``options`` are those of ``Axes.plot``.
    """
    for hollow, part in rows.groupby("hollow"):
        face = "white" if hollow else look.color
        edge = {"marker": look.marker, "markeredgewidth": 0.8, "markeredgecolor": look.color}
        axis.plot(part[x], part[y], markerfacecolor=face, label=label, **{"linestyle": "", **edge, **options})


def line_at(level: float) -> Callable[..., object]:
    """What draws the line of a bound into a panel."""
    return lambda axis, *_: axis.axhline(level, color="0.4", linewidth=0.8, zorder=0)


def dodge(rows: pd.DataFrame, x: str, labels: Sequence[str], spread: float = 0.7) -> pd.Series:
    """x with the labels side by side, over a share of the distance between two of its values."""
    order = [label for label in labels if label in set(rows["label"])]
    return rows[x] + (rows["label"].map(order.index) - (len(order) - 1) / 2) * spread / len(order)


def say_left_out(rows: pd.DataFrame, why: str) -> str:
    """A sentence that names the variants whose rows cannot be drawn; empty if there are none."""
    # A name is not broken into two lines.
    names = [str(name).replace(" ", "\N{NO-BREAK SPACE}") for name in rows["label"].unique()]
    return f"not drawn, {why}: {'; '.join(names)}" if names else ""


def count_left_out(rows: pd.DataFrame, of: pd.DataFrame, why: str) -> str:
    """A sentence that counts the points that cannot be drawn; empty if there are none."""
    return f"{len(rows)} of {len(of)} points not drawn, {why}" if len(rows) else ""


def hollow_entry(rows: pd.DataFrame, name: str = "hollow: an assumption fails") -> list[Artist]:
    """The legend entry of hollow points, if there are any."""
    if not rows["hollow"].any():
        return []
    return [mark_entry(name, "o", markerfacecolor="white", markeredgecolor="0.4")]
