"""Fig. 9: which of the global minima gradient descent finds, as uniform samples would."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance.drawing import key_of
from symlab.papers.permutation_invariance.students import keep, name_students, trained
from symlab.plotting.style import ERROR_ALPHA, Axes, Color, Figure, Look, Style, line_entry, palette
from symlab.study.card import Drawing
from symlab.study.cases import cases_of
from symlab.study.claim import Case, Claim, Found, Tables, above, at_most, exact_value, not_measured
from symlab.study.facets import Panel, assign_looks, draw_grid, draw_rows, labelled
from symlab.study.tables import need, some

RUNS, ENTRIES = "doubled_types_runs.csv", "column_entries.csv"
# Below five expected runs a type the distribution of the statistic is not chi-squared.
EXPECTED = 5
FEWEST_RUNS = 50
COUNTS = "a: runs"


def doubled_types_and_entries(tables: Tables, style: Style) -> Figure:
    runs, entries = trained(need(tables, RUNS)), need(tables, ENTRIES)
    lacking = f"no run of {key_of(tables[RUNS], 'doubled_types')} was trained, kept and has one type with most rows."
    counted = some(keep(runs[runs["doubled_type"] > 0]), lacking)
    M, d, m = counted[["M", "d", "m"]].iloc[0]
    counts = counted["doubled_type"].value_counts().reindex(range(1, M + 1), fill_value=0)
    by_type = counts.rename_axis("type").reset_index(name="runs").assign(label=COUNTS)
    entries = entries.assign(label=[f"b: initial weights of {name_init(row)}" for _, row in entries.iterrows()])
    first, color = entries.iloc[0], palette(style)[1]
    grid = [
        Panel(
            by_type, "type", "runs",
            labelled("type (teacher neuron) with most rows", "number of runs", xticks=list(by_type["type"]),
                     title=f"$M$ = {M}, $d$ = {d}, $m$ = {m}; {len(counted)} of {len(runs)} runs"),
            lambda axis, rows, x, y, look, label: axis.bar(rows[x], rows[y], width=0.7, color=look.color, label=label),
            more=partial(_draw_equal, len(counted), M, color),
        ),
        Panel(
            entries, "rank", "mean",
            labelled("rank of the entry (1: largest)", "entry of column 1 of $W$", xticks=sorted(set(entries["rank"])),
                     title=f"$M$ = {first['M']}, $d$ = {first['d']}, $m$ = {first['m']}; {first['runs']} runs"),
            _draw_entries, more=partial(_draw_simplex, entries, color),
        ),
    ]  # fmt: skip
    names = list(dict.fromkeys(entries["label"]))
    looks = {COUNTS: Look(palette(style)[0], "-", "s"), **assign_looks(names, style, ordered=True)}
    entry = line_entry("expected (in a ± std)", color=color, linestyle="--")
    return draw_grid(
        [grid], looks, sharex=False, sharey=False, height=2.6, entries=[entry], note="b: mean ± std over runs"
    )


def _draw_equal(n: int, M: int, color: Color, axis: Axes) -> None:
    """An equal share of n runs, and its binomial standard deviation."""
    mean, std = n / M, math.sqrt(n * (M - 1)) / M
    axis.axhline(mean, color=color, linestyle="--", label="expected")
    axis.axhspan(mean - std, mean + std, color=color, alpha=0.3, linewidth=0, zorder=0)


def _draw_entries(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    low, high = (rows["mean"] - rows["std"]).clip(lower=0), rows["mean"] + rows["std"]
    axis.fill_between(rows[x], low, high, color=look.color, alpha=ERROR_ALPHA, linewidth=0)
    draw_rows(axis, rows, x, y, look, label, join=True)


def _draw_simplex(rows: pd.DataFrame, color: Color, axis: Axes) -> None:
    expected = rows.groupby("rank")["expected"].first()
    axis.plot(expected.index, expected, color=color, linestyle="--", label="expected")


def name_init(row: pd.Series) -> str:
    """The standard deviation of a row's initial weights by the formula that it has, 1/(md) or 1/√d, or as a number."""
    for name, scale in (("1/(md)", row["m"] * row["d"]), ("1/√d", np.sqrt(row["d"]))):
        if abs(row["init_std"] * scale - 1) < 1e-3:
            return name
    return f"{row['init_std']:g}"


