"""Figs. 2 and 10: barriers between students against their width, above one teacher's and above several.

Barriers are in units of the population loss; ``direct`` is of the students as they are, ``permuted`` after matching.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_least, at_most, below, slope, stated
from symlab.papers.permutation_invariance.drawing import (
    BARRIER,
    OVER_PAIRS,
    WIDTH,
    barrier_curves,
    draw_curve,
    find_floor,
    join_phrases,
    keep_pairs,
    key_of,
    label_grid,
    look_by_name,
    make_grid,
    mark_entries,
    mark_widths,
    say_edge,
    scale_barriers,
    source_looks,
    take_first_rate,
    tick_integers,
    title_teacher,
)
from symlab.papers.permutation_invariance.measuring import (
    NO_TRAINED,
    NO_UNIFORM,
    decades,
    fewest,
    find_peak,
    in_units_of_M,
    in_widths_of_M,
    largest,
    left_of_peak,
    means,
    measure_each,
    of_table,
    over,
    smallest,
    write_barrier,
)
from symlab.papers.permutation_invariance.selection import (
    choose_first_rate,
    list_teachers,
    select_teacher,
    select_uniform,
    split_sources,
    split_trained,
    split_uniform,
)
from symlab.plotting.rows import need
from symlab.plotting.style import Style, handles, legend, wrap_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "widths_barriers.csv"


def against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 2: barriers of the first (M, d) against m > M, trained students and uniform samples, direct and permuted."""
    table = need(tables, TABLE)
    return _above_teacher(table, list_teachers(table)[:1], style)


def by_teacher(tables: Tables, style: Style) -> Figure:
    """Fig. 10: as ``against_width``, a panel a teacher (M, d)."""
    table = need(tables, TABLE)
    if len(list_teachers(table)) < 2:
        raise UserError(
            f"{key_of(table, 'widths')} has one teacher (M, d) only; make it a list of grids with other M, d."
        )
    return _above_teacher(table, list_teachers(table), style)


def _above_teacher(table: pd.DataFrame, places: list[tuple[int, int]], style: Style) -> Figure:
    above = table[(table["m"] > table["M"]) & _is_any(table, places)]
    for M, d in places:
        if select_teacher(above, M, d)["m"].nunique() < 3:
            raise UserError(f"{key_of(table, 'widths')} needs at least three widths m above M = {M} (with d = {d}).")
    kept, missing = keep_pairs(above, "widths")
    rows, rates = take_first_rate(kept)
    looks = source_looks(rows["source"], style)
    curves = {place: barrier_curves(select_teacher(rows, *place), "m", looks) for place in places}
    drawn = [curve for of_place in curves.values() for curve in of_place]
    floor = find_floor(drawn)
    figure, axes, width = make_grid(len(places))
    for axis, (M, d) in zip(axes.flat, places, strict=False):
        for curve in curves[M, d]:
            draw_curve(axis, curve, floor)
        axis.set_xlim(left=M - 0.06 * (select_teacher(rows, M, d)["m"].max() - M))
        mark_widths(axis, M)
        tick_integers(axis)
        axis.set_title(title_teacher(M, d))
    scale_barriers(axes)
    used = label_grid(axes, len(places), WIDTH, BARRIER)
    entries = [*handles(look_by_name(looks)), *mark_entries(used)]
    legend(
        figure,
        entries,
        wrap_sentences([join_phrases(OVER_PAIRS, rates), missing, say_edge(drawn, floor)], width, style),
    )
    return figure


def _is_any(table: pd.DataFrame, places: list[tuple[int, int]]) -> pd.Series:
    """Which rows are of one of some (M, d)."""
    return pd.Series([place in places for place in zip(table["M"], table["d"], strict=True)], index=table.index)


