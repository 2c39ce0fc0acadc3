"""How tight Proposition 3.3 is: ratios of the fastest escape direction for inputs near rank one, and the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symlab.plotting.style import COLUMN, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TABLE = "near_rank_one.csv"
FLOOR = 1e-16
"""Where zeros but for rounding are drawn."""


def ratios_against_noise(tables: Tables, style: Style) -> Figure:
    """The largest A_l, B_l with l >= 1, and D_l against the norm of the noise, with the bound on all of them."""
    rows = need(tables, TABLE).sort_values("noise")
    colors = palette(style)
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.6)
    axis = axes[0, 0]
    for letter, color, marker in zip("ABD", colors, "osD", strict=False):
        axis.plot(rows["noise"], largest(rows, letter).clip(lower=FLOOR), color=color, marker=marker)
    axis.plot(rows["noise"], rows["bound"].replace(np.inf, np.nan), color="black", linestyle="--", marker="")
    axis.axhline(FLOOR, color="0.7", linewidth=0.6)
    axis.set(xscale="log", yscale="log", xlabel="norm of the noise / norm of $uv^T$", ylabel="largest over layers")
    names = ("A, weights", "B, hidden activations", "D, what relu cuts")
    entries = [line_entry(n, color=c, marker=m) for n, c, m in zip(names, colors, "osD", strict=False)]
    legend(figure, [*entries, line_entry("bound of Prop. 3.3", color="black", linestyle="--")], "")
    return figure


def largest(rows: pd.DataFrame, letter: str) -> pd.Series:
    """The largest ratio of the hidden layers (B_0 is of the inputs)."""
    return rows[[name for name in rows if name.startswith(f"{letter}_") and name != "B_0"]].max(axis=1)


def _see(tables: Tables) -> str:
    rows = tables[TABLE].sort_values("noise")
    told = []
    for letter in "ABD":
        above = rows.loc[largest(rows, letter) > 1e-3, "noise"]
        told.append(
            f"{letter} at {above.iloc[0]:g}" if len(above) else f"{letter} nowhere up to {rows['noise'].max():g}"
        )
    return f"Ratios exceed 0.001 first: {', '.join(told)} times the norm of the rank-one part."


FIGURES = (
    Drawing(
        "saddle-prop3.3",
        "Ratios for inputs near rank one",
        "Largest A, B and D over the layers of the fastest escape direction found for inputs uvᵀ + E, against the norm "
        "of E; dashed, where finite, the bound of Proposition 3.3. Values at the grey line are 0 up to rounding.",
        ratios_against_noise,
        seen=_see,
        differs="Not in the paper, which proves the bound and conjectures exact rank one in most layers.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
