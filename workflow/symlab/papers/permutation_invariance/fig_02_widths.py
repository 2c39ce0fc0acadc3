"""Figs. 2 and 10: barriers between students against their width, above one teacher's and above several.

Barriers are in units of the population loss; ``direct`` is of the students as they are, ``permuted`` after matching.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, measuring, selection
from symlab.plotting.style import MARKERS, Style, handles, legend, line_entry, ordered_colors, set_ticks, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Bound, Claim, Found, Measurement, Tables, above, at_most, between, slope
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE, RUNS = "widths_barriers.csv", "widths_runs.csv"
RATE = r"$\propto m^{-1/2}$ (Theorem 6)"


def against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 2: barriers of the first (M, d) against m > M, trained students and uniform samples, direct and matched.

    Beside it, where samples are wide enough for Theorem 6, their matched barriers by M, both axes logarithmic.
    """
    table = need(tables, TABLE)
    return _above_teacher(table, selection.list_teachers(table)[:1], style, _wide_samples(table))


def by_teacher(tables: Tables, style: Style) -> Figure:
    """Fig. 10: as ``against_width``, a panel a teacher (M, d)."""
    table = need(tables, TABLE)
    if len(selection.list_teachers(table)) < 2:
        raise UserError(
            f"{drawing.key_of(table, 'widths')} has one teacher (M, d) only; make it a list of grids with other M, d."
        )
    return _above_teacher(table, selection.list_teachers(table), style, [])


def _above_teacher(
    table: pd.DataFrame, places: list[tuple[int, int]], style: Style, wide: list[tuple[str, pd.DataFrame]]
) -> Figure:
    above_M = pd.concat(_as_wide_as_trained(selection.select_teacher(table, *place)) for place in places)
    for M, d in places:
        if selection.select_teacher(above_M, M, d)["m"].nunique() < 3:
            raise UserError(
                f"{drawing.key_of(table, 'widths')} needs at least three widths m above M = {M} (with d = {d})."
            )
    kept, missing = drawing.keep_pairs(above_M, "widths")
    rows, rates = drawing.take_first_rate(kept)
    looks = drawing.source_looks(rows["source"], style)
    curves = {place: drawing.barrier_curves(selection.select_teacher(rows, *place), "m", looks) for place in places}
    drawn = [curve for of_place in curves.values() for curve in of_place]
    floor = drawing.find_floor(drawn)
    n = len(places) + bool(wide)
    figure, axes, width = drawing.make_grid(n, sharey="none" if wide else "all")
    used = list(axes.flat[: len(places)])
    for index, (axis, (M, d)) in enumerate(zip(used, places, strict=True)):
        for curve in curves[M, d]:
            drawing.draw_curve(axis, curve, floor)
        axis.set_xlim(left=M - 0.06 * (selection.select_teacher(rows, M, d)["m"].max() - M))
        drawing.mark_widths(axis, M)
        drawing.tick_integers(axis)
        axis.set_title(f"{'abcdefgh'[index] if n > 1 else ''}   {drawing.title_teacher(M, d)}", loc="left")
    drawing.scale_barriers(np.array([used], dtype=object))
    drawing.draw_zeros(dict(zip(used, curves.values(), strict=True)), floor)
    entries: list[Artist] = [*handles(drawing.look_by_name(looks))]
    if wide:
        entries += _decay(axes.flat[len(places)], wide)
    drawing.label_grid(axes, n, drawing.WIDTH, drawing.BARRIER)
    axes.flat[n - 1].yaxis.label.set_visible(bool(wide) or n == 1)
    entries += drawing.mark_entries(used)
    note = [drawing.join_phrases(drawing.say_pairs(rows, ["M", "m"]), rates), missing]
    legend(figure, entries, wrap_sentences(note, width, style))
    return figure


