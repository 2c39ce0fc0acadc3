"""What a claim of a paper is: a statement, a threshold set before the run, and a measurement from tables alone."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from symlab.study.statistics import (
    CONFIDENCE,
    RESAMPLES,
    bootstrap_error,
    mean,
    spread,
    standard_error,
    t_quantile,
    welch_degrees,
)

Tables = Mapping[str, pd.DataFrame]

Kind = Literal["finding", "theorem", "check"]
"""A finding can fail on data, a theorem only by an error in code or paper; a check is true by construction."""

Owner = Literal["paper", "derived", "ours"]
"""Whose statement it is: the paper makes it, it follows from the paper's theory by our derivation, or it is a
hypothesis, an extension or a control of ours."""

Origin = Literal["paper", "derived", "ours", "pilot"]
"""Where a threshold comes from: the paper states it, it follows from what the paper states, we chose it before any run,
or we chose it after a pilot run or with a sketch of the same data in sight."""


class Case(str):
    """What tells a value of a claim from its others (a variant, a layer, a k): the name that people read, with its key.

    Sentences find a value by its claim and key, so that a name may change.
    """

    key: dict[str, Any]
    """Plain values, which JSON holds: {"scheme": "standard", "layer": 2}."""

    def __new__(cls, name: str, /, **key: Any) -> "Case":
        case = super().__new__(cls, name)
        case.key = key
        return case

    def agrees(self, other: "Case") -> bool:
        """Whether the two keys have the same value under each name that is in both."""
        return all(self.key[name] == other.key[name] for name in self.key.keys() & other.key.keys())


@dataclass(frozen=True)
class Measurement:
    """One measured value of a claim; ``case`` tells values of the same claim apart."""

    value: float
    n: int
    """Over how many independent units the value was measured."""
    spread: float | None = None
    """Standard deviation over those n units."""
    case: str = ""
    detail: str = ""
    error: float | None = None
    """Standard error of the value; 0 where it is exact (``exact_value``, ``value_of_all``), None where it is not known,
    as of one unit alone."""
    unit: str = "pairs"
    """What was drawn independently n times: pairs of networks, masks, students, draws."""
    open: str = ""
    """Why the value decides nothing yet: "not reached in 10,000 steps"."""
    ends: tuple[float, float] | None = None
    """The 95 % interval where it is known without the error: of a share, or of a place between two values of a grid."""
    degrees: float | None = None
    """Degrees of freedom of the error: n - 1 if None, n - 2 of a line fitted to n values, ``welch_degrees`` of several
    samples."""
    why: str = ""
    """What the tables say explains it, if it failed."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval: ``ends``, or value ± t error by Student's t of as many ``degrees`` of freedom.

        The value alone where it is exact, or infinite over several units, or where several units agree in it: their
        scatter is too small to be seen in n, and such a value tells of these units, as ``value_of_all`` does. None
        where no interval is known.
        """
        degrees = self.n - 1 if self.degrees is None else self.degrees
        if self.error == 0 or (math.isinf(self.value) and self.n > 1):
            return self.value, self.value
        if degrees <= 0:
            return None
        if self.ends is not None or self.error is None:
            return self.ends
        reach = t_quantile(degrees) * self.error
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class Bound:
    """What a value must satisfy; a NaN, of which a claim is undecided, satisfies none."""

    text: str
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    """Whether the ends themselves are outside."""

    def allows(self, value: float) -> bool:
        """Whether the value lies between the ends."""
        at_end = value in (self.low, self.high) and math.isfinite(value)
        return self.low <= value <= self.high and not (self.strict and at_end)

    def leaves_open(self, low: float, high: float) -> bool:
        """Whether an end lies in the interval from low to high, or on its edge, so that the interval decides nothing.

        An interval of one point is a value without an error, which always decides.
        """
        return low < high and any(low <= end <= high for end in (self.low, self.high))


Found = Measurement | str
"""What was measured, or a phrase that says why it could not be."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement about one figure, checked against a threshold in every case that a study's tables hold."""

    id: str = ""
    """The id of its figure, a hyphen and a name: identifiability-4a-barrier. Its file's ``CLAIMS`` lists it by it."""
    statement: str
    quantity: str = ""
    """What is measured for the statement, with its unit."""
    bound: Bound
    owner: Owner
    origin: Origin
    reason: str
    """Why this threshold."""
    tables: tuple[str, ...]
    """The files that ``measure`` reads; it sees nothing else."""
    measure: Callable[[Tables], Iterable[Found]]
    """A measurement for each case (``not_measured``: why it has none); phrases are told where no case has one."""
    kind: Kind = "finding"
    also: tuple[str, ...] = ()
    """Other ids under which a study may list the figure: the figure whose panel it is, or one that repeats it."""
    why: str | Mapping[str, str] | Callable[[Tables], Iterable[tuple[str, str]]] = ""
    """What explains a case that failed; or by its name what explains each, under "" any other; or pairs of both."""

    @property
    def figure(self) -> str:
        """The id of its figure."""
        return "-".join(self.id.split("-")[:2])

    def is_about(self, figures: Sequence[str]) -> bool:
        """Whether one of the listed figures is this claim's."""
        return any(figure in (self.figure, *self.also) for figure in figures)


