"""Rows of the students' tables: what is kept, what types and sparsity are, and barriers beside independent ones."""

import itertools
from dataclasses import asdict

import numpy as np
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.permutation_invariance.minima import uniform_minima
from symlab.papers.permutation_invariance.pairs import barriers, permuted
from symlab.papers.permutation_invariance.population_loss import population_loss
from symlab.papers.permutation_invariance.settings import AllPermutations, Dimensions, Sparsity, Teachers, Widths
from symlab.papers.permutation_invariance.student_points import Point, Size
from symlab.papers.permutation_invariance.student_tables import (
    barriers_of_trained,
    barriers_of_uniform,
    column_entries,
    drawn,
    reorderings,
    runs_of_trained,
    runs_of_uniform,
    try_all_permutations,
)
from symlab.study.points import Result

LAMBDAS = [round(0.1 * k, 1) for k in range(11)]
GRID = {"M": 3, "d": 4, "m": 5, "lr": 0.5, "init_std": 0.1, "runs": 4, "uniform_pairs": 6, "lambdas": LAMBDAS}
POINT = Point(3, 4, 5, 0.5, 0.1)


def students(W, point=POINT):
    W = torch.as_tensor(W, dtype=torch.float64)
    return Result(0, Widths(**GRID), asdict(point), {"W": W.numpy(), "steps": np.full(len(W), 7)})


def minima(n, seed=0, m=5):
    return uniform_minima(3, 4, m, n, np.random.default_rng(seed)).dense()


def test_runs_that_diverge_or_miss_the_minimum_are_not_kept():
    W = minima(4)
    W[1] *= 100
    W[2, 0] += 0.3
    table = runs_of_trained(students(W))
    assert table["diverged"].tolist() == [False, True, False, False]
    assert table["kept"].tolist() == [True, False, False, True]
    assert np.isnan(table["stability_limit"][1]) and (table["stability_limit"][[0, 2, 3]] > 0).all()
    np.testing.assert_allclose(table["c"], 0.5 * 5 / 4)


def test_narrow_students_are_kept_whatever_their_loss():
    table = runs_of_trained(students(minima(2)[:, :2], Point(3, 4, 2, 0.5, 0.1)))
    assert (table["loss"] > 1e-3).all() and table["kept"].all()


def test_types_zero_rows_and_sparsity_of_a_student_made_by_hand():
    W = np.zeros((1, 5, 4))
    W[0, 0, 0], W[0, 1, 1], W[0, 2, 1], W[0, 3, 2] = 1, 0.5, 0.5, 1
    row = runs_of_trained(students(W)).iloc[0]
    assert row["loss"] == pytest.approx(0, abs=1e-12)
    assert row["zero_rows"] == 1 and row["doubled_type"] == 2
    assert row["type_variance"] == pytest.approx(np.var([1, 2, 1]))
    by_rows = 1 - (2 + 2 * np.sqrt(0.5)) ** 2 / (5 * 3)
    assert row["pq_rows"] == pytest.approx(by_rows)
    assert row["pq_entries"] == pytest.approx(1 - (1 - by_rows) / 4)


