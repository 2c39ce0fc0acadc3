"""Barriers of trained networks on data against their hidden width (Figs. 7, 8, 14, 15)."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import finish, grid
from symlab.plotting.points import MARKERS
from symlab.plotting.style import (
    COLUMN,
    ERROR_ALPHA,
    OVER_PAIRS,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    name_row,
    ordered,
    palette,
    panels,
    wrapped,
)
from symlab.plotting.tables import mean_std, need, one_matching, where

WIDTH = "width"
LAMBDA = r"position $\lambda$"
LOSS = "train loss (NLL)"
BARRIER = "barrier of the train loss (NLL)"
DIRECT = "direct"
METHODS = {
    "none": DIRECT,
    "activation": "permuted, by activations",
    "weight": "permuted, by weights",
    "aligned": "permuted",
}
BAND = "mean and 10th to 90th percentile over pairs"
THREE = ("smallest", "peak in between", "largest")
MOST_PANELS = 9
EDGE = "at an end of the widths: no peak"


def barrier_against_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 7: barrier of the train loss against width, direct and permuted by each matching, mean and 10-90 % band.

    Below, the permuted ones again on a scale of their own. A column a data set and depth.
    """
    rows = _of_widths(need(tables, "barriers.csv"), 3)
    looks = _looks(rows, style)
    groups = _groups(rows)
    width = 1.5 * COLUMN if len(groups) == 1 else PAGE
    figure, axes = panels(2, len(groups), width, 4.8, sharex="col", sharey="row")
    for column, (title, of_group) in enumerate(groups.items()):
        for method, look in looks.items():
            part = of_group[of_group["method"] == method]
            for axis in axes[:, column] if method != DIRECT else axes[:1, column]:
                _percentiles(axis, part, look, method)
        axes[0, column].set_title(title)
        for axis in axes[:, column]:
            _width_axis(axis, of_group["width"])
    for axis in axes.flat:
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    name_axes(axes, WIDTH, "permuted barrier (NLL)")
    for axis in axes[0]:
        axis.set_ylabel(BARRIER)
    legend(figure, handles(looks), wrapped([BAND], width, style))
    return figure


