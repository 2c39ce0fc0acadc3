"""Fig. 5: sparsity (PQ index by neuron) of students against their width, by learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance import drawing, measuring, selection
from symlab.plotting.style import Look, Style, handles, legend, line_entry, palette, wrap_sentences
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, above, at_most
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

TABLE = "sparsity_runs.csv"


def by_neuron_against_width(tables: Tables, style: Style) -> Figure:
    """Fig. 5: PQ index of the row norms against m, by learning rate and of uniform samples, a panel an (M, d).

    Runs that diverged or missed zero loss are left out; a cross above the curves is a width at which all of a line did.
    """
    table = need(tables, TABLE)
    trained = selection.select_trained(table)
    column, values = selection.find_rates(trained)
    if trained.empty or len(values) < 2 or table["m"].nunique() < 2:
        raise UserError(
            f"{drawing.key_of(table, 'sparsity')} needs trained runs of at least two values of c (or lr) and two of m."
        )
    looks = _looks(trained, values, style)
    several = trained["source"].nunique() > 1
    drawn: set[tuple[str, float]] = set()
    crossed: dict[str, Look] = {}
    labels = {
        (source, value): selection.name_rate(column, value) + (f", {drawing.LEGENDS[source]}" if several else "")
        for source, value in looks
    }
    uniform = Look(palette(style)[1], (0, (4, 1.5)), "*")
    places = selection.list_teachers(table)
    figure, axes, width = drawing.make_grid(len(places), sharex="all")
    for axis, place in zip(axes.flat, places, strict=False):
        rows = selection.select_teacher(table, *place)
        diverged = []
        for (source, value), look in looks.items():
            part = rows[(rows["source"] == source) & ((rows[column] - value).abs() < 1e-5 * abs(value))]
            runs = selection.keep(part)
            drawing.draw_curve(axis, drawing.Curve(drawing.mean_se(runs, "m", "pq_rows"), look, labels[source, value]))
            gone = sorted(set(part["m"]) - set(runs["m"]))
            drawn |= {(source, value)} if len(runs) else set()
            if gone:
                diverged.append((look, gone))
                crossed[labels[source, value]] = look
        sampled = drawing.mean_se(selection.select_uniform(rows), "m", "pq_rows")
        if len(sampled):
            drawing.draw_curve(axis, drawing.Curve(sampled, uniform, drawing.LEGENDS["uniform"]))
        drawing.draw_crosses(axis, diverged)
        drawing.tick_integers(axis)
        drawing.mark_widths(axis, place[0])
        axis.set_title(drawing.title_teacher(*place), pad=6)
    used = drawing.label_grid(axes, len(places), drawing.WIDTH, "PQ index of row norms")
    entries = handles({labels[line]: look for line, look in looks.items() if line in drawn})
    if len(selection.select_uniform(table)):
        entries += handles({drawing.LEGENDS["uniform"]: uniform})
    entries += [line_entry(f"{name}: no run kept", color=look.color, **drawing.CROSS) for name, look in crossed.items()]
    entries += drawing.mark_entries(used)
    note = [
        drawing.say_pairs(selection.keep(table), ["m", column], "students")
        + ("; lr = $c\\,d / m$" if column == "c" else "")
    ]
    legend(figure, entries, wrap_sentences([*note, drawing.say_runs_not_drawn(trained, column)], width, style))
    return figure


def _looks(trained: pd.DataFrame, values: Sequence[float], style: Style) -> dict[tuple[str, float], Look]:
    """A color for each rate, a line for gradient descent and for SGD."""
    # Beside the samples', which is that of all figures; neighbours on a ramp could not be told apart.
    colors = [color for index, color in enumerate(palette(style)) if index != drawing.COLORS["uniform"]]
    lines: dict[str, LineStyleType] = {"gd": "-", "sgd": ":"}
    return {
        (source, value): Look(color, line, marker)
        for source, line in lines.items()
        if source in set(trained["source"])
        for value, color, marker in zip(values, colors * len(values), "osD^vPX" * len(values), strict=False)
    }


def see_sparsity(tables: Tables) -> str:
    """The mean index of samples and of students at the smallest and the largest rate, over the widths."""
    table = selection.keep(tables[TABLE])
    M, d = selection.list_teachers(table)[0]
    rows = selection.select_teacher(table, M, d)
    trained = selection.select_trained(rows)
    column, _ = selection.find_rates(trained)
    by_rate = trained.groupby(trained[column].round(6))
    told = []
    for rate in (min(by_rate.groups), max(by_rate.groups)):
        curve = by_rate.get_group(rate).groupby("m")["pq_rows"].mean()
        told.append(f"{curve.iloc[0]:.3f} to {curve.iloc[-1]:.3f} at {column} = {rate:g}")
    samples = selection.select_uniform(rows).groupby("m")["pq_rows"].mean()
    if len(samples):
        told.append(f"{samples.iloc[0]:.3f} to {samples.iloc[-1]:.3f} of samples")
    return f"From the narrowest students to the widest, the mean index goes from {', '.join(told)}."


FIGURES = (
    Drawing(
        "permutation-5",
        "Sparsity by neuron against student width",
        "PQ index (p = 1/2, q = 1) of the row norms of students against their width m, a line for each learning rate "
        "and one for uniform samples of the global minima. 0 says that all neurons are equally large, 1 − k/m that k "
        "equal ones are left of m. Runs that diverged or ended with a loss above 1e-5 are not drawn; a cross in a "
        "line's colour marks a width at which none was kept.",
        by_neuron_against_width,
        see_sparsity,
        "The paper does not say which learning rates its lines have.",
    ),
)


def rise_with_rate(table: pd.DataFrame) -> list[Found]:
    """Smallest excess, over the widths, of the mean PQ index at the largest learning rate over that at the smallest."""

    def measure(case: str, rows: pd.DataFrame, curves: pd.DataFrame) -> Measurement:
        told = f"{_rates(curves)}; {len(curves)} widths"
        return _estimate(case, rows, lambda of: measuring.smallest(of[of.columns[1]] - of[of.columns[0]]), told)

    return _extremes(table, measure)


def growth_at_largest_rate(table: pd.DataFrame) -> list[Found]:
    """By how much the mean PQ index at the largest learning rate grows from the smallest to the largest width."""

    def measure(case: str, rows: pd.DataFrame, curves: pd.DataFrame) -> Measurement:
        high = curves[curves.columns[1]]
        told = (
            f"c = {high.name:g}: {high.iloc[0]:.3g} at m = {high.index[0]:g}, {high.iloc[-1]:.3g} at {high.index[-1]:g}"
        )
        return _estimate(case, rows, lambda of: _growths(of)[1], told)

    return _extremes(table, measure)


def growth_at_smallest_rate(table: pd.DataFrame) -> list[Found]:
    """The growth with width at the smallest learning rate as a fraction of that at the largest; 0 if there is none.

    Needs a growth at the largest rate, unless there is none at the smallest.
    """

    def measure(case: str, rows: pd.DataFrame, curves: pd.DataFrame) -> Found:
        low, high = _growths(curves)
        told = f"{low:.3g} at c = {curves.columns[0]:g}, {high:.3g} at c = {curves.columns[1]:g}"
        if low > 0 and high <= 0:
            return f"{case}: needs a growth at the largest learning rate to compare with ({told})"

        def statistic(of: pd.DataFrame) -> float:
            low, high = _growths(of)
            return 0.0 if low <= 0 and not np.isnan(high) else measuring.over(low, high)

        return _estimate(case, rows, statistic, told)

    return _extremes(table, measure)


def excess_over_uniform(table: pd.DataFrame) -> list[Found]:
    """Smallest excess of the mean PQ index of trained students over that of uniform samples: all rates and widths."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        first = rows.iloc[0]
        same = selection.select_teacher(selection.select_uniform(table), first["M"], first["d"])
        rows = rows[rows["m"].isin(same["m"])]
        if rows.empty:
            return f"{case}: needs uniform samples at a width of trained students"
        uniform = measuring.means(same, "pq_rows")
        told = f"{rows['c'].round(6).nunique()} learning rates; samples {uniform.min():.3g} to {uniform.max():.3g}"
        both = pd.concat([rows.assign(rate=rows["c"].round(6)), same.assign(rate=0.0)])

        def statistic(of: pd.DataFrame) -> float:
            curves = of["pq_rows"].unstack("rate")
            return float(curves.drop(columns=0.0).sub(curves[0.0], axis="index").stack().min())

        # A mean that is not a number is no curve's end, so it is looked for first.
        defined = both.groupby(["rate", "m"])["pq_rows"].agg(lambda of: of.isna().any()).sum() == 0
        if not defined:
            return Measurement(float("nan"), 0, None, case, told, unit="students")
        return measuring.estimate(case, both, statistic, ("pq_rows",), ["rate", "m"], told, "students")

    return measuring.measure_each(selection.split_trained(table), measure, measuring.NO_TRAINED)


