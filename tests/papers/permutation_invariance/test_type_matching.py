import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symlab.papers.permutation_invariance.minima import is_zero, types_of, uniform_minima
from symlab.papers.permutation_invariance.pairs import barriers, hungarian, match_by_type, permuted
from symlab.seeds import numpy_rng


def algorithm_1(types1, values1, types2, values2):
    """Algorithm 1 of a single pair, line by line."""
    m = len(types1)
    pi, used = [None] * m, set()
    for j in (set(types1) | set(types2)) - {-1}:
        places = sorted((i for i in range(m) if types1[i] == j), key=lambda i: -values1[i])
        rows = sorted((i for i in range(m) if types2[i] == j), key=lambda i: -values2[i])
        for place, row in zip(places, rows, strict=False):
            pi[place] = row
            used.add(row)
    free = sorted((row for row in range(m) if row not in used), key=lambda row: types2[row] >= 0)
    for place in sorted((i for i in range(m) if pi[i] is None), key=lambda i: types1[i] < 0):
        pi[place] = free.pop(0)
    return pi


@given(seed=st.integers(0, 10**6), m=st.integers(1, 12), kinds=st.integers(1, 5), n=st.integers(1, 4))
@settings(max_examples=60)
def test_against_the_pseudo_code(seed, m, kinds, n):
    rng = np.random.default_rng(seed)
    types = rng.integers(-1, kinds, size=(2, n, m))
    # Few values, so that there are ties, which stay in order of storage.
    values = rng.integers(1, 6, size=(2, n, m)) / 4
    pi = match_by_type(types[0], values[0], types[1], values[1])
    for pair in range(n):
        one = (rows[pair].tolist() for rows in (types[0], values[0], types[1], values[1]))
        assert pi[pair].tolist() == algorithm_1(*one)


def test_as_many_rows_of_equal_type_as_there_can_be():
    first, second = (uniform_minima(5, 6, 17, 100, numpy_rng("pairs", name)) for name in "ab")
    pi = match_by_type(first.types, first.values, second.types, second.values)
    assert (np.sort(pi, axis=1) == np.arange(17)).all()
    aligned = np.take_along_axis(second.types, pi, axis=1)
    counts = [(sample.types[..., None] == np.arange(5)).sum(axis=1) for sample in (first, second)]
    assert ((aligned == first.types).sum(axis=1) == np.minimum(*counts).sum(axis=1)).all()


def test_planted_permutations_are_undone():
    rng = numpy_rng("planted")
    first = uniform_minima(4, 6, 15, 30, rng)
    W1 = first.dense() + 1e-4 * torch.from_numpy(rng.standard_normal((30, 15, 6)))
    W1[:, [2, 9]] = 0
    W1[is_zero(W1)] = 0
    W2 = permuted(W1, rng.permuted(np.tile(np.arange(15), (30, 1)), axis=1))
    (types1, values1), (types2, values2) = types_of(W1, 4), types_of(W2, 4)
    assert not torch.equal(W1, W2)
    assert torch.equal(permuted(W2, hungarian(W1, W2)), W1)
    assert torch.equal(permuted(W2, match_by_type(types1, values1, types2, values2)), W1)


def test_rows_of_zeros_meet_rows_that_have_no_counterpart():
    """Both students have rows of half length of the type that the other has once, and a row of zeros."""
    W1 = torch.tensor([[[0, 0], [0.5, 0], [0, 1.0], [0.5, 0]]], dtype=torch.float64)
    W2 = torch.tensor([[[0, 0], [0, 0.5], [1.0, 0], [0, 0.5]]], dtype=torch.float64)
    (types1, values1), (types2, values2) = types_of(W1, 2), types_of(W2, 2)
    pi = match_by_type(types1, values1, types2, values2)
    assert pi.tolist() == [[3, 2, 1, 0]]
    # Along the path the rows stay on the axes, with sums of one: all of it consists of minima.
    assert barriers(W1, permuted(W2, pi), 2, np.arange(11) / 10).max() < 1e-15
    assert barriers(W1, W2, 2, np.arange(11) / 10).max() > 1e-3


def test_linear_assignment_against_all_permutations():
    rng = numpy_rng("assignment")
    W1, W2 = (torch.from_numpy(rng.standard_normal((6, 5, 3))) for _ in range(2))
    found = hungarian(W1, W2)
    for pair in range(6):
        S = (W1[pair] @ W2[pair].T).numpy()
        best = max(itertools.permutations(range(5)), key=lambda pi, S=S: S[range(5), pi].sum())
        assert found[pair].tolist() == list(best)