def _width_axis(axis: Axes, widths: pd.Series) -> None:
    """A logarithmic axis with a label at every other width (or every one) where widths differ by 10 times or more."""
    values = sorted(widths.unique())
    if values[-1] < 10 * values[0]:
        return
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(values[:: -(-len(values) // 6)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")


def _percentiles(axis: Axes, rows: pd.DataFrame, look: Look, label: str) -> None:
    """The mean over pairs as a line and the 10th to the 90th percentile as a band."""
    groups = rows.groupby("width")["barrier_max"]
    mean, low, high = groups.mean(), groups.quantile(0.1), groups.quantile(0.9)
    axis.plot(mean.index, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=label)
    axis.fill_between(mean.index, low, high, color=look.color, alpha=ERROR_ALPHA, linewidth=0)


def paths_at_three_widths(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 8: train loss along lambda at the smallest width, at one in between, and at the largest.

    The width in the middle is the one between the two others whose mean permuted barrier, under the first matching, is
    largest. A row a data set and depth.
    """
    rows = _of_widths(need(tables, "curves.csv"), 3)
    looks = _looks(rows, style)
    groups = {title: part for title, part in _groups(rows).items() if part["width"].nunique() >= 3}
    figure, axes = panels(len(groups), 3, PAGE, 1.0 + 2.2 * len(groups), sharey="row")
    for row, (title, of_group) in enumerate(groups.items()):
        widths = sorted(of_group["width"].unique())
        at_peak = _permuted_barriers(of_group).loc[widths[1:-1]].idxmax()
        for axis, width, says in zip(axes[row], (widths[0], at_peak, widths[-1]), THREE, strict=True):
            _paths(axis, of_group[of_group["width"] == width], looks)
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


def _paths(axis: Axes, rows: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Loss along lambda of each method, mean and standard deviation over pairs."""
    for method, look in looks.items():
        mean_line(axis, mean_std(rows[rows["method"] == method], "lambda", "loss"), look, method, band=True)
    for line in axis.lines:
        line.set_marker("")


def paths_by_width(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 15: train loss along lambda, direct and permuted, a panel a width (multiplier), data set and depth."""
    rows = _of_widths(need(tables, "curves.csv"), 1)
    looks = _looks(rows, style)
    groups = _groups(rows)
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
    figure, axes, _ = grid(len(shown), sharex="all")
    for axis, (title, part) in zip(axes.flat, shown.items(), strict=False):
        _paths(axis, part, looks)
        axis.set_title(title)
    finish(axes, len(shown), LAMBDA, LOSS)
    legend(figure, handles(looks, marker=False), OVER_PAIRS)
    return figure


def peak_against_depth(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 14: the width at which the mean permuted barrier is largest, against depth, after the curves.

    The barrier is that of the train loss under the first matching. A hollow mark is a largest barrier at the smallest
    or largest width, which is no peak.
    """
    rows = one_matching(_of_widths(need(tables, "barriers.csv"), 3))
    rows = rows[rows["aligned"] & rows["depth"].notna()]
    depths = sorted(rows["depth"].unique())
    if len(depths) < 2:
        raise UserError(
            f"{where(rows if len(rows) else tables['barriers.csv'])}.variants has networks of one depth only; sweep "
            "over network.widths of several lengths."
        )
    datasets = list(rows["dataset"].unique())
    colors = dict(zip(depths, ordered(len(depths)), strict=True))
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
        _width_axis(axis, rows["width"])
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        on_edge |= _peaks(last, peaks, data_looks[dataset], dataset)
    name_axes(axes, WIDTH, "permuted barrier (NLL)")
    last.set_xlabel("depth (weight layers)")
    last.set_ylabel("width of the largest mean barrier")
    last.yaxis.label.set_visible(True)
    last.xaxis.set_major_locator(FixedLocator(depths) if len(depths) < 8 else MaxNLocator(integer=True))
    last.set_xlim(depths[0] - 0.4, depths[-1] + 0.4)
    last.set_ylim(0, 1.25 * last.get_ylim()[1])
    entries = [*handles(looks), *handles(data_looks)]
    if on_edge:
        entries.append(
            Line2D([], [], linestyle="", marker="o", markerfacecolor="white", markeredgecolor="0.4", label=EDGE)
        )
    legend(figure, entries, OVER_PAIRS)
    return figure


def _peaks(axis: Axes, peaks: dict[float, tuple[float, bool]], look: Look, label: str) -> bool:
    """A line of peak widths, hollow where they are at the end of the widths; says whether any is."""
    x, y = list(peaks), [width for width, _ in peaks.values()]
    axis.plot(x, y, color=look.color, linestyle=look.linestyle, label=label)
    for depth, (width, end) in peaks.items():
        face = "white" if end else look.color
        axis.plot([depth], [width], color=look.color, marker=look.marker, markerfacecolor=face, linestyle="", ms=5)
    return any(end for _, end in peaks.values())


def _of_widths(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """The train rows of networks with a width, their ``method`` added: direct, or what they were permuted by.

    Raises:
        UserError: there are no train rows, fewer than ``least`` widths, or no permuted paths.
    """
    study = where(table)
    train = table[table["split"] == "train"]
    if train.empty:
        raise UserError(f"it needs train among {study}.interpolation.splits.")
    rows = train[train["width"].notna()] if "width" in train else train.iloc[:0]
    widths = rows.groupby(_keys(rows), dropna=False)["width"].nunique().max() if len(rows) else 0
    if widths < least:
        raise UserError(
            f"{study}.variants needs networks of at least {_number(least)} that differ in nothing else; sweep over "
            "network.widths (or network.width_multiplier)."
        )
    if not rows["aligned"].any():
        raise UserError(f"it needs aligned paths too, so set {study}.interpolation.aligned to true and add matching.")
    matching = rows["matching"] if "matching" in rows else rows["aligned"].map({False: "none", True: "aligned"})
    return rows.assign(method=matching.map(METHODS).fillna(matching))


def _number(n: int) -> str:
    return {1: "one width", 2: "two widths", 3: "three widths"}.get(n, f"{n} widths")


def _keys(rows: pd.DataFrame) -> list[str]:
    return [column for column in ("dataset", "depth", "family") if column in rows]


def _groups(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each data set, depth and family of networks by a title that says what differs."""
    keys = _keys(rows)
    differ = [column for column in keys if rows[column].nunique(dropna=False) > 1]
    # Families of different depths are told apart by it.
    if "family" in differ and not rows.drop_duplicates(keys).duplicated([c for c in keys if c != "family"]).any():
        differ.remove("family")
    return {
        ", ".join(_told(column, part[column].iloc[0]) for column in differ): part
        for _, part in rows.groupby(keys, sort=False, dropna=False)
    }


def _told(column: str, value: object) -> str:
    if column != "depth":
        return str(value)
    return f"{value:g} layers" if pd.notna(value) else "unknown depth"


def _looks(rows: pd.DataFrame, style: Style) -> dict[str, Look]:
    """The look of each method: direct first, then those of matching in their order."""
    colors = palette(style)
    others = [method for method in _distinct(rows["method"]) if method != DIRECT]
    known = {
        METHODS["weight"]: Look(colors[0], "-", "o"),
        METHODS["activation"]: Look(colors[2], (0, (5, 1.5)), "^"),
    }
    other = Look(colors[4], (0, (1, 1)), "D")
    return {DIRECT: Look(colors[1], "--", "s")} | {method: known.get(method, other) for method in others}


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
