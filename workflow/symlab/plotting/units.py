"""Lines of what was drawn independently: pairs, or networks. The mean with its spread, or each where there are few."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from symlab.plotting.pairs import PAIR, mean_std
from symlab.plotting.style import ERROR_ALPHA, Look
from symlab.plotting.types import Axes

FEW = 2
"""Pairs or networks up to which each has a line of its own."""


def mean_line(axis: Axes, stats: pd.DataFrame, look: Look, label: str, *, band: bool) -> None:
    """Draw columns x (the first), mean and std as a line with a band, or with error bars where the points are few."""
    x, mean, std = stats.iloc[:, 0].to_numpy(dtype=float), stats["mean"].to_numpy(), stats["std"].to_numpy()
    axis.plot(
        x, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, markerfacecolor=look.face, label=label
    )
    if band:
        axis.fill_between(x, mean - std, mean + std, color=look.color, alpha=ERROR_ALPHA, linewidth=0)
    else:
        axis.errorbar(x, mean, yerr=std, fmt="none", ecolor=look.color, capsize=2, elinewidth=0.8)


def over_pairs(rows: pd.DataFrame) -> str:
    """What ``draw_units`` draws, with the number: mean ± std, 4 pairs (or networks)."""
    name, ids = _units(rows)
    low, high = (
        each(rows.groupby("variant")[ids].apply(lambda part: len(part.drop_duplicates()))) for each in (min, max)
    )
    n = f"{high}" if low == high else f"{low} to {high}"
    return f"1 {name[:-1]}" if high == 1 else f"{n} {name}, each drawn" if high <= FEW else f"mean ± std, {n} {name}"


def draw_units(
    axis: Axes,
    rows: pd.DataFrame,
    x: str,
    value: str,
    look: Look,
    label: str,
    *,
    band: bool = True,
    marker: bool = True,
    unit: Sequence[str] = (),
) -> None:
    """Draw ``value`` against ``x``: the mean over units with its std, or, of up to two, each as a line.

    The standard deviation of two values is no estimate of anything, and the two can be shown.

    Args:
        band: whether the std is a band, or bars.
        unit: the columns that tell units apart; pairs, or networks or seeds, if none are given.
    """
    if not marker:
        look = replace(look, marker="")
    units = list(rows.groupby(list(unit) or _units(rows)[1], sort=False))
    if len(units) > FEW:
        mean_line(axis, mean_std(rows, x, value), look, label, band=band)
        return
    for number, (_, unit_rows) in enumerate(units):
        line = mean_std(unit_rows, x, value)
        axis.plot(
            line[x],
            line["mean"],
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker,
            linewidth=0.8,
            markersize=3,
            markerfacecolor=look.face,
            label=label if number == 0 else "_",
        )


def _units(rows: pd.DataFrame) -> tuple[str, list[str]]:
    """What was drawn independently of one another, and the columns that tell one from another."""
    networks = [name for name in ("mask_seed", "seed") if name in rows]
    return ("pairs", PAIR) if "pair" in rows else ("networks", networks)
