"""Fig. 11: barriers between students by the dimension d of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, selection
from symlab.papers.permutation_invariance.measuring import NO_TRAINED, estimate, measure_each, of_table
from symlab.plotting.style import PAGE, Style, handles, legend, line_entry, set_ticks, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, below, between, mean, slope
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "dimensions_barriers.csv"
PANELS = (4, 16, 64, 128)
"""The dimensions of the paper's panels a to d."""
SLOPE = r"slope $-1$"


def by_dimension(tables: Tables, style: Style) -> Figure:
    """Fig. 11: barriers of the first M against m, a panel a d, and in the last panel against d at the m nearest 2M.

    The panels before the last are of the paper's d, of which two must be there; else of all.
    """
    table = need(tables, TABLE)
    of_M = table[table["M"] == table["M"].iloc[0]]
    if of_M["d"].nunique() < 2:
        raise UserError(f"{drawing.key_of(table, 'dimensions')} needs at least two values of d.")
    kept, missing = drawing.keep_pairs(of_M[of_M["m"] > of_M["M"]], "dimensions")
    rows, rates = drawing.take_first_rate(kept)
    M = int(rows["M"].iloc[0])
    dimensions = sorted(rows["d"].unique())
    named = [d for d in dimensions if d in PANELS]
    shown = named if len(named) > 1 else dimensions
    # A source may be there at some d alone, e.g. trained students.
    m = min(sorted(rows["m"].unique()), key=lambda m: abs(m - 2 * M))
    looks = drawing.source_looks(rows["source"], style)
    of_dimension = {d: drawing.barrier_curves(rows[rows["d"] == d], "m", looks) for d in shown}
    across = drawing.barrier_curves(rows[rows["m"] == m], "d", looks)
    panels = [*of_dimension.values(), across]
    floor = drawing.find_floor([curve for curves in panels for curve in curves])
    figure, axes, _ = drawing.make_grid(len(panels), sharey="all")
    for index, (axis, curves) in enumerate(zip(axes.flat, panels, strict=False)):
        for curve in curves:
            drawing.draw_curve(axis, curve, floor)
        at = f"$d$ = {shown[index]}" if index < len(shown) else f"$m$ = {m}"
        axis.set_title(f"{selection.LETTERS[index]}   {at}", loc="left")
    for axis in axes.flat[: len(shown)]:
        drawing.mark_widths(axis, M)
        drawing.tick_integers(axis)
    last: Axes = axes.flat[len(shown)]
    _reference(last, across)
    last.set_xscale("log")
    set_ticks(last.xaxis, _spread(dimensions))
    drawing.scale_barriers(axes)
    drawing.draw_zeros(dict(zip(axes.flat, panels, strict=False)), floor)
    used = drawing.label_grid(axes, len(panels), drawing.WIDTH, drawing.BARRIER)
    last.set_xlabel("input dimension $d$")
    for axis in used:
        axis.xaxis.label.set_visible(True)
    entries = [
        *handles(drawing.look_by_name(looks)),
        line_entry(SLOPE, color="0.6", linewidth=1.2),
        *drawing.mark_entries(used),
    ]
    sentences = [drawing.join_phrases(f"$M$ = {M}", drawing.say_pairs(rows, ["d", "m"]), rates), missing]
    legend(figure, entries, wrap_sentences(sentences, PAGE, style))
    return figure


def _spread(values: list[int]) -> list[int]:
    """At most five of the values, first and last among them: more labels would touch."""
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), 4)).round().astype(int))
    return [values[index] for index in chosen]


def _reference(axis: Axes, curves: list[drawing.Curve]) -> None:
    """A line of slope -1 through the logarithmic mean of all points of some curves against d."""
    points = np.concatenate([curve.stats[["d", "mean"]].to_numpy(dtype=float) for curve in curves])
    points = points[points[:, 1] > 0]
    height = np.exp(np.log(points).sum(axis=1).mean())
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    axis.plot(ends, height / ends, color="0.6", linewidth=1.2, zorder=0, label=SLOPE)