def _extremes(table: pd.DataFrame, measure: Callable[[str, pd.DataFrame, pd.DataFrame], Found]) -> list[Found]:
    """A measurement on the runs of the smallest and the largest rate at their shared widths, for each (M, d).

    It is given the mean index too, a column for each of the two rates, in units of d / m.
    """

    def of_setting(case: str, rows: pd.DataFrame) -> Found:
        # The rate times m / d is not the same number at every width.
        rows = rows.assign(rate=rows["c"].round(6))
        widths = {rate: set(part["m"]) for rate, part in rows.groupby("rate") if part["m"].nunique() > 1}
        if len(widths) < 2:
            return f"{case}: needs two learning rates with two widths each"
        ends = [min(widths), max(widths)]
        shared = widths[ends[0]] & widths[ends[1]]
        if len(shared) < 2:
            return f"{case}: needs two widths that the smallest and the largest learning rate share"
        at = rows[rows["m"].isin(shared) & rows["rate"].isin(ends)]
        return measure(case, at, at.pivot_table("pq_rows", "m", "rate", dropna=False))

    return measuring.measure_each(selection.split_trained(table), of_setting, measuring.NO_TRAINED)


def _estimate(case: str, rows: pd.DataFrame, statistic: Callable[[pd.DataFrame], float], told: str) -> Measurement:
    """A statistic of the mean index against m, a column for each of the two rates."""
    return measuring.estimate(
        case, rows, lambda of: statistic(of["pq_rows"].unstack("rate")), ("pq_rows",), ["rate", "m"], told, "students"
    )


