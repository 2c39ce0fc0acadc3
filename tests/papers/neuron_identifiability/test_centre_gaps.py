from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given

from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.centre_gaps import centre_gap, input_gap, row_gap, sample_fixed
from symlab.papers.neuron_identifiability.settings import CentreGaps
from symlab.study.statistics import slope

GAPS = ["gamma_out", "gamma_in", "row_gap"]


def orthonormal(d: int, k: int) -> torch.Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(d + k).standard_normal((d, k)))[0])


@given(m=st.integers(2, 30), k=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_the_gap_is_the_smallest_of_all_pairs(m: int, k: int, seed: int) -> None:
    V = np.random.default_rng(seed).standard_normal((m, k))
    brute = min(np.linalg.norm(V[i] - V[j]) for i in range(m) for j in range(i)) * np.sqrt(2)
    assert centre_gap(torch.from_numpy(V)) == pytest.approx(brute, rel=1e-12)


@given(m=st.integers(1, 6), d=st.integers(2, 14), seed=st.integers(0, 2**31))
def test_the_input_gap_is_the_least_shift_by_a_transposition(m: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    F, U = rng.standard_normal((m, d)), np.linalg.qr(rng.standard_normal((d, 2)))[0]
    shifts, rows = [], []
    for a in range(d):
        for b in range(a):
            P = np.eye(d)
            P[[a, b]] = P[[b, a]]
            shifts.append(np.linalg.norm(F @ (P - np.eye(d)) @ U))
            rows.append(np.linalg.norm((P - np.eye(d)) @ U) / np.sqrt(2))
    assert input_gap(torch.from_numpy(F), torch.from_numpy(U)) == pytest.approx(min(shifts), rel=1e-10)
    assert row_gap(torch.from_numpy(U)) == pytest.approx(min(rows), rel=1e-10)


def test_inputs_that_the_subspace_does_not_tell_apart_and_coincident_centres_have_no_gap() -> None:
    U = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert row_gap(U) == input_gap(torch.ones(3, 4).cumsum(dim=1), U) == centre_gap(torch.ones(3, 2)) == 0.0


def test_the_gap_of_nearly_coincident_centres_far_from_the_origin_keeps_its_digits() -> None:
    V = torch.tensor([[1e4, 0.0], [1e4 + 1e-6, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert centre_gap(V) == pytest.approx(np.sqrt(2) * 1e-6, rel=1e-5)


@pytest.mark.parametrize("gap", [centre_gap, row_gap])
def test_one_neuron_or_input_has_no_gap(gap) -> None:
    with pytest.raises(UserError, match="needs two of them"):
        gap(torch.ones(1, 2))


@pytest.mark.parametrize(("fixed_fraction", "n_fixed"), [(1.0, 40), (0.125, 5), (0.5, 20)])
def test_sampled_rows_have_the_exact_number_of_fixed_weights(fixed_fraction: float, n_fixed: int) -> None:
    F = sample_fixed(40, 50, 2.0, fixed_fraction, "test")
    assert ((F != 0).sum(dim=1) == n_fixed).all()
    assert float(F[F != 0].std()) == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("fixed_fraction", [0.0, 0.001, 1.5])
def test_a_fraction_that_fixes_nothing_or_too_much_is_refused(fixed_fraction: float) -> None:
    with pytest.raises(UserError, match="fixed_fraction"):
        sample_fixed(16, 4, 1.0, fixed_fraction, "test")


def test_the_gap_scales_with_sigma_F() -> None:
    U = orthonormal(32, 3)
    one, five = (centre_gap(sample_fixed(32, 20, sigma_F, 0.25, "scale") @ U) for sigma_F in (1.0, 5.0))
    assert five == pytest.approx(5 * one)


def drawn(experiment, U: torch.Tensor, study: str = "study", datasets: str = "a", **settings) -> pd.DataFrame:
    data = SimpleNamespace(extras={"U": U.numpy().astype("float32")}, provenance={})
    job = Job(study, datasets=dict.fromkeys(datasets, data))
    return experiment("centre_gaps", CentreGaps(**settings), job)["centre_gaps.csv"]


def test_the_table_is_complete_repeats_itself_and_has_draws_of_each_data_set(experiment) -> None:
    U, settings = orthonormal(16, 2), {"datasets": "ab", "widths": [4, 8], "draws": 3, "fixed_fraction": [0.75]}
    table = drawn(experiment, U, **settings)
    assert list(table.columns) == ["k", "d", "m", "draw", "sigma_F", "fixed_fraction", *GAPS, "dataset"]
    assert table.groupby(["dataset", "m"]).size().eq(3).all()
    assert table["gamma_out"].nunique() == table["gamma_in"].nunique() == len(table) == 12
    assert table["row_gap"].nunique() == 1
    for dataset, rows in table.groupby("dataset"):
        F = sample_fixed(16, 8, 1.0, 0.75, ("study", "centres", dataset), "centres", 8, 2)
        assert rows["gamma_out"].iloc[-1] == centre_gap(F @ U.float().double())
        assert rows["gamma_in"].iloc[-1] == input_gap(F, U.float().double())
    assert table.equals(drawn(experiment, U, **settings))
    assert not table.equals(drawn(experiment, U, "another seed", **settings))


@pytest.mark.parametrize("fixed_fraction", [0.125, 1.0])
def test_the_slope_for_few_dimensions_is_the_predicted_one(fixed_fraction: float, experiment) -> None:
    widths = [16, 64, 256, 1024]
    table = drawn(experiment, orthonormal(128, 2), widths=widths, draws=12, fixed_fraction=[fixed_fraction])
    assert slope(table.groupby("m")["gamma_out"].mean()) == pytest.approx(-1.0, abs=0.15)


def test_the_slope_of_a_power_is_its_exponent() -> None:
    m = np.array([2.0, 4.0, 8.0])
    assert slope(pd.Series(0.7 * m**-0.5, index=m)) == pytest.approx(-0.5)
    assert not np.isfinite(slope(pd.Series([1.0, 0.0], index=[2.0, 4.0])))
