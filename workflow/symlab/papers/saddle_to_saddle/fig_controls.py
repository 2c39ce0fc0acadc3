"""Controls: linear networks and smaller initial weights, which the paper sets ReLU networks against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import (
    count_at_snapshots,
    second_at_snapshots,
    second_plateaus,
)
from symlab.plotting.style import PAGE, Style, legend, line_entry, mark_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, above, at_least, difference_of, mean_of, value_of_all
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COURSE, LAYERS = "escape_course.csv", "escape_layers.csv"
KINDS = {"relu": "ReLU", "identity": "linear"}
SCALES = "needs linear networks from two initial scales"


def widths_and_ranks(tables: Tables, style: Style) -> Figure:
    """Above: width of the second plateau against the initial scale; below: k_l after the escape. A column a depth."""
    depths = sorted(need(tables, COURSE)["L"].unique())
    colors = dict(zip(KINDS, palette(style), strict=False))
    widths = plateau_widths(tables)
    figure, axes = panels(2, len(depths), PAGE, 3.8, sharex="row", sharey="row")
    for column, L in enumerate(depths):
        upper, lower = axes[0, column], axes[1, column]
        for kind, color in colors.items():
            of_kind = widths[(widths["L"] == L) & (widths["activation"] == kind)]
            shift = 1.07 if kind == "relu" else 1 / 1.07
            for left, marker in ((True, "o"), (False, "^")):
                rows = of_kind[of_kind["left"] == left]
                upper.plot(rows["std"] * shift, rows["width"], marker, color=color, markersize=3, linestyle="")
            means = of_kind.groupby("std")["width"].mean()
            upper.plot(means.index, means, color=color, linewidth=0.9, marker="")
        for (activation, _), counts in _counts(tables, int(L)):
            k = counts.mean(axis=1)
            lower.plot(k.index, k, color=colors[activation], marker="o", markersize=2.5, linewidth=0.7)
        upper.set(xscale="log", title=f"depth {L}", xlabel="std of the initial weights")
        set_ticks(upper.xaxis, sorted(widths["std"].unique()))
        lower.set(xlabel="layer", xticks=range(1, int(max(depths)) + 1))
    axes[0, 0].set_ylabel("second plateau\n(decades of $s$)")
    axes[1, 0].set_ylabel("values that stand out\nafter the escape")
    entries = [line_entry(name, color=colors[kind], marker="o") for kind, name in KINDS.items()]
    entries.append(mark_entry("not left when the run ends", "^", color="0.4"))
    legend(figure, entries, "above: a mark a network, lines are means; below: a line an initial scale")
    return figure


def plateau_widths(tables: Tables) -> pd.DataFrame:
    """``second_plateaus`` of every network: ``L``, ``activation``, ``std``, ``seed``, ``width`` and ``left``."""
    found = [
        second_plateaus(course).rename_axis("seed").reset_index().assign(L=L, activation=activation, std=std)
        for (L, activation, std), course in _points(need(tables, COURSE))
    ]
    return pd.concat(found, ignore_index=True)


def _points(table: pd.DataFrame) -> Iterator[tuple[tuple[int, str, float], pd.DataFrame]]:
    first = table[table["dataset"] == table["dataset"].iloc[0]]
    yield from first.groupby(["L", "activation", "std"])  # type: ignore[misc]


def _counts(tables: Tables, L: int) -> Iterator[tuple[tuple[str, float], pd.DataFrame]]:
    """k_l at the first snapshots of networks of a depth, by activation and initial scale."""
    layers = dict(_points(need(tables, LAYERS)))
    for point, course in _points(need(tables, COURSE)):
        if point[0] == L and len(counts := count_at_snapshots(course, layers[point])):
            yield point[1:], counts


def _see(tables: Tables) -> str:
    widths = plateau_widths(tables)
    told = []
    for kind, name in KINDS.items():
        of_kind = widths[widths["activation"] == kind].groupby("L")
        means, late = of_kind["width"].mean(), of_kind["left"].agg(lambda left: (~left.astype(bool)).sum())
        told.append(f"{name} " + ", ".join(f"{means[L]:.2g} at depth {L} ({late[L]} not left)" for L in means.index))
    return f"Mean width of the second plateau in decades, so far where it is not left: {'; '.join(told)}."


FIGURES = (
    Drawing(
        "saddle-controls",
        "ReLU and linear networks from smaller and smaller weights",
        "Above: width of the second plateau of the loss, in decades of s, against the standard deviation of the "
        "initial weights, a column a depth. Below: how many singular values of each layer stand out over the noise of "
        "the initial weights after the first escape, mean over networks (at most ten are counted).",
        widths_and_ranks,
        seen=_see,
        differs="Not in the paper, which says that linear networks need small initial weights alone, and ReLU networks "
        "depth besides, without a run of linear ones.",
    ),
)


class Growth(NamedTuple):
    """Decades that the second plateau gains for each decade of the initial scale, by least squares, a slope a network.

    least: slopes that are exact, or at least so large because only small scales have plateaus that are not left.
    most: those that are exact, or at most so large.
    n: networks.
    """

    least: np.ndarray
    most: np.ndarray
    n: int


def growth(tables: Tables, L: int, activation: str) -> Growth:
    """How the second plateau of one kind of network grows as the initial weights shrink."""
    widths = plateau_widths(tables)
    chosen = widths[(widths["L"] == L) & (widths["activation"] == activation)]
    if chosen["std"].nunique() < 2:
        return Growth(np.empty(0), np.empty(0), 0)
    width, left = (chosen.pivot(index="std", columns="seed", values=name) for name in ("width", "left"))
    x = -np.log10(width.index.to_numpy(dtype=float))
    weight = (x - x.mean()) / np.square(x - x.mean()).sum()
    slopes = weight @ width.to_numpy(dtype=float)
    cut_off = ~left.to_numpy(dtype=bool)
    least, most = (~(cut_off & (side * weight <= 0)[:, None]).any(axis=0) for side in (1, -1))
    return Growth(slopes[least], slopes[most], len(slopes))


def _depths(tables: Tables) -> list[int]:
    return sorted(tables[COURSE]["L"].unique())


def _say_left(missing: int, n: int) -> str:
    return f"not reached: of {missing} of {n} networks too little of the second plateau is known" if missing else ""


def _unknown(L: int, n: int) -> Measurement:
    """What is said of a depth at which no network tells anything."""
    return Measurement(math.nan, n, case=f"depth {L}", unit="networks", open=_say_left(n, n))


def longer_in_linear(tables: Tables) -> list[Found]:
    """Slope of the second plateau's width over -log10 of the initial scale in linear networks, a case a depth."""
    found: list[Found] = []
    for L in _depths(tables):
        least, most, n = growth(tables, L, "identity")
        if len(least):
            told = "" if len(most) == n else "at least: plateaus from small weights are not left when the run ends"
            late = _say_left(n - len(least), n)
            found.append(replace(mean_of(least, f"depth {L}", told, "networks"), open=late))
        elif n:
            found.append(_unknown(L, n))
    return found or [SCALES]


