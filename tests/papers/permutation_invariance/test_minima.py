import numpy as np
import pytest
import torch
from scipy import stats

from symlab.papers.permutation_invariance.minima import types_of, uniform_minima
from symlab.papers.permutation_invariance.population_loss import loss_and_gradient, population_loss
from symlab.seeds import numpy_rng


@pytest.mark.parametrize(("M", "d", "m"), [(1, 1, 1), (1, 10, 10), (6, 8, 6), (6, 8, 36), (100, 128, 150)])
def test_samples_are_minima(M, d, m):
    W = uniform_minima(M, d, m, 5, numpy_rng("minima", M, d, m)).dense()
    assert W.shape == (5, m, d) and W.dtype == torch.float64
    assert (W >= 0).all() and ((W > 0).sum(dim=2) == 1).all()
    torch.testing.assert_close(W.sum(dim=1)[:, :M], torch.ones(5, M, dtype=W.dtype), rtol=0, atol=1e-14)
    loss, gradient = loss_and_gradient(W, M)
    assert population_loss(W, M).abs().max() < 1e-12 and loss.abs().max() < 1e-12
    assert gradient.abs().max() < 1e-14


def test_counts_of_types_are_multinomial():
    n, M, m = 20_000, 4, 13
    types = uniform_minima(M, M, m, n, numpy_rng("counts")).types
    alpha = (types[..., None] == np.arange(M)).sum(axis=1) - 1
    assert alpha.min() == 0 and (alpha.sum(axis=1) == m - M).all()
    for j in range(M):
        expected = n * stats.binom.pmf(np.arange(m - M + 1), m - M, 1 / M)
        observed = np.bincount(alpha[:, j], minlength=m - M + 1)
        # Counts that occur less than ten times are put together.
        last = int(np.flatnonzero(expected >= 10).max())
        merged = [np.append(x[:last], x[last:].sum()) for x in (observed, expected)]
        assert stats.chisquare(*merged).pvalue > 1e-3
    covariance = np.cov(alpha[:, 0], alpha[:, 1])[0, 1]
    assert covariance == pytest.approx(-(m - M) / M**2, abs=0.05)


def test_values_of_a_type_are_uniform_on_the_simplex():
    n, m = 20_000, 5
    values = uniform_minima(1, 1, m, n, numpy_rng("values")).values
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-14)
    assert stats.kstest(values[:, 2], stats.beta(1, m - 1).cdf).pvalue > 1e-3
    ranked = -np.sort(-values, axis=1)
    expected = [sum(1 / k for k in range(rank, m + 1)) / m for rank in range(1, m + 1)]
    assert (np.abs(ranked.mean(axis=0) - expected) < 4 * ranked.std(axis=0) / n**0.5).all()


def test_rows_are_in_random_order():
    n, M, m = 6_000, 3, 7
    sample = uniform_minima(M, M, m, n, numpy_rng("order"))
    for j in range(M):
        assert stats.chisquare((sample.types == j).sum(axis=0) / (m / M)).pvalue > 1e-3
    means = sample.values.mean(axis=0)
    assert (np.abs(means - M / m) < 4 * sample.values.std() / n**0.5).all()


def test_samples_follow_from_the_generator():
    first, again, other = (uniform_minima(3, 4, 8, 2, numpy_rng("seed", name)) for name in "aab")
    assert (first.values == again.values).all() and (first.types == again.types).all()
    assert not (first.values == other.values).all()


def test_types_of_trained_students():
    sample = uniform_minima(4, 7, 9, 50, numpy_rng("types"))
    rng = numpy_rng("noise")
    W = sample.dense().numpy()
    W[sample.values < 0.1] = 0
    noisy = torch.from_numpy(W + 1e-4 * rng.standard_normal(W.shape))
    types, values = types_of(noisy, 4)
    assert (types == np.where(sample.values < 0.1, -1, sample.types)).all()
    np.testing.assert_allclose(values, np.linalg.norm(noisy, axis=2), rtol=1e-14)
    # Coordinates beyond M name no type, however large, and signs count.
    row = torch.tensor([[[-0.9, 0.1, 0.2, 5.0], [-0.3, -0.2, -0.1, 0.0], [0.009, 0.0, 0.0, 0.0]]], dtype=torch.float64)
    assert types_of(row, 3)[0].tolist() == [[2, 2, -1]]
