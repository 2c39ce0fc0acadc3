"""Figures 1 and 5: a mirror of a loss in the plane, and descents that start on mirrors and stay there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.lines import LOSSES, RESCALING, ROTATION
from symlab.plotting.style import COLUMN, PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_most, exact_value
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES, OPTIMIZERS = "mirror_lines.csv", "mirror_optimizers.csv"
ADAM = "Adam"
EDGE = 1.8
"""Half of each panel's side."""
TITLES = {RESCALING: "$(wu - 1)^2$", ROTATION: r"$-|\theta|^2 + |\theta|^4$"}


def mirror_in_the_plane(tables: Tables, style: Style) -> Figure:
    """A point A, its reflection B and its projection C on the mirror u = w of (wu - 1)^2, and gradients there."""
    figure, axes = panels(1, 1, 1.1 * COLUMN, 3.4)
    axis, color = axes[0, 0], palette(style)[0]
    side = np.linspace(-0.6, EDGE, 121)
    u, w = np.meshgrid(side, side)
    values = LOSSES[RESCALING][0](u, w)
    axis.contour(u, w, values, levels=np.quantile(values, np.linspace(0.02, 0.95, 14)), cmap="Greys", linewidths=0.5)
    axis.plot([-0.6, EDGE], [-0.6, EDGE], color=color, marker="")
    A = np.array([1.3, 0.3])
    places = {"A": A, "C": np.full(2, A.mean()), "B": A[::-1]}
    axis.plot(*zip(*places.values(), strict=True), color="0.5", linestyle=":", marker="")
    for name, at in places.items():
        axis.plot(*at, color="black", marker="o", markersize=4)
        axis.annotate(name, at, xytext=(5, 5), textcoords="offset points")
    along = np.array([-0.35, 0.3, 1.5])
    du, dw = (-part for part in LOSSES[RESCALING][1](along, along))
    axis.quiver(along, along, np.sign(du), np.sign(dw), color=color, width=0.012, scale=11, zorder=3)
    axis.set(xlabel="$u$", ylabel="$w$", aspect="equal", xlim=(-0.6, EDGE), ylim=(-0.6, EDGE))
    return figure


