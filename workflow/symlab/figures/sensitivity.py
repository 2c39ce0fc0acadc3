"""Measured costs of permutations over the leading term that fixed weights give (Thms. 4.5 and 4.7)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from symlab.errors import UserError
from symlab.plotting.points import (
    colors_of,
    fails,
    hollow_entry,
    left_out,
    log_scale,
    marker_entries,
    markers,
    points,
    points_left_out,
    with_labels,
)
from symlab.plotting.style import PAGE, Style, legend, name_axes, name_row, panels, variant_looks, wrapped
from symlab.plotting.tables import need, where

PERMUTATIONS = {"transposition": "transpositions", "random": "random permutations"}
LINEAR = 2.0
"""Ratio of cost and leading term up to which the axis is linear."""
TICKS = (-1000, -100, -10, -1, 0, 1, 2, 10, 100, 1000)


def of_outputs(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure thm4.5: Delta_out(pi) / (|delta_out|_F^2 / mu_D) against rho, a row a kind of pi, a column a layer."""
    return _ratios(tables, "output", style)


def of_inputs(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure thm4.7: Delta_in(tau) / (|delta_in|_F^2 / mu_D) against rho, a row a kind of tau, a column a layer."""
    return _ratios(tables, "input", style)


def _ratios(tables: dict[str, pd.DataFrame], side: str, style: Style) -> Figure:
    """Ratios as points, 1 +- bound of each point as a vertical line through it."""
    table = need(tables, "sensitivity.csv")
    rows, variants = with_labels(table[table["side"] == side])
    drawable = np.isfinite(rows["rho"]) & (rows["rho"] > 0) & (rows["leading"] > 0) & np.isfinite(rows["cost"])
    without = ~(rows["leading"] > 0)
    shown = rows[drawable]
    if shown.empty:
        raise UserError(
            f"{where(table)}.variants has no variant whose fixed weights give the costs of {side} permutations a "
            "leading term; add one with scheme.sigma_F above 0."
        )
    shown = shown.assign(ratio=shown["cost"] / shown["leading"])
    looks = variant_looks(variants, style)
    marks = markers(shown["dataset"])
    kinds = [kind for kind in PERMUTATIONS if kind in set(shown["permutation"])]
    layers = sorted(shown["layer"].unique())
    figure, axes = panels(len(kinds), len(layers), PAGE, 1.5 + 1.6 * len(kinds))
    for row, kind in enumerate(kinds):
        for column, layer in enumerate(layers):
            axis = axes[row, column]
            axis.axhline(1, color="0.4", linewidth=0.8, zorder=0)
            part = shown[(shown["permutation"] == kind) & (shown["layer"] == layer)]
            for (label, dataset), of_variant in part.groupby(["label", "dataset"], sort=False):
                color, rho, bound = looks[str(label)].color, of_variant["rho"], of_variant["bound"]
                axis.vlines(rho, 1 - bound, 1 + bound, color=color, lw=0.8, alpha=0.25, zorder=1)
                points(axis, rho, of_variant["ratio"], fails(of_variant), color, marks[dataset], str(label))
            if row == 0:
                axis.set_title(f"layer {layer}")
        name_row(axes[row, -1], PERMUTATIONS[kind])
    _fit(axes, shown)
    x = r"$\rho$ (trainable over fixed)"
    name_axes(axes, x, r"cost / leading term")
    entries = [
        *colors_of(looks, shown),
        *(marker_entries(marks) if len(marks) > 1 else []),
        Line2D([], [], color="0.4", alpha=0.5, linestyle="", marker="|", markersize=8, label="1 ± bound"),
        *hollow_entry(fails(shown)),
    ]
    # Variants with a leading term somewhere.
    some = rows["label"].isin(rows.loc[~without, "label"])
    sentences = [
        left_out(rows[without & ~some], rows, "F = 0 and with it the leading term"),
        points_left_out(rows[without & some], rows[some], "where the permutation moves no centre"),
        points_left_out(rows[~drawable & ~without], rows[some], "with infinite cost or no trainable part"),
    ]
    legend(figure, entries, wrapped(sentences, PAGE, style))
    return figure


def _fit(axes: np.ndarray, shown: pd.DataFrame) -> None:
    """Limits that show every point and the bounds where the assumptions hold; other bounds may leave the panel."""
    held = shown.loc[~fails(shown), "bound"].max()
    reach = 1.2 if np.isnan(held) else 1.1 * held
    low, high = min(1 - reach, shown["ratio"].min()), max(1 + reach, shown["ratio"].max())
    for axis in axes.flat:
        axis.set_yscale("symlog", linthresh=LINEAR)
        axis.set_ylim(min(1.2 * low, 0.0), 1.2 * high)
        bottom, top = axis.get_ylim()
        # Beyond the first power of ten the labels of 1 and 2 would touch.
        near = (-1, 1, 2) if max(-bottom, top) < 10 else (1,)
        ticks = [tick for tick in TICKS if bottom <= tick <= top and (abs(tick) > 2 or tick == 0 or tick in near)]
        axis.yaxis.set_major_locator(FixedLocator(ticks))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter("{x:g}")
    log_scale(axes, "x")
