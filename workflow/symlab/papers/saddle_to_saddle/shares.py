"""The test for a trend in shares of runs."""

from __future__ import annotations

import math

import numpy as np


def trend_p_value(hits: np.ndarray, n: np.ndarray, x: np.ndarray) -> float:
    """One-sided p-value of Cochran and Armitage's test that shares rise with x; 1 where all are 0 or all 1."""
    share = hits.sum() / n.sum()
    variance = share * (1 - share) * ((n * x**2).sum() - (n * x).sum() ** 2 / n.sum())
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc(float((x * (hits - n * share)).sum() / math.sqrt(2 * variance)))
