"""Fig. 14: the width at which the matched barrier of deep networks peaks, against their depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, above, at_most, stated
from symlab.papers.permutation_invariance.drawing import scale_widths
from symlab.papers.permutation_invariance.measuring import fewest, find_peak, means, of_table
from symlab.papers.permutation_invariance.network_rows import DIRECT, EXPLORATORY, select_widths, train_rows
from symlab.plotting.points import MARKERS
from symlab.plotting.rows import mean_std, need, one_matching, where
from symlab.plotting.style import (
    OVER_PAIRS,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    mark_entry,
    mean_line,
    name_axes,
    ordered_colors,
    palette,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "barriers.csv"
EDGE = "at an end of the widths: no peak"


def peak_against_depth(tables: Tables, style: Style) -> Figure:
    """Fig. 14: the width at which the mean permuted barrier is largest, against depth, after the curves.

    The barrier is that of the train loss under the first matching. A hollow mark is a largest barrier at the smallest
    or largest width, which is no peak.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator

    rows = one_matching(select_widths(need(tables, TABLE), 3))
    rows = rows[rows["aligned"] & rows["depth"].notna()]
    depths = sorted(rows["depth"].unique())
    if len(depths) < 2:
        raise UserError(
            f"{where(rows if len(rows) else tables[TABLE])}.variants has networks of one depth only; sweep "
            "over network.widths of several lengths."
        )
    datasets = list(rows["dataset"].unique())
    colors = dict(zip(depths, ordered_colors(len(depths)), strict=True))
    looks = {
        f"depth {depth:g}": Look(color, "-", MARKERS[index % len(MARKERS)])
        for index, (depth, color) in enumerate(colors.items())
    }
    figure, axes = panels(1, len(datasets) + 1, PAGE, 3.3, sharex="none", sharey="none")
    last: Axes = axes[0, -1]
    hues = palette(style)
    data_looks = {
        name: Look(hues[(3, 4, 8, 9)[index % 4]], "--" if index % 2 else "-", MARKERS[index % len(MARKERS)])
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
            mean_line(axis, stats, look, label, band=False)
            peak = stats["mean"].idxmax()
            peaks[depth] = (stats["width"][peak], peak in (0, len(stats) - 1))
        axis.set_title(dataset)
        scale_widths(axis, rows["width"])
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        on_edge |= _draw_peaks(last, peaks, data_looks[dataset], dataset)
    name_axes(axes, "width", "permuted barrier (NLL)")
    last.set_xlabel("depth (weight layers)")
    last.set_ylabel("width of the largest mean barrier")
    last.yaxis.label.set_visible(True)
    last.xaxis.set_major_locator(FixedLocator(depths) if len(depths) < 8 else MaxNLocator(integer=True))
    last.set_xlim(depths[0] - 0.4, depths[-1] + 0.4)
    last.set_ylim(0, 1.25 * last.get_ylim()[1])
    entries = [*handles(looks), *handles(data_looks)]
    if on_edge:
        entries.append(mark_entry(EDGE, "o", markerfacecolor="white", markeredgecolor="0.4"))
    legend(figure, entries, OVER_PAIRS)
    return figure


def _draw_peaks(axis: Axes, peaks: dict[float, tuple[float, bool]], look: Look, label: str) -> bool:
    """A line of peak widths, hollow where they are at the end of the widths; says whether any is."""
    x, y = list(peaks), [width for width, _ in peaks.values()]
    axis.plot(x, y, color=look.color, linestyle=look.linestyle, label=label)
    for depth, (width, end) in peaks.items():
        face = "white" if end else look.color
        axis.plot([depth], [width], color=look.color, marker=look.marker, markerfacecolor=face, linestyle="", ms=5)
    return any(end for _, end in peaks.values())


FIGURES = (
    Drawing(
        "permutation-14",
        "Width of the largest barrier against depth",
        "Width at which the mean permuted barrier of the train loss is largest, against the depth of the "
        "networks, a line for each data set, and before it the barriers that it is read from, study "
        "`{study}`. Error bars are one standard deviation over pairs. Neurons are matched by the first method "
        "the study lists. Hollow marks: the largest barrier is at the smallest or largest width trained, so "
        "there is no peak.\n\n"
        "The width of the peak should depend little on depth and be larger for CIFAR-10 than for MNIST. This "
        "is exploratory: few widths, depths and pairs at short training, so a peak is known to the next width "
        "at best.",
        peak_against_depth,
    ),
)


def steps_between_depths(table: pd.DataFrame) -> list[Found]:
    """How many widths apart the peaks of the mean permuted barrier are at most over depths, for each data set."""
    found: list[Found] = []
    for dataset, method, peaks, n in _peaks(table, "dataset", "depth"):
        widths = sorted(set(table.loc[table["dataset"] == dataset, "width"].dropna()))
        places = [widths.index(width) for width in peaks.values() if width == width]
        value = float(max(places) - min(places)) if len(places) == len(peaks) else float("nan")
        told = ", ".join(f"depth {depth:g}: {width:g}" for depth, width in peaks.items())
        found.append(Measurement(value, n, None, f"{dataset}, {method} matching", told))
    return found or ["needs networks of three widths at two depths on one data set, with a peak within them"]


def peak_of_cifar_over_mnist(table: pd.DataFrame) -> list[Found]:
    """Peak width of the mean permuted barrier on CIFAR-10 as a multiple of that on MNIST, for each depth."""
    found: list[Found] = []
    # CIFAR-10 comes from its archive or from JPEG images.
    sources = table.assign(source=table["source"].replace({"cifar10_jpeg": "cifar10"}))
    for depth, method, peaks, n in _peaks(sources, "depth", "source"):
        if {"mnist", "cifar10"} <= peaks.keys():
            told = f"CIFAR-10: {peaks['cifar10']:g}, MNIST: {peaks['mnist']:g}"
            value = peaks["cifar10"] / peaks["mnist"]
            found.append(Measurement(value, n, None, f"depth {depth:g}, {method} matching", told))
    return found or ["needs networks of one depth and three widths on both MNIST and CIFAR-10, with a peak within them"]


def _peaks(table: pd.DataFrame, by: str, over_what: str) -> list[tuple[object, str, dict, int]]:
    """(value of ``by``, matching, peak width at each value of ``over_what``, fewest pairs), if two values have a peak.

    Needs three widths for a peak, which is not the first or the last of them.
    """
    rows = train_rows(table)
    rows = rows[rows["matching"] != DIRECT]
    found = []
    for (value, method), group in rows.groupby([by, "matching"], sort=False):
        enough = {each: of for each, of in group.groupby(over_what) if of["width"].nunique() >= 3}
        if len(enough) > 1:
            curves = {each: means(of, "barrier_max", "width") for each, of in enough.items()}
            peaks = {each: find_peak(curve) for each, curve in curves.items()}
            if any(peaks[each] in (curve.index[0], curve.index[-1]) for each, curve in curves.items()):
                continue
            found.append((value, str(method), peaks, min(fewest(of, "width") for of in enough.values())))
    return found


CLAIMS = (
    stated(
        "permutation-14-depth",
        "permutation-14",
        "The width at which the matched barrier peaks does not move with depth: distance of the peaks over the depths, "
        "in steps of the grid of widths",
        at_most(1),
        "The paper says about constant; one step of the grid is within what the peak of a noisy mean moves.",
        TABLE,
        of_table(TABLE, steps_between_depths),
        explanation="The peak of a mean over few pairs moves by a step or two of so coarse a grid of widths by chance, "
        f"and short training moves it too. {EXPLORATORY}; this run is exploratory.",
    ),
    stated(
        "permutation-14-dataset",
        "permutation-14",
        "The width at which the matched barrier peaks is larger on CIFAR-10 than on MNIST: ratio of the peak widths",
        above(1),
        "The paper's curve of CIFAR-10 lies above that of MNIST; it states no number.",
        TABLE,
        of_table(TABLE, peak_of_cifar_over_mnist),
        explanation="Small subsets and short training leave networks far from the fits that the paper compares, and a "
        f"coarse grid of widths need not tell two peaks apart. {EXPLORATORY}; this run is exploratory.",
    ),
)
