"""Accuracy on the straight line between two networks (Figs. 4 and 20)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from symlab.errors import UserError
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    PAGE,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    panels,
    variant_looks,
)
from symlab.plotting.tables import compared, labelled, mean_std, need, one_matching, where


def train_accuracy(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 4 (a, c): train accuracy in percent along lambda, a panel unaligned and one aligned, a row a data set."""
    return _train_accuracy(tables, style, {False: "a   unaligned", True: "c   aligned"})


def train_accuracy_of_resnets(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 4 (b, d): as ``train_accuracy``."""
    return _train_accuracy(tables, style, {False: "b   unaligned", True: "d   aligned"})


def unaligned_train_accuracy(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 20: train accuracy in percent along lambda, unaligned, a panel a data set."""
    return _train_accuracy(tables, style, {False: ""})


def _train_accuracy(tables: dict[str, pd.DataFrame], style: Style, titles: dict[bool, str]) -> Figure:
    """A column for each title: that of unaligned paths (False) or of aligned ones (True)."""
    curves = one_matching(need(tables, "curves.csv"))
    train = curves[(curves["split"] == "train") & curves["accuracy"].notna()]
    if train.empty:
        raise UserError(f"it needs a classification data set and train among {where(curves)}.interpolation.splits.")
    if train.loc[train["aligned"].isin(titles), "aligned"].nunique() < len(titles):
        raise UserError(
            f"it needs aligned paths too, so set {where(curves)}.interpolation.aligned to true and add matching."
        )
    variants = compared(train)
    looks = variant_looks(variants, style)
    rows = labelled(train, variants)
    rows = rows.assign(percent=100 * rows["accuracy"])
    datasets = list(rows["dataset"].unique())
    width = 1.3 * COLUMN if len(titles) == 1 else PAGE if len(looks) > 4 else 1.7 * COLUMN
    figure, axes = panels(len(datasets), len(titles), width, 1.0 + 2.0 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, (aligned, title) in enumerate(titles.items()):
            axis = axes[row, column]
            part = rows[(rows["dataset"] == dataset) & (rows["aligned"] == aligned)]
            for label, look in looks.items():
                mean_line(axis, mean_std(part[part["label"] == label], "lambda", "percent"), look, label, band=True)
            named = [title, dataset] if len(datasets) > 1 else [title]
            axis.set_title(", ".join(filter(None, named)), loc="left")
            for line in axis.lines:
                line.set_marker("")
    name_axes(axes, r"position $\lambda$ (0: network A, 1: network B)", "train accuracy (%)")
    legend(figure, handles(looks, marker=False), OVER_PAIRS)
    return figure
