import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlab.alignment.matching import joint, match, match_all, objective, objectives
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, random_permutations, shape

from .specs import choices


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


def test_matrices_that_cannot_be_matched_are_refused():
    with pytest.raises(UserError, match=r"\(2, 3\)"):
        match(np.zeros((2, 3)))
    with pytest.raises(UserError, match="not finite"):
        match(np.array([[np.nan, 0.0], [0.0, 1.0]]))


def correlations(groups, names, seed):
    rng = np.random.default_rng(seed)
    found = {}
    for name in names:
        d = math.prod(shape(name, groups))
        found[name] = rng.uniform(-1, 1, (d, d))
    return found


def worth(S_of, chosen, groups):
    """The sum of <P, S> written out neuron by neuron."""
    total = 0.0
    for name, S in S_of.items():
        chain, sizes = [*groups[name].within, name], shape(name, groups)
        for at in np.ndindex(sizes):
            moved_from = [int(chosen[group][at[: depth + 1]]) for depth, group in enumerate(chain)]
            total += S[np.ravel_multi_index(at, sizes), np.ravel_multi_index(moved_from, sizes)]
    return total


NESTED = {
    "inner alone": ({"h": Group(3), "d": Group(2, ("h",))}, ["d"]),
    "both": ({"h": Group(2), "d": Group(3, ("h",))}, ["h", "d"]),
    "outer alone": ({"h": Group(3), "d": Group(2, ("h",))}, ["h"]),
    "two within one": ({"h": Group(2), "d": Group(2, ("h",)), "e": Group(3, ("h",))}, ["d", "e"]),
    "three levels": ({"g": Group(2), "h": Group(2, ("g",)), "d": Group(2, ("g", "h"))}, ["g", "d"]),
    "separate": ({"a": Group(3), "h": Group(2), "d": Group(2, ("h",))}, ["a", "d"]),
}


@pytest.mark.parametrize("case", NESTED)
@pytest.mark.parametrize("seed", range(3))
def test_match_all_is_the_exact_optimum(case, seed):
    groups, names = NESTED[case]
    S_of = correlations(groups, names, seed)
    best = max(worth(S_of, chosen, groups) for chosen in choices(groups, groups))
    found = match_all(S_of, groups)
    assert {name: pi.shape for name, pi in found.items()} == {name: shape(name, groups) for name in groups}
    assert all((np.sort(pi, axis=-1) == np.arange(groups[name].size)).all() for name, pi in found.items())
    assert worth(S_of, found, groups) == pytest.approx(best)
    by_joint = sum(S[np.arange(len(S)), joint(name, found, groups)].sum() for name, S in S_of.items())
    assert by_joint == pytest.approx(best)


@given(sizes=st.tuples(*[st.integers(1, 5)] * 3), seed=st.integers(0, 1000))
def test_a_planted_nested_permutation_is_found(sizes, seed):
    groups = {"g": Group(sizes[0]), "h": Group(sizes[1], ("g",)), "d": Group(sizes[2], ("g", "h"))}
    planted = random_permutations(SymmetrySpec({}, groups), np.random.default_rng(seed))
    S = np.eye(int(np.prod(sizes)))[np.argsort(joint("d", planted, groups))].T
    found = match_all({"d": S}, groups)
    assert all(np.array_equal(found[name], planted[name]) for name in groups)


def test_groups_that_nothing_tells_apart_stay_in_place():
    groups = {"a": Group(4), "h": Group(3), "d": Group(2, ("h",))}
    found = match_all({}, groups)
    assert found["a"].tolist() == [0, 1, 2, 3] and found["h"].tolist() == [0, 1, 2]
    assert found["d"].tolist() == [[0, 1]] * 3
    outer_alone = match_all({"h": np.roll(np.eye(3), 1, axis=1)}, groups)
    assert outer_alone["h"].tolist() == [1, 2, 0] and outer_alone["d"].tolist() == [[0, 1]] * 3


def test_correlations_and_groups_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="6 neurons"):
        match_all({"d": np.eye(2)}, {"h": Group(3), "d": Group(2, ("h",))})
    with pytest.raises(UserError, match="do not lie within each other"):
        match_all({}, {"h": Group(3), "g": Group(2), "d": Group(2, ("h", "g"))})
    with pytest.raises(UserError, match="not finite"):
        match_all({"a": np.full((2, 2), np.nan)}, {"a": Group(2)})


def test_objectives():
    groups = {"a": Group(20), "h": Group(4), "d": Group(3, ("h",))}
    S_of = correlations(groups, ["a", "d"], 0)
    optimal = match_all(S_of, groups)
    found = objectives(S_of, optimal, groups, n_random=2000, rng=np.random.default_rng(1))
    assert found.keys() == {"a", "d"}, "heads have no correlations of their own"
    for name, S in S_of.items():
        assert found[name]["identity"] == pytest.approx(np.trace(S) / len(S))
        # Each entry is hit with probability 1/d, so the mean over all permutations is the mean entry.
        assert found[name]["random"] == pytest.approx(S.mean(), abs=0.02)
        assert found[name]["optimal"] > found[name]["identity"]
    assert found["a"]["optimal"] == objective(S_of["a"], match(S_of["a"]))
    assert found["d"]["optimal"] == pytest.approx(worth({"d": S_of["d"]}, optimal, groups) / 12)
    assert found == objectives(S_of, optimal, groups, n_random=2000, rng=np.random.default_rng(1))
