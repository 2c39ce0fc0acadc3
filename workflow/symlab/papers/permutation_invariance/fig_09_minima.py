"""Fig. 9: which of the global minima gradient descent finds, as uniform samples would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, above, at_most, stated
from symlab.papers.permutation_invariance.drawing import key_of, say_not_drawn
from symlab.papers.permutation_invariance.measuring import NO_TRAINED, measure_each, of_table
from symlab.papers.permutation_invariance.selection import keep, select_trained, split_trained
from symlab.plotting.rows import need
from symlab.plotting.style import (
    ERROR_ALPHA,
    PAGE,
    Style,
    legend,
    line_entry,
    mark_entry,
    palette,
    panels,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from symlab.plotting.style import Color

# Below five expected runs a type the distribution of the statistic is not chi-squared.
EXPECTED = 5
RUNS = 50


def doubled_types_and_entries(tables: Tables, style: Style) -> Figure:
    """Fig. 9: a, how often each type is the one with most rows; b, sorted entries of a column beside those expected.

    Expected are equal shares with their binomial standard deviation in a, the ordered uniform distribution on the
    simplex in b.
    """
    from matplotlib.patches import Patch

    runs, entries = need(tables, "doubled_types_runs.csv"), need(tables, "column_entries.csv")
    colors = palette(style)
    measured, expected, single = colors[0], colors[1], colors[2]
    figure, axes = panels(1, 2, PAGE, 3.4, sharex="none", sharey="none")
    missing = _doubled(axes[0, 0], runs, measured, expected)
    _entries(axes[0, 1], entries, measured, expected, single)
    legend_entries = [
        Patch(facecolor=measured, label="a: runs"),
        line_entry("b: mean ± std over runs", color=measured, marker="o"),
        mark_entry("b: one run", "D", color=single),
        line_entry("expected (in a ± std)", color=expected, linestyle="--"),
    ]
    legend(figure, legend_entries, wrap_sentences([missing], PAGE, style))
    return figure


def _doubled(axis: Axes, runs: pd.DataFrame, measured: Color, expected: Color) -> str:
    """Panel a; gives a sentence on the runs that are left out."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    trained = select_trained(runs)
    if trained.empty:
        raise UserError(f"{key_of(runs, 'doubled_types')} has no trained runs; set runs.")
    M, d, m = (int(trained[column].iloc[0]) for column in ("M", "d", "m"))
    trained = trained[(trained["M"] == M) & (trained["d"] == d) & (trained["m"] == m)]
    counted = keep(trained[trained["doubled_type"] > 0])
    if counted.empty:
        raise UserError(f"no run of {key_of(runs, 'doubled_types')} was kept and has one type with the most rows.")
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
    return say_not_drawn(len(trained) - len(counted), len(trained), "runs of a", why)


def _entries(axis: Axes, table: pd.DataFrame, measured: Color, expected: Color, single: Color) -> None:
    """Panel b: of the first (M, d, m) and standard deviation of the initial weights."""
    from matplotlib.ticker import MaxNLocator

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


FIGURES = (
    Drawing(
        "permutation-9",
        "Which minima gradient descent finds (a, b)",
        "Which of the global minima gradient descent finds, study `{study}`. a: of students with one neuron "
        "more than the teacher, how often each type is the one that has two; the dashed line is an equal "
        "share of all runs, the band one standard deviation of the binomial distribution. Runs that were not "
        "kept or in which no single type has most rows are left out, the line above says how many. b: the "
        "entries of a column of W that sum to the one neuron of the teacher, sorted: mean and standard "
        "deviation over runs, one run alone, and (dashed) the expectation for the uniform distribution on the "
        "simplex, (1/m)·(1/k + … + 1/m) at rank k.\n\n"
        "If gradient descent samples the minima uniformly, as Assumption 3 has it, bars should lie around the "
        "dashed line and means on the other one. b depends on the scale of the initial weights: with a "
        "standard deviation of 1/√d means follow the expectation, with smaller ones they are closer to equal "
        "shares.",
        doubled_types_and_entries,
    ),
)


def p_of_doubled_types(table: pd.DataFrame) -> list[Found]:
    """p value of Pearson's test that each of the M types is doubled equally often in students with m = M + 1."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        # All claims are imported where one is evaluated, and scipy takes time.
        from scipy.special import chdtrc

        rows = rows[rows["m"] == rows["M"] + 1]
        M = int(rows["M"].iloc[0]) if len(rows) else 0
        doubled = rows.loc[rows["doubled_type"] != 0, "doubled_type"]
        if not M > 1 or len(doubled) < EXPECTED * M:
            return f"{case}: needs {EXPECTED} M students with m = M + 1 that reached a minimum"
        counts = np.array([(doubled == type_).sum() for type_ in range(1, M + 1)])
        expected = len(doubled) / M
        statistic = float(np.sum((counts - expected) ** 2) / expected)
        value = float(chdtrc(M - 1, statistic)) if counts.sum() == len(doubled) else float("nan")
        told = f"{', '.join(map(str, counts))} of {len(rows)} students; chi^2 = {statistic:.3g}"
        return Measurement(value, len(doubled), None, case, told)

    return measure_each(split_trained(table), measure, NO_TRAINED)


def distance_from_simplex(table: pd.DataFrame) -> list[Found]:
    """Largest |mean - expected| over the ranks of a sorted column, for students initialised with 1/sqrt(d)."""
    found: list[Found] = []
    for (M, d, m, init_std), rows in table.groupby(["M", "d", "m", "init_std"], sort=False):
        case = f"M = {M:g}, d = {d:g}, m = {m:g}"
        if M != 1 or abs(init_std * np.sqrt(d) - 1) > 1e-3 or rows["runs"].min() < RUNS:
            found.append(f"{case}: needs M = 1, an initialisation of 1/sqrt(d) and {RUNS} students")
            continue
        difference = (rows["mean"] - rows["expected"]).abs().to_numpy(dtype=float)
        # argmax takes a value that is not a number for the largest.
        at = int(np.argmax(difference))
        told = f"rank {rows['rank'].iloc[at]:g}: {rows['mean'].iloc[at]:.3g} against {rows['expected'].iloc[at]:.3g}"
        found.append(Measurement(float(difference[at]), int(rows["runs"].min()), None, case, told))
    return found


CLAIMS = (
    stated(
        "permutation-9-doubled-types",
        "permutation-9",
        "Each of the teacher's neurons is as likely as any other to be the one that a student of M + 1 neurons has "
        "twice (Fig. 9a): p value of Pearson's chi^2 test",
        above(0.01),
        "The paper's histogram looks flat; a true one fails at this level once in a hundred.",
        "doubled_types_runs.csv",
        of_table("doubled_types_runs.csv", p_of_doubled_types),
    ),
    stated(
        "permutation-9-column",
        "permutation-9",
        "The shares of one teacher neuron that a student's neurons take, sorted, are those of a uniform point of the "
        "simplex (Fig. 9b): largest difference from the expected share over the ranks, mean over students",
        at_most(0.03),
        "The paper's line looks like one of the uniform law. A tenth of the largest share is left room: a small trial "
        "was off by 0.012 from this initialisation, by 0.1 and more from smaller ones.",
        "column_entries.csv",
        of_table("column_entries.csv", distance_from_simplex),
    ),
)