def _growths(curves: pd.DataFrame) -> tuple[float, float]:
    low, high = curves.iloc[-1] - curves.iloc[0]
    return float(low), float(high)


def _rates(curves: pd.DataFrame) -> str:
    return f"c = {curves.columns[1]:g} less c = {curves.columns[0]:g}"


DECAYING = "The learning rates decay with the width as c d/m, in which the stability limit is nearly constant."

CLAIMS = (
    Claim(
        id="permutation-5-rate",
        statement="Larger learning rates give sparser students",
        quantity="smallest excess over the widths of the mean PQ index by neuron at the largest learning rate over "
        "that at the smallest",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason=f"'With a smaller learning rate the PQI of minima is smaller': the extreme rates alone. {DECAYING}",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, rise_with_rate),
    ),
    Claim(
        id="permutation-5-growth",
        statement="At a large learning rate students are sparser the wider they are",
        quantity="growth of the mean PQ index by neuron from the smallest to the largest width",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason=f"'When the learning rate is large, the PQI also increases with the increase in width'. {DECAYING}",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, growth_at_largest_rate),
        why={
            "M = 6, d = 8": "The largest rate at which students are kept is past the sparsity threshold at every "
            "width, and one zero row of 8 counts more than three of 36."
        },
    ),
    Claim(
        id="permutation-5-no-growth",
        statement="At a small learning rate wider students are not sparser",
        quantity="growth of the mean PQ index by neuron with width as a fraction of that at the largest rate",
        bound=at_most(0.5),
        owner="paper",
        origin="ours",
        reason="'This phenomenon is not evident when the learning rate is low': less than half is read as not evident.",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, growth_at_smallest_rate),
    ),
    Claim(
        id="permutation-5-uniform-smallest",
        statement="Uniform samples of the minima are less sparse than any trained student",
        quantity="smallest excess of the mean PQ index by neuron of trained students over that of uniform samples",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="'The uniformly sampled minima have the smallest PQI or sparsity.'",
        tables=(TABLE,),
        measure=measuring.of_table(TABLE, excess_over_uniform),
        why={
            "M = 6, d = 8": "Below the sparsity threshold gradient descent makes the rows of a type nearly equal, "
            "while those of a uniform sample are lengths of a randomly cut line, whose index tends to 1 − π/4 = "
            "0.215. Trained students exceed that only past the threshold, where whole rows are zero."
        },
    ),
)
