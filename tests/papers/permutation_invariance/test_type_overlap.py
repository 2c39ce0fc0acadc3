import itertools
from fractions import Fraction
from math import factorial, prod

import numpy as np
import pytest
from scipy import stats

from symlab.measures.job import Job
from symlab.papers.permutation_invariance.settings import Overlap
from symlab.papers.permutation_invariance.type_overlap import (
    expected_overlap,
    gaussian_limit,
    measure_overlap,
    overlap_lower_bound,
    poisson_limit,
    sampled_overlap,
)
from symlab.seeds import numpy_rng


def enumerated_overlap(m, M):
    """T(m, M) over all pairs of counts, as a fraction."""
    free = m - M
    counts = [alpha for alpha in itertools.product(range(free + 1), repeat=M) if sum(alpha) == free]
    weights = [Fraction(factorial(free), prod(map(factorial, alpha)) * M**free) for alpha in counts]
    pairs = itertools.product(zip(counts, weights, strict=True), repeat=2)
    return sum(p * q * (M + sum(map(min, a, b))) for (a, p), (b, q) in pairs) / m


@pytest.mark.parametrize(("m", "M"), [(1, 1), (5, 1), (2, 2), (7, 2), (3, 3), (8, 3), (7, 4), (9, 4)])
def test_exact_overlap_against_all_pairs_of_counts(m, M):
    assert expected_overlap(m, M) == pytest.approx(float(enumerated_overlap(m, M)), abs=1e-14)


@pytest.mark.parametrize(("m", "M"), [(6, 6), (12, 6), (36, 6), (40, 20), (120, 20)])
def test_sampled_overlap(m, M):
    mean, error = sampled_overlap(m, M, 10_000, numpy_rng("overlap", m, M))
    assert abs(mean - expected_overlap(m, M)) <= 4 * error
    assert (error < 0.0015) and (error > 0 or m == M)


def test_the_standard_error_is_that_of_the_mean():
    means = [sampled_overlap(12, 6, 100, numpy_rng("errors", k)) for k in range(400)]
    assert np.mean([error for _, error in means]) == pytest.approx(np.std([mean for mean, _ in means]), rel=0.15)


@pytest.mark.parametrize(
    ("M", "width", "least", "at_2M", "at_6M", "at_100M"),
    [
        (6, 13, 0.7561, 0.7578, 0.810, 0.949),
        (20, 46, 0.7411, 0.7436, 0.798, 0.945),
        (100, 229, None, None, None, None),
        (500, 1146, None, None, None, None),
    ],
)
def test_the_least_overlap_is_just_above_two_teachers(M, width, least, at_2M, at_6M, at_100M):
    widths = range(M, 4 * M + 1)
    overlaps = [expected_overlap(m, M) for m in widths]
    assert overlaps[0] == 1.0
    assert widths[int(np.argmin(overlaps))] == width
    assert expected_overlap(2 * M, M) - min(overlaps) < 0.004
    if least is not None:
        assert min(overlaps) == pytest.approx(least, abs=5e-5)
        assert expected_overlap(2 * M, M) == pytest.approx(at_2M, abs=5e-5)
        assert expected_overlap(6 * M, M) == pytest.approx(at_6M, abs=5e-4)
        assert expected_overlap(100 * M, M) == pytest.approx(at_100M, abs=5e-4)


def test_the_lower_bound_is_below():
    for M in (1, 2, 6, 20):
        for m in range(M, 8 * M):
            assert overlap_lower_bound(m, M) <= expected_overlap(m, M) + 1e-15
    assert overlap_lower_bound(12, 6) == pytest.approx(1 - 60**0.5 / 24)


@pytest.mark.parametrize("ratio", [1.0, 1.3, 2.0, 4.5, 30.0])
def test_the_poisson_limit_against_the_double_sum(ratio):
    k = np.arange(200)
    p = stats.poisson.pmf(k, ratio - 1)
    expected = 1 - (np.abs(k[:, None] - k) * p[:, None] * p).sum() / (2 * ratio)
    assert poisson_limit(ratio) == pytest.approx(expected, abs=1e-12)
    assert poisson_limit(ratio) == pytest.approx(expected_overlap(round(2000 * ratio), 2000), abs=2e-4)


def test_the_two_limits():
    ratios = np.linspace(1, 5, 4001)
    limits = [poisson_limit(ratio) for ratio in ratios]
    assert min(limits) == pytest.approx(0.73516, abs=5e-6)
    assert ratios[int(np.argmin(limits))] == pytest.approx(2.2922, abs=2e-3)
    assert poisson_limit(2.0) == pytest.approx(0.7381, abs=5e-5)
    assert gaussian_limit(0.5) == pytest.approx(0.7179, abs=5e-5) and gaussian_limit(1.0) == 1.0
    # The Gaussian limit is right for few teachers a student only.
    assert abs(gaussian_limit(0.01) - poisson_limit(100.0)) < 1e-3 < abs(gaussian_limit(0.5) - poisson_limit(2.0))


def test_the_table_begins_at_one_and_its_draws_agree_with_the_exact_curve():
    (table,) = measure_overlap(Overlap(M=4, up_to=3, draws=2000), Job("study"), 4).values()
    assert table["m"].tolist() == list(range(4, 13)) and table["overlap"][0] == 1
    z = ((table["overlap_mean"] - table["overlap"]) / table["overlap_se"]).iloc[1:]
    assert z.abs().max() < 4
    assert (table["lower_bound"] <= table["overlap"] + 1e-12).all()
