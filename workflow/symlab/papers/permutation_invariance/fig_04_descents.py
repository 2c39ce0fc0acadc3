"""Fig. 4: the matched barrier of trained students narrower and wider than their teacher, a double descent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_most, stated
from symlab.papers.permutation_invariance.drawing import (
    OVER_PAIRS,
    PERMUTED,
    WIDTH,
    Curve,
    draw_curve,
    find_floor,
    join_phrases,
    keep_pairs,
    key_of,
    mark_entries,
    mark_widths,
    matched_curves,
    say_edge,
    scale_barriers,
    take_first_rate,
    tick_integers,
    title_teacher,
)
from symlab.papers.permutation_invariance.measuring import (
    NO_TRAINED,
    largest,
    last_over_top,
    left_of_peak,
    measure_each,
    of_table,
)
from symlab.papers.permutation_invariance.selection import (
    choose_first_rate,
    list_teachers,
    select_teacher,
    select_trained,
    split_trained,
)
from symlab.plotting.rows import need
from symlab.plotting.style import PAGE, Style, handles, legend, name_axes, panels, wrap_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "widths_barriers.csv"


def below_and_above(tables: Tables, style: Style) -> Figure:
    """Fig. 4: permuted barrier of trained students against m, below and above M, by types; below M also by Hungarian.

    All widths on a logarithmic axis, those from M on a linear one, since the first branch is many times higher.
    """
    table = need(tables, TABLE)
    trained = select_trained(table)
    places = [
        (M, d)
        for M, d in list_teachers(trained)
        if (select_teacher(trained, M, d)["m"] < M).any() and (select_teacher(trained, M, d)["m"] > M).any()
    ]
    if not places:
        raise UserError(
            f"{key_of(table, 'widths')} needs trained runs at widths m below M and above it; extend m and set runs."
        )
    M, d = places[0]
    kept, missing = keep_pairs(select_teacher(trained, M, d), "widths")
    rows, rates = take_first_rate(kept)
    curves, hungarian = matched_curves(rows, "m", style, rows[rows["m"] < M], " ($m < M$)")
    drawn = [*curves, *hungarian]
    floor = find_floor(drawn)
    figure, axes = panels(1, 2, PAGE, 3.6, sharex="none", sharey="none")
    left, right = axes[0]
    for curve in drawn:
        draw_curve(left, curve, floor)
    for curve in curves:
        stats = curve.stats[curve.stats["m"] >= M]
        draw_curve(right, Curve(stats, curve.look, curve.label))
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    right.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    left.set_title("all widths", pad=14)
    right.set_title(r"$m \geq M$, linear scale", pad=14)
    for axis in (left, right):
        mark_widths(axis, M)
        tick_integers(axis)
    scale_barriers(axes[:, :1])
    name_axes(axes, WIDTH, PERMUTED)
    right.yaxis.label.set_visible(True)
    looks = {curve.label: curve.look for curve in drawn}
    sentences = [join_phrases(title_teacher(M, d), OVER_PAIRS, rates), missing, say_edge(drawn, floor)]
    legend(figure, [*handles(looks), *mark_entries(axes.flat)], wrap_sentences(sentences, PAGE, style))
    return figure


FIGURES = (
    Drawing(
        "permutation-4",
        "Barrier of students narrower and wider than the teacher",
        "Permuted loss barrier between trained students against their width m, below the teacher's width M "
        "and above it, study `{study}`: for all widths on a logarithmic axis, and from M on on a linear one. "
        "Neurons are matched by type and rank (Algorithm 1; the type of a neuron is its largest coordinate "
        "among the teacher's); below M, where students have no neuron to spare for each type, also by linear "
        "assignment on the products of weights. Points are means over pairs, error bars one standard error. "
        "From M on, pairs with a run that diverged or ended with a loss above 1e-5 are not drawn, below M "
        "only diverged ones; the line above says how many.\n\n"
        "The barrier should fall to 0 as m approaches M from below, be 0 at M, rise again up to between M and "
        "2M and then decay: a double descent whose first branch is many times higher than the second. Of "
        "several teachers (M, d) the first is shown; Figure 10 shows all of them, and the claims are about "
        "each.",
        below_and_above,
    ),
)


def largest_at_M(table: pd.DataFrame) -> list[Found]:
    """Largest permuted barrier of any pair of trained students with m = M, for each (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] == rows["M"]]
        if rows.empty:
            return f"{case}: needs students of m = M that reached a minimum"
        return Measurement(largest(rows["permuted"]), len(rows), None, case)

    return measure_each(split_trained(choose_first_rate(table)[0]), measure, NO_TRAINED)


def left_below_M(table: pd.DataFrame) -> list[Found]:
    """Mean permuted barrier at the last width below M as a fraction of the largest below M, for each (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] < rows["M"]]
        if rows["m"].nunique() < 3:
            return f"{case}: needs three widths below M"
        return last_over_top(case, rows)

    return measure_each(split_trained(choose_first_rate(table)[0]), measure, NO_TRAINED)


CLAIMS = (
    stated(
        "permutation-4-below-M",
        "permutation-4",
        "As m rises to M, the matched barrier of trained students falls: mean permuted barrier at the last width below "
        "M as a fraction of the largest below M",
        at_most(0.5),
        "The paper's curve comes down to 0 at M without a number; half is beyond the error of a mean over 20 pairs. "
        "A small trial had 0.12 for M = 6.",
        TABLE,
        of_table(TABLE, left_below_M),
    ),
    stated(
        "permutation-4-zero-at-M",
        "permutation-4",
        "At m = M all trained students are one up to permutation: largest permuted barrier of a pair",
        at_most(1e-5),
        "A student counts as trained to a minimum from a loss of 1e-5 down; no more than that can be left between two "
        "that are at the same one.",
        TABLE,
        of_table(TABLE, largest_at_M),
    ),
    stated(
        "permutation-4-second-descent",
        "permutation-4",
        "After its peak above M the matched barrier of trained students falls again: mean permuted barrier at the "
        "largest width as a fraction of the peak over m > M",
        at_most(0.5),
        "The paper's second descent, for which it states no number; half at 3M or more is beyond the error of a mean. "
        "A small trial had 0.05 at m = 36 for M = 6.",
        TABLE,
        of_table(TABLE, partial(left_of_peak, trained=True, from_width=3)),
        also=("permutation-10",),
    ),
)
