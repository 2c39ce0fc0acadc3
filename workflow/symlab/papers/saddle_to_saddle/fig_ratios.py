"""A_l, B_l and D_l layer by layer after the first escape, beside their values at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import NONE_FLAT, at_first_snapshot, paper_networks, say_how_many
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, below, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COURSE, LAYERS = "escape_course.csv", "escape_layers.csv"
RATIOS = {"A_change": r"$A_l$ of $W_l - W_l(0)$", "B": r"$B_l$ of activations", "D": r"$D_l$, what relu cuts"}


def ratios_by_layer(tables: Tables, style: Style) -> Figure:
    """A panel a ratio: its value in every layer after the escape and at the start, a line a network of depth 6."""
    start, then = snapshots(tables)
    blue, grey = palette(style)[0], palette(style)[7]
    figure, axes = panels(1, 3, PAGE, 2.4, sharey=False, sharex=False)
    for axis, (ratio, name) in zip(axes[0], RATIOS.items(), strict=True):
        for table, color in ((start, grey), (then, blue)):
            for _, rows in table.dropna(subset=[ratio]).groupby("seed"):
                if not (ratio == "A_change" and table is start):
                    axis.plot(rows["layer"], rows[ratio], color=color, marker="o", markersize=3, linewidth=0.8)
        axis.set(xlabel="layer $l$", title=name, yscale="log")
    entries = [line_entry("after the first escape", color=blue), line_entry("at the start", color=grey)]
    legend(figure, entries, f"a line a network, {then['seed'].nunique()} networks of depth 6")
    return figure


def snapshots(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The layers of networks of depth 6 at the start and at the first snapshot, of those that have one."""
    course, layers = (paper_networks(need(tables, name), 6) for name in (COURSE, LAYERS))
    found = layers.merge(at_first_snapshot(course)[["seed", "step"]])
    return layers[(layers["step"] == 0) & layers["seed"].isin(found["seed"])], found


def _see(tables: Tables) -> str:
    start, then = snapshots(tables)
    if then.empty:
        return "No network of depth 6 has left the origin within the steps."
    told = []
    for ratio in ("B", "D"):
        before, after = (table.groupby("layer")[ratio].mean() for table in (start, then))
        told.append(
            f"{ratio}_1 goes from {before[1]:.2g} to {after[1]:.2g}, {ratio}_5 from {before[5]:.2g} to {after[5]:.2g}"
        )
    return "From the start to the first moment after the escape at which the loss lies flat " + ", ".join(told) + "."


FIGURES = (
    Drawing(
        "saddle-ratios",
        "Rank and linearity by layer",
        "How far each layer of the study's networks of depth 6 is from rank one (A, of the change of the weights; B, "
        "of the activations) and from linear (D: the share that relu cuts), at the start and after the first escape.",
        ratios_by_layer,
        seen=_see,
        differs="Not in the paper, whose Theorem 3.1 bounds these ratios; the bound says nothing below 1000 layers.",
    ),
)


def _relative(tables: Tables, ratio: str, layers: tuple[int, ...]) -> list[Found]:
    start, then = snapshots(tables)
    if then.empty:
        return [NONE_FLAT]
    missing = say_how_many(then["seed"].nunique(), paper_networks(tables[COURSE], 6))
    found: list[Found] = []
    for layer in layers:
        before, after = (t[t["layer"] == layer].set_index("seed")[ratio] for t in (start, then))
        values = (after / before).to_numpy()
        told = "; ".join(filter(None, [f"{before.mean():.2g} to {after.mean():.2g}", missing]))
        found.append(mean_of(values, f"{ratio}_{layer}", told, "networks"))
    return found


def shrink_in_deep_layers(tables: Tables) -> list[Found]:
    """B_l and D_l at the first snapshot over those at the start, layers from the second on."""
    found = [*_relative(tables, "B", (2, 3, 4, 5)), *_relative(tables, "D", (2, 3, 4, 5))]
    return [each for each in found if isinstance(each, Measurement)] or found[:1]


def direction_left(tables: Tables) -> list[Found]:
    """|grad L0 + s rho| / (s sqrt(L)) at the first snapshot, mean over networks of depth 6."""
    course = paper_networks(tables[COURSE], 6)
    then = at_first_snapshot(course)
    if then.empty:
        return [NONE_FLAT]
    return [mean_of(then["residual"].to_numpy(), detail=say_how_many(len(then), course), unit="networks")]


def direction_falls(tables: Tables) -> list[Found]:
    """The residual at the first snapshot over that at the first measured step, mean over networks of depth 6.

    Where L0 is not yet negative at that step, there is no speed and no residual: the first one with both counts.
    """
    course = paper_networks(tables[COURSE], 6)
    then = at_first_snapshot(course)
    if then.empty:
        return [NONE_FLAT]
    moving = course[(course["step"] > 0) & (course["residual"] > 0)].sort_values("step")
    first = moving.groupby("seed")["residual"].first()
    ratios = then["residual"].to_numpy() / first[then["seed"]].to_numpy()
    return [mean_of(ratios, detail=say_how_many(len(then), course), unit="networks")]


CLAIMS = (
    Claim(
        id="saddle-ratios-deep",
        statement="The first escape makes all layers but the first nearly rank one and linear",
        quantity="B_l and D_l after the first escape as fractions of those at the start, mean over networks",
        bound=below(0.1),
        owner="paper",
        origin="ours",
        reason="The paper says approximately; a tenth of what random weights of this depth have, because B falls with "
        "the layer without any training.",
        tables=(COURSE, LAYERS),
        measure=shrink_in_deep_layers,
    ),
    Claim(
        id="saddle-ratios-direction",
        statement="Networks leave the origin along an escape direction",
        quantity="|∇L0(ρ) + s ρ| / (s √L) at the first snapshot, mean over networks",
        bound=below(0.2),
        owner="paper",
        origin="ours",
        reason="It is 0 along an escape direction; a fifth is left for a descent that has not quite aligned.",
        tables=(COURSE,),
        why={
            "": "At the first moment after the escape at which the loss lies flat, the weights are so large that the "
            "full loss and not L0 decides where they go. The escape itself takes some tens of steps, between two of "
            "the moments measured. Followed at every third step on digits (depth 6, width 32, five networks), the "
            "residual when the loss has fallen by 3 % is 0.47 from initial weights of standard deviation 0.01, 0.20 "
            "from 0.001 and 0.21 from 0.0001: from larger weights networks leave before their direction has aligned."
        },
        measure=direction_left,
    ),
    Claim(
        id="saddle-ratios-falling",
        statement="On their way from the origin, networks come closer to an escape direction",
        quantity="|∇L0(ρ) + s ρ| / (s √L) at the first snapshot over that at the first step measured, mean of networks",
        bound=below(1),
        owner="derived",
        origin="ours",
        reason="It falls if it is less at the end of the way than at its beginning, where directions are random; that "
        "asks for little.",
        tables=(COURSE,),
        measure=direction_falls,
    ),
)
