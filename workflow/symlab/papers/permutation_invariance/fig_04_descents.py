"""Fig. 4: the matched barrier of trained students narrower and wider than their teacher, a double descent."""

from functools import partial

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, students
from symlab.papers.permutation_invariance.fig_02_widths import left_of_peak
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most
from symlab.study.curves import Curve
from symlab.study.tables import need

TABLE = "widths_barriers.csv"


def below_and_above(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    rows = students.trained(table)
    sides = rows.assign(below=rows["m"] < rows["M"], above=rows["m"] > rows["M"])
    sides = sides.groupby(["M", "d"], sort=False)[["below", "above"]].any().all(axis=1)
    if not sides.any():
        raise UserError(
            f"{drawing.key_of(table, 'widths')} needs trained runs at widths m below and above M; extend m, set runs."
        )
    M, d = sides.idxmax()
    rows = rows[(rows["M"] == M) & (rows["d"] == d)]
    return drawing.draw_barriers(rows, "m", ["M", "d"], "widths", style, only_matched=True, marks=(1, 2))


FIGURES = {
    "permutation-4": Drawing(
        "Barrier of students narrower and wider than the teacher",
        "Matched loss barrier between trained students against their width m, below the teacher's width M and above "
        "it. Neurons are matched by type and rank (Algorithm 1; the type of a neuron is its largest coordinate among "
        "the teacher's) or by linear assignment on the products of weights. Open marks are barriers of 0 up to "
        "rounding. From M on, pairs with a run that diverged or ended with a loss above 1e-5 are not drawn, below M "
        "only diverged ones.",
        below_and_above,
        seen="At the last width below M, {below-M:%} of the highest barrier below it is left; at the largest width, "
        "{second-descent:%} of the peak above M.",
        differs="The paper gives neither M nor d, and shows one matching.",
    ),
}


def left_below_M(tables: Tables) -> list[Found]:
    def lacks(curve: Curve) -> str:
        return f"{curve.case}: needs three widths below M" if len(curve.places) < 3 else ""

    rows = students.trained(students.matched(tables[TABLE])).query("ratio < 1")
    lacking = "needs trained students narrower than their teacher"
    return students.measure_barriers(rows, students.last_over_top, lacking, unless=lacks)


_claim = partial(Claim, bound=at_most(0.5), owner="paper", origin="pilot", tables=(TABLE,))
CLAIMS = {
    "permutation-4-below-M": _claim(
        statement="As m rises to M, the matched barrier of trained students falls",
        quantity="mean matched barrier at the last width below M as a fraction of the largest below M",
        reason="The paper: 'as m approaches M, the extent of “unmatched” teacher neurons in each solution decreases, "
        "thereby lowering the barrier', without a number; half was chosen when a pilot had 0.12 for M = 6.",
        measure=left_below_M,
    ),
    "permutation-4-second-descent": _claim(
        statement="After its peak above M the matched barrier of trained students falls again",
        quantity="mean matched barrier at the largest width as a fraction of the peak over m > M",
        reason="The paper: 'the second descent occurs once m exceeds approximately 2M', without a number; half at 3M "
        "or more was chosen when a pilot had 0.05 at m = 36 for M = 6.",
        measure=partial(left_of_peak, samples=False, from_ratio=3),
        also=("permutation-10",),
    ),
}
