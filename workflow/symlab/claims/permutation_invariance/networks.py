"""Claims about deep networks on images: Figs. 7 and 8 (MLPs on MNIST), 14 (depths), 15 (convolutions on CIFAR-10)."""

from __future__ import annotations

import pandas as pd

from symlab.papers.claim import Measurement, above, at_least, at_most, below
from symlab.claims.permutation_invariance.stated import Found, fewest, largest, means, over, peak, smallest, stated

TABLE = "barriers.csv"
DIRECT = "none"
# A depth that is not known does not keep networks from being grouped by the others' columns.
GROUP = ["dataset", "depth", "family"]


def ends_over_peak(table: pd.DataFrame) -> list[Found]:
    """Larger of the mean permuted barriers at the smallest and the largest width, as a fraction of the peak's.

    For each data set, depth and way of matching with three widths or more; 1 where the peak is at an end.
    """
    found: list[Found] = []
    for case, rows, _ in _matched(table):
        curve = means(rows, "barrier_max", "width")
        ends = largest(curve.iloc[[0, -1]])
        told = ", ".join(f"{value:.3g} at width {width:g}" for width, value in _milestones(curve).items())
        found.append(Measurement(over(ends, largest(curve)), fewest(rows, "width"), None, case, told))
    return found or [_lacking()]


def direct_stays(table: pd.DataFrame) -> list[Found]:
    """Smallest mean direct barrier over the widths as a fraction of the largest, for each data set and depth."""
    found: list[Found] = []
    for case, rows in _settings(table):
        direct = rows[rows["matching"] == DIRECT]
        if direct["width"].nunique() < 3:
            found.append(f"{case}: {_lacking()}")
            continue
        curve = means(direct, "barrier_max", "width")
        told = f"{smallest(curve):.3g} to {largest(curve):.3g}"
        value = over(smallest(curve), largest(curve))
        found.append(Measurement(value, fewest(direct, "width"), None, case, told))
    return found or [_lacking()]


def permuted_over_direct(table: pd.DataFrame, at_peak: bool) -> list[Found]:
    """Mean permuted over mean direct barrier at the width where the permuted one peaks, or at the largest width."""
    found: list[Found] = []
    for case, rows, direct in _matched(table):
        permuted, other = means(rows, "barrier_max", "width"), means(direct, "barrier_max", "width")
        width = peak(permuted) if at_peak else float(permuted.index[-1])
        # Without a peak, for want of a number, there is no ratio at it either.
        if width != width:
            found.append(Measurement(width, fewest(rows, "width"), None, case))
        elif width not in other.index:
            found.append(f"{case}: needs the direct path at width {width:g}")
        else:
            told = f"{permuted[width]:.3g} against {other[width]:.3g} at width {width:g}"
            n = int((rows["width"] == width).sum())
            found.append(Measurement(over(permuted[width], other[width]), n, None, case, told))
    return found or [_lacking()]


def ends_of_path(curves: pd.DataFrame) -> list[Found]:
    """Largest mean loss of trained networks as a fraction of the largest mean loss on the direct path, over widths."""
    found: list[Found] = []
    for case, rows in _settings(curves):
        direct = rows[rows["matching"] == DIRECT]
        if direct.empty:
            continue
        fractions = {}
        for width, of_width in direct.groupby("width"):
            path = means(of_width, "loss", "lambda")
            fractions[float(width)] = over(largest(path.iloc[[0, -1]]), largest(path))
        series = pd.Series(fractions)
        told = f"largest at width {peak(series):g}; {len(series)} widths"
        found.append(Measurement(largest(series), fewest(direct, ["width", "lambda"]), None, case, told))
    return found or [_lacking()]


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


