"""Fig. 5: sparsity (PQ index by neuron) of students against their width, by learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, above, at_most, stated
from symlab.papers.permutation_invariance.drawing import (
    CROSS,
    LEGENDS,
    OVER_RUNS,
    WIDTH,
    Curve,
    draw_crosses,
    draw_curve,
    key_of,
    label_grid,
    make_grid,
    mark_entries,
    mark_widths,
    mean_se,
    say_runs_not_drawn,
    tick_integers,
    title_teacher,
)
from symlab.papers.permutation_invariance.measuring import (
    NO_TRAINED,
    fewest,
    means,
    measure_each,
    of_table,
    over,
    smallest,
)
from symlab.papers.permutation_invariance.selection import (
    find_rates,
    keep,
    list_teachers,
    name_rate,
    select_teacher,
    select_trained,
    select_uniform,
    split_trained,
)
from symlab.plotting.rows import need
from symlab.plotting.style import Look, Style, handles, legend, line_entry, ordered_colors, palette, wrap_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

TABLE = "sparsity_runs.csv"


def by_neuron_against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 5: PQ index of the row norms against m, by learning rate and of uniform samples, a panel an (M, d).

    Runs that diverged or missed zero loss are left out; a cross above the curves is a width at which all of a line did.
    """
    table = need(tables, TABLE)
    trained = select_trained(table)
    column, values = find_rates(trained)
    if trained.empty or len(values) < 2 or table["m"].nunique() < 2:
        raise UserError(
            f"{key_of(table, 'sparsity')} needs trained runs of at least two values of c (or lr) and two of m."
        )
    lines: dict[str, LineStyleType] = {"gd": "-", "sgd": ":"}
    looks = {
        (source, value): Look(color, line, marker)
        for source, line in lines.items()
        if source in set(trained["source"])
        for value, color, marker in zip(values, ordered_colors(len(values)), "osD^vPX" * len(values), strict=False)
    }
    several = trained["source"].nunique() > 1
    labels = {
        (source, value): name_rate(column, value) + (f", {LEGENDS[source]}" if several else "")
        for source, value in looks
    }
    uniform = Look(palette(style)[1], (0, (4, 1.5)), "*")
    places = list_teachers(table)
    figure, axes, width = make_grid(len(places), sharex="all")
    crossed = False
    for axis, place in zip(axes.flat, places, strict=False):
        rows = select_teacher(table, *place)
        diverged = []
        for (source, value), look in looks.items():
            part = rows[(rows["source"] == source) & ((rows[column] - value).abs() < 1e-5 * abs(value))]
            runs = keep(part)
            draw_curve(axis, Curve(mean_se(runs, "m", "pq_rows"), look, labels[source, value]))
            gone = sorted(set(part["m"]) - set(runs["m"]))
            if gone:
                diverged.append((look, gone))
        sampled = mean_se(select_uniform(rows), "m", "pq_rows")
        if len(sampled):
            draw_curve(axis, Curve(sampled, uniform, LEGENDS["uniform"]))
        crossed |= bool(diverged)
        draw_crosses(axis, diverged)
        tick_integers(axis)
        mark_widths(axis, place[0])
        axis.set_title(title_teacher(*place), pad=6)
    used = label_grid(axes, len(places), WIDTH, "PQ index of row norms")
    entries = handles({labels[line]: look for line, look in looks.items()})
    if len(select_uniform(table)):
        entries += handles({LEGENDS["uniform"]: uniform})
    if crossed:
        entries.append(line_entry("no run reached a minimum", **CROSS))
    entries += mark_entries(used)
    legend(figure, entries, wrap_sentences([_rate_note(column), say_runs_not_drawn(trained)], width, style))
    return figure


def _rate_note(column: str) -> str:
    return f"lr = $c\\,d / m$; {OVER_RUNS}" if column == "c" else OVER_RUNS


FIGURES = (
    Drawing(
        "permutation-5",
        "Sparsity by neuron against student width",
        "PQ index (p = 1/2, q = 1) of the row norms of students against their width m, a line for each "
        "learning rate and one for uniform samples of the global minima, study `{study}`. 0 says that all "
        "neurons are equally large, 1 − k/m that k equal ones are left of m. Points are means over runs, "
        "error bars one standard error. Runs that diverged or ended with a loss above 1e-5 are not drawn; a "
        "cross in a line's colour marks a width at which all its runs did.\n\n"
        "Larger learning rates should give sparser students, the more so the wider they are, and small ones "
        "should not. The paper also has the uniform samples lowest, which need not be seen here: gradient "
        "descent with a small learning rate leaves neurons of one type nearly equal.",
        by_neuron_against_width,
    ),
)


def rise_with_rate(table: pd.DataFrame) -> list[Found]:
    """Smallest excess, over the widths, of the mean PQ index at the largest learning rate over that at the smallest."""

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Measurement:
        excess = high - low
        return Measurement(smallest(excess), n, None, case, f"{_rates(low, high)}; {len(excess)} widths")

    return _extremes(table, measure)


def growth_at_largest_rate(table: pd.DataFrame) -> list[Found]:
    """By how much the mean PQ index at the largest learning rate grows from the smallest to the largest width."""

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Measurement:
        told = (
            f"c = {high.name:g}: {high.iloc[0]:.3g} at m = {high.index[0]:g}, {high.iloc[-1]:.3g} at {high.index[-1]:g}"
        )
        return Measurement(_growth(high), n, None, case, told)

    return _extremes(table, measure)


