"""Figs. 2, 4 and 10: barriers between students against their width, above their teacher's and below it."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, students
from symlab.plotting.style import Axes, Figure, Style, line_entry
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Bound, Claim, Found, Tables, above, at_most, between
from symlab.study.curves import Curve, measure_each, neighbours
from symlab.study.facets import Panel, assign_looks, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need, some
from symlab.words import counted

TABLE, RUNS = "widths_barriers.csv", "widths_runs.csv"
TEACHER = ["M", "d"]
WIDE = 4
"""Width in units of M from which samples are to decay as Theorem 6 says."""


def above_first_teacher(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    first = table[(table[TEACHER] == table[TEACHER].iloc[0]).all(axis=1)]
    wide = _decaying(table)
    if wide.empty:
        return draw_by_teacher(first, style)
    names = {M: f"samples, $M$ = {M}" for M in wide["M"].unique()}
    ticks = [m for m in (6, 12, 24, 48, 96, 192, 384) if wide["m"].min() <= m <= wide["m"].max()]
    axes = labelled(drawing.WIDTH, "", "xy", title="samples, matched; wide", xticks=ticks)
    rows = wide.assign(label=wide["M"].map(names))
    decay = Panel(rows, "m", "barrier", axes, drawing.draw_means, more=partial(_draw_rate, wide))
    looks = assign_looks(list(names.values()), style, ordered=True)
    rate = line_entry(r"$\propto m^{-1/2}$ (Theorem 6)", color="0.6", linewidth=1.2)
    return draw_by_teacher(first, style, [decay], looks, [rate])


def above_each_teacher(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    if len(table[TEACHER].drop_duplicates()) < 2:
        key = drawing.key_of(table, "widths")
        raise UserError(f"{key} has one teacher (M, d) only; make it a list of grids with other M, d.")
    return draw_by_teacher(table, style)


def draw_by_teacher(table: pd.DataFrame, style: Style, *beside: Any) -> Figure:
    """Barriers against m > M, a panel a teacher; ``beside`` are the arguments of ``draw_barriers`` for more panels."""
    rows = table[table["m"] > table["M"]]
    # Samples are shown up to the widest trained students, if there are any of these.
    widest = students.trained(rows).groupby(TEACHER)["m"].max().rename("widest")
    rows = rows.merge(widest, on=TEACHER, how="left")
    rows = rows[~(rows["m"] > rows["widest"])]
    if rows.empty or (few := rows.groupby(TEACHER)["m"].nunique()).min() < 3:
        M, d = table[TEACHER].iloc[0] if rows.empty else few.idxmin()
        key = drawing.key_of(table, "widths")
        raise UserError(f"{key} needs at least three widths m above M = {M} (with d = {d}).")
    return drawing.draw_barriers(rows, "m", TEACHER, "widths", style, *beside, sharey="none" if beside else True)


def _draw_rate(rows: pd.DataFrame, axis: Axes) -> None:
    """A line of the theorem's rate from the largest mean on."""
    means = rows.groupby("m")["barrier"].mean()
    ends = np.array([means.idxmax(), means.index.max()])
    axis.plot(ends, 1.5 * means.max() * (ends / ends[0]) ** -0.5, color="0.6", linewidth=1.2, zorder=0, label="_rate")