def _decay(axis: Axes, wide: list[tuple[str, pd.DataFrame]]) -> list[Artist]:
    """The matched barriers of samples by M, and a line of the theorem's rate from the largest of them on; its entry."""
    tops = []
    colors = ordered_colors(len(wide))
    for (name, rows), color, marker in zip(wide, colors, MARKERS * len(wide), strict=False):
        stats = drawing.mean_se(rows, "m", "permuted")
        axis.errorbar(stats["m"], stats["mean"], stats["se"], color=color, marker=marker, capsize=1.5, elinewidth=0.8)
        axis.annotate(
            name.partition(",")[0], (stats["m"].iloc[-1], stats["mean"].iloc[-1]), (-8, -2), color=color,
            textcoords="offset points", fontsize="small", ha="right",
        )  # fmt: skip
        tops.append((stats["m"][stats["mean"].idxmax()], stats["mean"].max()))
    at, top = max(tops, key=lambda place: place[1])
    ends = np.array([at, axis.get_xlim()[1]])
    axis.plot(ends, 1.5 * top * (ends / at) ** -0.5, color="0.6", linewidth=1.2, zorder=0, label=RATE)
    axis.set_xscale("log")
    widths = sorted({m for _, rows in wide for m in rows["m"]})
    set_ticks(axis.xaxis, [m for m in (6, 12, 24, 48, 96, 192, 384) if widths[0] <= m <= widths[-1]])
    axis.set_title("b   samples, matched; wide", loc="left")
    axis.set_yscale("log")
    return [line_entry(RATE, color="0.6", linewidth=1.2)]


