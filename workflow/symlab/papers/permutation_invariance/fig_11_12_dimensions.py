"""Figs. 11 and 12: barriers between students by the dimension d of their inputs and by their teacher's width M."""

import operator
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance import drawing, students
from symlab.plotting.style import Axes, Figure, Style, line_entry
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, below, between
from symlab.study.curves import Curve, measure_each
from symlab.study.facets import Panel, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need, need_several
from symlab.words import counted

DIMENSIONS, TEACHERS = "dimensions_barriers.csv", "teachers_barriers.csv"
LACKING = "needs students of m = 2M for two teachers"


def by_dimension(tables: Tables, style: Style) -> Figure:
    """Fig. 11: barriers of the first M against m, a panel a d of the paper's (of all where there are not two of these).

    In the last panel against d at the m nearest 2M.
    """
    table = need(tables, DIMENSIONS)
    M = table["M"].iloc[0]
    rows = table[(table["M"] == M) & (table["m"] > M)]
    need_several(rows, "d", drawing.key_of(table, "dimensions"))
    width = min(sorted(rows["m"].unique()), key=lambda m: abs(m - 2 * M))
    across = drawing.label(students.barriers(rows[rows["m"] == width]))
    axes = labelled("input dimension $d$", "", "xy", title=f"$m$ = {width}", xticks=_some(across["d"]))
    last = Panel(across, "d", "barrier", axes, drawing.draw_means, more=partial(_draw_slope, across))
    named = rows[rows["d"].isin((4, 16, 64, 128))]  # The paper's panels a to d.
    shown = named if named["d"].nunique() > 1 else rows
    entries = [line_entry("slope −1", color="0.6", linewidth=1.2)]
    return drawing.draw_barriers(shown.sort_values("d"), "m", ["d"], "dimensions", style, [last], entries=entries)


def _some(values: pd.Series) -> list[int]:
    """At most four of the values, first and last among them: more labels would touch."""
    ordered = sorted(values.unique())
    return [ordered[round(index)] for index in np.linspace(0, len(ordered) - 1, min(len(ordered), 4))]


def _draw_slope(rows: pd.DataFrame, axis: Axes) -> None:
    """A line of slope -1 through the logarithmic mean of all means."""
    means = rows.groupby(["label", "d"])["barrier"].mean()
    dimensions = means.index.get_level_values("d").to_numpy(dtype=float)
    height = np.exp(np.log(means[means > 0] * dimensions[means > 0]).mean())
    ends = np.array([dimensions.min(), dimensions.max()])
    axis.plot(ends, height / ends, color="0.6", linewidth=1.2, zorder=0, label="_slope")


def by_teacher_width(tables: Tables, style: Style) -> Figure:
    table = need(tables, TEACHERS)
    rows = table[(table["d"] == table["d"].iloc[0]) & (table["m"] > table["M"])]
    need_several(rows, "M", drawing.key_of(table, "teachers"))
    axes = {"xlabel": "relative width $m / M$"}
    return drawing.draw_barriers(rows, "ratio", ["M"], "teachers", style, axes=axes, sharex=True)


FIGURES = {
    "permutation-11": Drawing(
        "Barrier between students by input dimension",
        f"{drawing.BARRIERS} against m, a panel for each input dimension d, and in the last one against d at the m "
        f"nearest 2M: {drawing.STUDENTS}. For samples d enters through the factor 1/d alone, the slope of the grey "
        f"line. {drawing.NOT_DRAWN}",
        by_dimension,
        seen="Barriers of trained students fall with d to the power of {fall}.",
    ),
    "permutation-12": Drawing(
        "Barrier between students by teacher width",
        f"{drawing.BARRIERS} against m/M, a panel for each width M of the teacher, at one input dimension d: "
        f"{drawing.STUDENTS}. {drawing.NOT_DRAWN}",
        by_teacher_width,
        seen="From one M to the next, barriers at m = 2M grow at least by a factor of {growth}.",
        differs="The paper's axis is m, and its caption says d where it means M.",
    ),
}


