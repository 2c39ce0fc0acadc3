"""Means, slopes and correlations of independent units, their standard errors and 95 % intervals."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

CONFIDENCE = 0.95
RESAMPLES = 200
"""How often units are drawn anew for the error of a statistic, which is then known to 5 %."""


def t_quantile(degrees: float) -> float:
    """How many standard errors a 95 % interval reaches to either side, by Student's t of so many degrees of freedom."""
    # All claims are imported where one is evaluated, and scipy takes time.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


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


def welch_degrees(variances: Sequence[float], sizes: Sequence[int]) -> float:
    """Degrees of freedom of an error whose square is the sum of these, each from a sample of that size (Welch 1947).

    Not above what as many samples of the smallest size have: of 2 values against 20 with equal scatter, intervals hold
    the true difference in 88 % of draws without this and in 96 % with it; of samples of 2 and 2, or 3 and 3, in 95 to
    97 %, and where one sample scatters ten times as much as the others in 90 to 94 %.
    """
    fewest, total = min(sizes), sum(variances)
    if not 0 < total < math.inf:
        return fewest - 1
    by_sample = sum((part / total) ** 2 / (n - 1) for part, n in zip(variances, sizes, strict=True) if part)
    return min(1 / by_sample, len(sizes) * (fewest - 1))


def bootstrap_error(statistic: Callable[..., float], *samples: np.ndarray, resamples: int = RESAMPLES) -> float | None:
    """Standard error of a statistic of independent samples, each [n_units, ...], by drawing units with replacement.

    Of n units n - 1 are drawn: means of n drawn from n spread less than those of n new ones do, by (n - 1) / n in
    variance, and those of n - 1 spread as much (Rao and Wu 1988). For 2 units that is a factor of 1.4 in the error.
    None where a sample has one unit, or the statistic is not finite in some draw.
    """
    if min(map(len, samples)) < 2:
        return None
    generator = np.random.default_rng(0)
    drawn = [
        statistic(*(sample[generator.integers(len(sample), size=len(sample) - 1)] for sample in samples))
        for _ in range(resamples)
    ]
    if not np.isfinite(drawn).all():
        return None
    # The deviation of equal numbers is not 0 but rounding.
    return float(np.std(drawn, ddof=1)) if np.ptp(drawn) else 0.0


def slope(values: pd.Series) -> float:
    """Least-squares slope of the logarithm of the values against that of the index."""
    x = np.log(values.index.to_numpy(dtype=float))
    # A value of 0 (two equal centres are at distance 0) makes the slope one of no finite value.
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(values.to_numpy(dtype=float))
        return float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))


def rank_correlation(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Spearman's, equal values sharing their ranks; not a number where one of them is constant or not finite."""
    if not np.isfinite([*x, *y]).all() or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(*(pd.Series(values).rank() for values in (x, y)))[0, 1])