def below_and_above(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    rows = students.trained(table)
    side = np.sign(rows["m"] - rows["M"]).replace(0, np.nan)
    both = side.groupby([rows[name] for name in TEACHER], sort=False).transform("nunique") == 2
    key = drawing.key_of(table, "widths")
    rows = some(rows[both], f"{key} needs trained runs at widths m below and above M; extend m, set runs.")
    first = rows[(rows[TEACHER] == rows[TEACHER].iloc[0]).all(axis=1)]
    return drawing.draw_barriers(first, "m", TEACHER, "widths", style, only_matched=True, marks=(1, 2))


FIGURES = {
    "permutation-2": Drawing(
        "Barrier between students against width",
        "Loss barrier on the straight line between two students of m neurons against m, above the first teacher of M "
        "neurons: of students trained by gradient descent (GD) or online SGD, and of uniform samples of the global "
        "minima, as they are (direct) and with the neurons of one matched to those of the other, by type and rank "
        "(Algorithm 1) or by linear assignment, which is the same for samples. Beside it, if there are wide samples, "
        f"their matched barrier by M against the rate of Theorem 6. {drawing.NOT_DRAWN}",
        above_first_teacher,
        "The matched barrier is largest at a width of {peak-at-2M(M=6)} M.",
        "The paper shows one matching and no wide samples; it calls its trained students SGD solutions.",
    ),
    "permutation-10": Drawing(
        "Barrier between students against width, by teacher",
        f"{drawing.BARRIERS} against m, a panel for each teacher of M neurons in d dimensions: {drawing.STUDENTS}. "
        f"Samples are shown up to the widest trained students. {drawing.NOT_DRAWN}",
        above_each_teacher,
        Sentence("The matched barrier is largest at a width of {peaks} M.", {"peaks": at("permutation-2-peak-at-2M")}),
        "The paper has 20 pairs up to m = 6M; wide students of M = 30 have fewer or none here, since the time of a "
        "step grows as m².",
    ),
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


def peaks(tables: Tables, samples: bool = True) -> list[Found]:
    """Width of the largest mean matched barrier over m ≥ M in units of M; at the first width only if that is M."""

    def lacks(curve: Curve) -> str:
        M, peak = curve.case.key["M"], curve["barrier"].idxmax()
        ratio = curve.places / M
        if ((ratio > 1) & (ratio <= 2.5)).sum() < 2 or not (ratio > 2.5).any():
            return "needs two widths above M and up to 2.5 M, and one beyond"
        if peak == curve.places[0] > M:
            return f"is largest at the first width, m = {peak:g}, below which there are no students"
        return students.without_barrier(curve)

    def place(curve: Curve) -> tuple[float, str, tuple[float, float]]:
        M, barrier = curve.case.key["M"], curve["barrier"]
        peak = barrier.idxmax()
        detail = f"barrier {barrier.max():.2e} at m = {peak:g}; m = {curve.places[0]:g} to {curve.places[-1]:g}"
        low, high = neighbours(curve.places, peak, 1)
        return peak / M, detail, (low / M, high / M)

    rows = students.matched(tables[TABLE]).query("ratio >= 1")
    found = students.mean_barriers(rows if samples else students.trained(rows))
    return measure_each(found, place, students.NO_STUDENTS, lacks)


def fall_by_matching(tables: Tables) -> list[Found]:
    def smallest(curve: Curve) -> tuple[float, str]:
        # Infinite where only the matched one is 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = curve["direct"] / curve["barrier"]
        return falls.min(), f"smallest at m = {falls.idxmin():g}"

    found = students.mean_barriers(students.matched(tables[TABLE]).query("ratio > 1"))
    return measure_each(found, smallest, students.NO_STUDENTS)


def left_of_peak(tables: Tables, samples: bool, from_ratio: float) -> list[Found]:
    def lacks(curve: Curve) -> str:
        if curve.places[-1] < from_ratio * curve.case.key["M"]:
            return f"needs a width of {from_ratio:g} M or more"
        return students.without_barrier(curve)

    rows = students.matched(tables[TABLE]).query("ratio > 1")
    chosen, by = (students.uniform(rows), TEACHER) if samples else (students.trained(rows), students.CASE)
    return measure_each(students.mean_barriers(chosen, by=by), students.last_over_top, students.NO_STUDENTS, lacks)


def slope_of_decay(tables: Tables) -> list[Found]:
    """Slope of log mean matched barrier of samples against log m over the widths from 4M on, for each (M, d)."""

    def decay(curve: Curve) -> tuple[float, str]:
        barrier, (first, last) = curve["barrier"], curve.places[[0, -1]]
        constant = (barrier * np.sqrt(curve.places.to_numpy(dtype=float))).iloc[[0, -1]]
        told = "√m times the barrier falls from {:.2g} to {:.2g}".format(*constant)
        return slope(barrier), f"m = {first:g} to {last:g}; {told}"

    rows, lacking = _decaying(tables[TABLE]), f"needs samples of three widths of {WIDE}M or more"
    return measure_each(students.mean_barriers(rows[rows["ratio"] >= WIDE], by=TEACHER), decay, lacking)


def _decaying(table: pd.DataFrame) -> pd.DataFrame:
    """Matched samples with m > M of each teacher with three widths from 4M on."""
    samples = students.uniform(students.matched(table).query("ratio > 1"))
    wide = samples["m"].where(samples["ratio"] >= WIDE)
    return samples[wide.groupby([samples[name] for name in TEACHER]).transform("nunique") >= 3]


def trained_over_samples(
    tables: Tables, from_ratio: float, last: bool = False, narrowest: bool | None = None
) -> list[Found]:
    """Largest ratio of trained students' to samples' mean matched barrier over the shared widths from there on.

    Args:
        last: whether it is about the last of these widths alone.
        narrowest: whether it is about the smallest M, or about every other; None for all.
    """
    rows = students.matched(tables[TABLE])
    if narrowest is not None:
        rows = rows[(rows["M"] == rows["M"].min()) == narrowest]
    both = students.beside_samples(rows[rows["ratio"] >= from_ratio])

    def largest(curve: Curve) -> tuple[float, str]:
        own, other = (curve["barrier"][name] for name in ("trained", "samples"))
        at = (own / other).idxmax()
        told = f"{own[at]:.2e} against {other[at]:.2e} at m = {at:g}; {counted(len(own), 'widths')}"
        return own[at] / other[at], told

    rows = students.at_last_width(both) if last else both
    lacking = f"needs samples and trained students at one width of {from_ratio:g} M or more"
    return measure_each(students.mean_barriers(rows, ["side", "m"]), largest, lacking)


def excess_sparsity(tables: Tables) -> list[Found]:
    rows = students.keep(tables[RUNS])
    both = students.at_last_width(students.beside_samples(rows[rows["m"] >= 2.5 * rows["M"]]))
    lacking = "needs samples and trained students at one width of 2.5 M or more"
    return measure_each(students.mean_runs(both, "pq_rows", "side"), partial(_compare_sides, operator.sub), lacking)


def evenness(tables: Tables) -> list[Found]:
    """Variance over types of how many rows have them, of trained students over that of samples, at the m nearest 2M."""
    rows = students.keep(tables[RUNS])
    both = students.beside_samples(rows[rows["m"] > rows["M"]])
    distance = (both["m"] / both["M"] - 2).abs()
    both = both[distance == distance.groupby([both["source"], both["M"], both["d"]]).transform("min")]
    lacking = "needs samples and trained students at one width above M"
    found = students.mean_runs(both, "type_variance", "side")
    return measure_each(found, partial(_compare_sides, operator.truediv), lacking)


def _compare_sides(compare: Callable[[float, float], float], curve: Curve) -> tuple[float, str]:
    """Trained students beside samples, by a difference or a ratio of their means."""
    own, other = curve.means.iloc[:, 0][["trained", "samples"]]
    return compare(own, other), f"{own:.3g} against {other:.3g}"


EVEN = (
    "Trained students share the teacher's neurons out more evenly than chance does (permutation-2-even), so that more "
    "of them find a partner of their type"
)


def left_below_M(tables: Tables) -> list[Found]:
    rows = students.trained(students.matched(tables[TABLE])).query("ratio < 1")
    found, lacking = students.mean_barriers(rows), "needs trained students narrower than their teacher"

    def lacks(curve: Curve) -> str:
        return "needs three widths below M" if len(curve.places) < 3 else ""

    return measure_each(found, students.last_over_top, lacking, lacks)


_claim = partial(Claim, owner="paper", origin="pilot", tables=(TABLE,), also=("permutation-10",))
_peak_claim = partial(
    _claim,
    quantity="width of the largest mean matched barrier over m ≥ M, in units of M",
    also=("permutation-4", "permutation-10"),
)
_descent_claim = partial(Claim, bound=at_most(0.5), owner="paper", origin="pilot", tables=(TABLE,))
CLAIMS = {
    "permutation-2-peak-at-2M": _peak_claim(
        statement="After matching, the barrier is largest between students about twice as wide as the teacher (m = 2M)",
        bound=students.in_units_of_M(1.75, 2.25, "between 1.75 and 2.25"),
        reason="The paper: 'the barrier after permutation increases first and reaches its maximum when m = 2M'. A "
        "quarter of M is left on either side, so that 1.5M, where a pilot had put the peak of trained students, does "
        "not pass for it.",
        measure=peaks,
        why=f"{EVEN}, by gradient descent and by online SGD. That this alone moves the peak is not shown.",
    ),
    "permutation-2-uniform-decay": _claim(
        statement="After its peak the matched barrier of random minima (uniform samples) decays",
        quantity="mean matched barrier at the largest width as a fraction of the peak",
        bound=at_most(0.75),
        reason="The paper: 'after that it decreases to 0 as m increases to infinity', without a number; a quarter "
        "less at 4M or more was chosen when a pilot had 0.27 at m = 36 for M = 6 and 0.52 at m = 48 for M = 12.",
        measure=partial(left_of_peak, samples=True, from_ratio=4),
    ),
    "permutation-2-below-direct": _claim(
        statement="Matching lowers the barrier by far at every width above M",
        quantity="smallest ratio of direct to matched mean barrier over the widths",
        bound=Bound("at least 31.6 (1.5 decades)", low=10**1.5),
        reason="The paper: 'the barrier significantly decreases after the optimal permutation'; its logarithmic axis "
        "shows matched curves far below direct ones. 1.5 decades were chosen when a pilot of uniform samples had 1.65 "
        "to 1.92 at m = 2M for M = 4 to 16.",
        measure=fall_by_matching,
    ),
    "permutation-2-theorem-6": _claim(
        kind="theorem",
        statement="The matched barrier of random minima decays at least as fast as m^(−1/2) (Theorem 6)",
        quantity=f"slope of log mean matched barrier against log m over the widths of {WIDE}M or more",
        bound=at_most(-0.5),
        origin="paper",
        reason="Theorem 6: the decay rate is O(m^(−1/2)), an upper bound. The barrier is quadratic in the mass that "
        "finds no partner, and matching by rank leaves the smallest rows alone without one, so slopes near −2 are "
        "expected.",
        measure=slope_of_decay,
    ),
    "permutation-2-trained-below-uniform": _claim(
        statement="From 3M on, matched barriers of trained students do not exceed those of random minima (samples)",
        quantity="largest ratio of the mean matched barriers over the widths",
        bound=at_most(1),
        origin="ours",
        reason="The paper: 'when student neurons m is relatively large, the barrier of permuted SGD solutions is "
        "slightly smaller'; 3M, half of the way to its widest students, is read as relatively large.",
        measure=partial(trained_over_samples, from_ratio=3),
    ),
    "permutation-2-slightly-below-uniform": _claim(
        statement="Matched barriers of wide trained students are slightly smaller than those of random minima",
        quantity="ratio of the mean matched barriers at the largest width, for the narrowest teacher",
        bound=between(0.5, 1),
        origin="ours",
        reason="The paper's words for M = 6 (Fig. 2). Less than half of it is no slight difference: that is what its "
        "Fig. 10 calls 'way more lower', of wider teachers alone.",
        measure=partial(trained_over_samples, from_ratio=2.5, last=True, narrowest=True),
        also=(),
        why=f"The difference has the paper's sign and is larger than slight. {EVEN}; by how much this lowers the "
        "barrier is not known.",
    ),
    "permutation-2-sparser": _claim(
        statement="Wide trained students are sparser than random minima, to which the paper puts down in part that "
        "their matched barrier is lower",
        quantity="mean PQ index of the neurons' norms of trained students less that of samples, at the largest width",
        bound=above(0),
        origin="paper",
        reason="The paper: 'in Figure 2 the barrier of permuted SGD solutions is lower than that of permuted "
        "uniformly sampled solutions, and we attribute its reason to the sparsity of the SGD solutions'; elsewhere "
        "'partly due to the sparsity of GD solutions when m is large and the learning rate is high'. By the index that "
        "it measures sparsity with (Fig. 5). It gives no learning rate for Fig. 2; that of kept runs is c = 1, a "
        "third of the stability limit, and higher ones are judged by permutation-5-uniform-smallest.",
        tables=(RUNS,),
        measure=excess_sparsity,
        also=("permutation-5", "permutation-10"),
        why="Not known. Trained students share the teacher's neurons out more evenly than chance does "
        "(permutation-2-even), which makes the index smaller; the paper's may have a higher learning rate.",
    ),
    "permutation-2-even": _claim(
        statement="Trained students share the teacher's neurons out more evenly than random minima do",
        quantity="variance over the teacher's neurons of how many rows (with a norm of 0.01 or more) a student "
        "has of each, as a fraction of that of samples, at the width nearest 2M",
        bound=at_most(0.5),
        owner="ours",
        reason="With fewer rows without a partner of their type a lower matched barrier than that of samples is "
        "expected. Half was chosen when a pilot had 0.2 to 0.3 against 0.84 for M = 6. Samples have rows that are too "
        "short to be counted more often, which makes their variance smaller and the fraction larger.",
        tables=(RUNS,),
        measure=evenness,
    ),
    "permutation-2-trained-peak": _peak_claim(
        statement="After matching, the barrier between trained students rises from m = M to a peak and falls again",
        bound=students.in_units_of_M(1, 2.5, "above 1 and at most 2.5", open_below=True),
        origin="ours",
        reason="The paper's peak as such, wherever it is: inside the widths, the paper's 2M and a quarter more.",
        measure=partial(peaks, samples=False),
    ),
    "permutation-10-far-below-uniform": _claim(
        statement="With a wider teacher, matched barriers of wide trained students are far below those of samples",
        quantity="ratio of the mean matched barriers at the largest width, for every M but the smallest",
        bound=at_most(0.5),
        reason="The paper: 'when M is larger, barrier of permuted SGD solutions is way more lower', without a number; "
        "half was chosen when a pilot had 0.12 at m = 30 for M = 12.",
        measure=partial(trained_over_samples, from_ratio=2.5, last=True, narrowest=False),
        also=(),
    ),
    "permutation-4-below-M": _descent_claim(
        statement="As m rises to M, the matched barrier of trained students falls",
        quantity="mean matched barrier at the last width below M as a fraction of the largest below M",
        reason="The paper: 'as m approaches M, the extent of “unmatched” teacher neurons in each solution decreases, "
        "thereby lowering the barrier', without a number; half was chosen when a pilot had 0.12 for M = 6.",
        measure=left_below_M,
    ),
    "permutation-4-second-descent": _descent_claim(
        statement="After its peak above M the matched barrier of trained students falls again",
        quantity="mean matched barrier at the largest width as a fraction of the peak over m > M",
        reason="The paper: 'the second descent occurs once m exceeds approximately 2M', without a number; half at 3M "
        "or more was chosen when a pilot had 0.05 at m = 36 for M = 6.",
        measure=partial(left_of_peak, samples=False, from_ratio=3),
        also=("permutation-10",),
    ),
}
