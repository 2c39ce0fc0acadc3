"""Fig. 8: loss along the path between MLPs on MNIST, at three widths: the ends and the peak of the barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_least, at_most, stated
from symlab.papers.permutation_invariance.drawing import LAMBDA, LOSS, draw_paths, method_looks
from symlab.papers.permutation_invariance.measuring import fewest, find_peak, largest, means, of_table, over
from symlab.papers.permutation_invariance.network_rows import (
    DIRECT,
    LACKING,
    as_in_fig_7,
    group_networks,
    select_widths,
    split_matched,
    split_networks,
)
from symlab.plotting.rows import need, one_matching
from symlab.plotting.style import OVER_PAIRS, PAGE, Style, handles, legend, name_axes, name_row, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARRIERS, CURVES = "barriers.csv", "curves.csv"
THREE = ("smallest", "peak in between", "largest")


def paths_at_three_widths(tables: Tables, style: Style) -> Figure:
    """Fig. 8: train loss along lambda at the smallest width, at one in between, and at the largest.

    The width in the middle is the one between the two others whose mean permuted barrier, under the first matching, is
    largest. A row a data set and depth.
    """
    rows = select_widths(need(tables, CURVES), 3)
    looks = method_looks(rows, style)
    groups = {title: part for title, part in group_networks(rows).items() if part["width"].nunique() >= 3}
    figure, axes = panels(len(groups), 3, PAGE, 1.0 + 2.2 * len(groups), sharey="row")
    for row, (title, of_group) in enumerate(groups.items()):
        widths = sorted(of_group["width"].unique())
        at_peak = _permuted_barriers(of_group).loc[widths[1:-1]].idxmax()
        for axis, width, says in zip(axes[row], (widths[0], at_peak, widths[-1]), THREE, strict=True):
            draw_paths(axis, of_group[of_group["width"] == width], looks)
            axis.set_title(f"width {width:g}\n({says})")
        if len(groups) > 1:
            name_row(axes[row, -1], title)
    name_axes(axes, LAMBDA, LOSS)
    legend(figure, handles(looks, marker=False), OVER_PAIRS)
    return figure


def _permuted_barriers(curves: pd.DataFrame) -> pd.Series:
    """The mean over pairs of max over lambda of the loss minus the line through the ends, permuted, by width."""
    permuted = one_matching(curves)
    permuted = permuted[permuted["aligned"]]
    barriers = {
        names: _barrier(part.sort_values("lambda"))
        for names, part in permuted.groupby(["width", "variant", "mask_seed", "pair"])
    }
    return pd.Series(barriers).groupby(level=0).mean()


def _barrier(curve: pd.DataFrame) -> float:
    position, loss = curve["lambda"].to_numpy(dtype=float), curve["loss"].to_numpy(dtype=float)
    return float((loss - (1 - position) * loss[0] - position * loss[-1]).max())


FIGURES = (
    Drawing(
        "permutation-8",
        "Loss along the path at three widths",
        "Train loss (NLL) on the straight line between two networks of a pair, study `{study}`: λ = 0 is the "
        "first network, λ = 1 the second, as it is (direct) or with its neurons permuted to match the first. "
        "From left to right the smallest width, the one in between whose permuted barrier is largest, and the "
        "largest. Lines are means over pairs, bands one standard deviation.\n\n"
        "At the width of the peak the permuted line should come closest to the direct one; at the largest "
        "width it should be nearly flat.",
        paths_at_three_widths,
    ),
)


def permuted_over_direct(table: pd.DataFrame, at_peak: bool) -> list[Found]:
    """Mean permuted over mean direct barrier at the width where the permuted one peaks, or at the largest width."""
    found: list[Found] = []
    for case, rows, direct in split_matched(table):
        permuted, other = means(rows, "barrier_max", "width"), means(direct, "barrier_max", "width")
        width = find_peak(permuted) if at_peak else float(permuted.index[-1])
        # Without a peak, for want of a number, there is no ratio at it either.
        if width != width:
            found.append(Measurement(width, fewest(rows, "width"), None, case))
        elif width not in other.index:
            found.append(f"{case}: needs the direct path at width {width:g}")
        else:
            told = f"{permuted[width]:.3g} against {other[width]:.3g} at width {width:g}"
            n = int((rows["width"] == width).sum())
            found.append(Measurement(over(permuted[width], other[width]), n, None, case, told))
    return found or [LACKING]


def ends_of_path(curves: pd.DataFrame) -> list[Found]:
    """Largest mean loss of trained networks as a fraction of the largest mean loss on the direct path, over widths."""
    found: list[Found] = []
    for case, rows in split_networks(curves):
        direct = rows[rows["matching"] == DIRECT]
        if direct.empty:
            continue
        fractions = {}
        for width, of_width in direct.groupby("width"):
            path = means(of_width, "loss", "lambda")
            fractions[float(width)] = over(largest(path.iloc[[0, -1]]), largest(path))
        series = pd.Series(fractions)
        told = f"largest at width {find_peak(series):g}; {len(series)} widths"
        found.append(Measurement(largest(series), fewest(direct, ["width", "lambda"]), None, case, told))
    return found or [LACKING]


CLAIMS = (
    stated(
        "permutation-8-peak",
        "permutation-8",
        "Where the matched barrier peaks, matching helps little: permuted as a fraction of direct mean loss barrier at "
        "that width",
        at_least(0.5),
        "The paper's curves lie close together in that panel; more than half is read as close.",
        BARRIERS,
        of_table(BARRIERS, lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=True)),
    ),
    stated(
        "permutation-8-wide",
        "permutation-8",
        "At the largest width matching removes most of the barrier: permuted as a fraction of direct mean loss barrier",
        at_most(0.25),
        "The paper's permuted curve is far below the direct one in that panel; less than a quarter is read as far "
        "below.",
        BARRIERS,
        of_table(BARRIERS, lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=False)),
    ),
    stated(
        "permutation-8-ends",
        "permutation-8",
        "The trained networks themselves fit the data: their mean loss as a fraction of the largest on the direct "
        "path, at the width where that is largest",
        at_most(0.1),
        "The paper's curves end near 0; a tenth of their height is read as near.",
        CURVES,
        of_table(CURVES, lambda curves: ends_of_path(as_in_fig_7(curves))),
    ),
)