def _as_wide_as_trained(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with m > M, of samples those no wider than the widest trained student, if there are any of these."""
    rows = rows[rows["m"] > rows["M"]]
    trained = selection.select_trained(rows)
    return rows if trained.empty else rows[rows["m"] <= trained["m"].max()]


def see_widths(tables: Tables) -> str:
    """The places and heights of the first teacher's peaks, and by how much matching lowers the barrier."""
    table = tables[TABLE]
    M, d = selection.list_teachers(table)[0]
    return f"Above {selection.name_teacher(M, d)}: {_peaks(selection.select_teacher(table, M, d))}."


def see_teachers(tables: Tables) -> str:
    """The places of the peaks of each teacher."""
    table = tables[TABLE]
    told = [
        f"{selection.name_teacher(M, d)}: {_peaks(selection.select_teacher(table, M, d))}"
        for M, d in selection.list_teachers(table)
    ]
    return "; ".join(told) + "."


def _peaks(rows: pd.DataFrame) -> str:
    rows = selection.choose_first_rate(selection.keep(_as_wide_as_trained(rows)))[0]
    told = []
    for source, part in rows.groupby("source", sort=False):
        direct = part["direct"].mean()
        for column, matching in selection.MATCHINGS.items():
            if part[column].notna().any():
                curve = part.groupby("m")[column].mean()
                name = "samples" if source == selection.UNIFORM else f"trained students by {matching}"
                told.append(f"{name} peak at m = {curve.idxmax()} with {curve.max():.2g} (direct {direct:.2g})")
    return ", ".join(told)


FIGURES = (
    Drawing(
        "permutation-2",
        "Barrier between students against width",
        "Loss barrier on the straight line between two students of m neurons against m, above the first teacher of M "
        "neurons: of students trained by gradient descent (GD) and of uniform samples of the global minima, as they "
        "are (direct) and with the neurons of one matched to those of the other, by type and rank (Algorithm 1) or by "
        "linear assignment, which is the same for samples. Beside it, if there are wide samples, their matched barrier "
        "by M against the rate of Theorem 6. Pairs with a run that diverged or ended with a loss above 1e-5 are not "
        "drawn.",
        against_width,
        see_widths,
        "The paper shows one matching and no wide samples; it calls its trained students SGD solutions.",
    ),
    Drawing(
        "permutation-10",
        "Barrier between students against width, by teacher",
        "Loss barrier on the straight line between two students of m neurons against m, a panel for each teacher of M "
        "neurons in d dimensions: of students trained by gradient descent (GD) and of uniform samples of the global "
        "minima, as they are (direct) and matched by type and rank (Algorithm 1) or by linear assignment. Samples are "
        "shown up to the widest trained students. Pairs with a run that diverged or ended with a loss above 1e-5 are "
        "not drawn.",
        by_teacher,
        see_teachers,
        "The paper's panels go to m = 6M; students of M = 30 are trained up to 3M here, since the time of a step grows "
        "as m².",
    ),
)


def peak_near_2M(table: pd.DataFrame, high: float) -> list[Found]:
    """Width of the largest mean matched barrier in units of M, for samples and for trained students by matching."""
    samples = [(f"{case}, samples", rows) for case, rows in selection.split_uniform(table)]
    return measuring.measure_each(
        [*samples, *selection.split_matchings(table)], partial(_peak, high=high), measuring.NO_UNIFORM
    )


def peak_of_trained(table: pd.DataFrame, high: float) -> list[Found]:
    """``peak_near_2M`` of trained students alone."""
    return measuring.measure_each(selection.split_matchings(table), partial(_peak, high=high), measuring.NO_TRAINED)


def _peak(case: str, rows: pd.DataFrame, high: float) -> Found:
    """Needs two widths above M and up to high M, and one beyond. A peak at the first width is none unless that is M."""
    M = float(rows["M"].iloc[0])
    rows = rows[rows["m"] >= M]
    ratio = measuring.in_widths_of_M(rows)
    if ratio[(ratio > 1) & (ratio <= high)].nunique() < 2 or not (ratio > high).any():
        return f"{case}: needs two widths above M and up to {high:g} M, and one beyond"
    curve = measuring.means(rows, "permuted")
    told = (
        f"barrier {measuring.write_barrier(measuring.largest(curve))} at m = {measuring.find_peak(curve):g}; "
        f"m = {curve.index[0]:g} to {curve.index[-1]:g}"
    )
    found = measuring.estimate(case, rows, lambda of: measuring.find_peak(of["permuted"]) / M, told=told)
    if found.value == ratio.min() > 1:
        return f"{case}: is largest at the first width, m = {curve.index[0]:g}, below which there are no students"
    return found


def fall_by_matching(table: pd.DataFrame) -> list[Found]:
    """Smallest ratio of direct to matched mean barrier over the widths m > M, for each source and matching."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        if rows.empty:
            return f"{case}: needs a width above M"
        falls = _falls(pd.DataFrame({column: measuring.means(rows, column) for column in ("direct", "permuted")}))
        told = f"smallest at m = {falls.isna().idxmax() if falls.isna().any() else falls.idxmin():g}"
        return measuring.estimate(
            case, rows, lambda of: measuring.smallest(_falls(of)), ("direct", "permuted"), told=told
        )

    samples = [(f"{case}, samples", rows) for case, rows in selection.split_uniform(table)]
    return measuring.measure_each([*samples, *selection.split_matchings(table)], measure, "needs students")


def _falls(curves: pd.DataFrame) -> pd.Series:
    """Direct over matched barrier: infinite where only the matched one is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return curves["direct"] / curves["permuted"]


def slope_of_decay(table: pd.DataFrame) -> list[Found]:
    """Slope of log mean matched barrier of samples against log m over the upper half of the widths, for each (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        if case not in dict(_wide_samples(table)):
            return f"{case}: needs widths whose upper half has three, all of 3M or more"
        rows = rows[rows["m"] > rows["M"]]
        rows = rows[rows["m"].isin(_upper_half(rows))]
        curve = measuring.means(rows, "permuted")
        constants = curve * np.sqrt(curve.index.to_numpy(dtype=float))
        told = (
            f"m = {curve.index[0]:g} to {curve.index[-1]:g}; √m times the barrier falls from {constants.iloc[0]:.2g} "
            f"to {constants.iloc[-1]:.2g}"
        )
        return measuring.estimate(case, rows, lambda of: slope(of["permuted"]), told=told)

    return measuring.measure_each(selection.split_uniform(table), measure, measuring.NO_UNIFORM)


def _wide_samples(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Samples with m > M of each teacher for which the upper half of the widths has three, all of 3M or more."""
    found = [(case, rows[rows["m"] > rows["M"]]) for case, rows in selection.split_uniform(table)]
    return [
        (case, rows)
        for case, rows in found
        if len(upper := _upper_half(rows)) >= 3 and upper[0] >= 3 * rows["M"].iloc[0]
    ]


def _upper_half(rows: pd.DataFrame) -> list[int]:
    widths = sorted(rows["m"].unique())
    return widths[len(widths) // 2 :]


def trained_over_uniform(table: pd.DataFrame, from_width: float) -> list[Found]:
    """Largest ratio of trained to samples' mean matched barrier over the shared widths from there on, by (M, d)."""

    def measure(case: str, rows: pd.DataFrame, shared: list[int]) -> Measurement:
        return _ratio_to_uniform(case, table, rows, shared, f"{len(shared)} widths")

    return _beside_uniform(table, selection.split_matchings(table), from_width, measure)


def trained_over_uniform_at_the_end(table: pd.DataFrame, smallest_teacher: bool) -> list[Found]:
    """The ratio at the largest shared width, which is 2.5 M or more, for the smallest M or for every other."""

    def measure(case: str, rows: pd.DataFrame, shared: list[int]) -> Measurement:
        last = shared[-1:]
        own, other = (measuring.means(each, "permuted")[last[0]] for each in (rows, _uniform_beside(table, rows)))
        told = f"{measuring.write_barrier(own)} against {measuring.write_barrier(other)} at m = {last[0]:g}"
        return _ratio_to_uniform(case, table, rows, last, told)

    narrowest = table["M"].min()
    chosen = [
        (case, rows)
        for case, rows in selection.split_matchings(table)
        if (rows["M"].iloc[0] == narrowest) == smallest_teacher
    ]
    return _beside_uniform(table, chosen, 2.5, measure)


def excess_sparsity(tables: Tables) -> list[Found]:
    """Mean PQ index by neuron of trained students less that of samples, at the largest shared width, by (M, d)."""
    runs = tables[RUNS]
    barriers = dict(selection.split_trained(selection.choose_first_rate(tables[TABLE])[0]))

    def excess(of: pd.DataFrame) -> float:
        return float(of["pq_rows"]["trained"] - of["pq_rows"][selection.UNIFORM])

    def measure(case: str, rows: pd.DataFrame, shared: list[int]) -> Found:
        m = shared[-1]
        at = rows[rows["m"] == m]
        both = pd.concat([at.assign(source="trained"), _at(_uniform_beside(runs, rows), [m])])
        levels = measuring.means(both, "pq_rows", "source")
        told = f"m = {m:g}: {levels['trained']:.3g} against {levels[selection.UNIFORM]:.3g}"
        pairs = barriers.get(case)
        if pairs is not None and (pairs["m"] == m).any():
            other = measuring.means(_at(_uniform_beside(tables[TABLE], rows), [m]), "permuted")
            for name, each in selection.each_matching([("", _at(pairs, [m]))]):
                share = measuring.over(measuring.means(each, "permuted")[m], other.get(m, np.nan))
                told += f"; barrier by {name} {share:.2g} of samples'"
        return measuring.estimate(case, both, excess, ("pq_rows",), "source", told, "students")

    return _beside_uniform(runs, selection.split_trained(selection.choose_first_rate(runs)[0]), 2.5, measure)


def _beside_uniform(
    table: pd.DataFrame,
    settings: list[tuple[str, pd.DataFrame]],
    from_width: float,
    measure: Callable[[str, pd.DataFrame, list[int]], Found],
) -> list[Found]:
    """A measurement of each setting on the widths from ``from_width`` M on that it shares with samples."""

    def of_setting(case: str, rows: pd.DataFrame) -> Found:
        wide = rows[measuring.in_widths_of_M(rows) >= from_width]
        shared = sorted(set(wide["m"]) & set(_uniform_beside(table, rows)["m"]))
        if not shared:
            return f"{case}: needs uniform samples and trained students at one width of {from_width:g} M or more"
        return measure(case, wide, shared)

    return measuring.measure_each(settings, of_setting, measuring.NO_TRAINED)


def _uniform_beside(table: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Samples of the (M, d) of the rows."""
    return selection.select_teacher(selection.select_uniform(table), rows["M"].iloc[0], rows["d"].iloc[0])


def _at(rows: pd.DataFrame, widths: list[int]) -> pd.DataFrame:
    return rows[rows["m"].isin(widths)]


def _ratio_to_uniform(case: str, table: pd.DataFrame, rows: pd.DataFrame, widths: list[int], told: str) -> Measurement:
    """Largest ratio of mean matched barriers over some widths."""
    both = pd.concat([_at(rows, widths).assign(source="trained"), _at(_uniform_beside(table, rows), widths)])

    def statistic(of: pd.DataFrame) -> float:
        trained, uniform = (of["permuted"][source] for source in ("trained", selection.UNIFORM))
        return measuring.largest(trained / uniform)

    return measuring.estimate(case, both, statistic, against=["source", "m"], told=told)


PEAK_CLAIM = partial(
    Claim,
    quantity="width of the largest mean matched barrier over m ≥ M, in units of M",
    tables=(TABLE,),
    also=("permutation-4", "permutation-10"),
)
WIDTHS_CLAIM = partial(
    Claim,
    tables=(TABLE,),
    also=("permutation-10",),
)
CLAIMS = (
    PEAK_CLAIM(
        id="permutation-2-peak-at-2M",
        statement="After matching, the barrier is largest between students about twice as wide as the teacher (m = 2M)",
        bound=measuring.in_units_of_M(1.75, 2.25, "between 1.75 and 2.25"),
        owner="paper",
        origin="pilot",
        reason="The paper: 'the barrier after permutation increases first and reaches its maximum when m = 2M'. A "
        "quarter of M is left on either side, so that 1.5M, where a pilot had put the peak of trained students, does "
        "not pass for it.",
        measure=measuring.of_table(TABLE, partial(peak_near_2M, high=2.5)),
        why=dict.fromkeys(
            ("M = 6, d = 8, Algorithm 1", "M = 6, d = 8, linear assignment"),
            "At M = 6 gradient descent gives the teacher's neurons far more equal numbers of rows than chance does "
            "(variance over types 0.2 to 0.3 against 0.84 at m = 12), and the rows of a type are nearly equal. From 2M "
            "on little is left unmatched, by either matching, so the peak comes early.",
        ),
    ),
    WIDTHS_CLAIM(
        id="permutation-2-uniform-decay",
        statement="After its peak the matched barrier of random minima (uniform samples) decays",
        quantity="mean matched barrier at the largest width as a fraction of the peak",
        bound=at_most(0.75),
        owner="paper",
        origin="pilot",
        reason="The paper: 'after that it decreases to 0 as m increases to infinity', without a number; a quarter "
        "less at 4M or more was chosen when a pilot had 0.27 at m = 36 for M = 6 and 0.52 at m = 48 for M = 12.",
        measure=measuring.of_table(TABLE, partial(measuring.left_of_peak, trained=False, from_width=4)),
    ),
    WIDTHS_CLAIM(
        id="permutation-2-below-direct",
        statement="Matching lowers the barrier by far at every width above M",
        quantity="smallest ratio of direct to matched mean barrier over the widths",
        bound=Bound("at least 31.6 (1.5 decades)", low=10**1.5),
        owner="paper",
        origin="pilot",
        reason="The paper: 'the barrier significantly decreases after the optimal permutation'; its logarithmic axis "
        "shows matched curves far below direct ones. 1.5 decades were chosen when a pilot of uniform samples had 1.65 "
        "to 1.92 at m = 2M for M = 4 to 16.",
        measure=measuring.of_table(TABLE, fall_by_matching),
    ),
    WIDTHS_CLAIM(
        id="permutation-2-theorem-6",
        kind="theorem",
        statement="The matched barrier of random minima decays at least as fast as m^(−1/2) (Theorem 6)",
        quantity="slope of log mean matched barrier against log m over the upper half of the widths",
        bound=at_most(-0.5),
        owner="paper",
        origin="paper",
        reason="Theorem 6: the decay rate is O(m^(−1/2)), an upper bound. The barrier is quadratic in the mass that "
        "finds no partner, and matching by rank leaves the smallest rows alone without one, so slopes near −2 are "
        "expected.",
        measure=measuring.of_table(TABLE, slope_of_decay),
    ),
    WIDTHS_CLAIM(
        id="permutation-2-trained-below-uniform",
        statement="From 3M on, matched barriers of trained students do not exceed those of random minima (samples)",
        quantity="largest ratio of the mean matched barriers over the widths",
        bound=at_most(1),
        owner="paper",
        origin="ours",
        reason="The paper: 'when m is relatively large, the barrier of permuted SGD solutions is slightly smaller'; "
        "3M, half of the way to its widest students, is read as relatively large.",
        measure=measuring.of_table(TABLE, partial(trained_over_uniform, from_width=3)),
    ),
    Claim(
        id="permutation-2-slightly-below-uniform",
        statement="Matched barriers of wide trained students are slightly smaller than those of random minima",
        quantity="ratio of the mean matched barriers at the largest width, for the narrowest teacher",
        bound=between(0.5, 1),
        owner="paper",
        origin="ours",
        reason="The paper's words for M = 6 (Fig. 2). Less than half of it is no slight difference: that is what its "
        "Fig. 10 calls 'way more lower', of wider teachers alone.",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, partial(trained_over_uniform_at_the_end, smallest_teacher=True)),
        why=dict.fromkeys(
            ("M = 6, d = 8, Algorithm 1", "M = 6, d = 8, linear assignment"),
            "The difference has the paper's sign and is larger than slight: gradient descent shares the teacher's "
            "neurons out more evenly than chance does, so less is left unmatched.",
        ),
    ),
    Claim(
        id="permutation-2-sparser",
        statement="Wide trained students are sparser than random minima, which is why their matched barrier is lower",
        quantity="mean PQ index of the neurons' norms of trained students less that of samples, at the largest width",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper: 'in Figure 2 the barrier of permuted SGD solutions is lower than that of permuted "
        "uniformly sampled solutions, and we attribute its reason to the sparsity of the SGD solutions', by the index "
        "that it measures sparsity with (Fig. 5).",
        tables=(TABLE, RUNS),
        measure=excess_sparsity,
        also=("permutation-5", "permutation-10"),
        why={
            "M = 6, d = 8": "Trained students are less sparse than the samples, and yet their barrier is lower: the "
            "rows of a type are nearly equal, and evenly shared out among the teacher's neurons, which leaves less "
            "unmatched."
        },
    ),
    PEAK_CLAIM(
        id="permutation-2-trained-peak",
        statement="After matching, the barrier between trained students rises from m = M to a peak and falls again",
        bound=measuring.in_units_of_M(1, 2.5, "above 1 and at most 2.5", open_below=True),
        owner="paper",
        origin="ours",
        reason="The paper's peak as such, wherever it is: inside the widths, the paper's 2M and a quarter more.",
        measure=measuring.of_table(TABLE, partial(peak_of_trained, high=2.5)),
    ),
    Claim(
        id="permutation-10-far-below-uniform",
        statement="With a wider teacher, matched barriers of wide trained students are far below those of samples",
        quantity="ratio of the mean matched barriers at the largest width, for every M but the smallest",
        bound=at_most(0.5),
        owner="paper",
        origin="pilot",
        reason="The paper: 'when M is larger, barrier of permuted SGD solutions is way more lower', without a number; "
        "half was chosen when a pilot had 0.12 at m = 30 for M = 12.",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, partial(trained_over_uniform_at_the_end, smallest_teacher=False)),
    ),
)
