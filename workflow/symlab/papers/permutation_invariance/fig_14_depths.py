"""Fig. 14: the width at which the matched barrier of deep networks peaks, against their depth."""

from functools import partial

import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import fig_07_08_15_networks as networks
from symlab.papers.permutation_invariance.drawing import width_axis
from symlab.plotting.style import MARKERS, Axes, Figure, Look, Style, mark_entry, palette
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_most
from symlab.study.curves import Curve, measure_each
from symlab.study.facets import BARS, Panel, assign_looks, draw_grid, labelled
from symlab.study.tables import need, one_matching, where

TABLE = "barriers.csv"


def peak_against_depth(tables: Tables, style: Style) -> Figure:
    rows = one_matching(networks.drawn(need(tables, TABLE), 3))
    rows = rows[rows["aligned"] & rows["depth"].notna()]
    depths = sorted(rows["depth"].unique())
    if len(depths) < 2:
        key = f"{where(tables[TABLE])}.variants"
        raise UserError(f"{key} has networks of one depth only; sweep over network.widths of several lengths.")
    rows = rows.sort_values("depth").assign(label=rows["depth"].map("depth {:g}".format))
    axes = {**width_axis(rows["width"]), "ylabel": "permuted barrier (NLL)"}
    of_sets = rows.groupby("dataset", sort=False)
    grid = [Panel(part, "width", "barrier_max", {**axes, "title": name}, options=BARS) for name, part in of_sets]
    table = rows.groupby(["dataset", "depth", "width"])["barrier_max"].mean().unstack("width")
    peaks = pd.DataFrame({"peak": table.idxmax(axis=1), "at_end": _at_an_end(table)}).reset_index()
    names = list(peaks["dataset"].unique())
    hues = [palette(style)[number] for number in (3, 4, 8, 9)]
    looks = {name: Look(hue, "-", mark) for name, hue, mark in zip(names, hues, MARKERS, strict=False)}
    last_axes = labelled(
        "depth (weight layers)", "width of the largest mean barrier", xticks=depths,
        xlim=(depths[0] - 0.4, depths[-1] + 0.4), ylim=(0, 1.25 * peaks["peak"].max()),
    )  # fmt: skip
    grid.append(Panel(peaks.assign(label=peaks["dataset"]), "depth", "peak", last_axes, _draw_peaks))
    edge = mark_entry("at an end of the widths: no peak", "o", markerfacecolor="white", markeredgecolor="0.4")
    return draw_grid(
        [grid], assign_looks(list(rows["label"].unique()), style, ordered=True) | looks, sharex=False, sharey=False,
        height=2.6, entries=[edge] if peaks["at_end"].any() else [], note=over_pairs(rows),
    )  # fmt: skip


def _at_an_end(table: pd.DataFrame) -> pd.Series:
    """Whether each row of barriers by width is largest at the first or the last width that it has."""
    return table.apply(lambda row: row.idxmax() in (row.first_valid_index(), row.last_valid_index()), axis=1)


def _draw_peaks(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    """A line of peak widths, hollow where they are at the end of the widths."""
    axis.plot(rows[x], rows[y], color=look.color, linestyle=look.linestyle, label=label)
    for at_end, part in rows.groupby("at_end"):
        face = "white" if at_end else look.color
        axis.plot(part[x], part[y], look.marker, color=look.color, markerfacecolor=face, markersize=5, label="_peaks")


FIGURES = {
    "permutation-14": Drawing(
        "Width of the largest barrier against depth",
        "Width at which the mean permuted barrier of the train loss is largest, against the depth of the networks, a "
        "line for each data set, and before it the barriers that it is read from. Error bars are one standard "
        "deviation over pairs; neurons are matched by the first method the study lists. Hollow marks: the largest "
        "barrier is at the smallest or largest width trained, so there is no peak.",
        peak_against_depth,
        seen="The widths of the largest barrier over the depths are {depth} steps of the grid of widths apart.",
        differs="Exploratory: few widths, depths and pairs at short training, so a peak is known to the next width at "
        "best.",
    ),
}


def steps_between_depths(tables: Tables) -> list[Found]:
    """How many widths apart the peaks of the mean permuted barrier are at most over depths, for each data set."""
    rows = networks.matched(tables[TABLE])

    def steps(curve: Curve) -> tuple[float, str]:
        widths = sorted(rows.loc[rows["dataset"] == curve.case.key["dataset"], "width"].unique())
        places = [widths.index(width) for width in _peaks(curve)]
        told = ", ".join(f"depth {depth:g}: {width:g}" for depth, width in _peaks(curve).items())
        return max(places) - min(places), told

    found = _of_several(rows, ["dataset", "matching"], "depth")
    lacking = "needs networks of three widths at two depths on one data set"
    return measure_each(found, steps, lacking, _without_peak)


def peak_of_cifar_over_mnist(tables: Tables) -> list[Found]:
    """Peak width of the mean permuted barrier on CIFAR-10 as a multiple of that on MNIST, for each depth."""
    # CIFAR-10 comes from its archive or from JPEG images.
    rows = networks.matched(tables[TABLE]).replace({"source": {"cifar10_jpeg": "cifar10"}})

    def ratio(curve: Curve) -> tuple[float, str]:
        cifar, mnist = _peaks(curve)[["cifar10", "mnist"]]
        return cifar / mnist, f"CIFAR-10: {cifar:g}, MNIST: {mnist:g}"

    found = _of_several(rows[rows["source"].isin(["cifar10", "mnist"])], ["depth", "matching"], "source")
    lacking = "needs networks of one depth and three widths on both MNIST and CIFAR-10"
    return measure_each(found, ratio, lacking, _without_peak)


def _of_several(rows: pd.DataFrame, by: list[str], over: str) -> list[Curve]:
    """Curves against width over several depths or data sets, where there are two of these."""
    rows = rows[rows.groupby(by)[over].transform("nunique") > 1]
    return networks.mean_curves(rows, along=[over, "width"], by=by)


def _peaks(curve: Curve) -> pd.Series:
    """The width of the largest mean barrier at each depth, or of each data set."""
    return curve["barrier_max"].unstack("width").idxmax(axis=1)


def _without_peak(curve: Curve) -> str:
    """Says that a curve is largest at an end of its widths; empty where none is."""
    ends = _at_an_end(curve["barrier_max"].unstack("width")).any()
    return "needs networks of several depths or data sets with a peak within them" if ends else ""


WHY = f"Not known. {networks.EXPLORATORY}; this run is exploratory."

_claim = partial(Claim, owner="paper", origin="ours", tables=(TABLE,))
CLAIMS = {
    "permutation-14-depth": _claim(
        statement="The width at which the matched barrier peaks does not move with depth",
        quantity="distance of the peaks over the depths, in steps of the grid of widths",
        bound=at_most(1),
        reason="'The peak position doesn't change according to depths': one step of the grid is within what the peak "
        "of a noisy mean moves.",
        measure=steps_between_depths,
        why=WHY,
    ),
    "permutation-14-dataset": _claim(
        statement="The width at which the matched barrier peaks is larger on CIFAR-10 than on MNIST",
        quantity="ratio of the peak widths",
        bound=above(1),
        reason="'It got bigger as our dataset became more complex', without a number.",
        measure=peak_of_cifar_over_mnist,
        why=WHY,
    ),
}
