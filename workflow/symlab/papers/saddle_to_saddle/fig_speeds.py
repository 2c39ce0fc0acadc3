"""Speeds on a data set: at which trained networks leave, at which they could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import at_first_snapshot, networks, paper_networks, say_how_many
from symlab.plotting.style import COLUMN, Style, legend, line_entry, mark_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_least, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COURSE, SPEEDS = "escape_course.csv", "data_speeds.csv"
AS_FAST = 0.9
"""Share of the best speed that counts as it."""


def speeds_by_depth(tables: Tables, style: Style) -> Figure:
    """Speeds of trained networks at the first snapshot and at their fastest, of starts on the sphere, of one neuron."""
    speeds, one = _of_sphere(tables)
    blue, orange, grey = (palette(style)[index] for index in (0, 1, 7))
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.6)
    axis = axes[0, 0]
    axis.axhline(one, color="black", linestyle="--", linewidth=0.8)
    for L, course, then in _trained(tables):
        fastest = course[course["speed"] > 0].groupby("seed")["speed"].max()
        axis.plot(np.full(len(fastest), L - 0.12), fastest, "^", color=orange, linestyle="")
        axis.plot(np.full(len(then), L), then["speed"], "o", color=blue, linestyle="")
    best = speeds[speeds["L"] > 2]
    axis.plot(best["L"] + 0.12, best["speed"], "s", color=grey, markersize=2.5, linestyle="")
    axis.set(xlabel="depth $L$", ylabel="escape speed $s$", ylim=(-0.03 * one, None))
    axis.set_xticks(sorted({*speeds["L"], *(L for L, _, _ in _trained(tables))} - {2}))
    entries = [
        mark_entry("trained, after the first escape", "o", color=blue),
        mark_entry("the fastest on the way", "^", color=orange),
        mark_entry("descent on the sphere", "s", color=grey),
        line_entry("one neuron", color="black", linestyle="--"),
    ]
    legend(figure, entries, "a mark a network or a start")
    return figure


def _of_sphere(tables: Tables) -> tuple[pd.DataFrame, float]:
    """Runs on the study's first data set, and the speed of one neuron, which is that of every network of depth 2."""
    speeds = need(tables, SPEEDS)
    speeds = speeds[speeds["dataset"] == speeds["dataset"].iloc[0]]
    return speeds, float(speeds.loc[speeds["L"] == 2, "speed"].max())


def _trained(tables: Tables) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame]]:
    """(L, courses, rows at the first snapshots) of ReLU networks of each depth."""
    course = need(tables, COURSE)
    for L in sorted(course.loc[course["activation"] == "relu", "L"].unique()):
        chosen = paper_networks(course, int(L))
        yield int(L), chosen, at_first_snapshot(chosen)


def _see(tables: Tables) -> str:
    _, one = _of_sphere(tables)
    told = [f"{then['speed'].mean():.3g} at depth {L}" for L, _, then in _trained(tables) if len(then)]
    most = max(float(rows["speed"].max()) for _, course, _ in _trained(tables) for _, rows in networks(course))
    return (
        f"One neuron a layer reaches {one:.3g}; trained networks have {', '.join(told)} after the first escape, and "
        f"{most:.3g} at most on the way."
    )


FIGURES = (
    Drawing(
        "saddle-speeds",
        "Speeds of the directions of trained networks, and what they could be",
        "Escape speed -L0 along the direction of the weights of the networks of the study `{study}`, after the first "
        "escape and the largest on the way; of descents on the sphere from random starts; dashed, of one neuron a "
        "layer, which no network of depth 2 exceeds and every deeper one can reach.",
        speeds_by_depth,
        seen=_see,
        differs="Not in the paper, which measures no speeds on images.",
    ),
)


def over_one_neuron(tables: Tables) -> list[Found]:
    """Speed at the first snapshot over that of one neuron, mean over networks, a case a depth."""
    _, one = _of_sphere(tables)
    return _ratios(tables, {L: one for L, _, _ in _trained(tables)}, one)


def over_the_best(tables: Tables) -> list[Found]:
    """Speed at the first snapshot over the largest known at the depth, mean over networks, a case a depth."""
    speeds, one = _of_sphere(tables)
    best = speeds.groupby("L")["speed"].max().clip(lower=one)
    return _ratios(tables, best.to_dict(), one)


def _ratios(tables: Tables, base: dict[int, float], one: float) -> list[Found]:
    found: list[Found] = []
    for L, course, then in _trained(tables):
        if len(then) and L in base:
            told = f"{then['speed'].mean():.3g} against {base[L]:.3g}"
            missing = say_how_many(len(then), course)
            values = then["speed"].to_numpy() / base[L]
            found.append(mean_of(values, f"depth {L}", "; ".join(filter(None, [told, missing])), "networks"))
    return found or ["no network leaves the origin for a moment at which its loss is flat within the steps"]


AFTER = (
    "The speed is read after the escape, when the full loss has turned the weights. Their direction at the escape is "
    "faster, and slower than one neuron's too, because they leave before they have aligned. At the paper's rate some "
    "networks of depth 4 are besides thrown back to the loss at the origin right after their escape (three of five on "
    "MNIST), with nearly all that they compute cut off by relu."
)
CLAIMS = (
    Claim(
        id="saddle-speeds-one-neuron",
        statement="After their first escape, networks point along a direction faster than one neuron a layer",
        quantity="-L0 of their direction at the first snapshot over the speed of one neuron, mean over networks",
        bound=above(1),
        owner="ours",
        origin="ours",
        reason="Proposition 3.2 says that a direction at least as fast as one neuron's exists, not that training "
        "finds it.",
        tables=(COURSE, SPEEDS),
        why={"": AFTER},
        measure=over_one_neuron,
    ),
    Claim(
        id="saddle-speeds-optimal",
        statement="After their first escape, networks point along the fastest direction known for their depth",
        quantity="-L0 of their direction at the first snapshot over the largest of one neuron and of descents on the "
        "sphere, mean over networks",
        bound=at_least(AS_FAST),
        owner="ours",
        origin="ours",
        reason="The paper's theory is of the optimal direction and leaves open whether training finds it; a tenth is "
        "left for a descent that has not quite aligned.",
        tables=(COURSE, SPEEDS),
        why={"": AFTER},
        measure=over_the_best,
    ),
)
