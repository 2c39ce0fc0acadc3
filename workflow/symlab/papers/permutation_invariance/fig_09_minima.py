"""Fig. 9: which of the global minima gradient descent finds, as uniform samples would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.drawing import key_of, say_not_drawn
from symlab.papers.permutation_invariance.measuring import NO_TRAINED, measure_each, of_table
from symlab.papers.permutation_invariance.selection import keep, select_trained, split_trained
from symlab.plotting.style import ERROR_ALPHA, PAGE, Style, legend, line_entry, palette, panels, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_most, exact_value
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.artist import Artist
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
    measured, expected = colors[0], colors[1]
    figure, axes = panels(1, 2, PAGE, 3.6, sharex="none", sharey="none")
    missing = _doubled(axes[0, 0], runs, measured, expected)
    legend_entries = [
        Patch(facecolor=measured, label="a: runs"),
        line_entry("expected (in a ± std)", color=expected, linestyle="--"),
        *_entries(axes[0, 1], entries, [colors[0], colors[2], *colors[3:]], expected),
    ]
    legend(figure, legend_entries, wrap_sentences(["b: mean ± std over runs", missing], PAGE, style))
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


def _entries(axis: Axes, table: pd.DataFrame, colors: list[Color], expected: Color) -> list[Artist]:
    """Panel b: of the first (M, d, m), a line for each standard deviation of the initial weights; their entries."""
    from matplotlib.ticker import MaxNLocator

    if table.empty:
        raise UserError(
            "no two runs of the column grid were kept: they diverged or ended with a loss above 1e-5; lower lr or c, "
            "or raise steps."
        )
    first = table.iloc[0]
    of_first = table[(table[["M", "d", "m"]] == first[["M", "d", "m"]]).all(axis=1)]
    entries = []
    for (_, rows), color, marker in zip(of_first.groupby("init_std"), colors, "oDs^v" * len(table), strict=False):
        rows = rows.sort_values("rank")
        rank, mean, spread = (rows[column].to_numpy(dtype=float) for column in ("rank", "mean", "std"))
        axis.fill_between(
            rank, np.maximum(mean - spread, 0), mean + spread, color=color, alpha=ERROR_ALPHA, linewidth=0
        )
        name = f"b: initial weights of {name_init(rows.iloc[0])}"
        axis.plot(rank, mean, color=color, marker=marker, label=name)
        entries.append(line_entry(name, color=color, marker=marker))
    axis.plot(rank, rows["expected"], color=expected, linestyle="--", label="expected")
    axis.set_title(f"b   $M$ = {first['M']}, $d$ = {first['d']}, $m$ = {first['m']}; {first['runs']} runs", loc="left")
    axis.set_xlabel("rank of the entry (1: largest)")
    axis.set_ylabel("entry of column 1 of $W$")
    axis.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axis.set_ylim(bottom=0)
    return entries


def name_init(row: pd.Series) -> str:
    """The standard deviation of a row's initial weights by the formula that it has, 1/(md) or 1/√d, or as a number."""
    for name, scale in (("1/(md)", row["m"] * row["d"]), ("1/√d", np.sqrt(row["d"]))):
        if abs(row["init_std"] * scale - 1) < 1e-3:
            return name
    return f"{row['init_std']:g}"


def see_shares(tables: Tables) -> str:
    """How often types are doubled, and the largest share from each initialisation beside the expected one."""
    runs, entries = keep(select_trained(tables["doubled_types_runs.csv"])), tables["column_entries.csv"]
    counts = runs.loc[runs["doubled_type"] > 0, "doubled_type"].value_counts()
    largest = entries[entries["rank"] == 1]
    told = [f"{row['mean']:.3f} from initial weights of {name_init(row)}" for _, row in largest.iterrows()]
    return (
        f"Each type is doubled by {counts.min()} to {counts.max()} of {counts.sum()} students (expected "
        f"{counts.sum() / runs['M'].iloc[0]:.0f}); the largest share of one teacher neuron is {' and '.join(told)} "
        f"(expected {largest['expected'].iloc[0]:.3f})."
    )


