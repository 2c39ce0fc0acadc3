"""Fig. 15: loss along the path between convolutional networks on CIFAR-10, by width."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing
from symlab.papers.permutation_invariance.measuring import of_table
from symlab.papers.permutation_invariance.network_rows import (
    EXPLORATORY,
    MIDDLE_OVER_ENDS,
    UP_AND_DOWN,
    group_networks,
    middle_over_ends,
    see_middles,
    select_widths,
)
from symlab.plotting.style import Style, handles, legend
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, above
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "barriers.csv"
MOST_PANELS = 9


def paths_by_width(tables: Tables, style: Style) -> Figure:
    """Fig. 15: train loss along lambda, direct and permuted, a panel a width (multiplier), data set and depth."""
    rows = select_widths(need(tables, "curves.csv"), 1)
    looks = drawing.method_looks(rows, style)
    groups = group_networks(rows)
    shown = {
        (f"{title}, " if len(groups) > 1 else "") + f"width {width:g}": part
        for title, of_group in groups.items()
        for width, part in of_group.groupby("width")
    }
    if len(shown) > MOST_PANELS:
        raise UserError(
            f"{where(rows)}.variants has {len(shown)} widths, for which there is no room; draw a study of at most "
            f"{MOST_PANELS}."
        )
    figure, axes, _ = drawing.make_grid(len(shown), sharex="all")
    for axis, (title, part) in zip(axes.flat, shown.items(), strict=False):
        drawing.draw_paths(axis, part, looks)
        axis.set_title(title)
    drawing.label_grid(axes, len(shown), drawing.LAMBDA, drawing.LOSS)
    legend(figure, handles(looks, marker=False), over_pairs(rows))
    return figure


FIGURES = (
    Drawing(
        "permutation-15",
        "Loss along the path by width multiplier",
        "Train loss (NLL) on the straight line between two networks of a pair, a panel for each width (of "
        "convolutional networks the width multiplier): λ = 0 is the first network, λ = 1 the second, as it is (direct) "
        "or with its neurons permuted to match the first. Lines are means over pairs, bands one standard deviation.",
        paths_by_width,
        partial(see_middles, least=1),
        "Exploratory and no faithful rerun: the paper leaves the architecture, the widths and the training of its "
        "network of depth 16 open, and those here are smaller.",
    ),
)

CLAIMS = (
    Claim(
        id="permutation-15-peak",
        statement=UP_AND_DOWN,
        quantity=MIDDLE_OVER_ENDS,
        bound=above(1),
        owner="paper",
        origin="paper",
        reason="'The barrier goes up and then goes down as the width increases', over three widths.",
        tables=(TABLE,),
        measure=of_table(TABLE, middle_over_ends),
        why={
            "": f"{EXPLORATORY} for this figure, so three widths need not lie on both sides of the peak; networks and "
            "training here are far smaller than its own, so this is no faithful rerun."
        },
    ),
)
