"""Values of independent units by case, with arithmetic: what claims measure.

``cases(rows, "barrier", by=("scheme", "width"), unit="seed", name="{scheme}, width {width}")`` holds a barrier for each
seed of each scheme and width. Arithmetic goes case by case and unit by unit; the methods that give measurements end it,
each with the error that belongs to it. Only pandas and numpy are imported: a claims job does not pay for matplotlib.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from symlab.study.claim import Case, Found, Measurement, difference_of, exact_value, mean_of, ratio_of, value_of_all
from symlab.study.statistics import mean, standard_error
from symlab.study.tables import independent

UNITS = {"mask_seed": "masks", "lr": "rates", "network_number": "networks"}
"""What the units that a column numbers are called, where an s at its end does not say it."""


@dataclass(frozen=True)
class Values:
    """A case's values, one for each independent unit, which the index names."""

    case: Case
    values: pd.Series
    told: str = ""
    """In words, what they were computed from."""
    open: str = ""
    """Why they decide nothing yet; what is measured of them and of others beside them is open too."""

    @property
    def mean(self) -> float:
        """Mean over units."""
        return mean(self.array)

    @property
    def array(self) -> np.ndarray:
        """A value for each independent unit: for each mask where several pairs share one."""
        return self._independent[0].astype(float)

    @property
    def pairs(self) -> str:
        """What units are called that a mask seed numbers; empty for others."""
        return self._independent[1]

    @cached_property
    def _independent(self) -> tuple[np.ndarray, str]:
        if "mask_seed" in self.values.index.names and "pair" in self.values.index.names:
            return independent(self.values)
        return self.values.to_numpy(), ""


@dataclass(frozen=True)
class Cases:
    """For each case a value of each unit."""

    of: tuple[Values, ...]
    unit: str = "pairs"
    """What the units are called; pairs that share a mask count as one of the ``masks``."""

    def __iter__(self) -> Iterator[Values]:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)

    # Arithmetic

    def __truediv__(self, other: Cases | float) -> Cases:
        return self._with(other, operator.truediv, "of")

    def __sub__(self, other: Cases | float) -> Cases:
        return self._with(other, operator.sub, "against")

    def __mul__(self, factor: float) -> Cases:
        return self.map(lambda values: values * factor)

    __rmul__ = __mul__

    def map(self, function: Callable[[pd.Series], pd.Series]) -> Cases:
        """A function of each case's values: ``np.log10``, ``abs``."""
        return replace(self, of=tuple(replace(each, values=function(each.values)) for each in self))

    def where(self, chosen: Callable[[Values], bool]) -> Cases:
        """The cases of which something is true."""
        return replace(self, of=tuple(each for each in self if chosen(each)))

    def at(self, **key: Any) -> Cases:
        """The cases whose keys hold these values."""
        return self.where(lambda each: key.items() <= each.case.key.items())

    def detailed(self, tell: Callable[[Values], str]) -> Cases:
        """The same with a detail for people about each case."""
        return replace(self, of=tuple(replace(each, told=tell(each)) for each in self))

    def without(self, **key: Any) -> Cases:
        """The cases whose keys do not hold these values."""
        return self.where(lambda each: not key.items() <= each.case.key.items())

    def keyed(self, *names: str) -> Cases:
        """The cases with these names of their keys alone, so that ``beside`` ignores in what else they differ."""
        kept = [{name: value for name, value in each.case.key.items() if name in names} for each in self]
        return replace(
            self, of=tuple(replace(each, case=Case(each.case, **key)) for each, key in zip(self, kept, strict=True))
        )

    def extreme(self, score: Callable[[float], float], *names: str) -> Cases:
        """Of the cases whose keys agree under these names that whose mean has the largest score, for each.

        An undefined mean comes first, so that it is not passed over. What is left of its key are these names, so that
        ``beside`` takes it as the base of all cases that agree with it in them.
        """
        groups: dict[tuple[Any, ...], Values] = {}

        def rank(each: Values) -> float:
            return np.inf if np.isnan(each.mean) else score(each.mean)

        for each in self:
            at = tuple(each.case.key.get(name) for name in names)
            if at not in groups or rank(each) > rank(groups[at]):
                groups[at] = each
        return replace(self, of=tuple(groups.values())).keyed(*names)

    def beside(self, base: Cases) -> list[tuple[Values, Values]]:
        """Each case with that of the base whose key agrees with its own in all names that both have.

        A case that has none is left out.

        Raises:
            ValueError: a case has several.
        """
        pairs = []
        for each in self:
            near = [other for other in base if each.case.agrees(other.case)]
            if len(near) > 1:
                raise ValueError(f"{each.case!r} has several to be set beside: {[str(other.case) for other in near]}.")
            pairs += [(each, other) for other in near]
        return pairs

    def _with(self, other: Cases | float, operation: Callable[..., pd.Series], word: str) -> Cases:
        if not isinstance(other, Cases):
            return self.map(lambda values: operation(values, other))
        found = []
        for each, base in self.beside(other):
            told = f"{each.mean:.3g} {word} {base.mean:.3g}"
            values = operation(each.values, base.values.reindex(each.values.index))
            found.append(Values(each.case, values, told, each.open or base.open))
        return replace(self, of=tuple(found))

    # Measurements

    def means(self) -> list[Found]:
        """Mean over units, with the standard error of the mean."""
        return self._each(mean_of)

    def of_all(self, choose: Callable[[np.ndarray], float]) -> list[Found]:
        """A value of all units together (``np.max``: the worst), for a statement about each of them."""
        return self._each(lambda array, *texts: value_of_all(float(choose(array)), len(array), *texts))

    def exact(self) -> list[Found]:
        """The value of a case that has one, free of sampling: a closed form, a certificate.

        Raises:
            ValueError: a case has several.
        """
        return [replace(exact_value(each.values.item(), 1, *self._texts(each)), open=each.open) for each in self]

    def ratios(self, base: Cases) -> list[Found]:
        """Ratio of means to the base's, other units than these; not a number unless the base's mean is above 0."""
        return self._each(ratio_of, base)

    def differences(self, base: Cases) -> list[Found]:
        """Difference of means to the base's, other units than these."""
        return self._each(difference_of, base)

    def paired_ratios(self, base: Cases) -> list[Found]:
        """Ratio of the means of two values of each unit; not a number unless the base's mean is above 0."""
        found: list[Found] = []
        for each, other in self.beside(base):
            same = replace(other, values=other.values.reindex(each.values.index))
            if not same.mean > 0:
                found.append(self._measured(np.nan, None, each, same))
                continue
            share = each.mean / same.mean
            # To first order, the ratio's error is that of the mean of these.
            error = standard_error((each.array - share * same.array) / same.mean)
            # Where all pairs have one ratio, what is left is rounding.
            error = 0.0 if error and error < 1e-12 * abs(share) else error
            found.append(self._measured(share, error, each, same))
        return found

    def _each(self, measure: Callable[..., Measurement], base: Cases | None = None) -> list[Found]:
        """What a function of the units' values, and of those of the base's case, gives of each case."""
        found: list[Found] = []
        for both in [(each,) for each in self] if base is None else self.beside(base):
            measured = measure(*(each.array for each in both), *self._texts(*both))
            found.append(replace(measured, open="; ".join(dict.fromkeys(each.open for each in both if each.open))))
        return found

    def _measured(self, value: float, error: float | None, each: Values, base: Values) -> Measurement:
        case, told, unit = self._texts(each, base)
        return Measurement(value, len(each.array), None, case, told, error, unit, each.open or base.open)

    def _texts(self, each: Values, base: Values | None = None) -> tuple[Case, str, str]:
        told = each.told if base is None else f"{each.mean:.3g} against {base.mean:.3g}"
        return each.case, told, each.pairs or self.unit