def at_most(high: float, unit: str = "") -> Bound:
    """value <= high."""
    return Bound(f"at most {high:g} {unit}".rstrip(), high=high)


def at_least(low: float, unit: str = "") -> Bound:
    """value >= low."""
    return Bound(f"at least {low:g} {unit}".rstrip(), low=low)


def between(low: float, high: float, unit: str = "") -> Bound:
    """low <= value <= high."""
    return Bound(f"between {low:g} and {high:g} {unit}".rstrip(), low, high)


def below(high: float, unit: str = "") -> Bound:
    """value < high."""
    return Bound(f"below {high:g} {unit}".rstrip(), high=high, strict=True)


def above(low: float, unit: str = "") -> Bound:
    """value > low."""
    return Bound(f"above {low:g} {unit}".rstrip(), low=low, strict=True)


def exact_value(value: float, n: int = 1, case: str = "", detail: str = "", unit: str = "pairs") -> Measurement:
    """A value without a sampling error: a closed form, a certificate, a theorem's identity or bound, a count of bytes.

    So is a test whose threshold leaves room for chance itself: a p-value, a number of standard errors.
    """
    return Measurement(value, n, None, case, detail, 0.0, unit)


def not_measured(case: str, why: str) -> Measurement:
    """A case that the tables are too few for, or in which there is nothing to measure: told as not run, and why."""
    return Measurement(math.nan, 0, case=case, detail=why, unit="")


def value_of_all(
    value: float, n: int, case: str = "", detail: str = "", unit: str = "pairs", open: str = ""
) -> Measurement:
    """A value of all n units together (the worst, the best, how many) for a statement that speaks of them all.

    It has no sampling error, and tells nothing of units that were not run; of one unit alone it decides nothing.
    """
    return Measurement(value, n, None, case, detail, 0.0 if n > 1 else None, unit, open)


def share_of(hits: int, n: int, case: str = "", detail: str = "", unit: str = "pairs", open: str = "") -> Measurement:
    """The share of n independent units of which something is true, with its exact interval (Clopper, Pearson 1934)."""
    from scipy.special import betaincinv

    tail, share = (1 - CONFIDENCE) / 2, hits / n
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    error = math.sqrt(share * (1 - share) / n) or None
    return Measurement(share, n, None, case, detail, error, unit, open, (low, high))


def mean_of(values: np.ndarray, case: str = "", detail: str = "", unit: str = "pairs") -> Measurement:
    """Mean of independent values, their standard deviation and the standard error of the mean (None for one value)."""
    return Measurement(mean(values), len(values), spread(values), case, detail, standard_error(values), unit)


def _of_two(value: float, errors: Sequence[float | None], sizes: Sequence[int], **texts: Any) -> Measurement:
    """A value of two samples, from what the scatter of each adds to its standard error."""
    known = [error for error in errors if error is not None]
    if len(known) < 2:
        return Measurement(value, min(sizes), **texts)
    degrees = welch_degrees([error**2 for error in known], sizes)
    return Measurement(value, min(sizes), **texts, error=math.hypot(*known), degrees=degrees)


