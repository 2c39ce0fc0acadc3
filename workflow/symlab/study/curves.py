"""Statistics of mean curves: where they peak, how steep they are, how far one lies above another.

A curve has a mean at each width (learning rate, depth ...), over units that are others at each of these. What is
measured of all its means together has an error by drawing units anew at each. Only pandas and numpy are imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from symlab.study.cases import cases_of
from symlab.study.claim import Case, Found, Measurement, not_measured, statistic_of
from symlab.study.statistics import t_quantile


@dataclass(frozen=True)
class Curve:
    """The values of some columns at each of a curve's places."""

    case: Case
    places: pd.Index
    """Widths (learning rates, ...) in rising order, or combinations of several quantities."""
    samples: tuple[np.ndarray, ...]
    """At each place [n_units, n_columns]."""
    columns: pd.Index
    """One object of all tables of means, which then know where a column is."""
    n: int
    """The smallest number of units at a place."""
    unit: str

    @cached_property
    def means(self) -> pd.DataFrame:
        """The mean of each column at each place; NaN where a value is not a number."""
        return pd.DataFrame([sample.mean(axis=0) for sample in self.samples], self.places, self.columns)

    def __getitem__(self, column: str) -> pd.Series:
        return self.means[column]

    @property
    def defined(self) -> bool:
        """Whether every mean is a finite number."""
        return bool(np.isfinite(self.means.to_numpy()).all())

    def measure(self, statistic: Statistic) -> Measurement:
        """A statistic of the curve, with its bootstrap error; undefined values make it undefined.

        Of a place between others of a grid, since the curve is known at its places alone, the 95 % interval reaches t
        errors beyond these.
        """
        if not self.defined:
            return Measurement(math.nan, self.n, None, self.case, unit=self.unit)
        _, detail, *between = statistic(self)
        found = statistic_of(
            lambda *drawn: statistic(replace(self, samples=drawn))[0],
            *self.samples, case=self.case, detail=detail, unit=self.unit,
        )  # fmt: skip
        degrees = self.n - 1 if found.degrees is None else found.degrees
        if found.error is None or not between or not between[0][0] < between[0][1]:
            return replace(found, n=self.n, degrees=degrees)
        reach, (low, high) = t_quantile(degrees) * found.error, between[0]
        # An error of 0 means that no draw moved the place, not that it is exact: others are near.
        return replace(found, n=self.n, degrees=degrees, error=found.error or None, ends=(low - reach, high + reach))


Statistic = Callable[[Curve], tuple[float, str] | tuple[float, str, tuple[float, float]]]
"""Of a curve a value and what is told of it; of a place, too, between which two places of the grid it lies."""


def measure_each(
    found: Sequence[Curve], statistic: Statistic, lacking: str, unless: Callable[[Curve], str] = lambda curve: ""
) -> list[Found]:
    """A statistic of each curve, or as not measured what ``unless`` says of it; ``lacking`` where there is none."""
    lacks = [unless(curve) if curve.defined else "" for curve in found]
    return [
        not_measured(curve.case, why) if why else curve.measure(statistic)
        for curve, why in zip(found, lacks, strict=True)
    ] or [lacking]


def curves(
    rows: pd.DataFrame,
    columns: Sequence[str],
    along: str | Sequence[str],
    by: Sequence[str] = (),
    name: str | Callable[[Mapping[str, Any]], str] = "",
    unit: str = "pairs",
    number: str = "",
) -> list[Curve]:
    """The curve of each case, from rows that are a unit each.

    Args:
        along: what the curve is over, one quantity or several.
        by: columns whose values are a case's key, in the order in which cases come.
        name: a case's name from its key, as in ``cases``.
        unit: what the units are called.
        number: column that says of how many units a row is the mean.
    """
    found = []
    for case, part in cases_of(rows, by, name):
        groups = list(part.groupby(along if isinstance(along, str) else list(along)))
        if not groups:
            continue
        samples = tuple(each[list(columns)].to_numpy(dtype=float) for _, each in groups)
        places = [at for at, _ in groups]
        index = (
            pd.Index(places, name=along) if isinstance(along, str) else pd.MultiIndex.from_tuples(places, names=along)
        )
        n = min(int(each[number].sum()) if number in each else len(each) for _, each in groups)
        found.append(Curve(case, index, samples, pd.Index(columns), n, unit))
    return found


def neighbours(places: Sequence[float], at: float, step: float = 0.0) -> tuple[float, float]:
    """Between which places a curve's peak at one of its places lies: after the one before it, before the one after.

    Args:
        step: what places are whole multiples of: a peak over widths 18, 21 and 24 at 21 lies from 19 to 23. At an end
            of the places it may be anywhere beyond.
    """
    ordered = sorted(places)
    number = ordered.index(at)
    low = ordered[number - 1] + step if number else -math.inf
    high = ordered[number + 1] - step if number + 1 < len(ordered) else math.inf
    return min(low, at), max(high, at)