FIGURES = (
    Drawing(
        "permutation-9",
        "Which minima gradient descent finds",
        "a: of students with one neuron more than the teacher, how often each type is the one that has two; the dashed "
        "line is an equal share of all runs, the band one standard deviation of the binomial distribution. b: the "
        "entries of a column of W that sum to the one neuron of the teacher, sorted, from initial weights of two "
        "scales; dashed the expectation for the uniform distribution on the simplex, (1/m)·(1/k + … + 1/m) at rank k. "
        "Runs that were not kept, or in which no single type has most rows, are left out of a.",
        doubled_types_and_entries,
        see_shares,
        "In b the paper shows one run, and does not say from which initial weights; its appendix B.1 has 1/(md).",
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
        told = f"{', '.join(map(str, counts))} of {len(rows)} students; χ² = {statistic:.3g}"
        return exact_value(value, len(doubled), case, told, "students")

    return measure_each(split_trained(table), measure, NO_TRAINED)


def distance_from_simplex(table: pd.DataFrame) -> list[Found]:
    """Largest |mean - expected| over the ranks of a sorted column, in standard errors, for each initialisation."""
    found: list[Found] = []
    for (M, d, m, _), rows in table.groupby(["M", "d", "m", "init_std"], sort=False):
        case = f"initial weights of {name_init(rows.iloc[0])}"
        if M != 1 or rows["runs"].min() < RUNS:
            found.append(f"{case}: needs M = 1 and {RUNS} students")
            continue
        error = rows["std"].to_numpy(dtype=float) / np.sqrt(rows["runs"].to_numpy(dtype=float))
        scores = (rows["mean"] - rows["expected"]).abs().to_numpy(dtype=float) / error
        # argmax takes a value that is not a number for the largest.
        at = int(np.argmax(scores))
        told = (
            f"d = {d:g}, m = {m:g}; rank {rows['rank'].iloc[at]:g}: {rows['mean'].iloc[at]:.3g} ± {error[at]:.2g} "
            f"against {rows['expected'].iloc[at]:.3g}"
        )
        # A number of standard errors has none of its own: the threshold leaves room for chance.
        found.append(exact_value(float(scores[at]), int(rows["runs"].min()), case, told, "students"))
    return found


CLAIMS = (
    Claim(
        id="permutation-9-doubled-types",
        statement="Each of the teacher's neurons is as likely as any other to be the one that a student of M + 1 "
        "neurons has twice (Fig. 9a)",
        quantity="p value of Pearson's χ² test",
        bound=above(0.01),
        owner="paper",
        origin="ours",
        reason="'Each neuron indeed gets assigned to different classes with equal probability': a true statement "
        "fails at this level once in a hundred.",
        tables=("doubled_types_runs.csv",),
        measure=of_table("doubled_types_runs.csv", p_of_doubled_types),
    ),
    Claim(
        id="permutation-9-column",
        statement="The shares of one teacher neuron that a student's neurons take, sorted, are those of a uniform "
        "point of the simplex (Fig. 9b)",
        quantity="largest difference of a mean share from the expected one over the ranks, in its standard error",
        bound=at_most(3.3),
        owner="paper",
        origin="ours",
        reason="'Consistent with sampling from an exponential distribution': of ten true means the largest is off by "
        "more than 3.3 standard errors less than once in a hundred. The paper initialises with 1/(md) (appendix B.1).",
        tables=("column_entries.csv",),
        measure=of_table("column_entries.csv", distance_from_simplex),
        why={
            "initial weights of 1/(md)": "From weights as small as these all neurons grow together and stay nearly "
            "equal. The paper warns that 'this distribution pattern is not stable enough'.",
            "initial weights of 1/√d": "The shares are near those of a uniform point and yet not the same: 200 "
            "students suffice to see that the largest is smaller. One run, as in the paper, cannot show it.",
        },
    ),
)
