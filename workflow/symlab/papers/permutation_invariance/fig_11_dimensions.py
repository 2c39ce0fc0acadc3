"""Fig. 11: barriers between students by the dimension d of their inputs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_most, below, between, slope, stated
from symlab.papers.permutation_invariance.drawing import (
    BARRIER,
    OVER_PAIRS,
    WIDTH,
    Curve,
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
)
from symlab.papers.permutation_invariance.measuring import (
    NO_UNIFORM,
    decades,
    fewest,
    largest,
    means,
    measure_each,
    of_table,
    over,
    smallest,
)
from symlab.papers.permutation_invariance.selection import SOURCES, choose_first_rate, keep, select_uniform
from symlab.plotting.rows import need
from symlab.plotting.style import PAGE, Style, handles, legend, line_entry, set_ticks, wrap_sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "dimensions_barriers.csv"
KINDS = ("direct", "permuted")
SLOPE = r"slope $-1$"


def by_dimension(tables: Tables, style: Style) -> Figure:
    """Fig. 11: barriers of the first M against m, a panel a d, and in the last panel against d at the m nearest 2M."""
    table = need(tables, TABLE)
    of_M = table[table["M"] == table["M"].iloc[0]]
    if of_M["d"].nunique() < 2:
        raise UserError(f"{key_of(table, 'dimensions')} needs at least two values of d.")
    kept, missing = keep_pairs(of_M[of_M["m"] > of_M["M"]], "dimensions")
    rows, rates = take_first_rate(kept)
    M, dimensions = int(rows["M"].iloc[0]), sorted(rows["d"].unique())
    # A source may be there at some d alone, e.g. trained students.
    m = min(sorted(rows["m"].unique()), key=lambda m: abs(m - 2 * M))
    looks = source_looks(rows["source"], style)
    of_dimension = {d: barrier_curves(rows[rows["d"] == d], "m", looks) for d in dimensions}
    across = barrier_curves(rows[rows["m"] == m], "d", looks)
    drawn = [curve for curves in (across, *of_dimension.values()) for curve in curves]
    floor = find_floor(drawn)
    n = len(dimensions) + 1
    figure, axes, _ = make_grid(n, sharey="all")
    for index, (axis, (d, curves)) in enumerate(zip(axes.flat, of_dimension.items(), strict=False)):
        for curve in curves:
            draw_curve(axis, curve, floor)
        mark_widths(axis, M)
        tick_integers(axis)
        axis.set_title(f"{_letter(index)}   $d$ = {d}", loc="left")
    last: Axes = axes.flat[n - 1]
    for curve in across:
        draw_curve(last, curve, floor)
    _reference(last, across)
    last.set_title(f"{_letter(n - 1)}   $m$ = {m}", loc="left")
    last.set_xscale("log")
    set_ticks(last.xaxis, _spread(dimensions))
    scale_barriers(axes)
    used = label_grid(axes, n, WIDTH, BARRIER)
    last.set_xlabel("input dimension $d$")
    for axis in used:
        axis.xaxis.label.set_visible(True)
    entries = [
        *handles(look_by_name(looks)),
        line_entry(SLOPE, color="0.6", linewidth=1.2),
        *mark_entries(used),
    ]
    sentences = [join_phrases(f"$M$ = {M}", OVER_PAIRS, rates), missing, say_edge(drawn, floor)]
    legend(figure, entries, wrap_sentences(sentences, PAGE, style))
    return figure


def _letter(index: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[index % 26]


def _spread(values: list[int]) -> list[int]:
    """At most five of the values, first and last among them: more labels would touch."""
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), 4)).round().astype(int))
    return [values[index] for index in chosen]


def _reference(axis: Axes, curves: list[Curve]) -> None:
    """A line of slope -1 through the logarithmic mean of all points of some curves against d."""
    points = np.concatenate([curve.stats[["d", "mean"]].to_numpy(dtype=float) for curve in curves])
    points = points[points[:, 1] > 0]
    height = np.exp(np.log(points).sum(axis=1).mean())
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    axis.plot(ends, height / ends, color="0.6", linewidth=1.2, zorder=0, label=SLOPE)


FIGURES = (
    Drawing(
        "permutation-11",
        "Barrier between students by input dimension",
        "Loss barrier between students against their width m, a panel for each input dimension d, and in the "
        "last panel against d at the width nearest 2M, study `{study}`: uniform samples of the global minima, "
        "and trained students where there are any, as they are (direct) and matched by type and rank "
        "(permuted). Points are means over pairs, error bars one standard error; the axes of the barrier are "
        "logarithmic, that of d too. The grey line has slope −1. Pairs with a run that diverged or ended with "
        "a loss above 1e-5 are not drawn; the line above says how many.\n\n"
        "Barriers should fall with d, and the gap between direct and permuted ones should stay the same on "
        "the logarithmic axis. For uniform samples d enters through the factor 1/d alone, so theirs should "
        "have slope −1 exactly.",
        by_dimension,
    ),
)


def fall_with_d(table: pd.DataFrame) -> list[Found]:
    """Largest ratio of a mean barrier to that at the next smaller d, over d, widths above M, direct and permuted."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        curves = _by_d(rows)
        if len(curves) < 2:
            return f"{case}: needs a width above M at two dimensions"
        steps = [
            over(larger[kind][m], smaller[kind][m])
            for smaller, larger in pairwise(curves.values())
            for kind in KINDS
            for m in smaller.index
        ]
        return Measurement(largest(np.array(steps)), fewest(rows, ["d", "m"]), None, case, _dimensions(curves))

    settings = [
        (f"M = {M:g}, {SOURCES[source]}", rows)
        for (source, M), rows in keep(choose_first_rate(table)[0]).groupby(["source", "M"], sort=False)
    ]
    return measure_each(settings, measure, "needs students")


