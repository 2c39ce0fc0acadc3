import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from symlab.identifiability.subspace import coherence
from symlab.papers.neuron_identifiability.bounds import bernstein_tail, squared_moments
from symlab.papers.neuron_identifiability.centre_gaps import centre_gap, input_gap, row_gap, sample_fixed
from symlab.papers.neuron_identifiability.network_gaps import centre_gap_bound, gap_table, mask_failure, neurons_needed
from symlab.schemes import Residual, Scheme, Sparse, Syre, WAsymmetric

COLUMNS = ["gap", "m", "d_in", "k_subspace", "nu", "gamma", "lower", "upper", "assumption"]
SYRE = Syre(name="syre", sigma_F=2.0, epsilon=0.01)


def subspace(d: int, k: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0])


def masked(n_fixed: int) -> Scheme:
    return WAsymmetric(name="w_asymmetric", sigma_F=2.0, n_fixed=n_fixed)


def test_the_table_compares_the_gaps_with_their_bounds() -> None:
    F, U = sample_fixed(32, 300, 2.0, 1.0, "F"), subspace(32, 2)
    table = gap_table(F.float(), U, 300, SYRE, 0.05, True)
    assert list(table.columns) == COLUMNS
    out, into = table.iloc[0], table.iloc[1]
    assert (out["gap"], into["gap"]) == ("out", "in")
    assert (table["assumption"] == "").all()
    assert out["gamma"] == pytest.approx(centre_gap(F @ U), rel=1e-4)
    assert out["lower"] <= out["gamma"] and math.isnan(out["upper"])
    assert into["gamma"] == pytest.approx(input_gap(F, U), rel=1e-4)
    assert into["lower"] <= into["gamma"] <= into["upper"]
    assert into["lower"] == pytest.approx(2 * math.sqrt(300) * row_gap(U))
    assert into["upper"] == pytest.approx(math.sqrt(3) * into["lower"])


@pytest.mark.parametrize(("d", "n_fixed"), [(96, 96), (96, 72), (96, 48)])
def test_the_centre_gap_stays_above_its_bound_and_follows_its_scale(d: int, n_fixed: int) -> None:
    U, delta, p = subspace(d, 3), 0.2, n_fixed / d
    gaps = [centre_gap(sample_fixed(d, 40, 2.0, p, "draw", draw) @ U) for draw in range(60)]
    bound = centre_gap_bound(40, 3, 2.0, p, delta)
    assert np.mean(np.array(gaps) < bound) <= delta
    assert bound > np.quantile(gaps, delta) / 10
    assert centre_gap_bound(40, 3, 6.0, p, delta) == pytest.approx(3 * bound)
    assert centre_gap_bound(40 * 8, 3, 2.0, p, delta) == pytest.approx(bound / 4)


def test_the_centre_gap_bound_is_its_formula() -> None:
    q = 2 * 0.3 - 0.3**2
    ball = math.pi  # of two dimensions
    t = 0.25 * math.sqrt(q) * 5 * math.sqrt(2 * math.pi) * (0.1 / 7**2 / ball) ** 0.5
    assert centre_gap_bound(7, 2, 5.0, 0.3, 0.1) == pytest.approx(math.sqrt(2) * t)


@pytest.mark.parametrize(("d", "n_fixed", "k"), [(60, 40, 2), (60, 20, 2), (200, 100, 3)])
def test_the_mask_event_fails_at_most_as_often_as_its_bound_says(d: int, n_fixed: int, k: int) -> None:
    rng = np.random.default_rng(0)
    u = subspace(d, k).numpy()
    q = 1 - (1 - n_fixed / d) ** 2
    masks = rng.random((2, 3000, d)).argsort(axis=2) < n_fixed
    P = np.einsum("nl,la,lb->nab", (masks[0] | masks[1]).astype(float), u, u)
    failed = np.linalg.norm(P - q * np.eye(k), ord=2, axis=(1, 2)) > q / 2
    assert failed.mean() <= mask_failure(d, n_fixed, coherence(torch.from_numpy(u)), k) + 1e-12


def test_the_mask_event_is_priced_by_the_size_of_the_union() -> None:
    d, n_fixed, nu, k = 6, 4, 0.02, 1
    unions = [
        len({*one, *other}) / d for one in combinations(range(d), n_fixed) for other in combinations(range(d), n_fixed)
    ]
    q = 8 / 9
    tails = [
        min(1, 2 * k * math.exp(-(t**2) / 2 / (min(share, 1 - share) * nu + nu * t / 3)))
        for share in unions
        for t in [q / 2 - abs(share - q)]
    ]
    assert mask_failure(d, n_fixed, nu, k) == pytest.approx(np.mean(tails), rel=1e-9, abs=0)


