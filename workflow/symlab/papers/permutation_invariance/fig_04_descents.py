"""Fig. 4: the matched barrier of trained students narrower and wider than their teacher, a double descent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, measuring, selection
from symlab.plotting.style import PAGE, Style, handles, legend, name_axes, panels, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "widths_barriers.csv"


def below_and_above(tables: Tables, style: Style) -> Figure:
    """Fig. 4: matched barrier of trained students against m, below and above M, by both matchings.

    All widths on a logarithmic axis, those from M on on a linear one, since the first branch is many times higher.
    """
    table = need(tables, TABLE)
    trained = selection.select_trained(table)
    places = _on_both_sides(trained)
    if not places:
        raise UserError(
            f"{drawing.key_of(table, 'widths')} needs trained runs at widths m below and above M; extend m, set runs."
        )
    M, d = places[0]
    kept, missing = drawing.keep_pairs(selection.select_teacher(trained, M, d), "widths")
    rows, rates = drawing.take_first_rate(kept)
    looks = drawing.source_looks(rows["source"], style, selection.MATCHINGS)
    curves = drawing.barrier_curves(rows, "m", looks)
    floor = drawing.find_floor(curves)
    figure, axes = panels(1, 2, PAGE, 3.6, sharex="none", sharey="none")
    left, right = axes[0]
    for curve in curves:
        drawing.draw_curve(left, curve, floor)
        drawing.draw_curve(right, drawing.Curve(curve.stats[curve.stats["m"] >= M], curve.look, curve.label))
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    right.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    left.set_title("all widths", pad=14)
    right.set_title(r"$m \geq M$, linear scale", pad=14)
    for axis in (left, right):
        drawing.mark_widths(axis, M)
        drawing.tick_integers(axis)
    drawing.scale_barriers(axes[:, :1])
    drawing.draw_zeros({left: curves}, floor)
    name_axes(axes, drawing.WIDTH, drawing.PERMUTED)
    right.yaxis.label.set_visible(True)
    note = [drawing.join_phrases(drawing.title_teacher(M, d), drawing.say_pairs(rows), rates), missing]
    legend(
        figure,
        [*handles(drawing.look_by_name(looks)), *drawing.mark_entries(axes.flat)],
        wrap_sentences(note, PAGE, style),
    )
    return figure


def _on_both_sides(trained: pd.DataFrame) -> list[tuple[int, int]]:
    """The (M, d) with students narrower than M and wider."""
    return [
        (M, d)
        for M, d in selection.list_teachers(trained)
        if (selection.select_teacher(trained, M, d)["m"] < M).any()
        and (selection.select_teacher(trained, M, d)["m"] > M).any()
    ]


def see_descents(tables: Tables) -> str:
    """The heights of both branches and what is left at both their ends, by Algorithm 1."""
    trained = selection.select_trained(tables[TABLE])
    M, d = _on_both_sides(trained)[0]
    curve = (
        selection.choose_first_rate(selection.keep(selection.select_teacher(trained, M, d)))[0]
        .groupby("m")["permuted"]
        .mean()
    )
    below, above = curve[curve.index < M], curve[curve.index > M]
    at_M = f" to {curve[M]:.1g} at m = {M}" if M in curve.index else ""
    return (
        f"By Algorithm 1 the barrier falls from {below.max():.2g} at m = {below.idxmax()}{at_M}, rises to "
        f"{above.max():.2g} at m = {above.idxmax()} and falls to {above.iloc[-1]:.2g} at m = {above.index[-1]}."
    )


FIGURES = (
    Drawing(
        "permutation-4",
        "Barrier of students narrower and wider than the teacher",
        "Matched loss barrier between trained students against their width m, below the teacher's width M and above "
        "it: for all widths on a logarithmic axis, and from M on on a linear one. Neurons are matched by type and rank "
        "(Algorithm 1; the type of a neuron is its largest coordinate among the teacher's) or by linear assignment on "
        "the products of weights. Open marks below the line are barriers of 0 up to rounding. From M on, pairs with a "
        "run that diverged or ended with a loss above 1e-5 are not drawn, below M only diverged ones.",
        below_and_above,
        see_descents,
        "The paper gives neither M nor d, and shows one matching.",
    ),
)


def left_below_M(table: pd.DataFrame) -> list[Found]:
    """Mean matched barrier at the last width below M as a fraction of the largest below M, by (M, d) and matching."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] < rows["M"]]
        if rows["m"].nunique() < 3:
            return f"{case}: needs three widths below M"
        return measuring.last_over_top(case, rows)

    return measuring.measure_each(selection.split_matchings(table), measure, measuring.NO_TRAINED)


CLAIMS = (
    Claim(
        id="permutation-4-below-M",
        statement="As m rises to M, the matched barrier of trained students falls",
        quantity="mean matched barrier at the last width below M as a fraction of the largest below M",
        bound=at_most(0.5),
        owner="paper",
        origin="pilot",
        reason="The paper: 'as m approaches M, the extent of unmatched teacher neurons decreases, thereby lowering "
        "the barrier', without a number; half was chosen when a pilot had 0.12 for M = 6.",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, left_below_M),
    ),
    Claim(
        id="permutation-4-second-descent",
        statement="After its peak above M the matched barrier of trained students falls again",
        quantity="mean matched barrier at the largest width as a fraction of the peak over m > M",
        bound=at_most(0.5),
        owner="paper",
        origin="pilot",
        reason="The paper: 'the second descent occurs once m exceeds approximately 2M', without a number; half at 3M "
        "or more was chosen when a pilot had 0.05 at m = 36 for M = 6.",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, partial(measuring.left_of_peak, trained=True, from_width=3)),
        also=("permutation-10",),
    ),
)
