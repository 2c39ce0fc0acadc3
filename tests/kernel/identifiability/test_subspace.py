import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from symlab.errors import UserError
from symlab.identifiability.subspace import Covariance, coherence, principal_subspace


def stream(x: torch.Tensor, sizes: list[int]) -> Covariance:
    seen = Covariance()
    for batch in x.split(sizes):
        seen.update(batch)
    return seen


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_streamed_covariance_is_numpys(dtype: torch.dtype, tolerance: float) -> None:
    x = torch.randn(200, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype) @ torch.diag(
        torch.arange(1, 8, dtype=dtype)
    )
    seen = stream(x, [1, 63, 0, 100, 36])
    assert seen.n == 200
    np.testing.assert_allclose(seen.mean, x.double().numpy().mean(axis=0), rtol=0, atol=tolerance)
    np.testing.assert_allclose(seen.covariance(), np.cov(x.double().numpy().T), rtol=0, atol=50 * tolerance)


def test_a_large_offset_does_not_eat_the_digits_of_float32_inputs() -> None:
    noise = torch.randn(4096, 5, generator=torch.Generator().manual_seed(1))
    x = noise + 1000.0
    seen = stream(x, [1024] * 4)
    np.testing.assert_allclose(seen.covariance(), np.cov(x.double().numpy().T), rtol=0, atol=1e-5)


def test_the_covariance_needs_two_samples() -> None:
    seen = Covariance()
    with pytest.raises(UserError, match="at least one sample"):
        _ = seen.mean
    seen.update(torch.zeros(1, 3))
    with pytest.raises(UserError, match="at least two samples"):
        seen.covariance()


def test_the_subspace_has_the_planted_dimension_and_directions() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    variances = np.r_[[50.0, 30.0, 11.0], np.full(27, 9.0 / 27)]
    found = principal_subspace(torch.from_numpy(basis @ np.diag(variances) @ basis.T), 0.9)
    planted = basis[:, :3]
    assert found.k == 3
    assert found.explained == pytest.approx(0.91)
    np.testing.assert_allclose(found.U @ found.U.T, planted @ planted.T, atol=1e-10)
    assert found.nu == pytest.approx((planted**2).sum(axis=1).max())


@pytest.mark.parametrize(("share", "k"), [(0.5, 1), (0.50001, 2), (0.8, 2), (0.95, 3), (1.0, 3)])
def test_the_dimension_is_the_smallest_that_reaches_the_share(share: float, k: int) -> None:
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    covariance = rotation @ np.diag([5.0, 3.0, 2.0, 0.0, 0.0, 0.0]) @ rotation.T
    assert principal_subspace(torch.from_numpy(covariance), share).k == k


@pytest.mark.parametrize(
    ("covariance", "share", "message"),
    [
        (torch.eye(2), 0.0, "explained_variance is 0.0"),
        (torch.eye(2), 1.1, "explained_variance is 1.1"),
        (torch.zeros(2, 2), 0.9, "do not vary"),
        (torch.full((2, 2), torch.nan), 0.9, "not finite"),
    ],
)
def test_a_subspace_that_cannot_be_is_refused(covariance: torch.Tensor, share: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        principal_subspace(covariance, share)


@given(d=st.integers(1, 20), data=st.data(), seed=st.integers(0, 2**31))
def test_coherence_lies_between_k_over_d_and_one_whatever_the_basis(d: int, data: st.DataObject, seed: int) -> None:
    k = data.draw(st.integers(1, d))
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((d, k)))[0]
    nu = coherence(torch.from_numpy(U))
    assert k / d - 1e-12 <= nu <= 1 + 1e-12
    turned = U @ np.linalg.qr(rng.standard_normal((k, k)))[0]
    assert coherence(torch.from_numpy(turned)) == pytest.approx(nu)
    assert nu == pytest.approx(np.diag(U @ U.T).max())
