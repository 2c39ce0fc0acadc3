"""Overlap of the types of two students drawn uniformly from the global minima, against width (Fig. 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import MARK_COLOR, WIDTH, finish, grid, key
from symlab.plotting.points import log_scale
from symlab.plotting.style import Style, legend, palette
from symlab.plotting.tables import need

LIMITS = {
    "poisson_limit": ("limit at fixed $m/M$ (Poisson)", (0, (6, 1.5))),
    "gaussian_limit": ("limit as printed (Thm. 5b)", (0, (1, 1.5))),
    "lower_bound": ("lower bound (Thm. 5a)", (0, (4, 1.5, 1, 1.5))),
}
WIDE = 12
"""Ratio of the largest m and M above which the axis of m is logarithmic."""


def against_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 1: mean overlap P against m, Monte Carlo and exact, with its limits and lower bound; a panel an M.

    A star is the smallest of the exact values, the vertical line m = 2M.
    """
    table = need(tables, "overlap.csv")
    sizes = list(dict.fromkeys(table["M"]))
    if table.groupby("M")["m"].nunique().max() < 3:
        raise UserError(f"{key(table, 'overlap')} gives fewer than three widths m of each M; raise up_to.")
    colors = palette(style)
    looks = dict(zip(LIMITS, (colors[2], colors[4], colors[7]), strict=True))
    n = len(sizes)
    figure, axes, _ = grid(n)
    for axis, M in zip(axes.flat, sizes, strict=False):
        rows = table[table["M"] == M].sort_values("m")
        for column, (label, dashes) in LIMITS.items():
            axis.plot(rows["m"], rows[column], color=looks[column], linestyle=dashes, linewidth=1.0, label=label)
        axis.plot(rows["m"], rows["overlap"], color=colors[0], label="exact")
        axis.errorbar(
            rows["m"], rows["overlap_mean"], yerr=rows["overlap_se"], color=colors[1], fmt="o", capsize=1.5,
            elinewidth=0.8, markersize=2.5, label="Monte Carlo",
        )  # fmt: skip
        lowest = rows.loc[rows["overlap"].idxmin()]
        axis.plot(
            lowest["m"], lowest["overlap"], color=colors[3], marker="*", markersize=9, linestyle="", label="minimum"
        )
        axis.axvline(2 * M, color=MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0, zorder=0, label="2M")
        if n > 1:
            axis.set_title(f"$M$ = {M}")
        if rows["m"].max() > WIDE * M:
            axis.set_xscale("log")
    for axis in finish(axes, n, WIDTH, "mean overlap $P$ of types"):
        if axis.get_xscale() == "log":
            log_scale(np.array([[axis]], dtype=object), "x")
    draws = " or ".join(f"{value:,}" for value in sorted(table["draws"].unique()))
    entries = [
        Line2D([], [], color=colors[1], linestyle="", marker="o", label="Monte Carlo mean ± s.e."),
        Line2D([], [], color=colors[0], label=r"exact $T(m, M)$"),
        Line2D([], [], color=colors[3], linestyle="", marker="*", markersize=9, label="exact minimum"),
        Line2D([], [], color=MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0, label="$m = 2M$"),
        *(
            Line2D([], [], color=looks[column], linestyle=dashes, linewidth=1.0, label=label)
            for column, (label, dashes) in LIMITS.items()
        ),
    ]
    legend(figure, entries, f"{draws} pairs of students drawn at each $m$")
    return figure
