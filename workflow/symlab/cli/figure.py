"""The figure of one pair: loss and accuracy on the line between two networks, as they are and aligned."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from symlab.plotting.style import COLUMN, PAGE, Look, Style, handles, legend, palette, panels

POSITION = r"position $\lambda$ (0: A, 1: B)"


def path_figure(curves: pd.DataFrame, loss: str, style: Style) -> Figure:
    """Loss (and accuracy in percent, if there is one) against lambda, a line unaligned and one aligned.

    Args:
        curves: columns ``aligned``, ``lambda``, ``loss``, ``accuracy``.
        loss: the loss by name.
    """
    colors = palette(style)
    looks = {"B as it is": Look(colors[3], (0, (5, 2)), "o"), "B aligned to A": Look(colors[0], "-", "o")}
    measured = {loss: curves["loss"]}
    if curves["accuracy"].notna().any():
        measured["accuracy (%)"] = 100 * curves["accuracy"]
    figure, axes = panels(1, len(measured), COLUMN if len(measured) == 1 else PAGE, 2.6, sharey=False)
    for axis, (name, values) in zip(axes[0], measured.items(), strict=True):
        for aligned, look in zip((False, True), looks.values(), strict=True):
            line = curves["aligned"] == aligned
            axis.plot(curves.loc[line, "lambda"], values[line], color=look.color, linestyle=look.linestyle)
            ends = line & curves["lambda"].isin((0.0, 1.0))
            axis.plot(curves.loc[ends, "lambda"], values[ends], color=look.color, linestyle="", marker=look.marker)
        axis.set_xlabel(POSITION)
        axis.set_ylabel(name)
        axis.margins(x=0.03)
        axis.grid(axis="y", color="0.92", linewidth=0.7)
        axis.set_axisbelow(True)
    legend(figure, handles(looks, marker=False), "")
    return figure
