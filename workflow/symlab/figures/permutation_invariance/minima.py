"""Which of the global minima gradient descent finds (Fig. 9): the type it doubles, the sizes of neurons of one type."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator

from symlab.errors import UserError
from symlab.figures.permutation_invariance.drawing import key, not_drawn
from symlab.plotting.style import ERROR_ALPHA, PAGE, Color, Style, legend, palette, panels, wrapped
from symlab.plotting.tables import need


def doubled_types_and_entries(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 9: a, how often each type is the one with most rows; b, sorted entries of a column beside those expected.

    Expected are equal shares with their binomial standard deviation in a, the ordered uniform distribution on the
    simplex in b.
    """
    runs, entries = need(tables, "doubled_types_runs.csv"), need(tables, "column_entries.csv")
    colors = palette(style)
    measured, expected, single = colors[0], colors[1], colors[2]
    figure, axes = panels(1, 2, PAGE, 3.4, sharex="none", sharey="none")
    missing = _doubled(axes[0, 0], runs, measured, expected)
    _entries(axes[0, 1], entries, measured, expected, single)
    legend_entries = [
        Patch(facecolor=measured, label="a: runs"),
        Line2D([], [], color=measured, marker="o", label="b: mean ± std over runs"),
        Line2D([], [], color=single, marker="D", linestyle="", label="b: one run"),
        Line2D([], [], color=expected, linestyle="--", label="expected (in a ± std)"),
    ]
    legend(figure, legend_entries, wrapped([missing], PAGE, style))
    return figure


def _doubled(axis: Axes, runs: pd.DataFrame, measured: Color, expected: Color) -> str:
    """Panel a; gives a sentence on the runs that are left out."""
    trained = runs[runs["source"] != "uniform"]
    if trained.empty:
        raise UserError(f"{key(runs, 'doubled_types')} has no trained runs; set runs.")
    M, d, m = (int(trained[column].iloc[0]) for column in ("M", "d", "m"))
    trained = trained[(trained["M"] == M) & (trained["d"] == d) & (trained["m"] == m)]
    counted = trained[trained["kept"].astype(bool) & (trained["doubled_type"] > 0)]
    if counted.empty:
        raise UserError(f"no run of {key(runs, 'doubled_types')} was kept and has one type with the most rows.")
    types = np.arange(1, M + 1)
    counts = counted["doubled_type"].value_counts().reindex(types, fill_value=0)
    mean, std = len(counted) / M, np.sqrt(len(counted) * (M - 1)) / M
    axis.bar(types, counts, width=0.7, color=measured)
    axis.axhline(mean, color=expected, linestyle="--", label="expected")
    axis.axhspan(mean - std, mean + std, color=expected, alpha=0.3, linewidth=0, zorder=0)
    axis.set_title(f"a   $M$ = {M}, $d$ = {d}, $m$ = {m}; {len(counted)} runs", loc="left")
    axis.set_xlabel("type (teacher neuron) with two rows" if m == M + 1 else "type (teacher neuron) with most rows")
    axis.set_ylabel("number of runs")
    axis.xaxis.set_major_locator(FixedLocator(list(types)) if M <= 12 else MaxNLocator(integer=True))
    why = "not kept, or several types have most rows"
    return not_drawn(len(trained) - len(counted), len(trained), "runs of a", why)


def _entries(axis: Axes, table: pd.DataFrame, measured: Color, expected: Color, single: Color) -> None:
    """Panel b: of the first (M, d, m) and standard deviation of the initial weights."""
    if table.empty:
        raise UserError(
            "no two runs of the column grid were kept: they diverged or ended with a loss above 1e-5; lower lr or c, "
            "or raise steps."
        )
    first = table.iloc[0]
    same = (table[["M", "d", "m", "init_std"]] == first[["M", "d", "m", "init_std"]]).all(axis=1)
    rows = table[same].sort_values("rank")
    rank, mean, std = (rows[column].to_numpy(dtype=float) for column in ("rank", "mean", "std"))
    axis.fill_between(rank, np.maximum(mean - std, 0), mean + std, color=measured, alpha=ERROR_ALPHA, linewidth=0)
    axis.plot(rank, mean, color=measured, marker="o", label="mean")
    axis.plot(rank, rows["first"], color=single, marker="D", linestyle="", label="one run")
    axis.plot(rank, rows["expected"], color=expected, linestyle="--", label="expected")
    axis.set_title(f"b   $M$ = {first['M']}, $d$ = {first['d']}, $m$ = {first['m']}; {first['runs']} runs", loc="left")
    axis.set_xlabel("rank of the entry (1: largest)")
    axis.set_ylabel("entry of column 1 of $W$")
    axis.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axis.set_ylim(bottom=0)