def cases(
    rows: pd.DataFrame | pd.Series,
    value: str = "",
    by: Sequence[str] = (),
    unit: str | Sequence[str] = "seed",
    name: str | Callable[[Mapping[str, Any]], str] = "",
    several: Literal["mean", "max", "sum"] | Callable[[pd.Series], float] = "mean",
) -> Cases:
    """The values of a column by case and unit; of several rows of a unit their mean, undefined where one is.

    Args:
        rows: or a series, whose index has the columns.
        value: a column, or an expression of columns (``"s / s_flow"``); of a series its values.
        by: columns whose values are a case's key, in the order in which cases come.
        unit: the column, or columns, that tell independent units of a case apart.
        name: a case's name from its key, as a format (``"σ = {sigma:g}"``) or a function.
        several: what is taken of several rows of a unit: their mean, the largest, their sum, or a function of them by
            the rows' index (``slope``).
    """
    columns = [unit] if isinstance(unit, str) else list(unit)
    # A name that no column has: "value" may be one of the key.
    if isinstance(rows, pd.Series):
        rows, value = rows.rename("_value").reset_index(), "_value"
    elif value not in rows:
        rows, value = rows.assign(_value=rows.eval(value, engine="python")), "_value"

    def of_units(part: pd.DataFrame) -> pd.Series:
        units = part.groupby(columns, dropna=False)[value]
        return units.apply(several) if callable(several) else getattr(units, several)(skipna=False)

    found = [Values(case, of_units(part)) for case, part in cases_of(rows, by, name)]
    return Cases(tuple(found), UNITS.get(columns[-1], f"{columns[-1]}s"))


def cases_of(
    rows: pd.DataFrame, by: Sequence[str] = (), name: str | Callable[[Mapping[str, Any]], str] = ""
) -> list[tuple[Case, pd.DataFrame]]:
    """The rows of each case; arguments as those of ``cases``. Undefined values are no part of a key."""
    groups = rows.groupby(list(by), sort=False, dropna=False) if by else [((), rows)]
    found = []
    for values, part in groups:
        key = {column: _plain(value) for column, value in zip(by, values, strict=True) if pd.notna(value)}
        found.append((Case(name(key) if callable(name) else name.format(**key), **key), part))
    return found


def _plain(value: Any) -> Any:
    """A value of a table as JSON holds it."""
    return value.item() if isinstance(value, np.generic) else value
