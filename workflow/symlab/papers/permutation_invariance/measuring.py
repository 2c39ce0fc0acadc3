"""What the claims of several figures measure with: bounds in words, and mean curves against a width or a rate.

M is the number of the teacher's neurons, m that of a student's, d the dimension of the inputs. Thresholds were fixed
before the first run, with an eye to a small trial in NumPy whose numbers the reasons give. What that did not reproduce,
or what cannot be decided at an affordable scale, is reported ("agrees", "disagrees") with what explains a disagreement.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from symlab.papers.claim import Bound, Found, Measurement, Tables, mean
from symlab.papers.permutation_invariance.selection import choose_first_rate, split_trained, split_uniform

NO_UNIFORM = "needs uniform samples of the minima"
NO_TRAINED = "needs trained students that reached a minimum"


def of_table(name: str, measure: Callable[[pd.DataFrame], list[Found]]) -> Callable[[Tables], list[Found]]:
    """A measurement of all tables that looks at one of them."""
    return lambda tables: measure(tables[name])


def exactly(value: float, text: str) -> Bound:
    """Equal to a value."""
    return Bound(text, lambda each: each == value)


def in_units_of_M(low: float, high: float, text: str, open_below: bool = False) -> Bound:
    """low <= value <= high, or low < value <= high, for widths in units of M."""
    return Bound(text, lambda value: (low < value if open_below else low <= value) and value <= high)


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


def left_of_peak(table: pd.DataFrame, trained: bool, from_width: float) -> list[Found]:
    """Mean permuted barrier at the largest width as a fraction of its peak over m > M, for each (M, d)."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        rows = rows[rows["m"] > rows["M"]]
        if not (in_widths_of_M(rows) >= from_width).any():
            return f"{case}: needs a width of {from_width:g} M or more"
        return last_over_top(case, rows)

    if trained:
        return measure_each(split_trained(choose_first_rate(table)[0]), measure, NO_TRAINED)
    return measure_each(split_uniform(table), measure, NO_UNIFORM)


def last_over_top(case: str, rows: pd.DataFrame) -> Measurement:
    """Mean permuted barrier at the last width as a fraction of the largest."""
    curve = means(rows, "permuted")
    last, top = float(curve.iloc[-1]), largest(curve)
    told = f"{write_barrier(last)} at m = {curve.index[-1]:g}, {write_barrier(top)} at m = {find_peak(curve):g}"
    return Measurement(over(last, top), fewest(rows), None, case, told)


def in_widths_of_M(rows: pd.DataFrame) -> pd.Series:
    """Widths in units of the teacher's."""
    return rows["m"] / rows["M"]
