"""Fig. 14: the width at which the matched barrier of deep networks peaks, against their depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.drawing import scale_widths
from symlab.papers.permutation_invariance.measuring import estimate, find_peak, largest, of_table, smallest
from symlab.papers.permutation_invariance.network_rows import DIRECT, EXPLORATORY, select_widths, train_rows
from symlab.plotting import style as plot
from symlab.plotting.pairs import mean_std
from symlab.plotting.style import MARKERS
from symlab.plotting.units import draw_units, over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_most, mean
from symlab.study.tables import need, one_matching, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "barriers.csv"
EDGE = "at an end of the widths: no peak"


def peak_against_depth(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 14: the width at which the mean permuted barrier is largest, against depth, after the curves.

    The barrier is that of the train loss under the first matching. A hollow mark is a largest barrier at the smallest
    or largest width, which is no peak.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator

    rows = _matched(need(tables, TABLE))
    depths = sorted(rows["depth"].unique())
    if len(depths) < 2:
        raise UserError(
            f"{where(rows if len(rows) else tables[TABLE])}.variants has networks of one depth only; sweep "
            "over network.widths of several lengths."
        )
    datasets = list(rows["dataset"].unique())
    colors = dict(zip(depths, plot.ordered_colors(len(depths)), strict=True))
    looks = {
        f"depth {depth:g}": plot.Look(color, "-", MARKERS[index % len(MARKERS)])
        for index, (depth, color) in enumerate(colors.items())
    }
    figure, axes = plot.panels(1, len(datasets) + 1, plot.PAGE, 3.3, sharex="none", sharey="none")
    last: Axes = axes[0, -1]
    hues = plot.palette(style)
    data_looks = {
        name: plot.Look(hues[(3, 4, 8, 9)[index % 4]], "--" if index % 2 else "-", MARKERS[index % len(MARKERS)])
        for index, name in enumerate(datasets)
    }
    on_edge = False
    for axis, dataset in zip(axes[0], datasets, strict=False):
        peaks = {}
        for depth, (label, look) in zip(depths, looks.items(), strict=True):
            part = rows[(rows["dataset"] == dataset) & (rows["depth"] == depth)]
            if part.empty:
                continue
            stats = mean_std(part, "width", "barrier_max")
            draw_units(axis, part, "width", "barrier_max", look, label, band=False)
            peak = stats["mean"].idxmax()
            peaks[depth] = (stats["width"][peak], peak in (0, len(stats) - 1))
        axis.set_title(dataset)
        scale_widths(axis, rows["width"])
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        on_edge |= _draw_peaks(last, peaks, data_looks[dataset], dataset)
    plot.name_axes(axes, "width", "permuted barrier (NLL)")
    last.set_xlabel("depth (weight layers)")
    last.set_ylabel("width of the largest mean barrier")
    last.yaxis.label.set_visible(True)
    last.xaxis.set_major_locator(FixedLocator(depths) if len(depths) < 8 else MaxNLocator(integer=True))
    last.set_xlim(depths[0] - 0.4, depths[-1] + 0.4)
    last.set_ylim(0, 1.25 * last.get_ylim()[1])
    entries = [*plot.handles(looks), *plot.handles(data_looks)]
    if on_edge:
        entries.append(plot.mark_entry(EDGE, "o", markerfacecolor="white", markeredgecolor="0.4"))
    plot.legend(figure, entries, over_pairs(rows))
    return figure


def _draw_peaks(axis: Axes, peaks: dict[float, tuple[float, bool]], look: plot.Look, label: str) -> bool:
    """A line of peak widths, hollow where they are at the end of the widths; says whether any is."""
    x, y = list(peaks), [width for width, _ in peaks.values()]
    axis.plot(x, y, color=look.color, linestyle=look.linestyle, label=label)
    for depth, (width, end) in peaks.items():
        face = "white" if end else look.color
        axis.plot([depth], [width], color=look.color, marker=look.marker, markerfacecolor=face, linestyle="", ms=5)
    return any(end for _, end in peaks.values())


def see_places(tables: Tables) -> str:
    """The width of the largest mean barrier of each data set and depth."""
    rows = _matched(tables[TABLE])
    curves = rows.groupby(["dataset", "depth", "width"], sort=False)["barrier_max"].mean()
    told = []
    for (dataset, depth), curve in curves.groupby(level=["dataset", "depth"], sort=False):
        at = curve.idxmax()[-1]
        widths = curve.index.get_level_values("width")
        end = ", an end of the widths" if at in (widths.min(), widths.max()) else ""
        told.append(f"{at:g} ({dataset}, depth {depth:g}{end})")
    return f"The mean permuted barrier is largest at width {', '.join(told)}."


def _matched(table: pd.DataFrame) -> pd.DataFrame:
    """Train rows of networks permuted by the first matching."""
    rows = one_matching(select_widths(table, 3))
    return rows[rows["aligned"] & rows["depth"].notna()]


FIGURES = (
    Drawing(
        "permutation-14",
        "Width of the largest barrier against depth",
        "Width at which the mean permuted barrier of the train loss is largest, against the depth of the networks, a "
        "line for each data set, and before it the barriers that it is read from. Error bars are one standard "
        "deviation over pairs; neurons are matched by the first method the study lists. Hollow marks: the largest "
        "barrier is at the smallest or largest width trained, so there is no peak.",
        peak_against_depth,
        see_places,
        "Exploratory: few widths, depths and pairs at short training, so a peak is known to the next width at best.",
    ),
)


def steps_between_depths(table: pd.DataFrame) -> list[Found]:
    """How many widths apart the peaks of the mean permuted barrier are at most over depths, for each data set."""
    found: list[Found] = []
    for dataset, method, rows, peaks in _peaks(table, "dataset", "depth"):
        widths = sorted(set(table.loc[table["dataset"] == dataset, "width"].dropna()))

        def steps(of: pd.DataFrame, widths: list[float] = widths) -> float:
            places = [widths.index(width) if width == width else np.nan for width in _peaks_of(of, "depth")]
            return largest(np.array(places)) - smallest(np.array(places))

        told = ", ".join(f"depth {depth:g}: {width:g}" for depth, width in peaks.items())
        found.append(estimate(f"{dataset}, {method} matching", rows, steps, ("barrier_max",), ["depth", "width"], told))
    return found or ["needs networks of three widths at two depths on one data set, with a peak within them"]


def peak_of_cifar_over_mnist(table: pd.DataFrame) -> list[Found]:
    """Peak width of the mean permuted barrier on CIFAR-10 as a multiple of that on MNIST, for each depth."""
    found: list[Found] = []
    # CIFAR-10 comes from its archive or from JPEG images.
    sources = table.assign(source=table["source"].replace({"cifar10_jpeg": "cifar10"}))
    for depth, method, rows, peaks in _peaks(sources, "depth", "source"):
        if {"mnist", "cifar10"} <= set(peaks.index):
            told = f"CIFAR-10: {peaks['cifar10']:g}, MNIST: {peaks['mnist']:g}"
            case = f"depth {depth:g}, {method} matching"

            def ratio(of: pd.DataFrame) -> float:
                peaks = _peaks_of(of, "source")
                return float(peaks["cifar10"] / peaks["mnist"])

            found.append(estimate(case, rows, ratio, ("barrier_max",), ["source", "width"], told))
    return found or ["needs networks of one depth and three widths on both MNIST and CIFAR-10, with a peak within them"]


def _peaks(table: pd.DataFrame, by: str, over_what: str) -> list[tuple[object, str, pd.DataFrame, pd.Series]]:
    """(value of ``by``, matching, rows, peak width at each value of ``over_what``), where two values have a peak.

    Needs three widths for a peak, which is not the first or the last of them.
    """
    rows = train_rows(table)
    rows = rows[rows["matching"] != DIRECT]
    found = []
    for (value, method), group in rows.groupby([by, "matching"], sort=False):
        group = group[group.groupby(over_what)["width"].transform("nunique") >= 3]
        if group[over_what].nunique() < 2:
            continue
        peaks = _peaks_of(
            group.groupby([over_what, "width"])[["barrier_max"]].agg(lambda of: mean(of.to_numpy())), over_what
        )
        ends = group.groupby(over_what)["width"].agg(["min", "max"])
        if not any(peaks[each] in (low, high) for each, low, high in ends.itertuples()):
            found.append((value, str(method), group, peaks))
    return found


def _peaks_of(curves: pd.DataFrame, level: str) -> pd.Series:
    """The width of the largest mean barrier at each value of a level of the index."""
    barriers = curves["barrier_max"]
    places = barriers.index.unique(level)
    return pd.Series([find_peak(barriers.xs(each, level=level)) for each in places], index=places)


CLAIMS = (
    Claim(
        id="permutation-14-depth",
        statement="The width at which the matched barrier peaks does not move with depth",
        quantity="distance of the peaks over the depths, in steps of the grid of widths",
        bound=at_most(1),
        owner="paper",
        origin="ours",
        reason=("The paper says about constant; one step of the grid is within what the peak of a noisy mean moves."),
        tables=(TABLE,),
        measure=of_table(TABLE, steps_between_depths),
        why={
            "": "The peak of a mean over few pairs moves by a step or two of so coarse a grid of widths by chance, "
            f"and short training moves it too. {EXPLORATORY}; this run is exploratory."
        },
    ),
    Claim(
        id="permutation-14-dataset",
        statement="The width at which the matched barrier peaks is larger on CIFAR-10 than on MNIST",
        quantity="ratio of the peak widths",
        bound=above(1),
        owner="paper",
        origin="ours",
        reason="The paper's curve of CIFAR-10 lies above that of MNIST; it states no number.",
        tables=(TABLE,),
        measure=of_table(TABLE, peak_of_cifar_over_mnist),
        why={
            "": "Small subsets and short training leave networks far from the fits that the paper compares, and a "
            f"coarse grid of widths need not tell two peaks apart. {EXPLORATORY}; this run is exploratory."
        },
    ),
)
