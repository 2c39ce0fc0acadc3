"""What a claim of a paper is: a statement, a threshold set before the run, and a measurement from tables alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

Tables = Mapping[str, pd.DataFrame]

Kind = Literal["finding", "theorem", "check"]
"""A finding can fail on data, a theorem only by an error in code or paper; a check is true by construction."""

Owner = Literal["paper", "derived", "ours"]
"""Whose statement it is: the paper makes it, it follows from the paper's theory by our derivation, or it is a
hypothesis, an extension or a control of ours."""

Origin = Literal["paper", "derived", "ours", "pilot"]
"""Where a threshold comes from: the paper states it, it follows from what the paper states, we chose it before any run,
or we chose it after a pilot run or with a sketch of the same data in sight."""

CONFIDENCE = 0.95


class Case(str):
    """What tells a value of a claim from its others (a variant, a layer, a k): the name that people read, with its key.

    Sentences find a value by its claim and key, so that a name may change.
    """

    key: dict[str, Any]
    """Plain values, which JSON holds: {"scheme": "standard", "layer": 2}."""

    def __new__(cls, name: str, /, **key: Any) -> Case:
        case = super().__new__(cls, name)
        case.key = key
        return case

    def agrees(self, other: Case) -> bool:
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
    fitted: int = 1
    """How many numbers are fitted to the n values: 1 for a mean, 2 for a line."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval: ``ends``, or value ± t error by Student's t of n - fitted degrees of freedom.

        The value alone where it is exact, or infinite over several units. None where no interval is known.
        """
        if self.error == 0 or (math.isinf(self.value) and self.n > 1):
            return self.value, self.value
        if self.n <= self.fitted:
            return None
        if self.ends is not None or self.error is None:
            return self.ends
        reach = t_quantile(self.n - self.fitted) * self.error
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

    id: str
    """The id of its figure, a hyphen and a name: identifiability-4a-barrier."""
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
    measure: Callable[[Tables], Sequence[Found]]
    """A measurement for each case, or phrases that say why there is none."""
    kind: Kind = "finding"
    also: tuple[str, ...] = ()
    """Other names under which a study may list the figure: the whole that it is a panel of, or a reprint of it."""
    why: Mapping[str, str] = field(default_factory=dict)
    """What explains a case that failed, by its name; under "" what explains any."""

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


def t_quantile(degrees: int) -> float:
    """How many standard errors a 95 % interval reaches to either side, by Student's t of so many degrees of freedom."""
    # All claims are imported where one is evaluated, and scipy takes time.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def exact_value(value: float, n: int = 1, case: str = "", detail: str = "", unit: str = "pairs") -> Measurement:
    """A value without a sampling error: a closed form, a certificate, a theorem's identity or bound, a count of bytes.

    So is a test whose threshold leaves room for chance itself: a p-value, a number of standard errors.
    """
    return Measurement(value, n, None, case, detail, 0.0, unit)


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


def mean(values: np.ndarray) -> float:
    """Mean of finite and infinite values; NaN if infinities of both signs meet, or a value is NaN."""
    # Swap costs may be infinite: their mean is then infinite or undefined, and either is a result, not a mishap.
    with np.errstate(invalid="ignore"):
        return float(np.mean(values))


def spread(values: np.ndarray) -> float | None:
    """Sample standard deviation; None when it is undefined."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(np.std(values, ddof=1))


def standard_error(values: np.ndarray) -> float | None:
    """Standard error of the mean of independent values; None when it is undefined."""
    deviation = spread(values)
    return None if deviation is None else deviation / math.sqrt(len(values))


def ratio_of(
    values: np.ndarray, base: np.ndarray, case: str = "", detail: str = "", unit: str = "pairs"
) -> Measurement:
    """Ratio of the means of two independent samples; not a number unless the base's is above 0.

    The standard error is that of first order, from those of both means; n is the size of the smaller sample.
    """
    level, n = mean(base), min(len(values), len(base))
    # What is nowhere high cannot show that something lowers it.
    if not level > 0:
        return Measurement(math.nan, n, None, case, detail, None, unit)
    top, deviation = mean(values), spread(values)
    errors = standard_error(values), standard_error(base)
    error = None
    if errors[0] is not None and errors[1] is not None:
        error = math.hypot(errors[0], errors[1] * top / level) / level
    relative = None if deviation is None else deviation / level
    return Measurement(top / level, n, relative, case, detail, error, unit)


def difference_of(
    values: np.ndarray, base: np.ndarray, case: str = "", detail: str = "", unit: str = "pairs"
) -> Measurement:
    """Difference of the means of two independent samples, with its standard error; n is the smaller sample's size."""
    errors = standard_error(values), standard_error(base)
    error = None if errors[0] is None or errors[1] is None else math.hypot(errors[0], errors[1])
    n = min(len(values), len(base))
    return Measurement(mean(values) - mean(base), n, spread(values), case, detail, error, unit)


def bootstrap_error(statistic: Callable[..., float], *samples: np.ndarray, resamples: int = 200) -> float | None:
    """Standard error of a statistic of independent samples, each [n_units, ...], by drawing units with replacement.

    For statistics without a formula (a slope, the place of a maximum). Draws from n units spread less than new units
    would, that of a mean by (n - 1) / n; the smallest sample's n makes up for it. None where a sample has one unit, or
    the statistic is not finite in some draw.
    """
    fewest = min(map(len, samples))
    if fewest < 2:
        return None
    generator = np.random.default_rng(0)
    drawn = [
        statistic(*(sample[generator.integers(len(sample), size=len(sample))] for sample in samples))
        for _ in range(resamples)
    ]
    return float(np.std(drawn, ddof=1)) * math.sqrt(fewest / (fewest - 1)) if np.isfinite(drawn).all() else None


def slope(values: pd.Series) -> float:
    """Least-squares slope of the logarithm of the values against that of the index."""
    x = np.log(values.index.to_numpy(dtype=float))
    # A value of 0 (two equal centres are at distance 0) makes the slope one of no finite value.
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(values.to_numpy(dtype=float))
        return float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))