def growth_at_smallest_rate(table: pd.DataFrame) -> list[Found]:
    """The growth with width at the smallest learning rate as a fraction of that at the largest; 0 if there is none.

    Needs a growth at the largest rate, unless there is none at the smallest.
    """

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Found:
        told = f"{_growth(low):.3g} at c = {low.name:g}, {_growth(high):.3g} at c = {high.name:g}"
        if _growth(low) > 0 and _growth(high) <= 0:
            return f"{case}: needs a growth at the largest learning rate to compare with ({told})"
        flat = _growth(low) <= 0 and not np.isnan(_growth(high))
        value = 0.0 if flat else over(_growth(low), _growth(high))
        return Measurement(value, n, None, case, told)

    return _extremes(table, measure)


def excess_over_uniform(table: pd.DataFrame) -> list[Found]:
    """Smallest excess of the mean PQ index of trained students over that of uniform samples: all rates and widths."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        first = rows.iloc[0]
        same = select_teacher(select_uniform(table), first["M"], first["d"])
        uniform = means(same, "pq_rows")
        curves = [curve[curve.index.isin(uniform.index)] for curve in _by_rate(rows)]
        excess = pd.concat([curve - uniform[curve.index] for curve in curves])
        if excess.empty:
            return f"{case}: needs uniform samples at a width of trained students"
        told = f"{len(curves)} learning rates; uniform samples {uniform.min():.3g} to {uniform.max():.3g}"
        return Measurement(smallest(excess), fewest(rows), None, case, told)

    return measure_each(split_trained(table), measure, NO_TRAINED)


def _extremes(table: pd.DataFrame, measure: Callable[[str, int, pd.Series, pd.Series], Found]) -> list[Found]:
    """A measurement on the curves of the smallest and the largest rate over their shared widths, for each (M, d)."""

    def of_setting(case: str, rows: pd.DataFrame) -> Found:
        curves = [curve for curve in _by_rate(rows) if len(curve) > 1]
        if len(curves) < 2:
            return f"{case}: needs two learning rates with two widths each"
        low, high = curves[0], curves[-1]
        shared = low.index.intersection(high.index)
        if len(shared) < 2:
            return f"{case}: needs two widths that the smallest and the largest learning rate share"
        at = rows[rows["m"].isin(shared) & rows["c"].round(6).isin([low.name, high.name])]
        n = int(at.groupby(["m", at["c"].round(6)]).size().min())
        return measure(case, n, low[shared], high[shared])

    return measure_each(split_trained(table), of_setting, NO_TRAINED)


def _by_rate(rows: pd.DataFrame) -> list[pd.Series]:
    """Mean PQ index against width for each learning rate in units of d / m, slowest first; the rate is its name."""
    # The rate times m / d is not the same number at every width.
    return [means(group, "pq_rows").rename(c) for c, group in rows.groupby(rows["c"].round(6))]


def _growth(curve: pd.Series) -> float:
    return float(curve.iloc[-1] - curve.iloc[0])


def _rates(low: pd.Series, high: pd.Series) -> str:
    return f"c = {high.name:g} less c = {low.name:g}"


DECAYING = "The learning rates decay with the width as c d / m, in which the stability limit is nearly constant."

CLAIMS = (
    stated(
        "permutation-5-rate",
        "permutation-5",
        "Larger learning rates give sparser students: smallest excess over the widths of the mean PQ index by neuron "
        "at the largest learning rate over that at the smallest",
        above(0),
        f"The order of the paper's curves, of the extreme ones alone. {DECAYING}",
        TABLE,
        of_table(TABLE, rise_with_rate),
    ),
    stated(
        "permutation-5-growth",
        "permutation-5",
        "At a large learning rate students are sparser the wider they are: growth of the mean PQ index by neuron from "
        "the smallest to the largest width",
        above(0),
        f"The paper states no number, so only the direction is asked for. {DECAYING}",
        TABLE,
        of_table(TABLE, growth_at_largest_rate),
    ),
    stated(
        "permutation-5-no-growth",
        "permutation-5",
        "At a small learning rate wider students are not sparser: growth of the mean PQ index by neuron with width as "
        "a fraction of that at the largest rate",
        at_most(0.5),
        "The paper states no number; less than half of the other growth is read as none.",
        TABLE,
        of_table(TABLE, growth_at_smallest_rate),
    ),
    stated(
        "permutation-5-uniform-smallest",
        "permutation-5",
        "Uniform samples of the minima are less sparse than any trained student: smallest excess of the mean PQ index "
        "by neuron of trained students over that of uniform samples",
        above(0),
        "As the paper's curves lie.",
        TABLE,
        of_table(TABLE, excess_over_uniform),
        explanation="Gradient descent below the sparsity threshold makes the rows of a type nearly equal (index 0.035 "
        "to 0.095 in a small trial, for every scale of the initialisation), while the rows of a uniform sample are "
        "lengths of a randomly cut line, whose index tends to 1 - pi/4 = 0.215. Trained students exceed that only past "
        "the threshold, where whole rows are zero.",
    ),
)
