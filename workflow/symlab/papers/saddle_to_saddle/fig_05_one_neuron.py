"""Fig. 5: the speed of one neuron on the circle against its direction, in closed form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from symlab.plotting.style import COLUMN, Style, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def speed_against_direction(tables: Tables, style: Style) -> Figure:
    """Fig. 5: the speed for phi from 0 to 2 pi."""
    phi = np.linspace(0, 2 * np.pi, 1601)
    speed = speed_of_one_neuron(phi)
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.2)
    axis = axes[0, 0]
    axis.plot(phi, speed, color=palette(style)[0])
    axis.axhline(math.sqrt(2) - 1, color="black", linestyle="--", linewidth=0.8)
    axis.axhline(0.5, color="black", linestyle=":", linewidth=0.8)
    axis.annotate("any width: 1/2", (0, 0.5), (3, -3), textcoords="offset points", va="top")
    axis.set(xlabel=r"direction $\varphi$", ylabel="speed $s$", ylim=(0, 0.53), xlim=(0, 2 * np.pi))
    axis.set_xticks(np.pi / 2 * np.arange(5), ["0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$", r"$2\pi$"])
    return figure


def speed_of_one_neuron(phi: np.ndarray) -> np.ndarray:
    """Equation 6 in closed form: |sin(pi/8 - xi)| / cos(pi/8), xi = phi mod pi/4; at most tan(pi/8) = sqrt(2) - 1."""
    return np.abs(np.sin(np.pi / 8 - phi % (np.pi / 4))) / np.cos(np.pi / 8)


FIGURES = (
    Drawing(
        "saddle-5",
        "Speed of one neuron against its direction",
        "Escape speed on the circle of a network of one neuron a layer, against the direction φ of its input weights "
        "(Equation 6, in closed form). It is √2 - 1 at most (dashed), where φ points at an input, and 0 between two; "
        "dotted is what wider networks reach at depth 3.",
        speed_against_direction,
        seen=lambda tables: "The largest speed is 0.4142, at multiples of π/4; it is 0 at odd multiples of π/8.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
