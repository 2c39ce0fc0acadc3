"""The teacher_student block: what is refused, what values stand for, and which points a grid has."""

import math
import re

import pytest
from pydantic import ValidationError

from symlab.papers.permutation_invariance import settings
from symlab.papers.permutation_invariance.settings import Widths

GRID = {"M": 6, "d": 8, "m": 7}
WRONG = [
    (Widths, {"m": None, "runs": 4}, "exactly one of m"),
    (Widths, {"ratio": 2, "runs": 4}, "exactly one of m"),
    (Widths, {"lr": 1, "c": 1, "runs": 4}, "both lr and c"),
    (Widths, {"runs": 3}, "multiple of 2"),
    (Widths, {"runs": 4, "steps": 0}, "steps"),
    (Widths, {"runs": 4, "lr": -1}, "lr"),
    (Widths, {"runs": 4, "init_std": "big"}, "init_std"),
    (Widths, {"runs": 4, "lambdas": [0, 0.5, 0.9]}, "rise from 0 to 1"),
    (Widths, {"runs": 4, "lambdas": [0, 0.6, 0.5, 1]}, "rise from 0 to 1"),
    (Widths, {"runs": 4, "stop_below": 1e-3}, "stop_below"),
    (settings.LearningRates, {"runs": 4, "lr": [0.1, 0.10000001]}, "same student twice"),
    (Widths, {"runs": 4, "c": [1, 2]}, "one learning rate"),
    (settings.Ratios, {"m": 3, "uniform_pairs": 4}, "m = 3 neurons, fewer than the teacher's M = 6"),
    (settings.Ratios, {"uniform_pairs": 4, "m": None, "ratio": [2, 2.01]}, "same width twice"),
    (settings.Sparsity, {"uniform_pairs": 4}, "needs runs"),
    (settings.AllPermutations, {"M": 3, "m": 8, "uniform_pairs": 4}, "m is at most 7"),
    (settings.Column, {"runs": 4}, "M must be 1"),
]


@pytest.mark.parametrize(("kind", "keys", "words"), WRONG)
def test_keys_that_do_not_fit_together_are_refused(kind, keys, words):
    with pytest.raises(ValidationError, match=words):
        kind(**GRID | keys)


def test_one_value_is_a_list_of_one_and_a_spec_gives_the_same_grid_again():
    grid = Widths(**GRID, runs=4, c=1)
    assert grid == Widths(M=[6], d=[8], m=[7], runs=4, c=[1.0])
    assert grid.spec() == {"M": [6], "d": [8], "m": [7], "runs": 4, "c": [1.0]}
    assert Widths(**grid.spec()) == grid


def test_a_grid_is_all_combinations_of_its_values():
    found = settings.Sparsity(M=2, d=[4, 8], m=[3, 4], lr=[0.1, 0.2], runs=2).students()
    assert len(found) == 8 and len({point.name for point in found}) == 8
    assert {point.init_std for point in found} == {1 / 12, 1 / 16, 1 / 24, 1 / 32}
    by_ratio = Widths(M=2, d=[4, 8], ratio=[1.5, 1.9], c=2, init_std="one_over_sqrt_d", runs=2).students()
    assert {(point.m, point.lr) for point in by_ratio} == {(3, 8 / 3), (4, 2.0), (3, 16 / 3), (4, 4.0)}
    assert {point.init_std for point in by_ratio} == {0.5, 1 / math.sqrt(8)}


def test_without_a_learning_rate_it_is_d_over_m():
    assert [point.lr for point in Widths(**GRID, runs=2).students()] == [8 / 7]


def test_names_of_points_which_seed_generators_stay():
    (point,) = Widths(**GRID, runs=2).students()
    assert point.name == "M6_d8_m7_lr1.14286"


@pytest.mark.parametrize(
    ("kind", "keys", "words"),
    [
        (Widths, {}, "needs runs .* or uniform_pairs"),
        (settings.Ratios, {}, "needs uniform_pairs"),
        (settings.Dimensions, {"runs": 4}, "needs uniform_pairs"),
    ],
)
def test_grids_that_give_nothing_are_refused_in_a_config(kind, keys, words):
    assert re.search(words, kind(**GRID | keys).misfit())


def test_the_same_students_in_two_grids_are_refused_but_not_those_of_another_source():
    trained, sampled = Widths(**GRID, runs=4), Widths(**GRID, uniform_pairs=4)
    assert Widths(**GRID, runs=4, batch=8).misfit(trained, sampled) is None
    for twice, source in ((trained, "gd"), (sampled, "uniform")):
        wider = Widths(**GRID | {"m": [7, 8]}, runs=2, uniform_pairs=2)
        assert f"M = 6, d = 8, m = 7 ({source})" in wider.misfit(twice)
