"""Proposition 5.2: loss barriers against their bound by the chord deviation of the outputs."""

from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.theorems import worst_claim
from symlab.plotting.log_axes import floor_of
from symlab.plotting.style import PAGE, Axes, Figure, Look, Style, line_entry, palette
from symlab.study.card import Drawing
from symlab.study.claim import Tables, at_most
from symlab.study.facets import draw_rows, facets, labelled
from symlab.study.tables import need, one_matching, some, where
from symlab.words import counted


def barrier_against_bound(tables: Tables, style: Style) -> Figure:
    table = one_matching(need(tables, "loss_bounds.csv"))
    lacking = f"the loss of {where(table)} has no bound by chords: the squared loss is not Lipschitz."
    rows = some(table[table["bound_mid"].notna()], lacking)
    low_x = floor_of(rows["bound_mid"])
    low_y = floor_of([*rows.loc[rows["gap_mid"] > 0, "gap_mid"], low_x])
    none, strip = rows["gap_mid"] < low_y, low_y / 6
    ends = np.array([low_x / 1.6, 2 * max(rows["bound_mid"].max(), rows["gap_mid"].max())])
    rows = rows.assign(
        gap=rows["gap_mid"].mask(none, strip),
        bound=rows["bound_mid"].clip(low_x),
        label=rows["aligned"].map({False: "unaligned", True: "aligned"}),
        filled=rows["gap_mid"] / rows["bound_mid"],
    )

    def draw_bound(axis: Axes, part: pd.DataFrame) -> None:
        axis.plot(ends, ends, color="0.4", linestyle="--", linewidth=0.9, label="bound", zorder=0)
        if none.any():
            axis.axhspan(strip / 2, strip * 2, color="0.93", linewidth=0, zorder=0)
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center"}
            at_edge = axis.get_yaxis_transform()
            axis.annotate("no barrier", (1, strip), (-3, 0), at_edge, **place, fontsize="small", color="0.4")

    first, second, *_ = palette(style)
    splits = [split for split in ("train", "val", "test") if split in set(rows["split"])]
    filled = rows.groupby("split")["filled"].max()
    counts = rows.groupby(["variant", "aligned", "split"]).size()
    ylim = (strip / 2 if none.any() else low_y / 1.6, ends[1])
    bound = r"bound $\sqrt{2}\,|\xi_f|_{L^2}$ at the midpoint"
    return facets(
        rows.sort_values("split", key=lambda names: names.map(splits.index), kind="stable"), "bound", "gap",
        {"unaligned": Look(first, "", "o"), "aligned": Look(second, "", "^", "white")}, column="split",
        title=lambda split: f"{split}: at most {100 * filled[split]:.2g} % of the bound",
        axes=labelled(bound, "loss barrier at the midpoint", "xy", xlim=ends, ylim=ylim),
        draw=draw_rows, more=draw_bound, width=PAGE if len(splits) > 1 else 0.6 * PAGE, height=2.7,
        entries=[line_entry("barrier = bound", linestyle="--")],
        note=f"a point a pair, n = {counted(counts.max(), 'pairs')} a kind of networks",
    )  # fmt: skip


FIGURES = {
    "identifiability-prop5.2": Drawing(
        "Loss barrier and its bound (Prop. 5.2)",
        "Loss barrier at the midpoint between the two networks of a pair against its bound by Proposition 5.2: √2 "
        "(the Lipschitz constant of the cross-entropy) times the L² norm of the chord deviation of the outputs "
        "there, study `{study}`. Points must lie on or below the dashed diagonal; those in the grey strip have no "
        "barrier at the midpoint. Both axes are logarithmic. Titles say how much of its bound a barrier fills at "
        "most: the bound is loose.",
        barrier_against_bound,
        seen="The loss exceeds its bound by {bound} in units of it at most (below 0: nowhere).",
        differs="The paper has no such figure.",
    ),
}


CLAIMS = {
    "identifiability-prop5.2-bound": worst_claim(
        "loss_bounds.csv",
        # An infinite bound shows nothing.
        lambda rows: rows["excess_max"].where(np.isfinite(rows["bound_mid"])),
        statement="Between two networks the loss exceeds the straight line by no more than √2 times the chord "
        "deviation of the outputs",
        quantity="largest excess over that bound anywhere on a path, in units of the larger of the bound and 1",
        # At the ends of the path gap and bound are both 0.
        bound=at_most(1e-6),
        reason="The proposition has no exception, and cross-entropy is √2-Lipschitz; outputs and losses are summed in "
        "single precision, which 1e-6 of the natural unit of the loss leaves room for.",
    ),
}