def test_the_mask_event_is_certain_without_masks_and_comes_close_to_that_of_independent_ones() -> None:
    assert mask_failure(50, 50, 0.1, 2) == 0.0
    q = squared_moments(Sparse(name="sparse", density=0.75), 1)
    independent = bernstein_tail(q, 0.005, 2, 0.375)
    assert independent**2 < mask_failure(800, 400, 0.005, 2) < math.sqrt(independent)
    assert mask_failure(800, 400, 0.9, 2) == pytest.approx(1.0)


@pytest.mark.parametrize(("d", "n_fixed"), [(12, 12), (12, 6), (12, 2), (12, 1)])
def test_enough_neurons_keep_all_pairs_in_the_interval(d: int, n_fixed: int) -> None:
    delta, p = 0.3, n_fixed / d
    m = neurons_needed(d, n_fixed, delta)
    failed = 0
    for draw in range(20):
        F = sample_fixed(d, m, 1.0, p, "draw", draw)
        squares = torch.cdist(F.T, F.T).square()[tuple(torch.triu_indices(d, d, offset=1))] / (m * p)
        failed += bool((squares < 1).any() | (squares > 3).any())
    assert failed <= delta * 20
    # And not for want of bite: a tenth of them is not enough.
    F = sample_fixed(d, max(1, m // 10), 1.0, p, "few")
    squares = torch.cdist(F.T, F.T).square()[tuple(torch.triu_indices(d, d, offset=1))] / (len(F) * p)
    assert bool((squares < 1).any() | (squares > 3).any())


def test_without_masks_the_neurons_needed_are_those_of_a_chi_square() -> None:
    d, delta = 50, 0.1
    pairs = d * (d - 1) / 2
    rate = min(0.5 * (ratio - 1 - math.log(ratio)) for ratio in (0.5, 1.5))
    m = neurons_needed(d, d, delta)
    assert m == math.ceil(math.log(2 * pairs / delta) / rate)
    # Exact tails are below the Chernoff bound, and a third of the neurons would break the union bound.
    assert pairs * (chi2.cdf(m / 2, m) + chi2.sf(3 * m / 2, m)) <= delta
    assert pairs * (chi2.cdf(m / 6, m // 3) + chi2.sf(m / 2, m // 3)) > delta


def test_violated_assumptions_are_named_with_their_size() -> None:
    U = subspace(32, 8)
    table = gap_table(sample_fixed(32, 20, 2.0, 4 / 32, "F"), U, 20, masked(4), 0.05, False)
    out, into = table["assumption"]
    assert out == "event (107) may fail with probability 1 > 6.3e-05; U depends on F"
    assert into == f"m = 20 < {neurons_needed(32, 4, 0.05)} neurons"
    assert table["lower"].notna().all()
    deeper = gap_table(sample_fixed(32, 400, 2.0, 1.0, "F"), U, 400, SYRE, 0.05, False)
    assert deeper["assumption"].tolist() == ["U depends on F", ""]


@pytest.mark.parametrize(
    ("F", "scheme", "assumption"),
    [
        (None, Sparse(name="sparse", density=0.5), "F = 0"),
        (torch.zeros(6, 6), masked(2), "F = 0"),
        (torch.eye(6), Residual(name="residual"), "rows of F are not independent masked Gaussians"),
    ],
)
def test_rows_without_bounds_stay(F: torch.Tensor | None, scheme: Scheme, assumption: str) -> None:
    table = gap_table(F, subspace(6, 2), 6, scheme, 0.05, True)
    assert list(table.columns) == COLUMNS and len(table) == 2
    assert (table["assumption"] == assumption).all()
    assert table[["lower", "upper"]].isna().all(axis=None)
    assert (table["gamma"] > 0).all() == (assumption == "rows of F are not independent masked Gaussians")
    assert (table[["m", "d_in", "k_subspace"]] == [6, 6, 2]).all(axis=None)


def test_inputs_that_the_subspace_does_not_tell_apart_are_named() -> None:
    U = torch.linalg.qr(torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    U = torch.cat([U, torch.full((2, 4), 1e-17, dtype=torch.float64)])
    F = torch.randn(500, 32, generator=torch.Generator().manual_seed(1))
    into = gap_table(F, U, 500, Syre(name="syre", sigma_F=1.0, epsilon=0.01), 0.05, True).iloc[1]
    assert (into["gamma"], into["lower"], into["upper"]) == (0, 0, 0)
    assert into["assumption"] == "two inputs are alike on the subspace: gamma_in = 0"
