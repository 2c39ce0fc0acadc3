"""Identifiability and accuracy against the scale of the fixed weights (Section 4.5)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from symlab.errors import UserError
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    Look,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    palette,
    panels,
    permutation_looks,
)
from symlab.plotting.tables import labelled, mean_std, need, sigma_sweep, where

SIGMA_F = r"fixed-weight scale $\sigma_F$"


def against_sigma_F(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure sec4.5: identity / optimal objective above, train and validation accuracy below, a column a data set.

    W-asymmetric networks after the last epoch; dotted lines are the standard networks' mean accuracy.
    """
    table = need(tables, "trade_off.csv")
    sweep = sigma_sweep(table)
    if sweep["sigma_F"].nunique() < 2:
        raise UserError(
            f"{where(table)}.variants needs a W-asymmetric variant with at least two values of sigma_F; "
            "give it sweep: {scheme.sigma_F: [0, 1]}."
        )
    if table["train_accuracy"].isna().all():
        raise UserError(f"{where(table)}.dataset has no classes, so there is no accuracy to trade; use another.")
    rows = labelled(table, sweep)
    plain = table[(table["scheme"] == "standard") & (table["activation"] != "sigma")]
    colors = palette(style)
    accuracies = {
        "train accuracy": ("train_accuracy", Look(colors[2], "-", "o")),
        "validation accuracy": ("val_accuracy", Look(colors[3], "--", "s")),
    }
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(2, len(datasets), max(1.35 * COLUMN, 2.4 * len(datasets)), 4.4, sharey="row")
    ratio_look = permutation_looks(style)["identity"]
    for column, dataset in enumerate(datasets):
        part, reference = rows[rows["dataset"] == dataset], plain[plain["dataset"] == dataset]
        axes[0, column].axhline(1, color="0.85", linewidth=0.7, zorder=0)
        mean_line(axes[0, column], mean_std(part, "sigma_F", "identity_ratio"), ratio_look, "identity", band=False)
        for name, (accuracy, look) in accuracies.items():
            percent = part.assign(percent=100 * part[accuracy])
            mean_line(axes[1, column], mean_std(percent, "sigma_F", "percent"), look, name, band=False)
            if len(reference):
                level = 100 * reference[accuracy].mean()
                axes[1, column].axhline(level, color=look.color, linestyle=":", label=f"standard, {name}")
        if len(datasets) > 1:
            axes[0, column].set_title(dataset)
    axes[0, 0].set_ylim(min(-0.05, axes[0, 0].get_ylim()[0]), 1.08)
    name_axes(axes, SIGMA_F, "accuracy (%)")
    for axis in axes[0]:
        axis.set_ylabel("identity / optimal\nobjective")
    entries = handles({name: look for name, (_, look) in accuracies.items()})
    if len(plain):
        entries.append(Line2D([], [], color="0.4", linestyle=":", label="standard network"))
    legend(figure, entries, OVER_PAIRS)
    return figure
