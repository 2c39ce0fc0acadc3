"""Claims about the sparsity (PQ index by neuron) of trained students against width and learning rate: Fig. 5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, above, at_most
from symlab.claims.permutation_invariance.stated import (
    UNIFORM,
    Found,
    each_of,
    fewest,
    means,
    of_trained,
    over,
    smallest,
    stated,
)

TABLE = "sparsity_runs.csv"
LACKING = "needs trained students that reached a minimum"


def rise_with_rate(table: pd.DataFrame) -> list[Found]:
    """Smallest excess, over the widths, of the mean PQ index at the largest learning rate over that at the smallest."""

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Measurement:
        excess = high - low
        return Measurement(smallest(excess), n, None, case, f"{_rates(low, high)}; {len(excess)} widths")

    return _extremes(table, measure)


def growth_at_largest_rate(table: pd.DataFrame) -> list[Found]:
    """By how much the mean PQ index at the largest learning rate grows from the smallest to the largest width."""

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Measurement:
        told = (
            f"c = {high.name:g}: {high.iloc[0]:.3g} at m = {high.index[0]:g}, {high.iloc[-1]:.3g} at {high.index[-1]:g}"
        )
        return Measurement(_growth(high), n, None, case, told)

    return _extremes(table, measure)


def growth_at_smallest_rate(table: pd.DataFrame) -> list[Found]:
    """The growth with width at the smallest learning rate as a fraction of that at the largest; 0 if there is none.

    Needs a growth at the largest rate, unless there is none at the smallest.
    """

    def measure(case: str, n: int, low: pd.Series, high: pd.Series) -> Found:
        told = f"{_growth(low):.3g} at c = {low.name:g}, {_growth(high):.3g} at c = {high.name:g}"
        if _growth(low) > 0 and _growth(high) <= 0:
            return f"{case}: needs a growth at the largest learning rate to compare with ({told})"
        flat = _growth(low) <= 0 and not np.isnan(_growth(high))
        value = 0.0 if flat else over(_growth(low), _growth(high))
        return Measurement(value, n, None, case, told)

    return _extremes(table, measure)


def excess_over_uniform(table: pd.DataFrame) -> list[Found]:
    """Smallest excess of the mean PQ index of trained students over that of uniform samples: all rates and widths."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        first = rows.iloc[0]
        same = table[(table["source"] == UNIFORM) & (table["M"] == first["M"]) & (table["d"] == first["d"])]
        uniform = means(same, "pq_rows")
        curves = [curve[curve.index.isin(uniform.index)] for curve in _by_rate(rows)]
        excess = pd.concat([curve - uniform[curve.index] for curve in curves])
        if excess.empty:
            return f"{case}: needs uniform samples at a width of trained students"
        told = f"{len(curves)} learning rates; uniform samples {uniform.min():.3g} to {uniform.max():.3g}"
        return Measurement(smallest(excess), fewest(rows), None, case, told)

    return each_of(of_trained(table), measure, LACKING)


def _extremes(table: pd.DataFrame, measure: Callable[[str, int, pd.Series, pd.Series], Found]) -> list[Found]:
    """A measurement on the curves of the smallest and the largest rate over their shared widths, for each (M, d)."""

    def of_setting(case: str, rows: pd.DataFrame) -> Found:
        curves = [curve for curve in _by_rate(rows) if len(curve) > 1]
        if len(curves) < 2:
            return f"{case}: needs two learning rates with two widths each"
        low, high = curves[0], curves[-1]
        shared = low.index.intersection(high.index)
        if len(shared) < 2:
            return f"{case}: needs two widths that the smallest and the largest learning rate share"
        at = rows[rows["m"].isin(shared) & rows["c"].round(6).isin([low.name, high.name])]
        n = int(at.groupby(["m", at["c"].round(6)]).size().min())
        return measure(case, n, low[shared], high[shared])

    return each_of(of_trained(table), of_setting, LACKING)


def _by_rate(rows: pd.DataFrame) -> list[pd.Series]:
    """Mean PQ index against width for each learning rate in units of d / m, slowest first; the rate is its name."""
    # The rate times m / d is not the same number at every width.
    return [means(group, "pq_rows").rename(c) for c, group in rows.groupby(rows["c"].round(6))]


def _growth(curve: pd.Series) -> float:
    return float(curve.iloc[-1] - curve.iloc[0])


def _rates(low: pd.Series, high: pd.Series) -> str:
    return f"c = {high.name:g} less c = {low.name:g}"


DECAYING = "The learning rates decay with the width as c d / m, in which the stability limit is nearly constant."

CLAIMS = (
    stated(
        "5",
        "rate",
        "Larger learning rates give sparser students: smallest excess over the widths of the mean PQ index by neuron "
        "at the largest learning rate over that at the smallest",
        above(0),
        f"The order of the paper's curves, of the extreme ones alone. {DECAYING}",
        TABLE,
        rise_with_rate,
    ),
    stated(
        "5",
        "growth",
        "At a large learning rate students are sparser the wider they are: growth of the mean PQ index by neuron from "
        "the smallest to the largest width",
        above(0),
        f"The paper states no number, so only the direction is asked for. {DECAYING}",
        TABLE,
        growth_at_largest_rate,
    ),
    stated(
        "5",
        "no-growth",
        "At a small learning rate wider students are not sparser: growth of the mean PQ index by neuron with width as "
        "a fraction of that at the largest rate",
        at_most(0.5),
        "The paper states no number; less than half of the other growth is read as none.",
        TABLE,
        growth_at_smallest_rate,
    ),
    stated(
        "5",
        "uniform-smallest",
        "Uniform samples of the minima are less sparse than any trained student: smallest excess of the mean PQ index "
        "by neuron of trained students over that of uniform samples",
        above(0),
        "As the paper's curves lie.",
        TABLE,
        excess_over_uniform,
        explanation="Gradient descent below the sparsity threshold makes the rows of a type nearly equal (index 0.035 "
        "to 0.095 in a small trial, for every scale of the initialisation), while the rows of a uniform sample are "
        "lengths of a randomly cut line, whose index tends to 1 - pi/4 = 0.215. Trained students exceed that only past "
        "the threshold, where whole rows are zero.",
    ),
)
