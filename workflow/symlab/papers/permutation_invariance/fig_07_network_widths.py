"""Fig. 7: barriers of MLPs on MNIST against their width, with the networks as they are and permuted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_least, below, stated
from symlab.papers.permutation_invariance.drawing import method_looks, scale_widths
from symlab.papers.permutation_invariance.measuring import fewest, largest, means, of_table, over, smallest
from symlab.papers.permutation_invariance.network_rows import (
    DIRECT,
    LACKING,
    METHODS,
    UP_AND_DOWN,
    as_in_fig_7,
    ends_over_peak,
    group_networks,
    select_widths,
    split_networks,
)
from symlab.plotting.rows import need
from symlab.plotting.style import (
    COLUMN,
    ERROR_ALPHA,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    name_axes,
    panels,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "barriers.csv"
BARRIER = "barrier of the train loss (NLL)"
BAND = "mean and 10th to 90th percentile over pairs"


def barrier_against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 7: barrier of the train loss against width, direct and permuted by each matching, mean and 10-90 % band.

    Below, the permuted ones again on a scale of their own. A column a data set and depth.
    """
    rows = select_widths(need(tables, TABLE), 3)
    looks = method_looks(rows, style)
    groups = group_networks(rows)
    width = 1.5 * COLUMN if len(groups) == 1 else PAGE
    figure, axes = panels(2, len(groups), width, 4.8, sharex="col", sharey="row")
    for column, (title, of_group) in enumerate(groups.items()):
        for method, look in looks.items():
            part = of_group[of_group["method"] == method]
            for axis in axes[:, column] if method != METHODS[DIRECT] else axes[:1, column]:
                _percentiles(axis, part, look, method)
        axes[0, column].set_title(title)
        for axis in axes[:, column]:
            scale_widths(axis, of_group["width"])
    for axis in axes.flat:
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    name_axes(axes, "width", "permuted barrier (NLL)")
    for axis in axes[0]:
        axis.set_ylabel(BARRIER)
    legend(figure, handles(looks), wrap_sentences([BAND], width, style))
    return figure


def _percentiles(axis: Axes, rows: pd.DataFrame, look: Look, label: str) -> None:
    """The mean over pairs as a line and the 10th to the 90th percentile as a band."""
    groups = rows.groupby("width")["barrier_max"]
    mean, low, high = groups.mean(), groups.quantile(0.1), groups.quantile(0.9)
    axis.plot(mean.index, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=label)
    axis.fill_between(mean.index, low, high, color=look.color, alpha=ERROR_ALPHA, linewidth=0)


FIGURES = (
    Drawing(
        "permutation-7",
        "Barrier of the loss against network width",
        "Barrier of the train loss (NLL) on the straight line between two trained networks against their "
        "hidden width, direct and with the neurons of one permuted to match the other's, study `{study}`. "
        "Lines are means over pairs, bands run from the 10th to the 90th percentile. The lower panel shows "
        "the permuted barriers again on a scale of their own.\n\n"
        "The permuted barrier should rise to a peak at a width inside the range (the paper: about 25 on "
        "MNIST) and then fall; the direct one should stay large at every width.",
        barrier_against_width,
    ),
)


def direct_stays(table: pd.DataFrame) -> list[Found]:
    """Smallest mean direct barrier over the widths as a fraction of the largest, for each data set and depth."""
    found: list[Found] = []
    for case, rows in split_networks(table):
        direct = rows[rows["matching"] == DIRECT]
        if direct["width"].nunique() < 3:
            found.append(f"{case}: {LACKING}")
            continue
        curve = means(direct, "barrier_max", "width")
        told = f"{smallest(curve):.3g} to {largest(curve):.3g}"
        value = over(smallest(curve), largest(curve))
        found.append(Measurement(value, fewest(direct, "width"), None, case, told))
    return found or [LACKING]


CLAIMS = (
    stated(
        "permutation-7-peak",
        "permutation-7",
        UP_AND_DOWN,
        below(1),
        "The paper's curve has its peak, near a width of 25, between the ends; it states no number, so only the order "
        "is asked for.",
        TABLE,
        of_table(TABLE, lambda table: ends_over_peak(as_in_fig_7(table))),
    ),
    stated(
        "permutation-7-direct",
        "permutation-7",
        "Without matching the barrier stays large at all widths: smallest mean direct loss barrier (training set) over "
        "the widths as a fraction of the largest",
        at_least(1 / 3),
        "The paper says large without a number; a third of the largest is read as not vanishing.",
        TABLE,
        of_table(TABLE, lambda table: direct_stays(as_in_fig_7(table))),
    ),
)
