"""Collapse layer by layer: NC1 of every layer's features, and of the layers before the last against depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import (
    DEPTHS,
    SAMPLES,
    SETTING,
    kind_of,
    missing_evidence,
    name_setting,
    slope_with_depth,
)
from symlab.plotting.style import PAGE, Style, leave_out, legend, line_entry, name_axes, ordered_colors, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, below
from symlab.study.tables import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

LAYERS = "collapse_layers.csv"
ACROSS = 3
BEFORE = (1, 2)
"""Layers before the last that the paper's remark on the last layers is checked on."""


def by_setting(tables: Tables) -> Iterator[tuple[str, pd.DataFrame]]:
    """Layers of the networks of each setting with several depths."""
    table = need(tables, LAYERS)
    for keys, rows in table[table["by_depth"] != "swept"].groupby(SETTING, sort=False):
        if rows["L"].nunique() >= DEPTHS:
            late = missing_evidence(tables, rows["dataset"].iloc[0])
            yield name_setting(dict(zip(SETTING, keys, strict=True))), rows.assign(open=late)


def collapse_by_layer(tables: Tables, style: Style) -> Figure:
    """A panel a setting: NC1 against the layer over the last one, a line a depth, mean over seeds."""
    settings = dict(by_setting(tables))
    if not settings:
        raise UserError(f"it needs networks of {DEPTHS} depths (neural_collapse.runs.L).")
    lines = -(-len(settings) // ACROSS)
    across = -(-len(settings) // lines)
    figure, axes = panels(lines, across, PAGE if across > 1 else 3.2, 2.0 * lines + 0.5, sharey=False)
    depths = sorted({L for rows in settings.values() for L in rows["L"].unique()})
    colors = dict(zip(depths, ordered_colors(len(depths)), strict=True))
    for axis, (name, rows) in zip(axes.flat, settings.items(), strict=False):
        for L, of_depth in rows.groupby("L"):
            means = np.log10(of_depth.groupby("layer")["NC1"].mean())
            place = (means.index - 1) / max(means.index.max() - 1, 1) if len(means) > 1 else [1.0]
            axis.plot(place, means, color=colors[L], marker=".", linewidth=0.8)
        axis.set_title(name)
    name_axes(axes, "layer, from first to last", r"$\log_{10}$ NC1")
    leave_out(axes, [*[across] * (lines - 1), len(settings) - across * (lines - 1)])
    legend(figure, [line_entry(f"L = {L}", color=colors[L], marker=".") for L in depths], "mean over seeds")
    return figure


def _see(tables: Tables) -> str:
    told = []
    for name, rows in by_setting(tables):
        deepest = rows[rows["L"] == rows["L"].max()]
        means = np.log10(deepest.groupby("layer")["NC1"].mean())
        told.append(f"{means.iloc[0]:.2f} to {means.iloc[-1]:.2f} for {name}")
    return f"In the deepest networks log₁₀ NC1 goes from first to last layer from {'; '.join(told)}."


def falls_before_the_last(tables: Tables) -> list[Found]:
    """Slope of log10 NC1 on log10 L of the first and second layer before the last, mean over seeds."""
    cases: list[Found] = []
    for name, rows in by_setting(tables):
        last = rows.groupby(["L", "seed"])["layer"].transform("max")
        for before in BEFORE:
            place = "one layer" if before == 1 else f"{before} layers"
            chosen = rows[(rows["layer"] == last - before) & (rows["layer"] > 1)]
            found = slope_with_depth(chosen, "NC1", f"{place} before the last, {name}")
            if found is not None and kind_of(rows) in ("plotted", "theorem"):
                cases.append(found)
    return cases or [f"needs networks of {DEPTHS} depths"]


FIGURES = (
    Drawing(
        "collapse-layers",
        "Collapse layer by layer",
        "log₁₀ NC1 of the features after every layer at the end of training, for each depth (study `{study}`).",
        collapse_by_layer,
        seen=_see,
        differs="Not in the paper, which remarks that the last layers collapse too.",
    ),
)
CLAIMS = (
    Claim(
        id="collapse-layers-before-last",
        statement="The layers before the last collapse with depth too",
        quantity="slope of log₁₀ NC1 on log₁₀ L over all networks",
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="Section 4.2: any finite number of layers at the end converges to collapse.",
        tables=(LAYERS, SAMPLES),
        measure=falls_before_the_last,
    ),
)
