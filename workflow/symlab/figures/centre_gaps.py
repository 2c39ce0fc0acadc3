"""How the smallest distance of projected centres shrinks with the layer's width (Fig. 11)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from symlab.errors import UserError
from symlab.plotting.style import COLUMN, Look, Style, legend, mean_line, name_axes, ordered, panels
from symlab.plotting.tables import mean_std, need

MARKERS = "osD^vP"


def against_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 11: gamma_out against m for each k and fixed fraction, and c_k m^(-2/k) from the smallest width's mean."""
    gaps = need(tables, "centre_gaps.csv")
    if gaps["m"].nunique() < 2:
        raise UserError("it needs centre gaps at two widths or more, so list them in the study's centre_gaps.widths.")
    dimensions, fractions = sorted(gaps["k"].unique()), sorted(gaps["fixed_fraction"].unique())
    colors = dict(zip(dimensions, ordered(len(dimensions)), strict=True))
    markers = {fraction: MARKERS[index % len(MARKERS)] for index, fraction in enumerate(fractions)}
    figure, axes = panels(1, 1, 1.35 * COLUMN, 3.4)
    axis = axes[0, 0]
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", nonpositive="clip")
    for (k, fraction), rows in gaps.groupby(["k", "fixed_fraction"]):
        stats = mean_std(rows, "m", "gamma_out")
        look = Look(colors[k], "-", markers[fraction])
        mean_line(axis, stats, look, f"k = {k:g}, {fraction:g} fixed", band=False)
        rate = stats["mean"].iloc[0] * (stats["m"] / stats["m"].iloc[0]) ** (-2 / k)
        axis.plot(stats["m"], rate, color=look.color, linestyle=":", label=f"rate, k = {k:g}, {fraction:g} fixed")
    axis.xaxis.set_major_locator(FixedLocator(sorted(gaps["m"].unique())))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")
    name_axes(axes, "width $m$ (neurons)", r"centre gap $\gamma_{\mathrm{out}}$ (weight norm)")
    entries = [
        *(Line2D([], [], color=colors[k], label=f"$k$ = {k:g}") for k in dimensions),
        *(
            Line2D([], [], color="0.4", linestyle="", marker=markers[fraction], label=f"{100 * fraction:g} % fixed")
            for fraction in fractions
        ),
        Line2D([], [], color="0.4", linestyle=":", label=r"$c_k\,m^{-2/k}$"),
    ]
    legend(figure, entries, "solid: mean ± std over draws of F")
    return figure
