"""How far the Gram matrices S_i are from mu_D I, against the coherence of their inputs (Thm. 4.4)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from symlab.errors import UserError
from symlab.plotting.points import (
    colors_of,
    fails,
    floor_of,
    floored,
    hollow_entry,
    left_out,
    log_scale,
    marker_entries,
    points,
    with_labels,
)
from symlab.plotting.style import PAGE, Style, legend, name_axes, panels, variant_looks, wrapped
from symlab.plotting.tables import need, where

MASKS = {"own": "own masks", "fresh": "fresh masks"}
MEASURED = {"deviation_median": ("median neuron", "o"), "deviation_max": ("worst neuron", "^")}
BOUNDS = {"bound": ("bound, one neuron", "_", 1.0), "bound_all": ("bound, all neurons", "_", 0.45)}


def against_nu(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure thm4.4: |S_i - mu_D I|_op / mu_D against nu(U), median and largest of a layer's neurons, and bounds.

    A panel the networks' own masks and one masks drawn afresh; a vertical line joins what belongs to a layer.
    """
    rows, variants = with_labels(need(tables, "gram_deviation.csv"))
    constant = (rows["sigma_D2"] == 0) & (rows["b_D"] == 0)
    shown = rows[~constant]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with masks (all entries of D are alike), whose Gram matrices "
            "could deviate; add a w_asymmetric or syre one."
        )
    columns = [*MEASURED, *BOUNDS]
    scaled = shown.assign(**{column: shown[column] / shown["mu_D"] for column in columns})
    floor = floor_of(scaled[columns].to_numpy().ravel())
    looks = variant_looks(variants, style)
    masks = [name for name in MASKS if name in set(shown["masks"])]
    figure, axes = panels(1, len(masks), PAGE, 3.5)
    for axis, name in zip(axes[0], masks, strict=True):
        for label, part in scaled[scaled["masks"] == name].groupby("label", sort=False):
            color, hollow = looks[str(label)].color, fails(part)
            ends = np.array([floored(part[column], floor) for column in columns])
            axis.vlines(part["nu"], np.nanmin(ends, axis=0), np.nanmax(ends, axis=0), color=color, lw=0.5, alpha=0.4)
            for column, (_, marker) in MEASURED.items():
                points(axis, part["nu"], floored(part[column], floor), hollow, color, marker, f"{label} {column}")
            for column, (_, marker, alpha) in BOUNDS.items():
                mark = {"color": color, "alpha": alpha, "markersize": 7, "markeredgewidth": 1.4, "linestyle": ""}
                axis.plot(part["nu"], floored(part[column], floor), marker=marker, label=f"{label} {column}", **mark)
        axis.axhline(1, color="0.4", linestyle=":", linewidth=0.9)
        axis.set_title(MASKS[name])
    log_scale(axes, "x")
    log_scale(axes, "y")
    name_axes(
        axes,
        r"coherence $\nu(U)$ of the layer's inputs",
        r"$\|S_i - \mu_D I\|_{\mathrm{op}}\,/\,\mu_D$",
    )
    entries = [
        *colors_of(looks, shown),
        *marker_entries(dict(MEASURED.values())),
        *(
            Line2D([], [], color="0.2", alpha=alpha, linestyle="", marker=marker, ms=7, mew=1.4, label=name)
            for name, marker, alpha in BOUNDS.values()
        ),
        Line2D([], [], color="0.4", linestyle=":", label=r"below: $S_i$ is invertible"),
        *hollow_entry(fails(shown)),
    ]
    delta = " or ".join(f"{value:g}" for value in sorted(shown["delta"].unique()))
    sentences = [
        rf"one column of marks a layer of a network, bounds hold with probability $1 - \delta$, $\delta$ = {delta}",
        left_out(rows[constant], rows, "all of D alike, so deviation and bound are 0"),
    ]
    legend(figure, entries, wrapped(sentences, PAGE, style))
    return figure