def exponent_in_d(table: pd.DataFrame) -> list[Found]:
    """Slope of log mean barrier against log d at m = 2M, of uniform samples: one value each for direct and permuted."""
    found: list[Found] = []
    for case, rows in _uniform(table):
        at = rows[rows["m"] == 2 * rows["M"]]
        if at["d"].nunique() < 3:
            found.append(f"{case}: needs m = 2M at three dimensions")
            continue
        dimensions = f"d = {at['d'].min():g} to {at['d'].max():g}"
        found += [
            Measurement(slope(means(at, kind, "d")), fewest(at, "d"), None, f"{case}, {kind}", dimensions)
            for kind in KINDS
        ]
    return found or [NO_UNIFORM]


def change_of_gap(table: pd.DataFrame) -> list[Found]:
    """Range over d of log10(direct / permuted), mean over the widths above M, of uniform samples."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        curves = _by_d(rows)
        if len(curves) < 2:
            return f"{case}: needs a width above M at two dimensions"
        gaps = {d: float(np.mean(decades(curve["direct"], curve["permuted"]))) for d, curve in curves.items()}
        told = ", ".join(f"d = {d:g}: {gap:.3g}" for d, gap in gaps.items())
        values = np.array([np.nan if np.isnan(curves[d].to_numpy()).any() else gap for d, gap in gaps.items()])
        with np.errstate(invalid="ignore"):
            return Measurement(largest(values) - smallest(values), fewest(rows, ["d", "m"]), None, case, told)

    return measure_each(_uniform(table), measure, NO_UNIFORM)


def _uniform(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    rows = select_uniform(table)
    return [(f"M = {M:g}", group) for M, group in rows.groupby("M", sort=False)]


def _by_d(rows: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """Mean barriers against the widths above M that all dimensions have, for each d in rising order."""
    rows = rows[rows["m"] > rows["M"]]
    count = rows["d"].nunique()
    widths = rows.groupby("m")["d"].nunique()
    rows = rows[rows["m"].isin(widths.index[widths == count])]
    return {float(d): pd.DataFrame({kind: means(group, kind) for kind in KINDS}) for d, group in rows.groupby("d")}


def _dimensions(curves: dict[float, pd.DataFrame]) -> str:
    return f"d = {', '.join(f'{d:g}' for d in curves)}; {len(next(iter(curves.values())))} widths"


CLAIMS = (
    stated(
        "permutation-11-fall",
        "permutation-11",
        "The barrier falls as the inputs' dimension grows: largest ratio of a mean barrier to that at the next smaller "
        "d, direct and permuted, over all widths",
        below(1),
        "The order of the paper's panels; it states no number.",
        TABLE,
        of_table(TABLE, fall_with_d),
    ),
    stated(
        "permutation-11-slope",
        "permutation-11",
        "The barrier between uniform samples is proportional to 1/d: slope of log mean barrier against log d at m = 2M",
        between(-1.1, -0.9),
        "d enters through 1/d alone, so the slope is -1.00; the room is for samples that differ from d to d, of which "
        "200 pairs leave an error of 0.02.",
        TABLE,
        of_table(TABLE, exponent_in_d),
    ),
    stated(
        "permutation-11-gap",
        "permutation-11",
        "Matching lowers the barrier by the same factor at every dimension: range over d of log10 of direct over "
        "permuted barrier of uniform samples, mean over the widths",
        at_most(0.1),
        "d cancels, so only the error of the means is left room: a tenth of a decade is a quarter.",
        TABLE,
        of_table(TABLE, change_of_gap),
    ),
)
