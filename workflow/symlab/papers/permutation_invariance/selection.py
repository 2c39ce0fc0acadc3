"""Which rows of the students' tables figures and claims are about; pandas and numpy alone.

A source is how a student came about: "gd" (gradient descent on the population loss), "sgd" (online), or "uniform" (a
uniform sample of the global minima).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

UNIFORM = "uniform"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MATCHINGS = {"permuted": "Algorithm 1", "permuted_hungarian": "linear assignment"}
"""The columns of barriers after matching, by what matched: between minima on the axes both leave the same barrier, up
to rows without a partner; between trained students they need not."""
SOURCES = {"gd": "gradient descent", "sgd": "online SGD", UNIFORM: "uniform samples"}


def keep(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of students that neither diverged nor ended at a spurious minimum."""
    return table[table["kept"].astype(bool)]


def select_trained(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of trained students, kept or not."""
    return table[table["source"] != UNIFORM]


def select_uniform(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of uniform samples of the minima."""
    return table[table["source"] == UNIFORM]


def list_teachers(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """The (M, d) of a table in their order."""
    return [(int(M), int(d)) for M, d in rows[["M", "d"]].drop_duplicates().itertuples(index=False)]


def select_teacher(rows: pd.DataFrame, M: float, d: float) -> pd.DataFrame:
    """The rows of one (M, d)."""
    return rows[(rows["M"] == M) & (rows["d"] == d)]


def name_teacher(M: float, d: float) -> str:
    """A teacher and its inputs for people."""
    return f"M = {M:g}, d = {d:g}"


def split_uniform(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, rows) of the uniform samples for each (M, d)."""
    groups = select_uniform(table).groupby(["M", "d"], sort=False)
    return [(name_teacher(M, d), group) for (M, d), group in groups]


def split_trained(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, kept rows) of the trained students for each way of training and (M, d).

    All learning rates; ``choose_first_rate`` chooses one.
    """
    rows = select_trained(keep(table))
    several = rows["source"].nunique() > 1
    return [
        (name_teacher(M, d) + (f", {SOURCES[source]}" if several else ""), group)
        for (source, M, d), group in rows.groupby(["source", "M", "d"], sort=False)
    ]


def split_matchings(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, kept rows) of trained students of the first learning rate, once for each way of matching."""
    return each_matching(split_trained(choose_first_rate(table)[0]))


def each_matching(settings: list[tuple[str, pd.DataFrame]]) -> list[tuple[str, pd.DataFrame]]:
    """Every setting once for each way of matching, whose barriers are then in the column ``permuted``."""
    return [
        (f"{case}, {name}" if case else name, rows.assign(permuted=rows[column]))
        for case, rows in settings
        for column, name in MATCHINGS.items()
        if column in rows
    ]


def tell_ends(rows: pd.DataFrame, against: str) -> str:
    """Mean barriers, direct and by Algorithm 1, at the first and the last value of a column, as a phrase."""
    curves = rows.groupby(against)[["direct", "permuted"]].mean()
    named = {"direct": "direct", "permuted": "by Algorithm 1"}
    return " and ".join(f"{named[c]} from {curve.iloc[0]:.2g} to {curve.iloc[-1]:.2g}" for c, curve in curves.items())


def choose_first_rate(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Uniform rows, and of each way of training and teacher those of its first learning rate; and names of these rates.

    A learning rate is one if either lr or c = lr m / d is the same for all. Means over several would be of no student.
    """
    chosen = rows["source"] == UNIFORM
    rates: dict[tuple[float, float, str], None] = {}
    for (source, M, d), group in select_trained(rows).groupby(["source", "M", "d"], sort=False):
        column, values = find_rates(group)
        same = (rows["source"] == source) & (rows["M"] == M) & (rows["d"] == d)
        chosen |= same & np.isclose(rows[column].astype(float), values[0])
        rates[M, d, name_rate(column, values[0])] = None
    return rows[chosen], [name for _, _, name in rates]


def find_rates(trained: pd.DataFrame) -> tuple[str, list[float]]:
    """What tells the learning rates of trained rows apart, "c" or "lr" (that with fewer values), and its values."""
    values = {
        column: list(dict.fromkeys(float(f"{value:.6g}") for value in trained[column].dropna()))
        for column in ("c", "lr")
    }
    column = "c" if len(values["c"]) <= len(values["lr"]) else "lr"
    return column, values[column]


def name_rate(column: str, value: float) -> str:
    """A learning rate in legends."""
    return f"$c$ = {value:g}" if column == "c" else f"lr = {value:g}"
