"""Fig. 12: barriers between students by the width M of their teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, selection
from symlab.papers.permutation_invariance.measuring import decades, estimate, measure_each, of_table, smallest
from symlab.plotting.style import Style, handles, legend, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "teachers_barriers.csv"
LACKING = "needs students of m = 2M for two teachers"


def by_teacher_width(tables: Tables, style: Style) -> Figure:
    """Fig. 12: barriers against m / M > 1 at the first d, a panel an M."""
    table = need(tables, TABLE)
    of_d = table[(table["d"] == table["d"].iloc[0]) & (table["m"] > table["M"])]
    if of_d["M"].nunique() < 2:
        raise UserError(
            f"{drawing.key_of(table, 'teachers')} needs at least two values of M, with widths m above each."
        )
    kept, missing = drawing.keep_pairs(of_d, "teachers")
    rows, rates = drawing.take_first_rate(kept.assign(relative=kept["m"] / kept["M"]))
    looks = drawing.source_looks(rows["source"], style)
    curves = {M: drawing.barrier_curves(part, "relative", looks) for M, part in rows.groupby("M")}
    drawn = [curve for of_M in curves.values() for curve in of_M]
    floor = drawing.find_floor(drawn)
    figure, axes, width = drawing.make_grid(len(curves), sharex="all")
    for letter, axis, (M, of_M) in zip(selection.LETTERS, axes.flat, curves.items(), strict=False):
        for curve in of_M:
            drawing.draw_curve(axis, curve, floor)
        axis.set_title(f"{letter}   $M$ = {M}", loc="left")
    drawing.scale_barriers(axes)
    drawing.draw_zeros(dict(zip(axes.flat, curves.values(), strict=False)), floor)
    used = drawing.label_grid(axes, len(curves), "relative width $m / M$", drawing.BARRIER)
    for axis in used:
        drawing.mark_widths(axis, 1)
    sentences = [
        drawing.join_phrases(f"$d$ = {rows['d'].iloc[0]}", drawing.say_pairs(rows, ["M", "m"]), rates),
        missing,
    ]
    legend(
        figure,
        [*handles(drawing.look_by_name(looks)), *drawing.mark_entries(used)],
        wrap_sentences(sentences, width, style),
    )
    return figure


def see_growth(tables: Tables) -> str:
    """The barriers of each source at m = 2M, for the smallest and the largest M."""
    table = tables[TABLE]
    rows = selection.choose_first_rate(selection.keep(table[table["d"] == table["d"].iloc[0]]))[0]
    told = []
    for source, part in rows[rows["m"] == 2 * rows["M"]].groupby("source", sort=False):
        told.append(f"of {selection.SOURCES[source]} {selection.tell_ends(part, 'M')}")
    sizes = sorted(rows["M"].unique())
    return f"From M = {sizes[0]} to {sizes[-1]}, barriers at m = 2M go, {'; '.join(told)}."


FIGURES = (
    Drawing(
        "permutation-12",
        "Barrier between students by teacher width",
        "Loss barrier between students against their width in units of the teacher's, m/M, a panel for each M, at one "
        "input dimension d: of trained students (GD) and of uniform samples of the global minima, as they are (direct) "
        "and matched by type and rank (Algorithm 1) or by linear assignment. Pairs with a run that diverged or ended "
        "with a loss above 1e-5 are not drawn.",
        by_teacher_width,
        see_growth,
        "The paper's axis is m, and its caption says d where it means M.",
    ),
)


def growth_with_M(table: pd.DataFrame) -> list[Found]:
    """Smallest ratio of a mean barrier to that at the next smaller M, at m = 2M, of each source, direct and matched."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        told = ", ".join(f"M = {M:g}: {level:.3g}" for M, level in rows.groupby("M")["permuted"].mean().items())
        return estimate(case, rows, lambda of: _smallest_step(of["permuted"]), against="M", told=told)

    direct = [(f"{case}, direct", rows.assign(permuted=rows["direct"])) for case, rows in _at_2M(table)]
    return measure_each([*direct, *_matched(table)], measure, LACKING)


def growth_of_gap(table: pd.DataFrame) -> list[Found]:
    """Smallest rise of log10(direct / matched) from one M to the next larger one, at m = 2M, of each source."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        levels = rows.groupby("M")[["direct", "permuted"]].mean()
        told = ", ".join(f"M = {M:g}: {gap:.3g}" for M, gap in decades(levels["direct"], levels["permuted"]).items())

        def statistic(of: pd.DataFrame) -> float:
            with np.errstate(invalid="ignore"):
                return smallest(np.diff(decades(of["direct"], of["permuted"]).to_numpy()))

        return estimate(case, rows, statistic, ("direct", "permuted"), "M", told)

    return measure_each(_matched(table), measure, LACKING)


def _smallest_step(curve: pd.Series) -> float:
    values = curve.to_numpy()
    # From nothing there is no ratio.
    return smallest(np.where(values[:-1] > 0, values[1:], np.nan) / np.where(values[:-1] > 0, values[:-1], 1.0))


def _matched(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """``_at_2M``, with trained students once for each way of matching."""
    settings = dict(_at_2M(table))
    samples = {case: rows for case, rows in settings.items() if rows["source"].iloc[0] == selection.UNIFORM}
    trained = [(case, rows) for case, rows in settings.items() if case not in samples]
    return [*((f"{case}, matched", rows) for case, rows in samples.items()), *selection.each_matching(trained)]


def _at_2M(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Students with m = 2M of each source and d, where there are two teachers."""
    rows = selection.keep(selection.choose_first_rate(table)[0])
    return [
        (f"d = {d:g}, {selection.SOURCES[source]}", group)
        for (source, d), group in rows[rows["m"] == 2 * rows["M"]].groupby(["source", "d"], sort=False)
        if group["M"].nunique() > 1
    ]


CLAIMS = (
    Claim(
        id="permutation-12-growth",
        statement="Both barriers, direct and matched, grow with the teacher's width",
        quantity="smallest ratio of the mean barrier at m = 2M to that at the next smaller M",
        bound=above(1),
        owner="paper",
        origin="paper",
        reason="The order of the paper's panels: 'the barrier is increasing when d is going up', where d means M.",
        tables=(TABLE,),
        measure=of_table(TABLE, growth_with_M),
    ),
    Claim(
        id="permutation-12-gap",
        statement="Matching lowers the barrier by a larger factor the wider the teacher",
        quantity="smallest rise of log10 of direct over matched barrier at m = 2M from one M to the next",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="'The gap between the permuted barrier and direct barrier also becomes larger.'",
        tables=(TABLE,),
        measure=of_table(TABLE, growth_of_gap),
    ),
)
