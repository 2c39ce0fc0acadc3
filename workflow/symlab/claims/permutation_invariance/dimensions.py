"""Claims about the barrier against the dimension d of the inputs and against the teacher's width M: Figs. 11 and 12."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd

from symlab.claims.centres import slope
from symlab.papers.claim import Measurement, above, at_most, below, between
from symlab.claims.permutation_invariance.stated import (
    SOURCES,
    UNIFORM,
    Found,
    at_first_rate,
    decades,
    each_of,
    fewest,
    kept,
    largest,
    means,
    over,
    smallest,
    stated,
)

DIMENSIONS, TEACHERS = "dimensions_barriers.csv", "teachers_barriers.csv"
KINDS = ("direct", "permuted")
NO_UNIFORM = "needs uniform samples of the minima"


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
        for (source, M), rows in kept(at_first_rate(table)).groupby(["source", "M"], sort=False)
    ]
    return each_of(settings, measure, "needs students")


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

    return each_of(_uniform(table), measure, NO_UNIFORM)


def growth_with_M(table: pd.DataFrame) -> list[Found]:
    """Smallest ratio of a mean barrier to that at the next smaller M, at m = 2M, of direct and of permuted ones."""

    def measure(case: str, n: int, curves: pd.DataFrame) -> list[Measurement]:
        found = []
        for kind in KINDS:
            values = curves[kind].to_numpy()
            steps = np.array([over(after, before) for before, after in pairwise(values)])
            found.append(Measurement(smallest(steps), n, None, f"{case}, {kind}", _teachers(curves)))
        return found

    return _at_2M(table, measure)


def growth_of_gap(table: pd.DataFrame) -> list[Found]:
    """Smallest rise of log10(direct / permuted) from one M to the next larger one, at m = 2M."""

    def measure(case: str, n: int, curves: pd.DataFrame) -> list[Measurement]:
        gaps = decades(curves["direct"], curves["permuted"])
        told = ", ".join(f"M = {M:g}: {gap:.3g}" for M, gap in gaps.items())
        return [Measurement(smallest(np.diff(gaps.to_numpy())), n, None, case, told)]

    return _at_2M(table, measure)


def _uniform(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    rows = table[table["source"] == UNIFORM]
    return [(f"M = {M:g}", group) for M, group in rows.groupby("M", sort=False)]


def _by_d(rows: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """Mean barriers against the widths above M that all dimensions have, for each d in rising order."""
    rows = rows[rows["m"] > rows["M"]]
    count = rows["d"].nunique()
    widths = rows.groupby("m")["d"].nunique()
    rows = rows[rows["m"].isin(widths.index[widths == count])]
    return {float(d): pd.DataFrame({kind: means(group, kind) for kind in KINDS}) for d, group in rows.groupby("d")}


def _at_2M(table: pd.DataFrame, measure: Callable[[str, int, pd.DataFrame], list[Measurement]]) -> list[Found]:
    """Measurements on the mean barriers of uniform samples with m = 2M against M, for each d."""
    found: list[Found] = []
    for d, rows in table[table["source"] == UNIFORM].groupby("d", sort=False):
        at = rows[rows["m"] == 2 * rows["M"]]
        if at["M"].nunique() < 2:
            found.append(f"d = {d:g}: needs m = 2M for two teachers")
            continue
        curves = pd.DataFrame({kind: means(at, kind, "M") for kind in KINDS})
        found += measure(f"d = {d:g}", fewest(at, "M"), curves)
    return found or [NO_UNIFORM]


def _dimensions(curves: dict[float, pd.DataFrame]) -> str:
    return f"d = {', '.join(f'{d:g}' for d in curves)}; {len(next(iter(curves.values())))} widths"


def _teachers(curves: pd.DataFrame) -> str:
    return f"M = {', '.join(f'{M:g}' for M in curves.index)}"


CLAIMS = (
    stated(
        "11",
        "fall",
        "The barrier falls as the inputs' dimension grows: largest ratio of a mean barrier to that at the next smaller "
        "d, direct and permuted, over all widths",
        below(1),
        "The order of the paper's panels; it states no number.",
        DIMENSIONS,
        fall_with_d,
    ),
    stated(
        "11",
        "slope",
        "The barrier between uniform samples is proportional to 1/d: slope of log mean barrier against log d at m = 2M",
        between(-1.1, -0.9),
        "d enters through 1/d alone, so the slope is -1.00; the room is for samples that differ from d to d, of which "
        "200 pairs leave an error of 0.02.",
        DIMENSIONS,
        exponent_in_d,
    ),
    stated(
        "11",
        "gap",
        "Matching lowers the barrier by the same factor at every dimension: range over d of log10 of direct over "
        "permuted barrier of uniform samples, mean over the widths",
        at_most(0.1),
        "d cancels, so only the error of the means is left room: a tenth of a decade is a quarter.",
        DIMENSIONS,
        change_of_gap,
    ),
    stated(
        "12",
        "growth",
        "Both barriers grow with the teacher's width: smallest ratio of the mean barrier of uniform samples at m = 2M "
        "to that at the next smaller M",
        above(1),
        "The order of the paper's panels (its caption's d going up means M). In a small trial the direct barriers at "
        "M = 4, 8, 16 were as 0.142 to 0.537 to 1.986, the permuted ones as 0.0032 to 0.0079 to 0.0236.",
        TEACHERS,
        growth_with_M,
    ),
    stated(
        "12",
        "gap",
        "Matching lowers the barrier by a larger factor the wider the teacher: smallest rise of log10 of direct over "
        "permuted barrier of uniform samples at m = 2M from one M to the next",
        above(0),
        "The paper's log gap grows with M, without a number; a small trial had 1.65, 1.83, 1.92 at M = 4, 8, 16.",
        TEACHERS,
        growth_of_gap,
    ),
)
