"""Fig. 12: barriers between students by the width M of their teacher."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance import drawing, students
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above
from symlab.study.curves import Curve, Statistic
from symlab.study.tables import need, need_several

TABLE = "teachers_barriers.csv"


def by_teacher_width(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    rows = table[(table["d"] == table["d"].iloc[0]) & (table["m"] > table["M"])]
    need_several(rows, "M", drawing.key_of(table, "teachers"))
    axes = {"xlabel": "relative width $m / M$"}
    return drawing.draw_barriers(rows, "ratio", ["M"], "teachers", style, axes=axes, sharex=True)


FIGURES = {
    "permutation-12": Drawing(
        "Barrier between students by teacher width",
        "Loss barrier between students against their width in units of the teacher's, m/M, a panel for each M, at one "
        "input dimension d: of trained students (GD) and of uniform samples of the global minima, as they are (direct) "
        "and matched by type and rank (Algorithm 1) or by linear assignment. Pairs with a run that diverged or ended "
        "with a loss above 1e-5 are not drawn.",
        by_teacher_width,
        seen="From one M to the next, barriers at m = 2M grow at least by a factor of {growth}.",
        differs="The paper's axis is m, and its caption says d where it means M.",
    ),
}


def growth_with_M(tables: Tables) -> list[Found]:
    def smallest_step(curve: Curve) -> tuple[float, str]:
        barrier = curve["barrier"]
        # From nothing there is no ratio.
        steps = barrier.to_numpy()[1:] / barrier.where(barrier > 0).to_numpy()[:-1]
        return steps.min(), ", ".join(f"M = {M:g}: {level:.3g}" for M, level in barrier.items())

    return _at_2M(students.barriers(tables[TABLE]), smallest_step, students.without_barrier)


def growth_of_gap(tables: Tables) -> list[Found]:
    def smallest_rise(curve: Curve) -> tuple[float, str]:
        gaps = students.decades(curve.means)
        with np.errstate(invalid="ignore"):
            return np.diff(gaps).min(), ", ".join(f"M = {M:g}: {gap:.3g}" for M, gap in gaps.items())

    return _at_2M(students.matched(tables[TABLE]), smallest_rise)


def _at_2M(rows: pd.DataFrame, statistic: Statistic, *unless: Callable[[Curve], str]) -> list[Found]:
    """A statistic of students with m = 2M of each source, d and matching, where there are two teachers."""
    key = ["source", "d", "matching"]
    rows = rows[rows["m"] == 2 * rows["M"]]
    rows = rows[rows.groupby(key)["M"].transform("nunique") > 1]
    lacking = "needs students of m = 2M for two teachers"
    return students.measure_barriers(rows, statistic, lacking, "M", key, students.name_students, *unless)


_claim = partial(Claim, owner="paper", origin="paper", tables=(TABLE,))
CLAIMS = {
    "permutation-12-growth": _claim(
        statement="Both barriers, direct and matched, grow with the teacher's width",
        quantity="smallest ratio of the mean barrier at m = 2M to that at the next smaller M",
        bound=above(1),
        reason="The order of the paper's panels: 'the barrier is increasing when d is going up', where d means M.",
        measure=growth_with_M,
        why={
            "d = 64, Algorithm 1": "Not known. At M = 16 Algorithm 1 leaves trained students a tenth of the barrier "
            "that linear assignment leaves them, at M = 4 and 8 as much; by linear assignment no fall is found."
        },
    ),
    "permutation-12-gap": _claim(
        statement="Matching lowers the barrier by a larger factor the wider the teacher",
        quantity="smallest rise of log10 of direct over matched barrier at m = 2M from one M to the next",
        bound=above(0),
        reason="'The gap between the permuted barrier and direct barrier remains also becomes larger.'",
        measure=growth_of_gap,
    ),
}