FIGURES = (
    Drawing(
        "permutation-2",
        "Barrier between students against width",
        "Loss barrier on the straight line between two students of m neurons against m > M, study `{study}`: "
        "students trained to fit a teacher of M neurons in d dimensions, and uniform samples of the global "
        "minima, each as they are (direct) and with the neurons of one matched to those of the other by type "
        "and rank (permuted, Algorithm 1). Points are means over pairs, error bars one standard error; the "
        "axis of the barrier is logarithmic. Pairs with a run that diverged or ended with a loss above 1e-5 "
        "are not drawn: the line above says how many, the table which.\n\n"
        "Permuted barriers should lie orders of magnitude below direct ones, rise up to about m = 2M and "
        "decay from there, while direct ones stay. Uniform samples peak near 2M; trained students spread "
        "their neurons over types more evenly, and peak earlier, near 1.5M. Of several teachers (M, d) the "
        "first is shown; Figure 10 shows all of them, and the claims are about each.",
        against_width,
    ),
    Drawing(
        "permutation-10",
        "Barrier between students against width, by teacher",
        "Loss barrier on the straight line between two students of m neurons against m > M, a panel for each "
        "teacher of M neurons in d dimensions, study `{study}`: trained students and uniform samples of the "
        "global minima, each as they are (direct) and matched by type and rank (permuted, Algorithm 1). "
        "Points are means over pairs, error bars one standard error; the axis of the barrier is logarithmic. "
        "Pairs with a run that diverged or ended with a loss above 1e-5 are not drawn: the line above says "
        "how many, the table which.\n\n"
        "In every panel the permuted barrier should rise up to about m = 2M, for trained students less far, "
        "and then decay; for large M and m that of trained students should lie well below that of uniform "
        "samples.",
        by_teacher,
    ),
)


def peak_of_uniform(table: pd.DataFrame, low: float, high: float) -> list[Found]:
    """Width of the largest mean permuted barrier of uniform samples in units of M, for each (M, d).

    Needs a width below low M, two from there to high M, and one beyond.
    """

    def measure(case: str, rows: pd.DataFrame) -> Found:
        ratio = in_widths_of_M(rows)
        if ratio[ratio.between(low, high)].nunique() < 2 or not (ratio < low).any() or not (ratio > high).any():
            return f"{case}: needs a width below {low:.3g} M, two up to {high:.3g} M and one beyond"
        return _peak(case, rows)

    return measure_each(split_uniform(table), measure, NO_UNIFORM)


def peak_of_trained(table: pd.DataFrame, high: float) -> list[Found]:
    """Width of the largest mean permuted barrier of trained students with m >= M in units of M, for each (M, d).

    Needs two widths above M and up to high M, and one beyond. A peak at the first width is none unless that is M.
    """

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] >= rows["M"]]
        ratio = in_widths_of_M(rows)
        if ratio[(ratio > 1) & (ratio <= high)].nunique() < 2 or not (ratio > high).any():
            return f"{case}: needs two widths above M and up to {high:g} M, and one beyond"
        found = _peak(case, rows)
        if found.value == ratio.min() > 1:
            return f"{case}: is largest at the first width, m = {rows['m'].min():g}, below which there are no students"
        return found

    return measure_each(split_trained(choose_first_rate(table)[0]), measure, NO_TRAINED)


