"""Chord deviation of single layers against beta (Thms. 5.1, D.1), and loss barriers against their bound (Prop. 5.2)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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
    markers,
    points,
    points_left_out,
    with_labels,
)
from symlab.plotting.style import PAGE, Style, legend, name_axes, name_row, panels, variant_looks, wrapped
from symlab.plotting.tables import need, one_matching, where

INPUTS = {"gaussian": "Gaussian inputs", "data": "the data's inputs"}
NONLINEARITIES = {"relu": "ReLU", "gelu": "GELU"}
SLOPES = {1.5: ("slope 3/2", (0, (1, 1.5))), 2.0: ("slope 2", (0, (6, 2, 1, 2)))}
ROUNDING = 1e-5
"""Excess of a loss over its bound that is rounding: at the ends of the path both are 0."""
ALIGNED = {False: ("unaligned", "o"), True: ("aligned", "^")}


def against_beta(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure thm5.1: sup over lambda of |xi|_L2, in units of |F Sigma^(1/2)|_F, against beta.

    A row a nonlinearity, a column a distribution of the inputs; a line a layer of a pair, over scales of its trainable
    part; bounds are dashed.
    """
    rows, variants = with_labels(need(tables, "chord_deviation.csv"))
    fixed = (rows["norm_F"] > 0) & np.isfinite(rows["beta"])
    shown = rows[fixed & (rows["beta"] > 0) & (rows["chord"] > 0)]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with fixed weights, in whose units chords are measured; add one "
            "with scheme.sigma_F above 0."
        )
    shown = shown.assign(chord=shown["chord"] / shown["norm_F"], bound=shown["bound"] / shown["norm_F"])
    looks, marks = variant_looks(variants, style), markers(sorted(shown["layer"]))
    kinds = [name for name in NONLINEARITIES if name in set(shown["nonlinearity"])]
    inputs = [name for name in INPUTS if name in set(shown["inputs"])]
    width = PAGE if len(inputs) > 1 else 0.7 * PAGE
    figure, axes = panels(len(kinds), len(inputs), width, 1.5 + 1.9 * len(kinds), sharey="row")
    for row, kind in enumerate(kinds):
        for column, name in enumerate(inputs):
            axis = axes[row, column]
            part = shown[(shown["nonlinearity"] == kind) & (shown["inputs"] == name)]
            for (_, _, _, layer), of_line in part.groupby(["variant", "mask_seed", "pair", "layer"], sort=False):
                ordered = of_line.sort_values("beta")
                label, beta, chord = str(ordered["label"].iloc[0]), ordered["beta"], ordered["chord"]
                color, named = looks[label].color, f"{label}, layer {layer}"
                axis.plot(beta, chord, color=color, lw=0.7, alpha=0.6, label=f"line, {named}")
                points(axis, beta, chord, fails(ordered), color, marks[layer], named)
                axis.plot(beta, ordered["bound"], color=color, ls="--", lw=0.8, label=f"bound, {named}")
            _slopes(axis, part)
            if row == 0:
                axis.set_title(INPUTS[name])
        name_row(axes[row, -1], NONLINEARITIES[kind])
    log_scale(axes, "x")
    for of_kind in axes:
        log_scale(of_kind, "y")
    name_axes(
        axes,
        r"$\beta$ (trainable over fixed)",
        r"chord deviation / $\|F\,\Sigma^{1/2}\|_F$",
    )
    entries = [
        *colors_of(looks, shown),
        *marker_entries({f"layer {layer}": mark for layer, mark in marks.items()}),
        Line2D([], [], color="0.4", linestyle="--", label="bound"),
        *(Line2D([], [], color="0.5", linestyle=dashes, label=name) for name, dashes in SLOPES.values()),
        *hollow_entry(fails(shown)),
    ]
    missing, straight = rows[~fixed], rows[fixed & ~rows.index.isin(shown.index)]
    none_drawn = straight[~straight["label"].isin(shown["label"])]
    sentences = [
        left_out(missing, rows, r"F = 0 and with it the unit, or $\beta$ infinite"),
        left_out(none_drawn, rows, r"chord or $\beta$ is 0"),
        points_left_out(straight.drop(none_drawn.index), rows[fixed], r"where the chord or $\beta$ is 0"),
    ]
    legend(figure, entries, wrapped(sentences, width, style))
    return figure


def _slopes(axis: Axes, rows: pd.DataFrame) -> None:
    """Lines of the theorems' powers of beta through the logarithmic mean of a panel's points."""
    if rows.empty:
        return
    x = np.array([rows["beta"].min(), rows["beta"].max()])
    at, height = (np.exp(np.log(rows[name]).mean()) for name in ("beta", "chord"))
    for slope, (name, dashes) in SLOPES.items():
        axis.plot(x, height * (x / at) ** slope, color="0.5", linestyle=dashes, linewidth=1.0, label=name, zorder=0)


def barrier_against_bound(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figure prop5.2: a pair's largest loss barrier against sqrt(2) |xi_f|_L2 at the same lambda, a panel a split.

    The diagonal is the bound. The title says how far the barrier exceeds the bound at its worst lambda.
    """
    table = one_matching(need(tables, "loss_bounds.csv"))
    bounded = table[table["bound_at_max"].notna()]
    if bounded.empty:
        raise UserError(f"the loss of {where(table)} has no bound by chords: the squared loss is not Lipschitz.")
    rows, variants = with_labels(bounded)
    looks = variant_looks(variants, style)
    floor = floor_of(rows[["barrier_max", "bound_at_max"]].to_numpy().ravel())
    splits = [split for split in ("train", "val", "test") if split in set(rows["split"])]
    width = PAGE if len(splits) > 1 else 0.6 * PAGE
    figure, axes = panels(1, len(splits), width, 3.8)
    values = rows[["barrier_max", "bound_at_max"]].to_numpy(dtype=float)
    edge = bool((values < floor).any())
    ends = np.array([floor if edge else floor / 1.6, max(1.6 * np.nanmax(values), 10 * floor)])
    for axis, split in zip(axes[0], splits, strict=True):
        part = rows[rows["split"] == split]
        axis.plot(ends, ends, color="0.4", linestyle="--", linewidth=0.9, label="bound", zorder=0)
        for (aligned, label), of_variant in part.groupby(["aligned", "label"], sort=False):
            name, marker = ALIGNED[bool(aligned)]
            x, y = (floored(of_variant[column], floor) for column in ("bound_at_max", "barrier_max"))
            points(axis, x, y, np.zeros(len(x), dtype=bool), looks[label].color, marker, f"{label}, {name}")
        for line in axis.lines[1:]:
            line.set_clip_on(False)
        excess = part["excess_max"].max()
        holds = excess <= ROUNDING
        says, worst = ("holds at every", "") if holds else ("exceeded at some", f" (by {excess:.2g})")
        axis.set_title(rf"{split}: bound {says} $\lambda${worst}")
        axis.set_xlim(*ends)
        axis.set_ylim(*ends)
    log_scale(axes, "x")
    log_scale(axes, "y")
    name_axes(axes, r"bound $\sqrt{2}\,|\xi_f(\lambda)|_{L^2}$", "largest loss barrier")
    present = set(rows["aligned"])
    entries = [
        *colors_of(looks, rows),
        *marker_entries({name: marker for aligned, (name, marker) in ALIGNED.items() if aligned in present}),
        Line2D([], [], color="0.4", linestyle="--", label="barrier = bound"),
    ]
    note = "points on an axis: 0 up to rounding" if edge else ""
    legend(figure, entries, wrapped(["one point a pair", note], width, style))
    return figure