def descents_on_mirrors(tables: Tables, style: Style) -> Figure:
    """Two losses with mirrors and the descents on and beside them; optimizers that start on a mirror of rotations."""
    rows = need(tables, LINES)
    figure, axes = panels(1, 3, PAGE, 3.0, sharex=False, sharey=False)
    on, beside = palette(style, 4)[0], palette(style, 4)[3]
    side = np.linspace(-EDGE, EDGE, 121)
    u, w = np.meshgrid(side, side)
    for axis, (kind, (loss, gradient)) in zip(axes[0, :2], LOSSES.items(), strict=True):
        values = loss(u, w)
        axis.contour(
            u, w, values, levels=np.quantile(values, np.linspace(0.02, 0.95, 14)), cmap="Greys", linewidths=0.5
        )
        few = (slice(6, None, 12), slice(6, None, 12))
        gu, gw = (-part[few] for part in gradient(u, w))
        length = np.hypot(gu, gw)
        axis.quiver(u[few], w[few], gu / length, gw / length, color="0.6", width=0.003, scale=28, pivot="mid")
        for (_, offset, _), path in rows[rows["loss_of"] == kind].groupby(["mirror", "offset", "radius"]):
            color, line = (beside, ":") if offset else (on, "-")
            axis.plot(path["u"], path["w"], color=color, linestyle=line, marker="", linewidth=1.6)
            axis.plot(path["u"].iloc[:1], path["w"].iloc[:1], color=color, marker="o", markersize=3)
        axis.set(title=TITLES[kind], xlabel="$u$", ylabel="$w$", aspect="equal", xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
    names = {"from a mirror": (on, "-"), f"from {rows['offset'].max():g} beside it": (beside, ":")}
    entries = [line_entry(name, color=color, linestyle=line) for name, (color, line) in names.items()]
    axis, off = axes[0, 2], need(tables, OPTIMIZERS)
    for color, (name, steps) in zip(palette(style, 8)[4:], off.groupby("optimizer", sort=False), strict=False):
        axis.plot(steps["step"], steps["off"].clip(lower=1e-17), color=color, marker="")
        entries.append(line_entry(str(name), color=color))
    axis.set(yscale="log", xlabel="step", ylabel=r"$|n^T W|\;/\;|W|$", title="$|W^T W - C|^2$", box_aspect=1)
    legend(figure, entries, "")
    return figure


def largest_distance(rows: pd.DataFrame) -> pd.Series:
    """How far descents get from the mirror on which they started, by loss and mirror."""
    return rows[rows["offset"] == 0].assign(off=lambda of: of["off"].abs()).groupby(["loss_of", "mirror"])["off"].max()


def _see(tables: Tables) -> str:
    rows = tables[LINES]
    on = largest_distance(rows)
    beside = rows[(rows["mirror"] == "u = -w") & (rows["offset"] > 0)]
    return (
        f"From a mirror of the left loss a descent gets {on[RESCALING].max():.3g} away from it, of the right one "
        f"{on[ROTATION].max():.2g}; from {beside['offset'].max():g} beside u = -w it ends "
        f"{beside['off'].abs().max():.3g} away."
    )


FIGURES = (
    Drawing(
        "mirror-1",
        "A mirror of a loss",
        "Contours of (wu - 1)² and its mirror u = w. A and B have the same loss; C, the point of the mirror between "
        "them, is nearer to 0, so that decay prefers it. On the mirror gradients (arrows: descent) point along it.",
        mirror_in_the_plane,
        differs="The paper's is a sketch.",
    ),
    Drawing(
        "mirror-5",
        "Descents that start on a mirror stay on it",
        "Left and middle: contours and directions of descent of two losses, and gradient descents from points (dots) "
        "on their mirrors and, dotted, from right beside them. Left, the mirrors are u = w and u = -w; along u = -w a "
        "descent ends at the saddle 0, where the loss is 1, unless it starts beside the mirror. In the middle every "
        "line through 0 is a mirror. Right: how far optimizers get off a mirror nᵀW = 0 of rotations on which they "
        "start; Adam divides every entry by its own scale, which rotations do not leave as it is.",
        descents_on_mirrors,
        seen=_see,
        differs="The paper draws two fields. Descents, controls from beside the mirrors and optimizers are added.",
    ),
)


def _left_by(names: Callable[[str], bool]) -> Callable[[Tables], list[Found]]:
    """How far some optimizers get off, from one start each: enough to check a theorem, and for a counterexample."""

    def measure(tables: Tables) -> list[Found]:
        off = tables[OPTIMIZERS].groupby("optimizer", sort=False)["off"].max()
        return [exact_value(float(v), case=str(name), unit="starts") for name, v in off.items() if names(str(name))]

    return measure


CLAIMS = (
    Claim(
        id="mirror-5-stays",
        statement="SGD that starts on a mirror of rotations stays there, with momentum and decay too",
        quantity="largest |nᵀW| / |W| in 200 steps",
        bound=at_most(1e-10),
        owner="paper",
        origin="pilot",
        reason="Corollary 1 says 0; in double precision 200 steps round to 1e-15, and momentum carries some of it on.",
        tables=(OPTIMIZERS,),
        kind="theorem",
        measure=_left_by(lambda name: name != ADAM),
    ),
    Claim(
        id="mirror-5-adam",
        statement="Adam leaves a mirror of rotations on which it starts",
        quantity="largest |nᵀW| / |W| in 200 steps",
        bound=above(1e-3),
        owner="ours",
        origin="pilot",
        reason="Its first step changes every entry by the rate, 0.001, whatever the gradient. The paper says that its "
        "results hold for Adam-type dynamics as well, which is so for mirrors of permutations and signs alone.",
        tables=(OPTIMIZERS,),
        measure=_left_by(lambda name: name == ADAM),
    ),
)
