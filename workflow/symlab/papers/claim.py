"""What a claim of a paper is: a statement, a threshold fixed before any run, and a measurement from tables alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Measurement:
    """One measured value of a claim; ``case`` tells values of the same claim apart (a variant, a layer, a k)."""

    value: float
    n: int
    """Pairs, models or draws that the value is a mean over."""
    spread: float | None = None
    """Standard deviation over those n; where one architecture is compared with another, that of the first alone."""
    case: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """A measured value and whether the claim holds for it; ``holds`` None: not run for this case.

    For a statement that is only reported, ``holds`` says whether it agrees with the measurement.
    """

    value: float
    holds: bool | None
    n: int
    spread: float | None = None
    case: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement about one figure, to be checked, or only to be reported beside what is measured.

    ``evaluate`` sees tables and nothing else. It returns a verdict for each case, or nothing (None or an empty list)
    when the tables do not hold the variants that the claim is about. ``tables`` are the files it reads.
    """

    id: str
    figure: str
    statement: str
    threshold: str
    reason: str
    """Why this threshold, from the paper's statement."""
    tables: tuple[str, ...]
    evaluate: Callable[[Tables], list[Verdict] | Verdict | None]
    also: tuple[str, ...] = ()
    """Other names under which a study may list the figure: the whole that it is a panel of, or a reprint of it."""
    explanation: str = ""
    """Only of a statement that is reported and fails nothing: what explains it where the measurement disagrees."""

    @property
    def reported(self) -> bool:
        """Whether the statement is reported ("agrees", "disagrees") and not checked ("held", "failed")."""
        return bool(self.explanation)

    def is_about(self, figures: Sequence[str]) -> bool:
        """Whether one of the listed figures is this claim's."""
        return any(figure in (self.figure, *self.also) for figure in figures)


@dataclass(frozen=True)
class Bound:
    """What a value must satisfy, in words and as a test; a NaN satisfies none."""

    text: str
    allows: Callable[[float], bool]


def at_most(high: float, unit: str = "") -> Bound:
    """value <= high."""
    return Bound(f"at most {high:g} {unit}".rstrip(), lambda value: value <= high)


def at_least(low: float, unit: str = "") -> Bound:
    """value >= low."""
    return Bound(f"at least {low:g} {unit}".rstrip(), lambda value: value >= low)


def between(low: float, high: float, unit: str = "") -> Bound:
    """low <= value <= high."""
    return Bound(f"between {low:g} and {high:g} {unit}".rstrip(), lambda value: low <= value <= high)


def below(high: float) -> Bound:
    """value < high."""
    return Bound(f"below {high:g}", lambda value: value < high)


def above(low: float) -> Bound:
    """value > low."""
    return Bound(f"above {low:g}", lambda value: value > low)


Found = Measurement | str
"""What was measured, or a phrase that says why it could not be."""


def stated(
    id: str,
    figure: str,
    statement: str,
    bound: Bound,
    reason: str,
    tables: str | tuple[str, ...],
    measure: Callable[[Tables], Sequence[Found]],
    also: tuple[str, ...] = (),
    explanation: str = "",
) -> Claim:
    """The claim that what ``measure`` finds satisfies one bound, in each case; not run, with its phrases, without one.

    With an ``explanation`` the statement is only reported.
    """

    def evaluate(found_in: Tables) -> list[Verdict]:
        found = measure(found_in)
        measured = [each for each in found if isinstance(each, Measurement)]
        if measured:
            return [Verdict(holds=bound.allows(each.value), **asdict(each)) for each in measured]
        lacking = dict.fromkeys(each for each in found if isinstance(each, str))
        return [Verdict(float("nan"), None, 0, detail="; ".join(lacking))]

    names = (tables,) if isinstance(tables, str) else tables
    return Claim(id, figure, statement, bound.text, reason, names, evaluate, also, explanation)


def mean_of(values: np.ndarray, case: str = "", detail: str = "") -> Measurement:
    """Mean, sample standard deviation (None for a single value) and number of the values."""
    return Measurement(mean(values), len(values), spread(values), case, detail)


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


def fraction_of(values: np.ndarray, level: float, case: str = "", detail: str = "") -> Measurement:
    """Mean and spread of the values as fractions of a level; not a number unless the level is above 0."""
    # What is nowhere high cannot show that something lowers it.
    if not level > 0:
        return Measurement(float("nan"), len(values), None, case, detail)
    deviation = spread(values)
    relative = None if deviation is None else deviation / level
    return Measurement(mean(values) / level, len(values), relative, case, detail)


def slope(values: pd.Series) -> float:
    """Least-squares slope of the logarithm of the values against that of the index."""
    x = np.log(values.index.to_numpy(dtype=float))
    # A value of 0 (two equal centres are at distance 0) makes the slope one of no finite value.
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(values.to_numpy(dtype=float))
        return float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))
