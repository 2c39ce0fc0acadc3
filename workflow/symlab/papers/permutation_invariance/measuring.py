"""What the claims of several figures measure with: statistics of mean curves against a width or a rate, and bounds.

M is the number of the teacher's neurons, m that of a student's, d the dimension of the inputs. Pairs are of consecutive
seeds and have no student in common, so pairs (or students, where these are measured alone) are what errors are over.
Many thresholds were set after a pilot in NumPy: those are marked so, and their reasons say what it had shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance.selection import split_matchings, split_uniform
from symlab.study.claim import Bound, Found, Measurement, Tables, mean

RESAMPLES = 200
NO_UNIFORM = "needs uniform samples of the minima"
NO_TRAINED = "needs trained students that reached a minimum"


def of_table(name: str, measure: Callable[[pd.DataFrame], list[Found]]) -> Callable[[Tables], list[Found]]:
    """A measurement of all tables that looks at one of them."""
    return lambda tables: measure(tables[name])


def in_units_of_M(low: float, high: float, text: str, open_below: bool = False) -> Bound:
    """low <= value <= high, or low < value <= high, for widths in units of M."""
    return Bound(text, math.nextafter(low, high) if open_below else low, high)


def measure_each(
    settings: list[tuple[str, pd.DataFrame]], measure: Callable[[str, pd.DataFrame], Found], lacking: str
) -> list[Found]:
    """One measurement a setting; ``lacking`` says what is missing where there is no setting at all."""
    return [measure(case, rows) for case, rows in settings] or [lacking]


def means(rows: pd.DataFrame, column: str, against: str = "m") -> pd.Series:
    """Mean of a column at each width (or learning rate, ...), in rising order; NaN where a value is not a number."""
    return rows.groupby(against)[column].agg(lambda values: mean(values.to_numpy(dtype=float)))


def fewest(rows: pd.DataFrame, against: str | list[str] = "m") -> int:
    """The smallest number of pairs or runs at any width (or learning rate, ...)."""
    return int(rows.groupby(against).size().min())


def find_peak(curve: pd.Series) -> float:
    """Where the curve is largest; NaN if a value of it is not a number."""
    return float("nan") if curve.isna().any() else float(curve.idxmax())


def find_trough(curve: pd.Series) -> float:
    """Where the curve is smallest; NaN if a value of it is not a number."""
    return float("nan") if curve.isna().any() else float(curve.idxmin())


def largest(values: pd.Series | np.ndarray) -> float:
    """The largest value; NaN if one is not a number."""
    return float(np.max(np.asarray(values, dtype=float)))


def smallest(values: pd.Series | np.ndarray) -> float:
    """The smallest value; NaN if one is not a number."""
    return float(np.min(np.asarray(values, dtype=float)))


def over(value: float, scale: float) -> float:
    """value / scale; NaN where the scale is not above 0, for nothing can be said in units of it."""
    return value / scale if scale > 0 else float("nan")


def decades(direct: pd.Series, permuted: pd.Series) -> pd.Series:
    """log10(direct / permuted): infinite where the permuted barrier is 0, NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(direct) - np.log10(permuted)


def write_barrier(value: float) -> str:
    """A barrier for people."""
    return f"{value:.2e}" if value else "0"


def estimate(
    case: str,
    rows: pd.DataFrame,
    statistic: Callable[[pd.DataFrame], float],
    columns: Sequence[str] = ("permuted",),
    against: str | list[str] = "m",
    told: str = "",
    unit: str = "pairs",
) -> Measurement:
    """A statistic of some columns' means at each width (or rate, ...), and its error by resampling the rows there.

    ``n`` is the smallest number of rows at a width.
    """
    groups = {at: part[list(columns)].to_numpy(dtype=float) for at, part in rows.groupby(against)}
    index = pd.MultiIndex.from_tuples(groups, names=against) if isinstance(against, list) else pd.Index(groups)

    def of_means(curves: np.ndarray) -> float:
        return statistic(pd.DataFrame(curves, index=index, columns=list(columns)))

    samples = list(groups.values())
    value = of_means(np.stack([sample.mean(axis=0) for sample in samples]))
    error = None
    if math.isfinite(value) and min(map(len, samples)) > 1:
        # As ``bootstrap_error`` does it, with the draws of a sample at once: a curve has dozens.
        generator = np.random.default_rng(0)
        picked = [sample[generator.integers(len(sample), size=(RESAMPLES, len(sample)))] for sample in samples]
        drawn = [of_means(curves) for curves in np.stack([each.mean(axis=1) for each in picked], axis=1)]
        error = float(np.std(drawn, ddof=1)) if np.isfinite(drawn).all() else None
    return Measurement(value, min(map(len, samples)), None, case, told, error, unit)


def left_of_peak(table: pd.DataFrame, trained: bool, from_width: float) -> list[Found]:
    """Mean permuted barrier at the largest width as a fraction of its peak over m > M, for each (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        if not (in_widths_of_M(rows) >= from_width).any():
            return f"{case}: needs a width of {from_width:g} M or more"
        return last_over_top(case, rows)

    if trained:
        return measure_each(split_matchings(table), measure, NO_TRAINED)
    return measure_each(split_uniform(table), measure, NO_UNIFORM)


def last_over_top(case: str, rows: pd.DataFrame) -> Measurement:
    """Mean permuted barrier at the last width as a fraction of the largest."""
    curve = means(rows, "permuted")
    last, top = float(curve.iloc[-1]), largest(curve)
    told = f"{write_barrier(last)} at m = {curve.index[-1]:g}, {write_barrier(top)} at m = {find_peak(curve):g}"
    return estimate(case, rows, lambda of: over(of["permuted"].iloc[-1], largest(of["permuted"])), told=told)


def in_widths_of_M(rows: pd.DataFrame) -> pd.Series:
    """Widths in units of the teacher's."""
    return rows["m"] / rows["M"]
