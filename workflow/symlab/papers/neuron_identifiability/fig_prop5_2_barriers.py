"""Proposition 5.2: loss barriers against their bound by the chord deviation of the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.points import color_entries, draw_points, marker_entries, raise_to_floor
from symlab.papers.neuron_identifiability.variants import label_all
from symlab.papers.neuron_identifiability.worst_rows import find_worst
from symlab.plotting.log_axes import floor_of, scale_log
from symlab.plotting.style import PAGE, Style, legend, line_entry, name_axes, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most
from symlab.study.tables import need, one_matching, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ALIGNED = {False: ("unaligned", "o"), True: ("aligned", "^")}
ROUNDING = at_most(1e-6)
"""Of the largest excess: at the ends of the path gap and bound are both 0."""


def barrier_against_bound(tables: Tables, style: Style) -> Figure:
    """Figure prop5.2: the gap of a pair's loss at the midpoint against sqrt(2) |xi_f|_L2 there, a panel a split.

    The diagonal is the bound. Pairs whose midpoint is no worse than the line have a strip of their own below.
    """
    table = one_matching(need(tables, "loss_bounds.csv"))
    bounded = table[table["bound_mid"].notna()]
    if bounded.empty:
        raise UserError(f"the loss of {where(table)} has no bound by chords: the squared loss is not Lipschitz.")
    rows, variants = label_all(bounded)
    looks = variant_looks(variants, style)
    splits = [split for split in ("train", "val", "test") if split in set(rows["split"])]
    width = PAGE if len(splits) > 1 else 0.6 * PAGE
    figure, axes = panels(1, len(splits), width, 3.6)
    low_x = floor_of(rows["bound_mid"])
    low_y, strip = floor_of([*rows.loc[rows["gap_mid"] > 0, "gap_mid"], low_x]), None
    ends = np.array([low_x / 1.6, 2 * max(rows["bound_mid"].max(), rows["gap_mid"].max())])
    if (rows["gap_mid"] < low_y).any():
        strip = low_y / 6
    for axis, split in zip(axes[0], splits, strict=True):
        part = rows[rows["split"] == split]
        axis.plot(ends, ends, color="0.4", linestyle="--", linewidth=0.9, label="bound", zorder=0)
        if strip is not None:
            axis.axhspan(strip / 2, strip * 2, color="0.93", linewidth=0, zorder=0)
            axis.annotate(
                "no barrier",
                (1, strip),
                (-3, 0),
                axis.get_yaxis_transform(),
                "offset points",
                ha="right",
                va="center",
                fontsize="small",
                color="0.4",
            )
        for (aligned, label), of_variant in part.groupby(["aligned", "label"], sort=False):
            name, marker = ALIGNED[bool(aligned)]
            y = of_variant["gap_mid"].to_numpy(dtype=float)
            y = np.where(y < low_y, strip or low_y, y)
            x = raise_to_floor(of_variant["bound_mid"], low_x)
            draw_points(axis, x, y, np.zeros(len(x), dtype=bool), looks[label].color, marker, f"{label}, {name}")
        excess = part["excess_max"].max()
        holds = ROUNDING.allows(excess)
        says, worst = ("holds at every", "") if holds else ("exceeded at some", f" (by {excess:.2g})")
        axis.set_title(rf"{split}: bound {says} $\lambda${worst}")
        axis.set_xlim(*ends)
        axis.set_ylim(strip / 2 if strip else low_y / 1.6, ends[1])
    scale_log(axes, "x")
    scale_log(axes, "y")
    name_axes(axes, r"bound $\sqrt{2}\,|\xi_f|_{L^2}$ at the midpoint", "loss barrier at the midpoint")
    present = set(rows["aligned"])
    entries = [
        *color_entries(looks, rows),
        *marker_entries({name: marker for aligned, (name, marker) in ALIGNED.items() if aligned in present}),
        line_entry("barrier = bound", linestyle="--"),
    ]
    counts = rows.groupby(["variant", "aligned", "split"]).size()
    legend(figure, entries, f"a point a pair, n = {counts.max()} pairs a kind of networks")
    return figure


def _seen(tables: Tables) -> str:
    rows = one_matching(tables["loss_bounds.csv"]).dropna(subset=["bound_mid"])
    barrier = rows["gap_mid"] > 0
    share = (rows["gap_mid"] / rows["bound_mid"])[barrier]
    told = f" and is {share.median():.2g} of its bound in the median, {share.max():.2g} at most" if len(share) else ""
    return f"The midpoint has a loss barrier in {int(barrier.sum())} of {len(rows)} cases{told}."


FIGURES = (
    Drawing(
        "identifiability-prop5.2",
        "Loss barrier and its bound (Prop. 5.2)",
        """\
Loss barrier at the midpoint between the two networks of a pair against its bound by Proposition 5.2: √2 (the Lipschitz
constant of the cross-entropy) times the L² norm of the chord deviation of the outputs there, study `{study}`. Points
must lie on or below the dashed diagonal; those in the grey strip have no barrier at the midpoint. Both axes are
logarithmic. Titles say whether the bound holds at every λ of every pair.
""",
        barrier_against_bound,
        _seen,
        "The paper has no such figure.",
    ),
)


def excess_over_chord(tables: Tables) -> list[Found]:
    """Largest excess of a path's loss gap over Prop. 5.2's bound, in units of the bound there, or of 1 if smaller."""
    table = tables["loss_bounds.csv"]
    # An infinite bound shows nothing.
    return find_worst(table, table["excess_max"].where(np.isfinite(table["bound_at_max"])))


CLAIMS = (
    Claim(
        id="identifiability-prop5.2-bound",
        statement="Between two networks the loss exceeds the straight line by no more than √2 times the chord "
        "deviation of the outputs",
        quantity="largest excess over that bound anywhere on a path, in units of the larger of the bound and 1",
        bound=ROUNDING,
        owner="paper",
        origin="paper",
        reason="The proposition has no exception, and cross-entropy is √2-Lipschitz; outputs and losses are summed in "
        "single precision, which 1e-6 of the natural unit of the loss leaves room for.",
        tables=("loss_bounds.csv",),
        measure=excess_over_chord,
        kind="theorem",
    ),
)
