from math import gamma

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from symlab.papers.permutation_invariance.minima import is_zero, pq_index, uniform_minima
from symlab.seeds import numpy_rng


def test_equal_active_entries_in_closed_form():
    for k in range(1, 11):
        w = torch.zeros(10, dtype=torch.float64)
        w[:k] = -0.3
        assert float(pq_index(w)) == pytest.approx(1 - k / 10, abs=1e-14)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), st.floats(0.01, 100))
@settings(max_examples=100)
def test_scale_signs_and_order_do_not_matter(entries, scale):
    w = torch.tensor(entries, dtype=torch.float64)
    index = pq_index(w)
    assert -1e-12 <= index <= 1 - 1 / len(entries) + 1e-12
    torch.testing.assert_close(pq_index(-scale * w.flip(0)), index, rtol=0, atol=1e-12)
    torch.testing.assert_close(pq_index(torch.cat([w, w])), index, rtol=0, atol=1e-12)


def test_other_norms_as_in_the_definition():
    w = numpy_rng("pq").standard_normal((3, 7))
    for p, q in ((0.5, 1), (1, 2), (0.7, 1.5)):
        norms = [(np.abs(w) ** r).sum(axis=1) ** (1 / r) for r in (p, q)]
        np.testing.assert_allclose(pq_index(torch.from_numpy(w), p, q), 1 - 7 ** (1 / q - 1 / p) * norms[0] / norms[1])


def test_minima_by_row_and_by_entry():
    W = uniform_minima(6, 8, 24, 20, numpy_rng("sparse")).dense()
    by_row = pq_index(W.norm(dim=2))
    torch.testing.assert_close(pq_index(W.reshape(20, -1)), 1 - (1 - by_row) / 8, rtol=0, atol=1e-12)


def test_uniform_minima_of_many_rows():
    # Values become independent exponentials, whose roots have mean sqrt(pi) / 2.
    W = uniform_minima(4, 4, 20_000, 1, numpy_rng("many")).dense()
    assert float(pq_index(W.norm(dim=2))) == pytest.approx(1 - np.pi / 4, abs=0.01)


def expected_index(m, M):
    """The mean PQ index of uniform minima, from moments of the Dirichlet distribution given the counts of types.

    With c rows, a type's sum of roots has mean g(c) = c Gamma(3/2) Gamma(c) / Gamma(c + 1/2) and mean square
    1 + (c - 1) pi / 4; the sum of all values is M.
    """
    g = [c * gamma(1.5) * gamma(c) / gamma(c + 0.5) for c in range(1, m + 1)]
    free = m - M
    across = sum(
        stats.multinomial.pmf([a, b, free - a - b], free, [1 / M, 1 / M, 1 - 2 / M]) * g[a] * g[b]
        for a in range(free + 1)
        for b in range(free + 1 - a)
    )
    return 1 - (M + (m - M) * np.pi / 4 + M * (M - 1) * across) / (m * M)


def test_uniform_minima_of_few_rows():
    for m, measured in ((12, 0.141), (24, 0.191), (36, 0.203)):
        index = pq_index(uniform_minima(6, 8, m, 4000, numpy_rng("uniform", m)).dense().norm(dim=2))
        assert abs(float(index.mean()) - expected_index(m, 6)) < 4 * float(index.std()) / 4000**0.5
        assert expected_index(m, 6) == pytest.approx(measured, abs=0.005)


def test_rows_that_count_as_zero():
    W = torch.tensor([[[0.0, 0.0], [0.006, 0.008], [0.0099, 0.0], [0.006, 0.0081]]], dtype=torch.float64)
    assert is_zero(W).tolist() == [[True, False, True, False]]
