"""Proposition 5.2: loss barriers against their bound by the chord deviation of the outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Tables, at_most, stated
from symlab.papers.neuron_identifiability.worst_rows import find_worst
from symlab.plotting.points import color_entries, draw_points, floor_of, marker_entries, raise_to_floor, scale_log
from symlab.plotting.rows import label_all, need, one_matching, where
from symlab.plotting.style import PAGE, Style, legend, line_entry, name_axes, panels, variant_looks, wrap_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ROUNDING = 1e-5
"""Excess of a loss over its bound that is rounding: at the ends of the path both are 0."""
ALIGNED = {False: ("unaligned", "o"), True: ("aligned", "^")}


def barrier_against_bound(tables: Tables, style: Style) -> Figure:
    """Figure prop5.2: a pair's largest loss barrier against sqrt(2) |xi_f|_L2 at the same lambda, a panel a split.

    The diagonal is the bound. The title says how far the barrier exceeds the bound at its worst lambda.
    """
    table = one_matching(need(tables, "loss_bounds.csv"))
    bounded = table[table["bound_at_max"].notna()]
    if bounded.empty:
        raise UserError(f"the loss of {where(table)} has no bound by chords: the squared loss is not Lipschitz.")
    rows, variants = label_all(bounded)
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
            x, y = (raise_to_floor(of_variant[column], floor) for column in ("bound_at_max", "barrier_max"))
            draw_points(axis, x, y, np.zeros(len(x), dtype=bool), looks[label].color, marker, f"{label}, {name}")
        for line in axis.lines[1:]:
            line.set_clip_on(False)
        excess = part["excess_max"].max()
        holds = excess <= ROUNDING
        says, worst = ("holds at every", "") if holds else ("exceeded at some", f" (by {excess:.2g})")
        axis.set_title(rf"{split}: bound {says} $\lambda${worst}")
        axis.set_xlim(*ends)
        axis.set_ylim(*ends)
    scale_log(axes, "x")
    scale_log(axes, "y")
    name_axes(axes, r"bound $\sqrt{2}\,|\xi_f(\lambda)|_{L^2}$", "largest loss barrier")
    present = set(rows["aligned"])
    entries = [
        *color_entries(looks, rows),
        *marker_entries({name: marker for aligned, (name, marker) in ALIGNED.items() if aligned in present}),
        line_entry("barrier = bound", linestyle="--"),
    ]
    note = "points on an axis: 0 up to rounding" if edge else ""
    legend(figure, entries, wrap_sentences(["one point a pair", note], width, style))
    return figure


FIGURES = (
    Drawing(
        "identifiability-prop5.2",
        "Loss barrier and its bound (Prop. 5.2)",
        """\
Largest loss barrier on the straight line between the two networks of a pair against the bound that Proposition 5.2
gives there, √2 times the L² norm of the chord deviation of the outputs at the same λ, study `{study}`. √2 is the
Lipschitz constant of the cross-entropy in the logits. There is one point a pair, a circle unaligned and a triangle
aligned, and a panel for each split. Both axes are logarithmic; points on an axis are 0 up to rounding. The panel's
title says whether the bound holds at every λ of every pair, not only at the largest barrier, and if not by how much
the barrier exceeds it.

All points have to lie on or below the dashed diagonal. Their distance from it says how much the bound gives away;
pairs with small chord deviation cannot have a large barrier.
""",
        barrier_against_bound,
    ),
)


def excess_over_chord(tables: Tables) -> list[Found]:
    """Largest excess of a path's loss gap over Prop. 5.2's bound, in units of the bound there, or of 1 if smaller."""
    table = tables["loss_bounds.csv"]
    # An infinite bound shows nothing.
    found = find_worst(table, table["excess_max"].where(np.isfinite(table["bound_at_max"])))
    share = (table["barrier_max"] / table["bound_at_max"]).to_numpy()
    defined = share[np.isfinite(share)]
    typical = f"; median barrier in units of its bound: {np.median(defined):.3g}" if len(defined) else ""
    return [each if isinstance(each, str) else replace(each, detail=each.detail + typical) for each in found]


ROUNDING_OF_LOSS = at_most(1e-6)
CLAIMS = (
    stated(
        "identifiability-prop5.2-bound",
        "identifiability-prop5.2",
        "Between two networks the loss exceeds the straight line by no more than sqrt(2) times the chord deviation of "
        "the outputs: largest excess over that bound anywhere on a path, in units of the larger of the bound and 1",
        ROUNDING_OF_LOSS,
        "The proposition has no exception, and cross-entropy is sqrt(2)-Lipschitz; outputs and losses are summed in "
        "single precision, which 1e-6 of the natural unit of the loss leaves room for.",
        "loss_bounds.csv",
        excess_over_chord,
    ),
)
