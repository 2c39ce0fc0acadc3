from itertools import permutations

import numpy as np
import pytest

from symlab.alignment.matching import match, objective, objectives
from symlab.errors import UserError


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_match_equals_brute_force(d):
    S = np.random.default_rng(d).uniform(-1, 1, (d, d))
    best = max(sum(S[i, pi[i]] for i in range(d)) for pi in permutations(range(d)))
    pi = match(S)
    assert sorted(pi) == list(range(d))
    assert objective(S, pi) == pytest.approx(best / d)


def test_convention():
    S = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert match(S).tolist() == [1, 2, 0], "neuron 1 of B is placed at position 0"


def test_objective_of_identity_on_the_unit_matrix_is_one():
    S = np.eye(7)
    assert objective(S, np.arange(7)) == 1.0
    assert objective(S, np.roll(np.arange(7), 1)) == 0.0


def test_objectives():
    S = np.random.default_rng(0).uniform(-1, 1, (20, 20))
    found = objectives(S, n_random=2000, rng=np.random.default_rng(1))
    assert found["identity"] == pytest.approx(np.trace(S) / 20)
    assert found["optimal"] == objective(S, match(S)) > found["identity"]
    # Each entry is hit with probability 1/d, so the mean over all permutations is the mean entry.
    assert found["random"] == pytest.approx(S.mean(), abs=0.01)
    assert found == objectives(S, n_random=2000, rng=np.random.default_rng(1))


def test_matrices_that_cannot_be_matched_are_refused():
    with pytest.raises(UserError, match=r"\(2, 3\)"):
        match(np.zeros((2, 3)))
    with pytest.raises(UserError, match="not finite"):
        match(np.array([[np.nan, 0.0], [0.0, 1.0]]))
