"""What the claims of all figures are stated with: claims of one bound on one table, and means against a width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pandas as pd

from symlab.papers.claim import Bound, Claim, Measurement, Tables, Verdict, mean

# What was measured, or a phrase that says why it could not be.
Found = Measurement | str

UNIFORM = "uniform"
SOURCES = {"gd": "gradient descent", "sgd": "online SGD", UNIFORM: "uniform samples"}


def stated(
    figure: str,
    name: str,
    statement: str,
    bound: Bound,
    reason: str,
    table: str,
    measure: Callable[[pd.DataFrame], list[Found]],
    also: tuple[str, ...] = (),
    explanation: str = "",
) -> Claim:
    """The claim that what ``measure`` finds in one table satisfies a bound, in each case that the table has rows for.

    ``figure`` and ``also`` are numbers of the paper's figures. With an ``explanation``, the statement is only reported.
    """

    def evaluate(tables: Tables) -> list[Verdict]:
        found = measure(tables[table])
        measured = [each for each in found if isinstance(each, Measurement)]
        if measured:
            return [Verdict(holds=bound.allows(each.value), **asdict(each)) for each in measured]
        lacking = dict.fromkeys(each for each in found if isinstance(each, str))
        return [Verdict(float("nan"), None, 0, detail="; ".join(lacking))]

    full = f"permutation-{figure}"
    others = tuple(f"permutation-{other}" for other in also)
    return Claim(f"{full}-{name}", full, statement, bound.text, reason, (table,), evaluate, others, explanation)


def exactly(value: float, text: str) -> Bound:
    """Equal to a value."""
    return Bound(text, lambda each: each == value)


def in_units_of_M(low: float, high: float, text: str, open_below: bool = False) -> Bound:
    """low <= value <= high, or low < value <= high, for widths in units of M."""
    return Bound(text, lambda value: (low < value if open_below else low <= value) and value <= high)


def kept(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of students that neither diverged nor ended at a spurious minimum."""
    return table[table["kept"].astype(bool)]


def of_uniform(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, rows) of the uniform samples for each (M, d)."""
    rows = table[table["source"] == UNIFORM]
    return [(named(M, d), group) for (M, d), group in rows.groupby(["M", "d"], sort=False)]


def of_trained(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, kept rows) of the trained students for each way of training and (M, d).

    All learning rates; ``at_first_rate`` chooses one.
    """
    rows = kept(table)
    rows = rows[rows["source"] != UNIFORM]
    several = rows["source"].nunique() > 1
    return [
        (named(M, d) + (f", {SOURCES[source]}" if several else ""), group)
        for (source, M, d), group in rows.groupby(["source", "M", "d"], sort=False)
    ]


def at_first_rate(table: pd.DataFrame) -> pd.DataFrame:
    """Of trained students with each (source, M, d) those of the first learning rate c d / m, and all uniform samples.

    As the figures of one rate do; means over several would be of no student.
    """
    if "c" not in table:
        return table
    c = table["c"].round(6)
    first = c.groupby([table["source"], table["M"], table["d"]]).transform("first")
    return table[(table["source"] == UNIFORM) | (c == first)]


def of_every_source(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, kept rows) for each source and (M, d)."""
    return [
        (f"{named(M, d)}, {SOURCES[source]}", group)
        for (source, M, d), group in kept(table).groupby(["source", "M", "d"], sort=False)
    ]


def named(M: float, d: float) -> str:
    """A teacher and its inputs for people."""
    return f"M = {M:g}, d = {d:g}"


def each_of(
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


def peak(curve: pd.Series) -> float:
    """Where the curve is largest; NaN if a value of it is not a number."""
    return float("nan") if curve.isna().any() else float(curve.idxmax())


def trough(curve: pd.Series) -> float:
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


def barrier(value: float) -> str:
    """A barrier for people."""
    return f"{value:.2e}" if value else "0"
