"""Subspace coherence nu: barriers against it (Fig. 6) and its course over training (Fig. 21)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from symlab.errors import UserError
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    name_row,
    ordered,
    panels,
    variant_looks,
)
from symlab.plotting.tables import compared, in_order, labelled, mean_std, named, need, variants_of, where

NU = r"coherence $\nu(U)$"
NU_TICKS = (0.1, 0.2, 0.5, 1.0)


def barrier_against_nu(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 6: unaligned midpoint barrier of the test loss against nu = 1/t, a line an embedding, a panel a variant."""
    barriers = need(tables, "barriers.csv")
    rows = barriers[(barriers["split"] == "test") & ~barriers["aligned"] & barriers["t"].notna()]
    if rows["t"].nunique() < 2:
        raise UserError(
            f"{where(barriers)} needs a coherence data set with at least two values of t (sweep: {{t: [1, 10]}}) "
            "and test among its interpolation.splits."
        )
    variants = named(variants_of(rows))
    rows = labelled(rows, variants).assign(nu=1 / rows["t"])
    labels = list(variants["label"].unique())
    embeddings = list(rows["embedding"].unique())
    colors = ordered(len(embeddings))
    looks = {
        name.replace("_", " "): Look(color, "--" if index % 2 else "-", "os"[index % 2])
        for index, (name, color) in enumerate(zip(embeddings, colors, strict=True))
    }
    figure, axes = panels(1, len(labels), max(COLUMN, 2.3 * len(labels)), 2.5)
    for axis, label in zip(axes[0], labels, strict=True):
        for embedding, (name, look) in zip(embeddings, looks.items(), strict=True):
            chosen = rows[(rows["label"] == label) & (rows["embedding"] == embedding)]
            mean_line(axis, mean_std(chosen, "nu", "barrier_mid"), look, name, band=False)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(NU_TICKS))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:g}")
        if len(labels) > 1:
            axis.set_title(label)
    name_axes(axes, NU, "midpoint barrier (test MSE)")
    legend(figure, handles(looks), OVER_PAIRS)
    return figure


def nu_against_epoch(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 21: nu of the model's inputs, each later layer's inputs and the outputs against the epoch, by variant."""
    subspaces = need(tables, "subspaces.csv")
    if subspaces["epoch"].nunique() < 2:
        raise UserError(f"it needs networks of several epochs, so list some in {where(subspaces)}.snapshots.")
    variants = compared(subspaces)
    looks = variant_looks(variants, style)
    rows = labelled(subspaces, variants)
    datasets, points = list(rows["dataset"].unique()), in_order(rows["point"])
    figure, axes = panels(len(datasets), len(points), PAGE, 1.1 + 1.5 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, point in enumerate(points):
            part = rows[(rows["dataset"] == dataset) & (rows["point"] == point)]
            for label, look in looks.items():
                mean_line(
                    axes[row, column], mean_std(part[part["label"] == label], "epoch", "nu"), look, label, band=True
                )
            if row == 0:
                axes[row, column].set_title(_point_name(point))
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    name_axes(axes, "epoch", NU)
    legend(figure, handles(looks), "mean ± std over networks")
    return figure


def _point_name(point: str) -> str:
    if point in ("input", "output"):
        return f"model {point}s"
    return f"layer {int(point.removeprefix('hidden')) + 1} inputs" if point.startswith("hidden") else point
