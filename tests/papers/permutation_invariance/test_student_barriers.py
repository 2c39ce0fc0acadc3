"""Barriers between students; those of the paper's uniform samples within the errors of both measurements."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from symlab.connectivity.barrier import above_line
from symlab.papers.permutation_invariance.minima import Minima, uniform_minima
from symlab.papers.permutation_invariance.pairs import barriers, match_by_type, minima_barriers, permuted
from symlab.papers.permutation_invariance.population_loss import mean_square, population_loss
from symlab.seeds import numpy_rng, torch_generator

ELEVEN = np.arange(11) / 10
# Places that are not those that they are from the other end.
UNEVEN = np.array([0.0, 0.1, 0.15, 1.0])
SHORT = np.array([0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0])


def pairs(M, d, m, n, name="pairs"):
    return tuple(uniform_minima(M, d, m, n, numpy_rng(name, M, m, end)) for end in "AB")


def matched(first, second):
    return match_by_type(first.types, first.values, second.types, second.values)


def permuted_barriers(M, d, m, n, lambdas=ELEVEN):
    first, second = pairs(M, d, m, n)
    return minima_barriers(first, second, matched(first, second), lambdas)


def test_above_line_of_many_curves_is_that_of_each():
    values = torch.randn(2, 3, 11, generator=torch_generator("curves")).double().numpy()
    gaps = above_line(ELEVEN, values)
    assert (gaps[..., [0, -1]] == 0).all()
    for a in range(2):
        for b in range(3):
            assert (gaps[a, b] == above_line(ELEVEN, values[a, b])).all()
    curve = 3 * ELEVEN**2 - ELEVEN + 2
    np.testing.assert_allclose(above_line(ELEVEN, curve), -3 * ELEVEN * (1 - ELEVEN), atol=1e-15)
    with pytest.raises(IndexError):
        above_line(ELEVEN[1:], values[..., 1:])


@pytest.mark.parametrize("lambdas", [ELEVEN, UNEVEN])
def test_barriers_of_any_students_written_out(lambdas):
    noise = 0.1 * torch.randn(2, 7, 5, 4, generator=torch_generator("any"), dtype=torch.float64)
    W1, W2 = (sample.dense() + part for sample, part in zip(pairs(3, 4, 5, 7), noise, strict=True))
    found = barriers(W1, W2, 3, lambdas)
    for pair in range(7):
        ends = [float(population_loss(W[pair], 3)) for W in (W1, W2)]
        gaps = [
            float(population_loss(lam * W1[pair] + (1 - lam) * W2[pair], 3)) - lam * ends[0] - (1 - lam) * ends[1]
            for lam in lambdas
        ]
        assert found[pair] == pytest.approx(max(0, *gaps), abs=1e-14)
    assert (found >= 0).all() and (found > 0).any()
    np.testing.assert_allclose(barriers(W2, W1, 3, 1 - lambdas[::-1]), found, rtol=1e-12)
    assert np.abs(barriers(W1, W1, 3, lambdas)).max() < 1e-15


def test_rows_along_the_axes_may_be_left_to_the_axes():
    rng = numpy_rng("axes")
    W = torch.from_numpy(rng.standard_normal((4, 3, 6)))
    axes = torch.from_numpy(rng.uniform(0, 2, size=(4, 5)))
    along = torch.diag_embed(torch.cat([axes, torch.zeros(4, 1)], dim=1))[:, :5]
    expected = population_loss(torch.cat([W, along], dim=1), 5)
    torch.testing.assert_close(mean_square(W, axes - 1), expected, rtol=0, atol=1e-13)
    x = torch.randn(400_000, 6, generator=torch_generator("axes"), dtype=torch.float64)
    x /= x.norm(dim=1, keepdim=True)
    squares = ((x @ W[0].T).relu().sum(1) + x[:, :5].relu() @ (axes[0] - 1)).square()
    assert abs(squares.mean() - mean_square(W, axes - 1)[0]) < 4 * squares.std() / 400_000**0.5


@pytest.mark.parametrize(("M", "d", "m", "n"), [(1, 2, 5, 3), (6, 6, 6, 4), (6, 8, 12, 40), (20, 23, 44, 8)])
def test_merged_rows_give_the_same_barrier(M, d, m, n):
    first, second = pairs(M, d, m, n)
    W1, W2 = first.dense(), second.dense()
    pi = matched(first, second)
    dense = barriers(W1, permuted(W2, pi), M, ELEVEN)
    np.testing.assert_allclose(minima_barriers(first, second, pi, ELEVEN), dense, rtol=0, atol=1e-13)
    direct = barriers(W1, W2, M, ELEVEN)
    np.testing.assert_allclose(minima_barriers(first, second, None, ELEVEN), direct, rtol=0, atol=1e-13)


def test_a_pair_without_a_row_of_one_type_in_both():
    first, second = (Minima(3, 4, np.array([types]), np.ones((1, 3))) for types in ([0, 1, 2], [1, 2, 0]))
    expected = barriers(first.dense(), second.dense(), 3, ELEVEN)
    assert expected > 0.01
    np.testing.assert_allclose(minima_barriers(first, second, None, ELEVEN), expected, rtol=0, atol=1e-13)


def test_no_barrier_where_the_counts_of_types_agree():
    rng = numpy_rng("equal counts")
    types = np.array([[0, 0, 0, 1, 1, 2]])
    ends = []
    for _ in range(2):
        values = rng.exponential(size=(1, 6))
        values /= np.bincount(types[0], weights=values[0])[types]
        order = rng.permutation(6)
        ends.append(Minima(3, 4, types[:, order], values[:, order]))
    pi = matched(*ends)
    assert abs(minima_barriers(*ends, pi, ELEVEN)[0]) < 1e-15
    assert abs(barriers(ends[0].dense(), permuted(ends[1].dense(), pi), 3, ELEVEN)[0]) < 1e-15
    assert minima_barriers(*ends, None, ELEVEN)[0] > 1e-3
    # And at m = M, where every type has one row.
    assert permuted_barriers(6, 8, 6, 50).max() < 1e-15


def test_barriers_of_minima_are_inversely_proportional_to_d():
    first, second = pairs(4, 4, 8, 20)
    pi = matched(first, second)
    dimensions = np.array([4, 16, 64, 128])
    for order in (None, pi):
        measured = []
        for d in dimensions.tolist():
            one, other = replace(first, d=d), replace(second, d=d)
            measured.append(minima_barriers(one, other, order, ELEVEN))
            W2 = other.dense() if order is None else permuted(other.dense(), order)
            np.testing.assert_allclose(barriers(one.dense(), W2, 4, ELEVEN), measured[-1], rtol=0, atol=1e-14)
        np.testing.assert_allclose(dimensions[:, None] * measured, np.tile(4 * measured[0], (4, 1)), rtol=1e-12)
        assert np.polyfit(np.log(dimensions), np.log(np.mean(measured, axis=1)), 1)[0] == pytest.approx(-1, abs=1e-12)


def test_direct_barriers_grow_with_the_square_of_the_teacher():
    expected = {4: (0.142, 0.0032), 8: (0.537, 0.0079), 16: (1.986, 0.0236)}
    direct = {}
    for M, (direct_of_paper, permuted_of_paper) in expected.items():
        first, second = pairs(M, 64, 2 * M, 1000)
        direct[M] = 64 * minima_barriers(first, second, None, ELEVEN).mean()
        assert direct[M] == pytest.approx(direct_of_paper, rel=0.05)
        assert 64 * permuted_barriers(M, 64, 2 * M, 1000).mean() == pytest.approx(permuted_of_paper, rel=0.1)
    assert np.log2(direct[16] / direct[4]) / 2 == pytest.approx(2, abs=0.15)


def test_widths_of_uniform_samples():
    means = {m: permuted_barriers(6, 8, m, 1000).mean() for m in (*range(7, 19), 24, 36)}
    for m, expected in ((10, 6.5e-4), (11, 6.7e-4), (12, 6.6e-4), (36, 1.8e-4)):
        assert means[m] == pytest.approx(expected, rel=0.1)
    assert 9 <= max(means, key=means.__getitem__) <= 14
    for m, expected in ((7, 0.059), (36, 0.025)):
        first, second = pairs(6, 8, m, 500)
        assert minima_barriers(first, second, None, ELEVEN).mean() == pytest.approx(expected, rel=0.05)


def test_decay_with_the_width():
    widths = [192, 384, 768, 1536]
    means = [permuted_barriers(6, 6, m, 120, SHORT).mean() for m in widths]
    assert np.polyfit(np.log(widths), np.log(means), 1)[0] == pytest.approx(-2, abs=0.2)


def test_the_direct_barrier_tends_to_a_constant():
    first, second = pairs(6, 6, 600, 10)
    assert 6 * minima_barriers(first, second, None, SHORT).mean() == pytest.approx(0.177, rel=0.05)
