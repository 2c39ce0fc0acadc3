import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from symlab.errors import UserError
from symlab.identifiability import centres
from symlab.identifiability.centres import centre_gap, centre_gap_table, predicted_rate, sample_centres, slope


def orthonormal(d: int, k: int) -> torch.Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(d + k).standard_normal((d, k)))[0])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(m=st.integers(2, 30), k=st.integers(1, 5), chunk=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_the_gap_is_the_smallest_of_all_pairs_whatever_the_chunks(m: int, k: int, chunk: int, seed: int) -> None:
    V = np.random.default_rng(seed).standard_normal((m, k))
    brute = min(np.linalg.norm(V[i] - V[j]) for i in range(m) for j in range(i)) * np.sqrt(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(centres, "CHUNK_ROWS", chunk)
        assert centre_gap(torch.from_numpy(V)) == pytest.approx(brute, rel=1e-12)


def test_the_gap_of_nearly_coincident_centres_far_from_the_origin_keeps_its_digits() -> None:
    V = torch.tensor([[1e4, 0.0], [1e4 + 1e-6, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert centre_gap(V) == pytest.approx(np.sqrt(2) * 1e-6, rel=1e-5)


def test_coincident_centres_have_no_gap() -> None:
    assert centre_gap(torch.ones(3, 2)) == 0.0


def test_one_neuron_has_no_gap() -> None:
    with pytest.raises(UserError, match="at least two neurons"):
        centre_gap(torch.ones(1, 2))


@pytest.mark.parametrize(("fixed_fraction", "n_fixed"), [(1.0, 40), (0.125, 5), (0.5, 20)])
def test_sampled_centres_come_from_rows_with_the_exact_number_of_fixed_weights(
    fixed_fraction: float, n_fixed: int
) -> None:
    F = sample_centres(torch.eye(40, dtype=torch.float64), 50, 2.0, fixed_fraction, "test")
    assert ((F != 0).sum(dim=1) == n_fixed).all()
    assert float(F[F != 0].std()) == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("fixed_fraction", [0.0, 0.001, 1.5])
def test_a_fraction_that_fixes_nothing_or_too_much_is_refused(fixed_fraction: float) -> None:
    with pytest.raises(UserError, match="fixed_fraction"):
        sample_centres(orthonormal(16, 2), 4, 1.0, fixed_fraction, "test")


def test_the_gap_scales_with_sigma_F() -> None:
    U = orthonormal(32, 3)
    one, five = (centre_gap(sample_centres(U, 20, sigma_F, 0.25, "scale")) for sigma_F in (1.0, 5.0))
    assert five == pytest.approx(5 * one)


def test_the_table_is_complete_and_repeats_itself() -> None:
    U = orthonormal(16, 2)
    table = centre_gap_table(U, [4, 8], 3, 1.0, 0.25, "table")
    assert list(table.columns) == ["k", "d", "m", "draw", "sigma_F", "fixed_fraction", "gamma_out"]
    assert table.groupby("m").size().to_dict() == {4: 3, 8: 3}
    assert table["gamma_out"].nunique() == 6
    assert table.equals(centre_gap_table(U, [4, 8], 3, 1.0, 0.25, "table"))
    assert not table.equals(centre_gap_table(U, [4, 8], 3, 1.0, 0.25, "another seed"))


@pytest.mark.parametrize("fixed_fraction", [0.125, 1.0])
def test_the_slope_for_few_dimensions_is_the_predicted_one(fixed_fraction: float) -> None:
    table = centre_gap_table(orthonormal(128, 2), [16, 64, 256, 1024], 12, 1.0, fixed_fraction, "slope")
    assert slope(table) == pytest.approx(-1.0, abs=0.15)


def test_the_slope_of_the_predicted_rate_is_its_exponent() -> None:
    table = centre_gap_table(orthonormal(8, 4), [2, 4, 8], 1, 1.0, 1.0, "any")
    table["gamma_out"] = predicted_rate(table["m"].to_numpy(), 4, 2, 0.7)
    assert slope(table) == pytest.approx(-0.5)
    assert float(predicted_rate(2, 4, 2, 0.7)) == pytest.approx(0.7)


def test_a_slope_of_mixed_or_single_settings_is_refused() -> None:
    table = centre_gap_table(orthonormal(8, 4), [2, 4], 1, 1.0, 1.0, "any")
    with pytest.raises(UserError, match="one sigma_F"):
        slope(table.assign(sigma_F=[1.0, 2.0]))
    with pytest.raises(UserError, match="two widths"):
        slope(table[table["m"] == 2])
