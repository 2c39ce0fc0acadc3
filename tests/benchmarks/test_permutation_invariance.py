"""Barriers between minima of wide students, merged by type, against the same with all rows.

``pytest tests/benchmarks --benchmark-only`` runs it; ``python tests/benchmarks/test_permutation_invariance.py`` prints
the figures of a paired measurement.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from symlab.papers.permutation_invariance.minima import Minima, uniform_minima
from symlab.papers.permutation_invariance.student_barriers import barriers, minima_barriers, permuted
from symlab.papers.permutation_invariance.type_matching import match_by_type
from symlab.seeds import numpy_rng

Pairs = tuple[Minima, Minima, np.ndarray]
LAMBDAS = np.arange(11) / 10
GOAL_RATIO = 5.0


def matched_pairs(M: int, m: int, n: int) -> Pairs:
    """n pairs of uniform samples of the minima, d = M, and the permutations of Algorithm 1."""
    first, second = (uniform_minima(M, M, m, n, numpy_rng("benchmark", M, m, end)) for end in "AB")
    return first, second, match_by_type(first.types, first.values, second.types, second.values)


def merged(first: Minima, second: Minima, pi: np.ndarray) -> np.ndarray:
    return minima_barriers(first, second, pi, LAMBDAS)


def dense(first: Minima, second: Minima, pi: np.ndarray) -> np.ndarray:
    return barriers(first.dense(), permuted(second.dense(), pi), first.M, LAMBDAS)


def seconds(run: Callable[..., np.ndarray], pairs: Pairs) -> float:
    start = time.perf_counter()
    run(*pairs)
    return time.perf_counter() - start


def measure(repeats: int = 5) -> dict[str, float]:
    """Median seconds of both, alternating in one run on one thread, and the median of each round's ratio."""
    pairs = matched_pairs(M=100, m=300, n=10)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for run in (merged, dense):
            run(*pairs)
        rounds = [[seconds(run, pairs) for run in (merged, dense)] for _ in range(repeats)]
    finally:
        torch.set_num_threads(before)
    return {
        "merged_s": statistics.median(times[0] for times in rounds),
        "dense_s": statistics.median(times[1] for times in rounds),
        "ratio": statistics.median(times[1] / times[0] for times in rounds),
    }


def test_both_compute_the_same() -> None:
    pairs = matched_pairs(M=100, m=300, n=3)
    np.testing.assert_allclose(merged(*pairs), dense(*pairs), rtol=0, atol=1e-10)


def test_barriers_of_wide_minima(benchmark: Any) -> None:
    figures = measure()
    benchmark.extra_info.update(figures)
    print(figures)
    benchmark.pedantic(merged, args=matched_pairs(M=100, m=300, n=10), rounds=5, warmup_rounds=1)
    assert figures["ratio"] >= GOAL_RATIO


if __name__ == "__main__":
    print(json.dumps(measure()))
