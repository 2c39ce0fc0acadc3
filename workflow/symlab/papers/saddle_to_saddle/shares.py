"""Shares of runs: their confidence intervals, and the test for a trend in them."""

from __future__ import annotations

import math

import numpy as np


def wilson_interval(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a share; of 95 % at the usual z."""
    share, spread = hits / n, z**2 / n
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def trend_p_value(hits: np.ndarray, n: np.ndarray, x: np.ndarray) -> float:
    """One-sided p-value of Cochran and Armitage's test that shares rise with x; 1 where all are 0 or all 1."""
    share = hits.sum() / n.sum()
    variance = share * (1 - share) * ((n * x**2).sum() - (n * x).sum() ** 2 / n.sum())
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc(float((x * (hits - n * share)).sum() / math.sqrt(2 * variance)))
