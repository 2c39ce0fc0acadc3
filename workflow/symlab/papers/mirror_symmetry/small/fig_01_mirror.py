"""Figure 1: a mirror of a loss in the plane, a point, its reflection and its projection."""

from __future__ import annotations

import numpy as np

from symlab.papers.mirror_symmetry.small.lines import LOSSES, RESCALING
from symlab.plotting.style import COLUMN, Style, palette, panels
from symlab.plotting.types import Axes, Figure
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables

EDGE = 1.8
"""Half of each panel's side."""


def _mirror_in_the_plane(tables: Tables, style: Style) -> Figure:
    figure, axes = panels(1, 1, 1.1 * COLUMN, 3.4)
    axis, color = axes[0, 0], palette(style)[0]
    draw_contours(axis, RESCALING, -0.6)
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
    return figure


def draw_contours(axis: Axes, kind: str, low: float) -> tuple[np.ndarray, np.ndarray]:
    """Contours of a loss from ``low`` to the edge in both directions; the grid they are drawn on."""
    side = np.linspace(low, EDGE, 121)
    u, w = np.meshgrid(side, side)
    values = LOSSES[kind][0](u, w)
    axis.contour(u, w, values, levels=np.quantile(values, np.linspace(0.02, 0.95, 14)), cmap="Greys", linewidths=0.5)
    axis.set(xlabel="$u$", ylabel="$w$", aspect="equal", xlim=(low, EDGE), ylim=(low, EDGE))
    return u, w


FIGURES = (
    Drawing(
        "mirror-1",
        "A mirror of a loss",
        "Contours of (wu - 1)² and its mirror u = w. A and B have the same loss; C, the point of the mirror between "
        "them, is nearer to 0, so that decay prefers it. On the mirror gradients (arrows: descent) point along it.",
        _mirror_in_the_plane,
        differs="The paper's is a sketch.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