def test_small_entries_are_cleaned_before_the_second_sparsity_is_taken():
    W = minima(1)
    noisy = W + 5e-4 * torch.rand(W.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * (W == 0)
    clean, rough = (runs_of_trained(students(each)).iloc[0] for each in (W, noisy))
    assert rough["pq_entries"] < clean["pq_entries"] - 0.01
    assert rough["pq_entries_cleaned"] == pytest.approx(clean["pq_entries"])


def test_two_types_doubled_are_no_doubled_type():
    W = np.zeros((1, 5, 4))
    for row, kind in enumerate((0, 1, 1, 2, 2)):
        W[0, row, kind] = 1 if kind == 0 else 0.5
    assert runs_of_trained(students(W))["doubled_type"].tolist() == [0]


def test_barriers_of_trained_pairs_are_those_of_a_plain_computation():
    W = minima(4) + 0.05 * torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table = barriers_of_trained(students(W))
    assert table["pair"].tolist() == [0, 1]
    for pair in range(2):
        A, B = W[2 * pair], W[2 * pair + 1]
        ends = float(population_loss(A, 3)), float(population_loss(B, 3))
        gaps = [
            float(population_loss(lam * A + (1 - lam) * B, 3)) - lam * ends[0] - (1 - lam) * ends[1] for lam in LAMBDAS
        ]
        assert table["direct"][pair] == pytest.approx(max(gaps), abs=1e-12)


def test_equal_students_in_other_orders_have_no_barrier_once_matched():
    W = minima(2)
    W[1] = W[0][[3, 1, 4, 0, 2]]
    row = barriers_of_trained(students(W)).iloc[0]
    assert row["direct"] > 1e-4
    for column in ("permuted", "permuted_hungarian"):
        assert row[column] == pytest.approx(0, abs=1e-12)


def test_uniform_pairs_are_drawn_anew_at_every_point():
    table = barriers_of_uniform(Dimensions(**GRID | {"d": [4, 8]}), "study")
    small, large = (table[table["d"] == d].reset_index(drop=True) for d in (4, 8))
    assert len(small) == len(large) == 6
    assert not np.isclose(small["direct"], 2 * large["direct"], rtol=1e-6).any()
    other = barriers_of_uniform(Teachers(**GRID), "study")
    assert not np.isclose(small["direct"], other["direct"], rtol=1e-6).any()


def test_many_pairs_are_rows_of_means():
    few, many = (barriers_of_uniform(Widths(**GRID | {"uniform_pairs": n}), "study") for n in (100, 250))
    assert len(few) == len(many) == 100
    assert set(few["pairs"]) == {1} and set(many["pairs"]) == {2, 3} and many["pairs"].sum() == 250
    assert few["permuted"].std() / many["permuted"].std() == pytest.approx(2.5**0.5, rel=0.3)


def test_the_best_of_all_permutations_leaves_the_lowest_barrier():
    grid = AllPermutations(M=2, d=2, m=3, uniform_pairs=5)
    (table,) = try_all_permutations(grid, Job("study"), 2, 2, 3).values()
    A, B = (drawn(Size(2, 2, 3), 5, ("study", "all_permutations"), end).dense() for end in "AB")
    at = np.array(grid.lambdas)
    every = [barriers(A, permuted(B, np.tile(order, (5, 1))), 2, at) for order in itertools.permutations(range(3))]
    np.testing.assert_allclose(table["lowest"], np.min(every, axis=0), atol=1e-13)
    np.testing.assert_allclose(table["direct"], every[0], atol=1e-13)
    assert (table["lowest"] <= table[["permuted", "permuted_hungarian"]].min(axis=1) + 1e-13).all()
    assert (table["leftovers"].between(table["lowest"] - 1e-13, table["permuted"] + 1e-13)).all()


def test_barriers_of_minima_are_those_of_neurons_without_a_partner_which_pair_anew_nearly_at_best():
    (table,) = try_all_permutations(AllPermutations(M=3, d=3, m=5, uniform_pairs=200), Job("study"), 3, 3, 5).values()
    A, B = (drawn(Size(3, 3, 5), 200, ("study", "all_permutations"), end).types for end in "AB")
    alike = (np.sort(A, axis=1) == np.sort(B, axis=1)).all(axis=1)
    assert 0 < alike.sum() < 200 and table.loc[alike, "permuted"].max() < 1e-15
    excess = table[["permuted", "leftovers"]].mean() / table["lowest"].mean() - 1
    assert excess["permuted"] > 0.05 and excess["leftovers"] < excess["permuted"] / 2


def test_what_is_left_over_takes_all_its_places_in_turn():
    found = reorderings(np.array([3, 1, 0, 2]), np.array([0, 2, 3]))
    assert len(found) == len({*map(tuple, found)}) == 6 and (found[:, 1] == 1).all()
    assert reorderings(np.array([1, 0]), np.array([], dtype=int)).tolist() == [[1, 0]]


def test_uniform_samples_exist_from_m_equal_to_M_on():
    assert barriers_of_uniform(Widths(**GRID | {"m": [2]}), "study").empty
    assert len(runs_of_uniform(Sparsity(**GRID | {"m": [2, 3]}), "study")) == 12
    assert runs_of_uniform(Sparsity(**GRID | {"uniform_pairs": 0}), "study").empty


def test_entries_of_a_column_are_sorted_and_the_expected_ones_are_those_of_a_broken_stick():
    W = uniform_minima(1, 4, 5, 20_000, np.random.default_rng(3)).dense()
    table = column_entries(students(W, Point(1, 4, 5, 0.5, 0.5)))
    assert table["rank"].tolist() == [1, 2, 3, 4, 5]
    assert table["mean"].is_monotonic_decreasing and table["expected"].sum() == pytest.approx(1)
    # An independent computation: the sample mean of normalised exponentials.
    np.testing.assert_allclose(table["mean"], table["expected"], atol=4 * (table["std"] / np.sqrt(20_000)).max())


def test_a_column_that_no_run_has_learnt_has_no_entries():
    W = uniform_minima(1, 4, 5, 3, np.random.default_rng(3)).dense()
    point = Point(1, 4, 5, 0.5, 0.5)
    table = column_entries(students(10 * W, point))
    assert table.empty and {"rank", "mean", "expected", "runs"} <= set(table.columns)
    # A mean needs two.
    assert column_entries(students(torch.cat([W[:1], 10 * W[1:]]), point)).empty
    assert len(column_entries(students(torch.cat([W[:2], 10 * W[2:]]), point))) == 5