FIGURES = {
    "permutation-9": Drawing(
        "Which minima gradient descent finds",
        "Left (a): of students with one neuron more than the teacher, how often each type is the one that has two; the "
        "dashed line is an equal share of all runs, the band one standard deviation of the binomial distribution. Runs "
        "that diverged or ended with a loss above 1e-5, or in which no single type has most rows, are left out. Right "
        "(b): the entries of a column of W that sum to the one neuron of the teacher, sorted, from initial weights of "
        "two scales; dashed the expectation for the uniform distribution on the simplex, (1/m)·(1/k + … + 1/m) at rank "
        "k.",
        doubled_types_and_entries,
        seen="The p value of equal shares of types is {doubled-types}; sorted entries are {column} standard errors "
        "from a uniform point's.",
        differs="In b the paper shows one run, and does not say from which initial weights; its appendix B.1 has "
        "1/(md).",
    ),
}


def p_of_doubled_types(tables: Tables) -> Iterator[Found]:
    """p value of Pearson's test that each of the M types is doubled equally often in students with m = M + 1."""
    # All claims are imported where one is evaluated, and scipy takes time.
    from scipy.stats import chisquare

    rows = trained(keep(tables[RUNS]))
    for case, of_case in cases_of(rows[rows["m"] == rows["M"] + 1], ["source", "M", "d"], name_students):
        M, doubled = case.key["M"], of_case["doubled_type"][of_case["doubled_type"] != 0]
        if not M > 1 or len(doubled) < EXPECTED * M:
            continue
        counts = np.array([(doubled == number).sum() for number in range(1, M + 1)])
        # Types that are undefined are none of these.
        statistic, p = chisquare(counts) if counts.sum() == len(doubled) else (math.nan, math.nan)
        detail = f"{', '.join(map(str, counts))} of {len(of_case)} students; χ² = {statistic:.3g}"
        yield exact_value(float(p), len(doubled), case, detail, "students")
    yield f"needs {EXPECTED} M trained students with m = M + 1 that reached a minimum"


def distance_from_simplex(tables: Tables) -> Iterator[Found]:
    """Largest |mean - expected| over the ranks of a sorted column, in standard errors, for each initialisation."""
    for (M, d, m, _), rows in tables[ENTRIES].groupby(["M", "d", "m", "init_std"], sort=False):
        init = name_init(rows.iloc[0])
        case = Case(f"initial weights of {init}", init=init, d=d, m=m)
        if M != 1 or rows["runs"].min() < FEWEST_RUNS:
            yield not_measured(case, f"needs M = 1 and {FEWEST_RUNS} students")
            continue
        error = rows["std"].to_numpy(dtype=float) / np.sqrt(rows["runs"].to_numpy(dtype=float))
        scores = (rows["mean"] - rows["expected"]).abs().to_numpy(dtype=float) / error
        # argmax takes a value that is not a number for the largest.
        row = rows.iloc[int(np.argmax(scores))]
        detail = f"d = {d:g}, m = {m:g}; rank {row['rank']:g}: {row['mean']:.3g} against {row['expected']:.3g}"
        # A number of standard errors has none of its own: the threshold leaves room for chance.
        yield exact_value(float(scores.max()), int(rows["runs"].min()), case, detail, "students")


_claim = partial(Claim, owner="paper", origin="ours")
CLAIMS = {
    "permutation-9-doubled-types": _claim(
        statement="Each of the teacher's neurons is as likely as any other to be the one that a student of M + 1 "
        "neurons has twice (Fig. 9a)",
        quantity="p value of Pearson's χ² test",
        bound=above(0.01),
        reason="'Each neuron indeed gets assigned to different classes with equal probability': a true statement "
        "fails at this level once in a hundred.",
        tables=(RUNS,),
        measure=p_of_doubled_types,
    ),
    "permutation-9-column": _claim(
        statement="The shares of one teacher neuron that a student's neurons take, sorted, are those of a uniform "
        "point of the simplex (Fig. 9b)",
        quantity="largest difference of a mean share from the expected one over the ranks, in its standard error",
        bound=at_most(3.3),
        reason="'Consistent with sampling from an exponential distribution': of ten true means the largest is off by "
        "more than 3.3 standard errors less than once in a hundred. The paper initialises with 1/(md) (appendix B.1).",
        tables=(ENTRIES,),
        measure=distance_from_simplex,
        why={
            "initial weights of 1/(md)": "From weights as small as these all neurons grow together and stay nearly "
            "equal. The paper warns that 'this distribution pattern is not stable enough'.",
            "initial weights of 1/√d": "The shares are near those of a uniform point and yet not the same: the "
            "largest is smaller. One run, as in the paper, cannot show it.",
        },
    ),
}