def see_fall(tables: Tables) -> str:
    """The barriers of each source at the smallest and the largest d, at the width nearest 2M."""
    table = tables[TABLE]
    rows = selection.choose_first_rate(
        selection.keep(table[(table["M"] == table["M"].iloc[0]) & (table["m"] > table["M"])])
    )[0]
    m = min(sorted(rows["m"].unique()), key=lambda m: abs(m - 2 * rows["M"].iloc[0]))
    told = []
    for source, part in rows[rows["m"] == m].groupby("source", sort=False):
        dimensions = sorted(part["d"].unique())
        ends = f"(d = {dimensions[0]} to {dimensions[-1]})"
        told.append(f"of {selection.SOURCES[source]} {selection.tell_ends(part, 'd')} {ends}")
    return f"At m = {m} barriers fall with d: {'; '.join(told)}."


FIGURES = (
    Drawing(
        "permutation-11",
        "Barrier between students by input dimension",
        "Loss barrier between students against their width m, a panel for each input dimension d, and in the last one "
        "against d at the width nearest 2M: of trained students (GD) and of uniform samples of the global minima, as "
        "they are (direct) and matched by type and rank (Algorithm 1) or by linear assignment. For samples d enters "
        "through the factor 1/d alone, the slope of the grey line. Pairs with a run that diverged or ended with a loss "
        "above 1e-5 are not drawn.",
        by_dimension,
        see_fall,
    ),
)


def fall_with_d(table: pd.DataFrame) -> list[Found]:
    """Slope of log mean barrier over the widths above M against log d, of trained students, direct and matched."""
    direct = [(f"{case}, direct", rows.assign(permuted=rows["direct"])) for case, rows in _trained(table)]
    return _slopes(direct + selection.each_matching(_trained(table)), lambda of: of["permuted"])


def change_of_gap(table: pd.DataFrame) -> list[Found]:
    """Slope of log(direct / matched), of mean barriers over the widths above M, against log d, of trained students."""
    return _slopes(selection.each_matching(_trained(table)), lambda of: of["direct"] / of["permuted"])


def _slopes(settings: list[tuple[str, pd.DataFrame]], quantity: Callable[[pd.DataFrame], pd.Series]) -> list[Found]:
    """The slope in d of a quantity of the mean barriers over the widths above M that all dimensions have."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        at = rows.groupby("m")["d"].nunique()
        rows = rows[rows["m"].isin(at.index[at == rows["d"].nunique()])]
        if rows["d"].nunique() < 3:
            return f"{case}: needs a width above M at three dimensions"

        n, columns = rows["m"].nunique(), ["direct", "permuted"]

        def levels(of: pd.DataFrame) -> pd.Series:
            grid = of.to_numpy().reshape(-1, n, len(columns))
            return quantity(pd.DataFrame(grid.mean(axis=1), of.index.unique("d"), columns))

        values = levels(rows.groupby(["d", "m"])[columns].agg(lambda values: mean(values.to_numpy())))
        told = ", ".join(f"d = {d:g}: {value:.3g}" for d, value in values.items())
        told = f"{told}; {n} widths"
        return estimate(case, rows, lambda of: slope(levels(of)), columns, ["d", "m"], told)

    return measure_each(settings, measure, NO_TRAINED)


def _trained(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Trained students of each way of training and M, all d together."""
    rows = selection.keep(selection.select_trained(selection.choose_first_rate(table)[0]))
    several = rows["source"].nunique() > 1
    return [
        (f"M = {M:g}" + (f", {selection.SOURCES[source]}" if several else ""), group)
        for (source, M), group in rows.groupby(["source", "M"], sort=False)
    ]


CLAIMS = (
    Claim(
        id="permutation-11-fall",
        statement="The barrier between trained students falls as the inputs' dimension grows",
        quantity="slope of log barrier, mean over the widths above M, against log d",
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="'The barrier is decreasing when d is going up.' That of samples is proportional to 1/d by its formula.",
        tables=(TABLE,),
        measure=of_table(TABLE, fall_with_d),
    ),
    Claim(
        id="permutation-11-gap",
        statement="Matching lowers the barrier of trained students by the same factor at every dimension",
        quantity="slope of log of direct over matched barrier, means over the widths above M, against log d",
        bound=between(-0.1, 0.1),
        owner="paper",
        origin="ours",
        reason="'The gap remains almost the same': a change by a tenth of a decade, which is a quarter, at ten times "
        "the dimension is read as almost none. That of samples does not depend on d by its formula.",
        tables=(TABLE,),
        measure=of_table(TABLE, change_of_gap),
    ),
)
