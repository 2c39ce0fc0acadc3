"""Fig. 8: loss along the path between MLPs on MNIST, at three widths: the ends and the peak of the barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance.drawing import LAMBDA, LOSS, draw_paths, method_looks
from symlab.papers.permutation_invariance.measuring import estimate, find_peak, largest, means, of_table, over
from symlab.papers.permutation_invariance.network_rows import (
    DIRECT,
    LACKING,
    as_in_fig_7,
    group_networks,
    see_middles,
    select_widths,
    split_matched,
    split_networks,
)
from symlab.plotting.style import PAGE, Style, handles, legend, name_axes, name_row, panels
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, at_least, at_most, bootstrap_error
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARRIERS, CURVES = "barriers.csv", "curves.csv"
PEAK = 25
"""The width at which the paper has its peak, and shows that matching helps little."""


def paths_at_three_widths(tables: Tables, style: Style) -> Figure:
    """Fig. 8: train loss along lambda at the smallest width, at the paper's 25 (or the one nearest), and the largest.

    A row a data set and depth.
    """
    rows = select_widths(need(tables, CURVES), 3)
    looks = method_looks(rows, style)
    groups = {title: part for title, part in group_networks(rows).items() if part["width"].nunique() >= 3}
    figure, axes = panels(len(groups), 3, PAGE, 1.0 + 2.2 * len(groups), sharey="row")
    for row, (title, of_group) in enumerate(groups.items()):
        for axis, width in zip(axes[row], _three_widths(of_group), strict=True):
            draw_paths(axis, of_group[of_group["width"] == width], looks)
            axis.set_title(f"width {width:g}")
        if len(groups) > 1:
            name_row(axes[row, -1], title)
    name_axes(axes, LAMBDA, LOSS)
    legend(figure, handles(looks, marker=False), over_pairs(rows))
    return figure


def _three_widths(rows: pd.DataFrame) -> list[float]:
    widths = sorted(rows["width"].unique())
    return [widths[0], min(widths[1:-1], key=lambda width: abs(width - PEAK)), widths[-1]]


def see_three(tables: Tables) -> str:
    """``see_middles`` of the three widths that are drawn."""
    table = tables[CURVES]
    rows = select_widths(table, 3)
    return see_middles({CURVES: table[table["width"].isin(_three_widths(rows))]})


FIGURES = (
    Drawing(
        "permutation-8",
        "Loss along the path at three widths",
        "Train loss (NLL) on the straight line between two networks of a pair: λ = 0 is the first network, λ = 1 the "
        "second, as it is (direct) or with its neurons permuted to match the first. From left to right the smallest "
        "width, 25 (where the paper has its peak), and the largest. Lines are means over pairs, bands one standard "
        "deviation.",
        paths_at_three_widths,
        see_three,
        "The paper trains for 10,000 epochs.",
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
            found.append(Measurement(width, len(rows), None, case))
        elif width not in other.index:
            found.append(f"{case}: needs the direct path at width {width:g}")
        else:
            told = f"{permuted[width]:.3g} against {other[width]:.3g} at width {width:g}"
            both = pd.concat([rows, direct])
            found.append(_ratio_of_paths(case, both[both["width"] == width], told))
    return found or [LACKING]


def _ratio_of_paths(case: str, rows: pd.DataFrame, told: str) -> Measurement:
    """Mean barrier of aligned over direct paths of the same pairs, a row for each of both."""
    keys = ["mask_seed", "pair"]
    beside = rows.assign(path=rows["aligned"].map({True: "permuted", False: "direct"}))
    beside = beside.pivot_table("barrier_max", keys, "path", dropna=False).assign(all=0).reset_index()

    def statistic(of: pd.DataFrame) -> float:
        return over(float(of["permuted"].iloc[0]), float(of["direct"].iloc[0]))

    return estimate(case, beside, statistic, ("permuted", "direct"), "all", told)


def ends_of_path(curves: pd.DataFrame) -> list[Found]:
    """Largest mean loss of trained networks as a fraction of the largest mean loss on the direct path, over widths."""
    found: list[Found] = []
    for case, rows in split_networks(curves):
        direct = rows[rows["matching"] == DIRECT]
        if direct.empty:
            continue

        paths = {
            width: of_width.pivot(index=["mask_seed", "pair"], columns="lambda", values="loss").to_numpy()
            for width, of_width in direct.groupby("width")
        }

        def largest_end(*samples: np.ndarray) -> float:
            return largest(np.array([_end_over_top(sample.mean(axis=0)) for sample in samples]))

        fractions = pd.Series({width: _end_over_top(sample.mean(axis=0)) for width, sample in paths.items()})
        told = f"largest at width {find_peak(fractions):g}; {len(fractions)} widths"
        error = bootstrap_error(largest_end, *paths.values())
        n = min(map(len, paths.values()))
        found.append(Measurement(largest(fractions), n, None, case, told, error))
    return found or [LACKING]


def _end_over_top(path: np.ndarray) -> float:
    """The larger loss at the ends of a path as a fraction of the largest on it."""
    return over(largest(path[[0, -1]]), largest(path))


CLAIMS = (
    Claim(
        id="permutation-8-peak",
        statement="Where the matched barrier peaks, matching helps little",
        quantity="permuted as a fraction of direct mean loss barrier at that width",
        bound=at_least(0.5),
        owner="paper",
        origin="ours",
        reason="'When the model width is m = 25, the effect of permutation is pretty limited': half is read as that.",
        tables=(BARRIERS,),
        measure=of_table(BARRIERS, lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=True)),
        why={
            "mnist, depth 4, activation matching": "After 20 epochs, matching by activations removes most of the "
            "barrier at every width, also at 15, where most is left."
        },
    ),
    Claim(
        id="permutation-8-wide",
        statement="At the largest width matching removes most of the barrier",
        quantity="permuted as a fraction of direct mean loss barrier",
        bound=at_most(0.25),
        owner="paper",
        origin="ours",
        reason="The paper's permuted curve is far below the direct one in that panel; less than a quarter is read as "
        "far below.",
        tables=(BARRIERS,),
        measure=of_table(BARRIERS, lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=False)),
        why={
            "mnist, depth 4, weight matching": "After 20 epochs, matching by weights leaves more than half of the "
            "barrier at every width; by activations, the better matching, a seventh is left at the largest."
        },
    ),
    Claim(
        id="permutation-8-ends",
        statement="The trained networks themselves fit the data",
        quantity=(
            "their mean loss as a fraction of the largest on the direct path, at the width where that is largest"
        ),
        bound=at_most(0.1),
        owner="paper",
        origin="ours",
        reason="The paper's curves end near 0; a tenth of their height is read as near.",
        tables=(CURVES,),
        measure=of_table(CURVES, lambda curves: ends_of_path(as_in_fig_7(curves))),
    ),
)