def slopes(
    tables: Tables, pairs: Callable[[pd.DataFrame], pd.DataFrame], quantity: Callable[[pd.DataFrame], pd.Series]
) -> list[Found]:
    """The slope in d of a quantity of the mean barriers over the widths above M that all dimensions have."""
    key, rows = ["source", "M", "matching"], students.trained(pairs(tables[DIMENSIONS])).query("m > M")
    dimensions = rows.groupby(key)["d"].transform("nunique")
    rows = rows[(rows.groupby([*key, "m"])["d"].transform("nunique") == dimensions) & (dimensions >= 3)]

    def fall(curve: Curve) -> tuple[float, str]:
        levels = quantity(curve.means.groupby(level="d").mean())
        told = ", ".join(f"d = {d:g}: {value:.3g}" for d, value in levels.items())
        return slope(levels), f"{told}; {counted(curve.places.unique('m').size, 'widths')}"

    lacking = "needs trained students at a width above M at three dimensions"
    return measure_each(students.mean_barriers(rows, ["d", "m"], key), fall, lacking)


def growth_with_M(tables: Tables) -> list[Found]:
    def smallest_step(curve: Curve) -> tuple[float, str]:
        barrier = curve["barrier"]
        # From nothing there is no ratio.
        steps = barrier.to_numpy()[1:] / barrier.where(barrier > 0).to_numpy()[:-1]
        return steps.min(), ", ".join(f"M = {M:g}: {level:.3g}" for M, level in barrier.items())

    return measure_each(_at_2M(students.barriers(tables[TEACHERS])), smallest_step, LACKING, students.without_barrier)


def growth_of_gap(tables: Tables) -> list[Found]:
    def smallest_rise(curve: Curve) -> tuple[float, str]:
        gaps = students.decades(curve.means)
        with np.errstate(invalid="ignore"):
            return np.diff(gaps).min(), ", ".join(f"M = {M:g}: {gap:.3g}" for M, gap in gaps.items())

    return measure_each(_at_2M(students.matched(tables[TEACHERS])), smallest_rise, LACKING)


def _at_2M(rows: pd.DataFrame) -> list[Curve]:
    """The barriers by M of students with m = 2M of each source, d and matching, where there are two teachers."""
    key = ["source", "d", "matching"]
    rows = rows[rows["m"] == 2 * rows["M"]]
    rows = rows[rows.groupby(key)["M"].transform("nunique") > 1]
    return students.mean_barriers(rows, "M", key)


_claim = partial(Claim, owner="paper", tables=(DIMENSIONS,))
_teacher_claim = partial(Claim, owner="paper", origin="paper", tables=(TEACHERS,))
CLAIMS = {
    "permutation-11-fall": _claim(
        statement="The barrier between trained students falls as the inputs' dimension grows",
        quantity="slope of log barrier, mean over the widths above M, against log d",
        bound=below(0),
        origin="paper",
        reason="'The barrier is decreasing when d is going up.' That of samples is proportional to 1/d by its formula.",
        measure=partial(slopes, pairs=students.barriers, quantity=operator.itemgetter("barrier")),
    ),
    "permutation-11-gap": _claim(
        statement="Matching lowers the barrier of trained students by the same factor at every dimension",
        quantity="slope of log of direct over matched barrier, means over the widths above M, against log d",
        bound=between(-0.1, 0.1),
        origin="ours",
        reason="'The gap between the permuted barrier and the direct barrier remains almost the same': a change by a "
        "tenth of a decade, which is a quarter, at ten times the dimension is read as almost none. That of samples "
        "does not depend on d by its formula.",
        measure=partial(slopes, pairs=students.matched, quantity=lambda means: 10.0 ** students.decades(means)),
    ),
    "permutation-12-growth": _teacher_claim(
        statement="Both barriers, direct and matched, grow with the teacher's width",
        quantity="smallest ratio of the mean barrier at m = 2M to that at the next smaller M",
        bound=above(1),
        reason="The order of the paper's panels: 'the barrier is increasing when d is going up', where d means M.",
        measure=growth_with_M,
        why={
            "d = 64, Algorithm 1": "Not known. At the widest teacher Algorithm 1 leaves trained students a smaller "
            "barrier than linear assignment leaves them, at the others as much; by linear assignment no fall is found."
        },
    ),
    "permutation-12-gap": _teacher_claim(
        statement="Matching lowers the barrier by a larger factor the wider the teacher",
        quantity="smallest rise of log10 of direct over matched barrier at m = 2M from one M to the next",
        bound=above(0),
        reason="'The gap between the permuted barrier and direct barrier remains also becomes larger.'",
        measure=growth_of_gap,
    ),
}