def decades_below_direct(table: pd.DataFrame) -> list[Found]:
    """Smallest log10(direct / permuted) of the mean barriers over the widths m > M, for each source and (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        if rows.empty:
            return f"{case}: needs a width above M"
        gaps = decades(means(rows, "direct"), means(rows, "permuted"))
        return Measurement(smallest(gaps), fewest(rows), None, case, f"smallest at m = {_place(gaps)}")

    return measure_each(split_sources(choose_first_rate(table)[0]), measure, "needs students")


def slope_of_decay(table: pd.DataFrame) -> list[Found]:
    """Slope of log mean permuted barrier of uniform samples against log m over the upper half of the widths.

    Needs three widths in that half, all of 3M or more.
    """

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        curve = means(rows, "permuted")
        upper = curve.iloc[len(curve) // 2 :]
        if len(upper) < 3 or upper.index[0] < 3 * rows["M"].iloc[0]:
            return f"{case}: needs widths whose upper half has three, all of 3M or more"
        told = f"m = {upper.index[0]:g} to {upper.index[-1]:g}"
        return Measurement(slope(upper), fewest(rows[rows["m"].isin(upper.index)]), None, case, told)

    return measure_each(split_uniform(table), measure, NO_UNIFORM)


def trained_over_uniform(table: pd.DataFrame, from_width: float) -> list[Found]:
    """Largest ratio of trained to uniform mean permuted barrier over the shared widths from there on, by (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[in_widths_of_M(rows) >= from_width]
        uniform, shared = _shared(table, rows)
        if not len(shared):
            return f"{case}: needs uniform samples and trained students at one width of {from_width:g} M or more"
        ratios = means(rows, "permuted")[shared] / means(uniform, "permuted")[shared]
        return Measurement(largest(ratios), _pairs(rows, uniform, shared), None, case, f"{len(shared)} widths")

    return measure_each(split_trained(choose_first_rate(table)[0]), measure, NO_TRAINED)


def trained_over_uniform_at_the_end(table: pd.DataFrame) -> list[Found]:
    """The ratio at the largest shared width for each M but the smallest; that width is 2.5 M or more."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[in_widths_of_M(rows) >= 2.5]
        uniform, shared = _shared(table, rows)
        if not len(shared):
            return f"{case}: needs uniform samples and trained students at one width of 2.5 M or more"
        last = shared[-1:]
        own, other = means(rows, "permuted")[last[0]], means(uniform, "permuted")[last[0]]
        told = f"{write_barrier(own)} against {write_barrier(other)} at m = {last[0]:g}"
        return Measurement(over(own, other), _pairs(rows, uniform, last), None, case, told)

    narrowest = table["M"].min()
    larger = [
        (case, rows) for case, rows in split_trained(choose_first_rate(table)[0]) if rows["M"].iloc[0] > narrowest
    ]
    return measure_each(larger, measure, "needs trained students of a second, wider teacher")


def _peak(case: str, rows: pd.DataFrame) -> Measurement:
    curve = means(rows, "permuted")
    at = find_peak(curve)
    told = f"barrier {write_barrier(largest(curve))} at m = {at:g}; m = {curve.index[0]:g} to {curve.index[-1]:g}"
    return Measurement(at / float(rows["M"].iloc[0]), fewest(rows), None, case, told)


def _place(curve: pd.Series) -> str:
    return f"{curve.isna().idxmax() if curve.isna().any() else curve.idxmin():g}"


def _shared(table: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Index]:
    """Uniform samples of the (M, d) of ``rows``, and the widths that both have, in rising order."""
    if rows.empty:
        return rows, pd.Index([])
    first = rows.iloc[0]
    uniform = select_teacher(select_uniform(table), first["M"], first["d"])
    return uniform, pd.Index(sorted(set(rows["m"]) & set(uniform["m"])))


def _pairs(rows: pd.DataFrame, uniform: pd.DataFrame, widths: pd.Index) -> int:
    return min(fewest(each[each["m"].isin(widths)]) for each in (rows, uniform))


CLAIMS = (
    stated(
        "permutation-2-uniform-peak",
        "permutation-2",
        "After matching, the barrier between uniform samples of the minima peaks at a width near 2M: width of the "
        "largest mean permuted barrier, in units of M",
        in_units_of_M(4 / 3, 8 / 3, "between 4/3 and 8/3"),
        "The paper says near 2M. A mean over 20 pairs has an error of a fifth around a flat top, so a third of 2M is "
        "left on either side: m = 8 to 16 for M = 6.",
        TABLE,
        of_table(TABLE, partial(peak_of_uniform, low=4 / 3, high=8 / 3)),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-uniform-decay",
        "permutation-2",
        "After its peak the matched barrier of uniform samples decays: mean permuted barrier at the largest width as a "
        "fraction of the peak",
        at_most(0.75),
        "The paper says that it decays to 0 without a number for Fig. 2; a quarter less at 4M or more is beyond the "
        "error of a mean. A small trial had 0.27 at m = 36 for M = 6 and 0.52 at m = 48 for M = 12.",
        TABLE,
        of_table(TABLE, partial(left_of_peak, trained=False, from_width=4)),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-below-direct",
        "permutation-2",
        "Matching lowers the barrier by far at every width above M: smallest log10 of direct over permuted mean "
        "barrier",
        at_least(1.5),
        "The paper's log axis shows permuted curves far below direct ones everywhere; 1.5 decades is a factor of 32. "
        "A small trial of uniform samples had 1.65 to 1.92 at m = 2M for M = 4 to 16.",
        TABLE,
        of_table(TABLE, decades_below_direct),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-theorem-6",
        "permutation-2",
        "The matched barrier of uniform samples decays at least as fast as m^(-1/2) (Theorem 6): slope of log mean "
        "permuted barrier against log m over the upper half of the widths",
        at_most(-0.5),
        "The theorem's rate is an upper bound. The barrier is quadratic in the unmatched mass, and matching by rank "
        "leaves the smallest rows alone unmatched, so a small trial found -2 for M = 6.",
        TABLE,
        of_table(TABLE, slope_of_decay),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-trained-below-uniform",
        "permutation-2",
        "From 3M on, matched barriers of trained students do not exceed those of uniform samples: largest ratio of the "
        "mean permuted barriers",
        at_most(1),
        "As in the paper's Fig. 2, where the curve of SGD ends below that of uniform samples.",
        TABLE,
        of_table(TABLE, partial(trained_over_uniform, from_width=3)),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-trained-below-uniform-2M",
        "permutation-2",
        "From 2M on, matched barriers of trained students are below those of uniform samples: largest ratio of the "
        "mean permuted barriers",
        below(1),
        "Gradient descent shares the teacher's neurons out more evenly than chance does, so less is left unmatched.",
        TABLE,
        of_table(TABLE, partial(trained_over_uniform, from_width=2)),
        also=("permutation-10",),
    ),
    stated(
        "permutation-2-trained-peak",
        "permutation-2",
        "After matching, the barrier between trained students rises from m = M to a peak and falls again: width of the "
        "largest mean permuted barrier over m >= M, in units of M",
        in_units_of_M(1, 2.5, "above 1 and at most 2.5", open_below=True),
        "The paper's double descent; its place, 2M, is asked of uniform samples alone, because trained students are "
        "more balanced than these.",
        TABLE,
        of_table(TABLE, partial(peak_of_trained, high=2.5)),
        also=("permutation-4", "permutation-10"),
    ),
    stated(
        "permutation-2-trained-peak-at-2M",
        "permutation-2",
        "After matching, the barrier between trained students peaks near 2M: width of the largest mean permuted "
        "barrier over m >= M, in units of M",
        in_units_of_M(1.75, 2.25, "between 1.75 and 2.25"),
        "The paper says near 2M; a quarter of M is left on either side, so that 1.5M does not pass for it.",
        TABLE,
        of_table(TABLE, partial(peak_of_trained, high=2.5)),
        also=("permutation-4", "permutation-10"),
        explanation="Gradient descent gives the teacher's neurons far more equal numbers of rows than a uniform sample "
        "does (variance over types 0.2 to 0.3 against 0.84 at m = 12, M = 6), and the rows of a type are nearly "
        "equal. From 2M on little is left unmatched, so the peak comes early: near 1.5M in a small trial, for every "
        "scale of the initialisation (m = 9 to 10 for M = 6, 18 for M = 12).",
    ),
    stated(
        "permutation-10-far-below-uniform",
        "permutation-10",
        "With a wider teacher, matched barriers of wide trained students are well below those of uniform samples: "
        "ratio of the mean permuted barriers at the largest width, for every M but the smallest",
        at_most(0.5),
        "The paper states no number; well below is read as half. A small trial had 0.12 at m = 30 for M = 12.",
        TABLE,
        of_table(TABLE, trained_over_uniform_at_the_end),
    ),
)
