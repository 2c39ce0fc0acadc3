"""The share of neurons that two uniformly distributed minima have in common by type (Theorem 5).

Of m neurons, type j has alpha_j + 1 with alpha ~ Multinomial(m - M; 1/M, ..., 1/M). The overlap of two students is
P = (M + sum_j min(alpha_j, alpha'_j)) / m; its expectation is T(m, M).
"""

import math

import numpy as np
import pandas as pd
from scipy import stats

from symlab.measures.job import Job
from symlab.papers.permutation_invariance.settings import Overlap
from symlab.seeds import numpy_rng


def measure_overlap(settings: Overlap, job: Job, M: int) -> dict[str, pd.DataFrame]:
    """Overlap P at every width m from M on: exact T(m, M), its bound and limits (Theorem 5), and by draws."""
    rows = []
    for m in range(M, round(settings.up_to * M) + 1):
        drawn, error = sampled_overlap(m, M, settings.draws, numpy_rng(job.study, "overlap", M, m))
        rows.append(
            {"M": M, "m": m, "draws": settings.draws, "overlap_mean": drawn, "overlap_se": error}
            | {"overlap": expected_overlap(m, M), "lower_bound": overlap_lower_bound(m, M)}
            | {"poisson_limit": poisson_limit(m / M), "gaussian_limit": gaussian_limit(M / m)}
        )
    return {"overlap.csv": pd.DataFrame(rows)}


def expected_overlap(m: int, M: int) -> float:
    """T(m, M) = 1 - M / (2m) E |X - Y| with X and Y independent, Binomial(m - M, 1/M); exact up to rounding."""
    below = stats.binom.cdf(np.arange(m - M), m - M, 1 / M)
    return 1 - M / m * _half_mean_difference(below)


def sampled_overlap(m: int, M: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard error of the overlap of ``draws`` pairs of minima."""
    alpha, other = rng.multinomial(m - M, np.full(M, 1 / M), size=(2, draws))
    overlap = (M + np.minimum(alpha, other).sum(axis=1)) / m
    return float(overlap.mean()), float(overlap.std(ddof=1) / math.sqrt(draws))


def overlap_lower_bound(m: int, M: int) -> float:
    """Theorem 5 (a): T(m, M) >= 1 - sqrt(2 (m - M) (M - 1)) / (2m)."""
    return 1 - math.sqrt(2 * (m - M) * (M - 1)) / (2 * m)


def gaussian_limit(t: float) -> float:
    """The limit of T as m and M grow with M / m = t that Theorem 5 (b) states, 1 - sqrt(t (1 - t) / pi).

    It takes the number of neurons of a type for Gaussian, which it is for small t only: see ``poisson_limit``.
    """
    return 1 - math.sqrt(t * (1 - t) / math.pi)


def poisson_limit(ratio: float) -> float:
    """The limit of T as m and M grow with m / M = ratio, where X and Y become Poisson with mean ratio - 1."""
    mean = ratio - 1
    # The terms left out are below 1e-16, the probability of a larger count.
    below = stats.poisson.cdf(np.arange(1 + int(stats.poisson.isf(1e-16, mean))), mean)
    return 1 - _half_mean_difference(below) / ratio


def _half_mean_difference(F: np.ndarray) -> float:
    """E |X - Y| / 2 = sum_k F(k) (1 - F(k)) of two independent counts with the distribution function F."""
    return float((F * (1 - F)).sum())
