"""Fig. 11: how the smallest distance of projected centres shrinks with the layer's width."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Measurement, Tables, between, slope, spread, stated
from symlab.plotting.points import MARKERS
from symlab.plotting.rows import mean_std, need
from symlab.plotting.style import (
    COLUMN,
    Look,
    Style,
    legend,
    line_entry,
    mark_entry,
    mean_line,
    name_axes,
    ordered_colors,
    panels,
    set_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 11: gamma_out against m for each k and fixed fraction, and c_k m^(-2/k) from the smallest width's mean."""
    gaps = need(tables, "centre_gaps.csv")
    if gaps["m"].nunique() < 2:
        raise UserError("it needs centre gaps at two widths or more, so list them in the study's centre_gaps.widths.")
    dimensions, fractions = sorted(gaps["k"].unique()), sorted(gaps["fixed_fraction"].unique())
    colors = dict(zip(dimensions, ordered_colors(len(dimensions)), strict=True))
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
    set_ticks(axis.xaxis, sorted(gaps["m"].unique()))
    name_axes(axes, "width $m$ (neurons)", r"centre gap $\gamma_{\mathrm{out}}$ (weight norm)")
    entries = [
        *(line_entry(f"$k$ = {k:g}", color=colors[k]) for k in dimensions),
        *(mark_entry(f"{100 * fraction:g} % fixed", markers[fraction]) for fraction in fractions),
        line_entry(r"$c_k\,m^{-2/k}$", linestyle=":"),
    ]
    legend(figure, entries, "solid: mean ± std over draws of F")
    return figure


FIGURES = (
    Drawing(
        "identifiability-11",
        "Centre gap against width",
        """\
Smallest distance γ_out between the projected centres of sampled fixed weights, against the number m of neurons, for
each intrinsic dimension k (colour) and fraction of fixed weights (marker), study `{study}`. Both axes are
logarithmic. Solid lines are means over draws of F with one standard deviation as error bars; dotted lines are the
predicted rate c_k m^(-2/k), drawn through the mean at the smallest width.

The gap should close fast with width at k = 2 and hardly at all at k = 32.
""",
        against_width,
    ),
)


def slopes(tables: Tables, k: int) -> list[Measurement]:
    """Least-squares slope of log(mean gamma_out over draws) against log m at one k, for each setting of F.

    The spread is that of the slopes of single draws. A setting with fewer than two widths is left out.
    """
    table = tables["centre_gaps.csv"]
    rows = table[table["k"] == k]
    setting = ["dataset", "sigma_F", "fixed_fraction"]
    telling = [column for column in setting if column == "fixed_fraction" or rows[column].nunique() > 1]
    measured = []
    for _, group in rows.groupby(setting, sort=False):
        gaps = group.pivot(index="m", columns="draw", values="gamma_out")
        if len(gaps) > 1:
            of_draws = np.array([slope(gaps[draw]) for draw in gaps])
            case = ", ".join(f"{column} = {group[column].iloc[0]}" for column in telling)
            value = slope(gaps.mean(axis="columns", skipna=False))
            widths = f"m = {gaps.index.min():g} to {gaps.index.max():g}"
            measured.append(Measurement(value, len(of_draws), spread(of_draws), case, widths))
    return measured


CLAIMS = (
    *(
        stated(
            f"identifiability-11-k{k}",
            "identifiability-11",
            "The centre gap gamma_out falls with the width m as m^(-2/k) at k = "
            f"{k}: slope of log mean gamma_out against log m",
            between(-2.5 / k, -1.5 / k),
            f"Theorem 4.6 predicts {-2 / k:g}; a quarter of it is left for finite widths.",
            "centre_gaps.csv",
            partial(slopes, k=k),
        )
        for k in (2, 8)
    ),
    stated(
        "identifiability-11-k32",
        "identifiability-11",
        "The centre gap gamma_out falls slowly with the width m at k = 32: slope of log mean gamma_out against log m",
        between(-0.15, -0.05),
        "Theorem 4.6 predicts -0.0625 for m to infinity; up to some thousand neurons the gap falls more steeply.",
        "centre_gaps.csv",
        partial(slopes, k=32),
    ),
)
