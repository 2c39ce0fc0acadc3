"""Fig. 1 and Theorem 5: the overlap P of the types of two students drawn uniformly from the minima, against width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.drawing import MARK_COLOR, WIDTH, key_of, label_grid, make_grid
from symlab.papers.permutation_invariance.measuring import find_trough, of_table, smallest
from symlab.plotting.log_axes import scale_log
from symlab.plotting.style import Style, legend, line_entry, mark_entry, palette
from symlab.study.card import Drawing
from symlab.study.claim import Bound, Claim, Found, Tables, exact_value
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "overlap.csv"
LIMITS = {
    "poisson_limit": ("limit at fixed $m/M$ (Poisson)", (0, (6, 1.5))),
    "gaussian_limit": ("limit as printed (Thm. 5b)", (0, (1, 1.5))),
    "lower_bound": ("lower bound (Thm. 5a)", (0, (4, 1.5, 1, 1.5))),
}
WIDE = 12
"""Ratio of the largest m and M above which the axis of m is logarithmic."""
DRAWN = 12
"""How many of the means of draws are shown at most, so that they leave the exact curve to be seen."""


def against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 1: mean overlap P against m, exact and (at some widths) by draws, with its limits and lower bound.

    A panel an M. A star is the smallest of the exact values, the vertical line m = 2M.
    """
    table = need(tables, TABLE)
    sizes = list(dict.fromkeys(table["M"]))
    if table.groupby("M")["m"].nunique().max() < 3:
        raise UserError(f"{key_of(table, 'overlap')} gives fewer than three widths m of each M; raise up_to.")
    colors = palette(style)
    looks = dict(zip(LIMITS, (colors[2], colors[4], colors[7]), strict=True))
    n = len(sizes)
    figure, axes, _ = make_grid(n)
    for axis, M in zip(axes.flat, sizes, strict=False):
        rows = table[table["M"] == M].sort_values("m")
        for column, (label, dashes) in LIMITS.items():
            axis.plot(rows["m"], rows[column], color=looks[column], linestyle=dashes, linewidth=1.0, label=label)
        axis.plot(rows["m"], rows["overlap"], color=colors[0], label="exact")
        some = rows.iloc[:: -(-len(rows) // DRAWN)]
        axis.errorbar(
            some["m"], some["overlap_mean"], yerr=some["overlap_se"], color=colors[1], fmt="o", capsize=1.5,
            elinewidth=0.8, markersize=4, markerfacecolor="none", label="draws",
        )  # fmt: skip
        lowest = rows.loc[rows["overlap"].idxmin()]
        x, y = lowest["m"], lowest["overlap"]
        axis.plot(x, y, color=colors[3], marker="*", markersize=9, linestyle="", label="minimum")
        axis.annotate(f"$m$ = {x:g}", (x, y), (3, 7), textcoords="offset points", color=colors[3], fontsize="small")
        axis.axvline(2 * M, color=MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0, zorder=0, label="2M")
        axis.set_title(f"{'ab'[list(sizes).index(M)] if n == 2 else ''}   $M$ = {M}", loc="left")
        if rows["m"].max() > WIDE * M:
            axis.set_xscale("log")
    for axis in label_grid(axes, n, WIDTH, "mean overlap $P$ of types"):
        if axis.get_xscale() == "log":
            scale_log(np.array([[axis]], dtype=object), "x")
    draws = " or ".join(f"{value:,}" for value in sorted(table["draws"].unique()))
    entries = [
        line_entry(r"exact $T(m, M)$", color=colors[0]),
        mark_entry("mean of draws ± s.e.", "o", color=colors[1], markerfacecolor="none"),
        line_entry("$m = 2M$", color=MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0),
        *(
            line_entry(label, color=looks[column], linestyle=dashes, linewidth=1.0)
            for column, (label, dashes) in LIMITS.items()
        ),
    ]
    legend(figure, entries, f"{draws} pairs of students drawn at each $m$; star: exact minimum")
    return figure


def see_minima(tables: Tables) -> str:
    """Where the exact overlap is smallest, and by how much smaller than at 2M."""
    told = []
    for M, rows in tables[TABLE].groupby("M", sort=False):
        curve = rows.set_index("m")["overlap"]
        at_2M = f", against {curve[2 * M]:.4f} at 2M" if 2 * M in curve.index else ""
        told.append(f"for M = {M} at m = {curve.idxmin()} ({curve.min():.4f}{at_2M})")
    return f"The overlap is smallest {' and '.join(told)}, a little beyond 2M."


FIGURES = (
    Drawing(
        "permutation-1",
        "Overlap of types against student width",
        "Mean overlap P of the types of two students of m neurons, drawn uniformly from the global minima for a "
        "teacher of M neurons, against m, a panel for each M. P is the share of neurons that have a partner of their "
        "type in the other student. The solid line is the exact expectation T(m, M); circles are means over draws, at "
        "some of the widths.",
        against_width,
        see_minima,
        "The paper draws means of 10,000 draws alone; the exact curve, the bound of Theorem 5a and the two limits at "
        "fixed m/M are added.",
    ),
)


def minimum(table: pd.DataFrame) -> list[Found]:
    """The width at which the exact curve is smallest, in units of M."""
    found: list[Found] = []
    for M, rows in table.groupby("M", sort=False):
        ratio = rows["m"] / M
        near = ((ratio > 2) & (ratio <= 2.4)).any() and (ratio == 2).any()
        if not near or not (ratio < 2).any() or not (ratio > 2.4).any():
            found.append(f"M = {M:g}: needs widths below 2M, of 2M, up to 2.4M and beyond")
            continue
        curve = rows.set_index("m")["overlap"].astype(float).sort_index()
        at = find_trough(curve)
        told = f"T = {smallest(curve):.4f} at m = {at:g}; T = {curve[2 * M]:.4f} at m = 2M"
        found.append(exact_value(at / M, len(curve), f"M = {M:g}", told, "widths"))
    return found


CLAIMS = (
    Claim(
        id="permutation-1-minimum-at-2M",
        kind="theorem",
        statement="Two random minima have the fewest neurons of a type in common at m = 2M (Theorem 5b)",
        quantity="width at which the exact overlap T(m, M) is smallest, in units of M",
        bound=Bound("2 (m = 2M)", 2, 2),
        owner="paper",
        origin="paper",
        reason="'In this limiting sense, the overlap is minimized when t = 1/2, which is m = 2M' (proof of Theorem 5).",
        tables=(TABLE,),
        measure=of_table(TABLE, minimum),
        why={
            "": "The proof takes the number of neurons of a type for Gaussian. At fixed m/M = r it tends to a Poisson "
            "variable of mean r − 1 instead, with which the overlap is smallest at r = 2.29. At 2M it is larger by "
            "less than 0.004."
        },
    ),
)
