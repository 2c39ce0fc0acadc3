"""Other polygons than the circle: speed of one neuron, certified limit at depth three, and what descent finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.plotting.style import COLUMN, Style, legend, line_entry, mark_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS, LIMITS = "polygon_runs.csv", "polygon_limits.csv"
SHOWN = (3, 4, 5)
"""Depths that are drawn; more of them are in ``fig_depths``."""


def speeds_by_polygon(tables: Tables, style: Style) -> Figure:
    """Speeds against the number of corners: one neuron, the certificate, the fastest run of each depth."""
    limits = need(tables, LIMITS).sort_values("N")
    runs = need(tables, RUNS)
    best = fastest_runs(runs[runs["L"].isin(SHOWN)])
    colors = palette(style)
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.6)
    axis = axes[0, 0]
    place = pd.Series(np.arange(len(limits)), index=limits["N"].to_numpy())
    axis.hlines(limits["certified"], place - 0.35, place + 0.35, color="black")
    axis.hlines(limits["rank_one"], place - 0.35, place + 0.35, color=colors[7], linestyle="--")
    depths = sorted(best.index.get_level_values("L").unique())
    for index, L in enumerate(depths):
        of_depth = best.xs(L, level="L")
        shift = 0.15 * (index - (len(depths) - 1) / 2)
        axis.plot(place[of_depth.index] + shift, of_depth, "osD^v"[index % 5], color=colors[index % 7], linestyle="")
    set_ticks(axis.xaxis, place)
    axis.set_xticklabels(place.index)
    axis.set(xlabel="corners $N$", ylabel="speed", ylim=(-0.03, None))
    entries = [
        line_entry("no network of depth 3 is faster (certified)", color="black"),
        line_entry("one neuron", color=colors[7], linestyle="--"),
        *(mark_entry(f"fastest run, depth {L}", "osD^v"[i % 5], color=colors[i % 7]) for i, L in enumerate(depths)),
    ]
    legend(figure, entries, "")
    return figure


def fastest_runs(runs: pd.DataFrame) -> pd.Series:
    """The largest speed of all runs by N and L."""
    return runs.groupby(["N", "L"])["speed"].max()


def _see(tables: Tables) -> str:
    best = fastest_runs(tables[RUNS])
    rows = tables[LIMITS].sort_values("N")
    told = [
        f"N = {row.N}: one neuron {row.rank_one:.3f}, certified {row.certified:.4f}, "
        f"fastest run {best.xs(row.N, level='N').max():.4f}"
        for row in rows.itertuples()
    ]
    return "; ".join(told) + "."


FIGURES = (
    Drawing(
        "saddle-polygons",
        "Escape speeds on polygons",
        "Inputs at the N corners of a regular polygon with gradients that alternate. Black: upper limit of the speed "
        "of every network of depth 3, certified by linear programs; grey: the best of one neuron a layer; marks: the "
        "fastest of all descents from random starts. With N = 6 or 10 corners one neuron cannot leave the origin to "
        "first order at all, and deeper networks can.",
        speeds_by_polygon,
        seen=_see,
        differs="Not in the paper, which has N = 8 alone.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
