"""The optimal speed on the circle against the depth: lifted from shallower networks, and found from random starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.plotting.style import COLUMN, Style, legend, line_entry, mark_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below, value_of_all
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS, LIMITS, LIFTS = "polygon_runs.csv", "polygon_limits.csv", "polygon_lifts.csv"
WIDTH, STARTS = 8, 60
"""Neurons of a layer, and the random starts of each depth that count, which are equally many so."""
REACHED = 0.99
"""Share of a speed that counts as reaching it."""


def speed_against_depth(tables: Tables, style: Style) -> Figure:
    """The speed of every start, the fastest, and the lifted ones, by depth."""
    runs, lifted, limits = starts(tables), lifted_speeds(tables), need(tables, LIMITS).set_index("N").loc[8]
    blue, grey = palette(style)[0], palette(style)[7]
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.6)
    axis = axes[0, 0]
    spread = 0.3 * (runs["run"] / STARTS - 0.5)
    axis.plot(runs["L"] + spread, runs["speed"], ".", color=grey, markersize=2, linestyle="")
    axis.plot(lifted.index, lifted, color="black", marker="_", markersize=12)
    best = runs.groupby("L")["speed"].max()
    axis.plot(best.index, best, "o", color=blue, markersize=4, linestyle="")
    axis.axhline(limits["certified"], color="black", linestyle=":", linewidth=0.8)
    axis.axhline(limits["rank_one"], color="black", linestyle="--", linewidth=0.8)
    axis.set(xlabel="depth $L$", ylabel="speed $s$", ylim=(-0.03, 0.55))
    axis.set_xticks(sorted(runs["L"].unique()))
    entries = [
        mark_entry("a start", ".", color=grey),
        mark_entry("the fastest", "o", color=blue),
        line_entry("lifted from a shallower network", color="black", marker="_"),
        line_entry("limit of depth 3 (certified)", color="black", linestyle=":"),
        line_entry("one neuron", color="black", linestyle="--"),
    ]
    legend(figure, entries, f"{STARTS} starts a depth, width {WIDTH}")
    return figure


def starts(tables: Tables) -> pd.DataFrame:
    """The first runs of every depth on the circle."""
    runs = need(tables, RUNS)
    return runs[(runs["N"] == 8) & (runs["width"] == WIDTH) & (runs["run"] < STARTS)]


def lifted_speeds(tables: Tables) -> pd.Series:
    """By depth, the largest speed of a shallower network's fastest run that is made so deep."""
    lifts = tables[LIFTS]
    return lifts[(lifts["N"] == 8) & (lifts["width"] == WIDTH)].groupby("L")["speed"].max()


def _see(tables: Tables) -> str:
    best, lifted = starts(tables).groupby("L")["speed"].max(), lifted_speeds(tables)
    told = ", ".join(f"{speed:.4f} at depth {L}" for L, speed in best.items())
    return f"The fastest starts reach {told}; lifted networks {lifted.min():.4f} to {lifted.max():.4f}."


FIGURES = (
    Drawing(
        "saddle-depths",
        "Speed against depth",
        "Escape speeds on the circle against the depth: of descents on the sphere from random starts, and of the "
        "fastest of them at a smaller depth after it is made deeper by Proposition 3.2, which is a lower limit by "
        "construction. Dotted is the certified limit of depth 3, dashed the speed of one neuron a layer.",
        speed_against_depth,
        seen=_see,
        differs="Not in the paper, which proves that the optimal speed does not fall with the depth.",
    ),
)


def reach_lifted_speed(tables: Tables) -> list[Found]:
    """Fastest start over the lifted speed, a case a depth above 3."""
    best, lifted = starts(tables).groupby("L")["speed"].max(), lifted_speeds(tables)
    counts = starts(tables).groupby("L").size()
    found: list[Found] = []
    for L in (L for L in best.index if L > 3 and L in lifted):
        fast = int((starts(tables).query("L == @L")["speed"] > REACHED * lifted[L]).sum())
        told = f"{best[L]:.4g} against {lifted[L]:.4g}; {fast} starts within a hundredth"
        found.append(value_of_all(float(best[L] / lifted[L]), int(counts[L]), f"depth {L}", told, "starts"))
    return found or ["needs depths above 3 and one below, at width 8"]


def exceed_limit_of_depth_3(tables: Tables) -> list[Found]:
    """Fastest start at any depth above 3 over the certified limit of depth 3."""
    runs = starts(tables)
    deep = runs[runs["L"] > 3]
    if deep.empty:
        return ["needs depths above 3 at width 8"]
    limit = tables[LIMITS].set_index("N").loc[8, "certified"]
    told = f"depths {', '.join(map(str, sorted(deep['L'].unique())))}"
    return [value_of_all(float(deep["speed"].max() / limit), len(deep), detail=told, unit="starts")]


def largest_second_value(tables: Tables) -> list[Found]:
    """Second over first singular value of the fastest start, the largest of layers 2 to L, a case a depth.

    Of those depths whose fastest start is as fast as the lifted networks: others are not near the optimum.
    """
    runs, limit = starts(tables), tables[LIMITS].set_index("N").loc[8, "certified"]
    found: list[Found] = []
    for L, of_depth in runs[runs["L"] > 2].groupby("L"):
        fastest = of_depth.loc[of_depth["speed"].idxmax()]
        if fastest["speed"] > REACHED * limit:
            values = fastest[[f"second_{layer}" for layer in range(2, int(str(L)) + 1)]].to_numpy(dtype=float)
            told = f"layer {2 + int(np.argmax(values))}; first layer {fastest['second_1']:.3g}"
            found.append(value_of_all(float(values.max()), len(of_depth), f"depth {L}", told, "starts"))
    return found or ["at no depth a start reaches the limit"]


CLAIMS = (
    Claim(
        id="saddle-depths-reached",
        statement="At greater depth too, descent from random weights finds the speed that lifted networks have",
        quantity=f"speed of the fastest of {STARTS} starts of width {WIDTH} over that of the lifted network",
        bound=at_least(REACHED),
        owner="ours",
        origin="pilot",
        reason="A hundredth is left for descents that have not quite ended; speeds that another program found "
        "at depths 3 to 8 were known.",
        tables=(RUNS, LIMITS, LIFTS),
        why={
            "": "Where all weights are random, the output is small of the order of the product of all layers, and with "
            "it the gradient: at width 8 every start of this depth still lies near speed 0 when its steps are over."
        },
        measure=reach_lifted_speed,
    ),
    Claim(
        id="saddle-depths-flat",
        statement="No deeper network is found that is faster than the limit of depth three",
        quantity="fastest start of all depths above 3 over the certified limit of depth 3",
        bound=at_most(1.001),
        owner="ours",
        origin="ours",
        reason="The paper proves that the optimal speed does not fall with the depth, and leaves open if it rises; "
        "a thousandth is far more than the certificate's slack.",
        tables=(RUNS, LIMITS),
        measure=exceed_limit_of_depth_3,
    ),
    Claim(
        id="saddle-depths-rank",
        statement="In the fastest networks all layers but the first have rank one",
        quantity="second over first singular value of W_l, largest of layers 2 to L, of the fastest start",
        bound=below(0.1),
        owner="derived",
        origin="pilot",
        reason="The paper conjectures exact rank one in most layers where the optimal speed does not rise with the "
        "depth; a tenth is left for descents that have not quite ended. Ranks that another program found were known.",
        tables=(RUNS, LIMITS),
        measure=largest_second_value,
    ),
)