def longer_than_in_relu(tables: Tables) -> list[Found]:
    """That slope minus the one in ReLU networks, a case a depth."""
    found: list[Found] = []
    for L in _depths(tables):
        linear, relu = (growth(tables, L, kind) for kind in ("identity", "relu"))
        if len(linear.least) and len(relu.most):
            told = f"{linear.least.mean():.2g} against {relu.most.mean():.2g}"
            measured = difference_of(linear.least, relu.most, f"depth {L}", told, "networks")
            n = linear.n + relu.n
            found.append(replace(measured, open=_say_left(n - len(linear.least) - len(relu.most), n)))
        elif linear.n and relu.n:
            found.append(_unknown(L, linear.n + relu.n))
    return found or [SCALES]


def one_value_in_linear(tables: Tables) -> list[Found]:
    """Share of linear networks of all scales in which one value stands out in every layer, a case a depth."""
    found: list[Found] = []
    layers = dict(_points(need(tables, LAYERS)))
    for L in _depths(tables):
        alone, second = [], []
        for point, course in _points(tables[COURSE]):
            if point[:2] != (L, "identity"):
                continue
            counts = count_at_snapshots(course, layers[point])
            if len(counts):
                alone.append((counts == 1).all().to_numpy())
                second.append(second_at_snapshots(course, layers[point])[counts.columns].to_numpy())
        if alone:
            held, sizes = np.concatenate(alone), np.concatenate(second)
            told = f"second singular value {np.median(sizes):.2g} of the first, median; at most {sizes.max():.2g}"
            found.append(value_of_all(float(held.mean()), len(held), f"depth {L}", told, "networks"))
    return found or ["needs linear networks that leave the origin"]


CLAIMS = (
    Claim(
        id="saddle-controls-linear",
        statement="In linear networks, smaller initial weights make the second plateau longer",
        quantity="decades of s that the second plateau gains for each decade of the initial scale, mean over networks",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper says that plateaus of linear networks can be made longer by a smaller initialization.",
        tables=(COURSE,),
        measure=longer_in_linear,
    ),
    Claim(
        id="saddle-controls-relu",
        statement="Smaller initial weights lengthen the second plateau less in ReLU networks than in linear ones",
        quantity="decades gained for each decade of the initial scale, linear minus ReLU networks",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper says that ReLU networks, in contrast to linear ones, need depth besides.",
        tables=(COURSE,),
        measure=longer_than_in_relu,
    ),
    Claim(
        id="saddle-controls-rank",
        statement="In linear networks one singular value stands out in every layer after the first escape",
        quantity="share of networks, of all initial scales",
        bound=at_least(1),
        owner="paper",
        origin="paper",
        reason="The paper says that all layers of linear networks have rank one in the first escape.",
        tables=(COURSE, LAYERS),
        why={
            "": "A value counts from 1.3 times the noise at the start on, and between two escapes the next one grows "
            "too: to 1.4 to 4.2 times it, whatever the scale, in 22 of the 24 networks of depths 4 to 6 in which it "
            "counts, where the first is at 25 times it and more from standard deviations of 0.003 and 0.001. In size "
            "one value stands alone (the second below 0.22 of it) in 43 of the 45 networks of these depths.",
            "depth 3": "In 11 of 15 networks two to five values leave before the loss lies flat once, in all of those "
            "from a standard deviation of 0.01; in the other four the second value is at 4 to 5 times the noise, the "
            "first at 28 times it and more.",
        },
        measure=one_value_in_linear,
    ),
)
