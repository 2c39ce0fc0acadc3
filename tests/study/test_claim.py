"""Intervals of few units against how often they hold the true value, and errors against formulas."""

import math

import numpy as np
import pytest
from scipy import stats

from symlab.study.claim import difference_of, mean_of, ratio_of, statistic_of
from symlab.study.statistics import bootstrap_error, rank_correlation, welch_degrees


def log_slope(*samples):
    x = np.arange(len(samples)) - (len(samples) - 1) / 2
    return x @ np.log([sample.sum() / len(sample) for sample in samples]) / (x @ x)


def last_of_largest(*samples):
    return samples[-1].sum() / len(samples[-1]) / max(sample.sum() / len(sample) for sample in samples)


def gamma(generator, mean, n):
    return mean * generator.gamma(9, 1 / 9, n)


def by_draws(statistic, *samples):
    return statistic_of(statistic, *samples, resamples=60)


MEASURED = {
    "mean": (lambda g, n: mean_of(g.normal(1, 1, n)), 1, 2000),
    "difference": (lambda g, n: difference_of(g.normal(1, 1, n), g.normal(0, 1, n)), 1, 2000),
    "difference, scatter 1 and 3": (lambda g, n: difference_of(g.normal(1, 1, n), g.normal(0, 3, n)), 1, 2000),
    "difference to a sample of 20": (lambda g, n: difference_of(g.normal(1, 1, n), g.normal(0, 1, 20)), 1, 2000),
    "ratio": (lambda g, n: ratio_of(gamma(g, 1, n), gamma(g, 2, n)), 0.5, 2000),
    "slope": (lambda g, n: by_draws(log_slope, *(gamma(g, 2.0**-k, n) for k in range(4))), -math.log(2), 200),
    "last of largest": (lambda g, n: by_draws(last_of_largest, *(gamma(g, k, n) for k in (1, 3, 2))), 2 / 3, 200),
}


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("name", MEASURED)
def test_intervals_of_few_units_hold_the_true_value_in_95_percent_of_draws(name, n):
    draw, truth, draws = MEASURED[name]
    generator = np.random.default_rng(n)
    intervals = np.array([draw(generator, n).interval for _ in range(draws)])
    held = np.mean((intervals[:, 0] <= truth) & (truth <= intervals[:, 1]))
    # Three standard errors of as many draws below; above, intervals of this kind are up to 3 % too sure of nothing.
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / draws) <= held <= 0.995


@pytest.mark.parametrize("n", [2, 4, 40])
def test_the_bootstrap_error_of_a_mean_is_its_standard_error_for_few_units_too(n):
    sample = np.random.default_rng(1).normal(size=n)
    expected = sample.std(ddof=1) / math.sqrt(n)
    assert bootstrap_error(np.mean, sample, resamples=4000) == pytest.approx(expected, rel=0.05)


def test_two_samples_are_judged_as_by_welch():
    generator = np.random.default_rng(4)
    a, b = generator.normal(2, 1, 5), generator.normal(0, 2, 5)
    expected = stats.ttest_ind(a, b, equal_var=False)
    found = difference_of(a, b)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)
    assert found.degrees == pytest.approx(expected.df)
    by_resampling = statistic_of(lambda x, y: x.mean() - y.mean(), a, b, resamples=4000)
    assert by_resampling.degrees == pytest.approx(expected.df)
    assert by_resampling.error == pytest.approx(found.error, rel=0.05)


def test_a_statistic_of_many_units_leaves_out_parts_of_them():
    generator = np.random.default_rng(5)
    many, few = generator.normal(size=2000), generator.normal(size=3)
    found = statistic_of(lambda x, y: x.mean() + y.mean(), many, few)
    assert found.n == 3 and 2 <= found.degrees < 2.1
    assert welch_degrees([1, 1], [2, 20]) == 2  # and not the 1 / (1 + 1/19) x 4 = 3.8 of Welch


def test_a_sample_without_scatter_is_a_value_of_these_units():
    same, other = np.full(3, 2.0), np.array([1.0, 1.5, 2.0])
    assert mean_of(same).interval == (2, 2) and mean_of(same[:1]).interval is None
    # Beside a sample that scatters it adds no error and no degrees.
    assert difference_of(same, other).degrees == ratio_of(same, other).degrees == pytest.approx(2)
    assert statistic_of(np.median, same).interval == (2, 2)


def test_a_statistic_that_is_undefined_has_no_error():
    found = statistic_of(lambda x: math.nan, np.arange(3.0))
    assert math.isnan(found.value) and found.error is None and found.interval is None
    assert statistic_of(lambda x: math.inf if 0 in x else 1.0, np.arange(1.0, 4.0)).interval == (1, 1)
    assert statistic_of(np.mean, np.arange(1.0)).interval is None


def test_a_statistic_of_samples_of_two_sizes_has_the_degrees_that_welch_gives_their_means():
    few, many = np.array([0.0, 1.0, 3.0]), np.array([0.0, 4.0, 1.0, 5.0, 2.0, 3.0])
    found = statistic_of(lambda a, b: a.mean() - b.mean(), few, many)
    # Of means the jackknife's variances are s^2 / n: 7/9 of three values, 7/12 of six.
    total = 7 / 9 + 7 / 12
    by_hand = total**2 / ((7 / 9) ** 2 / 2 + (7 / 12) ** 2 / 5)
    assert found.degrees == pytest.approx(min(by_hand, 4)) and found.degrees < 4 + 1e-12
    loud = statistic_of(lambda a, b: a.mean() - b.mean(), 2 * few, many)
    assert loud.degrees == pytest.approx((28 / 9 + 7 / 12) ** 2 / ((28 / 9) ** 2 / 2 + (7 / 12) ** 2 / 5))


@pytest.mark.parametrize("y", [[0, 0.7, 0.2, 1], [3, 3, 1, 2], [5, 5, 5, 5], [1, 2, np.inf, 0]])
def test_rank_correlations_are_spearman_s_where_there_are_ranks(y):
    told = stats.spearmanr([1, 2, 3, 4], y).statistic if np.isfinite(y).all() and len(set(y)) > 1 else math.nan
    for pair in (([1, 2, 3, 4], y), (y, [1, 2, 3, 4])):
        assert rank_correlation(*pair) == pytest.approx(told, nan_ok=True)
