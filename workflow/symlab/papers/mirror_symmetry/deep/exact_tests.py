"""Exact tests for counts of few networks, which a standard error cannot judge."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from symlab.study.cases import Values
from symlab.study.claim import Measurement, exact_value

LEVEL = 0.05


def permutation_p(values: np.ndarray, base: np.ndarray) -> float:
    """How often relabelled units have a sum in ``values``' place at least as large: the exact one-sided test."""
    both = np.concatenate([values, base])
    if np.isnan(both).any():
        return float("nan")
    sums = np.array([both[list(chosen)].sum() for chosen in combinations(range(len(both)), len(values))])
    return float(np.mean(sums >= values.sum() - 1e-12))


def permutation_test(each: Values, base: Values) -> Measurement:
    """p of more in ``each`` than in ``base``; where neither that nor of fewer is significant, it decides nothing."""
    p, fewer = permutation_p(each.array, base.array), permutation_p(-each.array, -base.array)
    told = f"{each.array.sum():g} in {len(each.array)} networks against {base.array.sum():g} in {len(base.array)}"
    found = exact_value(p, min(len(each.array), len(base.array)), each.case, told, "networks")
    undecided = "neither significantly more nor fewer" if min(p, fewer) > LEVEL else ""
    return Measurement(found.value, found.n, None, found.case, found.detail, 0.0, found.unit, undecided)