def ratio_of(
    values: np.ndarray, base: np.ndarray, case: str = "", detail: str = "", unit: str = "pairs"
) -> Measurement:
    """Ratio of the means of two independent samples; not a number unless the base's is above 0.

    The standard error is that of first order, from those of both means; n is the size of the smaller sample.
    """
    level, sizes = mean(base), (len(values), len(base))
    # What is nowhere high cannot show that something lowers it.
    if not level > 0:
        return Measurement(math.nan, min(sizes), None, case, detail, None, unit)
    value, deviation, (top, bottom) = mean(values) / level, spread(values), map(standard_error, (values, base))
    errors = (None if top is None else top / level, None if bottom is None else bottom * abs(value) / level)
    relative = None if deviation is None else deviation / level
    return _of_two(value, errors, sizes, spread=relative, case=case, detail=detail, unit=unit)


def difference_of(
    values: np.ndarray, base: np.ndarray, case: str = "", detail: str = "", unit: str = "pairs"
) -> Measurement:
    """Difference of the means of two independent samples, with its standard error; n is the smaller sample's size."""
    errors, sizes = (standard_error(values), standard_error(base)), (len(values), len(base))
    texts = {"spread": spread(values), "case": case, "detail": detail, "unit": unit}
    return _of_two(mean(values) - mean(base), errors, sizes, **texts)


def minus(high: Measurement, low: Measurement, detail: str = "") -> Measurement:
    """Difference of two independently measured values, with its standard error; n is the smaller one's.

    Its case is that of the first.
    """
    sizes = (high.n, low.n)
    return _of_two(
        high.value - low.value, (high.error, low.error), sizes, case=high.case, detail=detail, unit=high.unit
    )


def without_phrases(found: Sequence[Found]) -> list[Measurement]:
    """What was measured, without the phrases and cases that say why something was not."""
    return [each for each in found if isinstance(each, Measurement) and each.n]


def worst_of_each(measured: Sequence[Found], score: Callable[[float], float], *places: str) -> list[Found]:
    """Of the values whose cases have one name that with the largest score, for each name.

    An undefined value is the worst, so that it is not passed over. Phrases are left out.

    Args:
        places: names of the keys that say where the worst was found; the detail begins with what they are.
    """
    groups: dict[str, list[Measurement]] = {}
    for each in without_phrases(measured):
        groups.setdefault(str(each.case), []).append(each)
    found: list[Found] = []
    for group in groups.values():
        worst = max(group, key=lambda each: math.inf if math.isnan(each.value) else score(each.value))
        key = worst.case.key if isinstance(worst.case, Case) else {}
        told = [_place(name, key[name]) for name in places if name in key]
        found.append(replace(worst, detail=", ".join(filter(None, [*told, worst.detail]))))
    return found


def _place(name: str, value: Any) -> str:
    """A place as a text says it: a name as it is, a number after what it numbers."""
    return value if isinstance(value, str) else f"{name} {value:g}"


_LEFT_OUT = 30
"""In how many parts at most, left out in turn, a sample's share of an error is found: of more units t is normal."""


def statistic_of(
    statistic: Callable[..., float],
    *samples: np.ndarray,
    case: str = "",
    detail: str = "",
    unit: str = "pairs",
    resamples: int = RESAMPLES,
) -> Measurement:
    """A statistic of independent samples, each [n_units, ...], for which there is no formula: a slope, a maximum.

    Its error is that of ``bootstrap_error``, with Welch's degrees of freedom from what leaving out units of each sample
    changes (the jackknife). n is the smallest sample's size.
    """
    value, sizes = float(statistic(*samples)), [len(sample) for sample in samples]
    error = bootstrap_error(statistic, *samples, resamples=resamples) if math.isfinite(value) else None
    degrees = welch_degrees(_variances(statistic, samples), sizes) if error else None
    return Measurement(value, min(sizes), None, case, detail, error, unit, degrees=degrees)


def _variances(statistic: Callable[..., float], samples: Sequence[np.ndarray]) -> list[float]:
    """What each sample's scatter adds to the statistic's variance; infinite where a part of it gives no number."""
    variances = []
    for at, sample in enumerate(samples):
        parts = np.array_split(np.arange(len(sample)), min(len(sample), _LEFT_OUT))
        left = [np.delete(sample, part, axis=0) for part in parts]
        values = np.array([statistic(*samples[:at], rest, *samples[at + 1 :]) for rest in left], dtype=float)
        whole = np.isfinite(values).all()
        variances.append(float(np.var(values) * (len(parts) - 1)) if whole else math.inf)
    return variances