def as_in_fig_7(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of networks of four layers on MNIST, if there are any: a study may sweep depths and data sets beside."""
    for column, value in (("source", "mnist"), ("depth", 4)):
        if (table[column] == value).any():
            table = table[table[column] == value]
    return table


def _settings(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, rows of the train split) of each data set, depth and, where there are several, family."""
    rows = table[(table["split"] == "train") & table["width"].notna()]
    several = rows.groupby(["dataset", "depth"], dropna=False)["family"].nunique().max() > 1
    return [
        (", ".join([dataset, *([] if pd.isna(depth) else [f"depth {depth:g}"]), *([family] if several else [])]), group)
        for (dataset, depth, family), group in rows.groupby(GROUP, sort=False, dropna=False)
    ]


def _matched(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """(name, rows of aligned paths, rows of direct paths) for each data set, depth and matching with three widths."""
    return [
        (f"{case}, {method} matching", rows, group[group["matching"] == DIRECT])
        for case, group in _settings(table)
        for method, rows in group[group["matching"] != DIRECT].groupby("matching", sort=False)
        if rows["width"].nunique() >= 3
    ]


def _peaks(table: pd.DataFrame, by: str, over_what: str) -> list[tuple[object, str, dict, int]]:
    """(value of ``by``, matching, peak width at each value of ``over_what``, fewest pairs), if two values have a peak.

    Needs three widths for a peak, which is not the first or the last of them.
    """
    rows = table[(table["split"] == "train") & table["width"].notna() & (table["matching"] != DIRECT)]
    found = []
    for (value, method), group in rows.groupby([by, "matching"], sort=False):
        enough = {each: of for each, of in group.groupby(over_what) if of["width"].nunique() >= 3}
        if len(enough) > 1:
            curves = {each: means(of, "barrier_max", "width") for each, of in enough.items()}
            peaks = {each: peak(curve) for each, curve in curves.items()}
            if any(peaks[each] in (curve.index[0], curve.index[-1]) for each, curve in curves.items()):
                continue
            found.append((value, str(method), peaks, min(fewest(of, "width") for of in enough.values())))
    return found


def _milestones(curve: pd.Series) -> dict[float, float]:
    """The curve at its ends and its peak."""
    at = [curve.index[0], *([peak(curve)] if peak(curve) in curve.index else []), curve.index[-1]]
    return {width: curve[width] for width in dict.fromkeys(at)}


def _lacking() -> str:
    return "needs direct and aligned paths of networks of three widths"


UP_AND_DOWN = (
    "After matching, the barrier first grows with the width and then falls: larger of the mean permuted loss barriers "
    "(training set) at the smallest and the largest width as a fraction of the largest"
)
EXPLORATORY = "The paper does not give its widths, epochs and architecture"

CLAIMS = (
    stated(
        "7",
        "peak",
        UP_AND_DOWN,
        below(1),
        "The paper's curve has its peak, near a width of 25, between the ends; it states no number, so only the order "
        "is asked for.",
        TABLE,
        lambda table: ends_over_peak(as_in_fig_7(table)),
    ),
    stated(
        "7",
        "direct",
        "Without matching the barrier stays large at all widths: smallest mean direct loss barrier (training set) over "
        "the widths as a fraction of the largest",
        at_least(1 / 3),
        "The paper says large without a number; a third of the largest is read as not vanishing.",
        TABLE,
        lambda table: direct_stays(as_in_fig_7(table)),
    ),
    stated(
        "8",
        "peak",
        "Where the matched barrier peaks, matching helps little: permuted as a fraction of direct mean loss barrier at "
        "that width",
        at_least(0.5),
        "The paper's curves lie close together in that panel; more than half is read as close.",
        TABLE,
        lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=True),
    ),
    stated(
        "8",
        "wide",
        "At the largest width matching removes most of the barrier: permuted as a fraction of direct mean loss barrier",
        at_most(0.25),
        "The paper's permuted curve is far below the direct one in that panel; less than a quarter is read as far "
        "below.",
        TABLE,
        lambda table: permuted_over_direct(as_in_fig_7(table), at_peak=False),
    ),
    stated(
        "8",
        "ends",
        "The trained networks themselves fit the data: their mean loss as a fraction of the largest on the direct "
        "path, at the width where that is largest",
        at_most(0.1),
        "The paper's curves end near 0; a tenth of their height is read as near.",
        "curves.csv",
        lambda curves: ends_of_path(as_in_fig_7(curves)),
    ),
    stated(
        "14",
        "depth",
        "The width at which the matched barrier peaks does not move with depth: distance of the peaks over the depths, "
        "in steps of the grid of widths",
        at_most(1),
        "The paper says about constant; one step of the grid is within what the peak of a noisy mean moves.",
        TABLE,
        steps_between_depths,
        explanation="The peak of a mean over few pairs moves by a step or two of so coarse a grid of widths by chance, "
        f"and short training moves it too. {EXPLORATORY}; this run is exploratory.",
    ),
    stated(
        "14",
        "dataset",
        "The width at which the matched barrier peaks is larger on CIFAR-10 than on MNIST: ratio of the peak widths",
        above(1),
        "The paper's curve of CIFAR-10 lies above that of MNIST; it states no number.",
        TABLE,
        peak_of_cifar_over_mnist,
        explanation="Small subsets and short training leave networks far from the fits that the paper compares, and a "
        f"coarse grid of widths need not tell two peaks apart. {EXPLORATORY}; this run is exploratory.",
    ),
    stated(
        "15",
        "peak",
        UP_AND_DOWN,
        below(1),
        "The paper shows three widths, of which the middle one has the largest permuted barrier.",
        TABLE,
        ends_over_peak,
        explanation=f"{EXPLORATORY} for this figure, so three widths need not lie on both sides of the peak; networks "
        "and training here are far smaller than its own, so this is no faithful rerun.",
    ),
)
