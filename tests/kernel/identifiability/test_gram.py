import numpy as np
import pytest
import torch

from symlab.identifiability.gram import deviation, gram_deviations, masked_gram, with_diagonal

MASKS = {
    "few hidden": lambda rng, m, d: (rng.random((m, d)).argsort(axis=1) >= 3).astype(float),
    "many hidden": lambda rng, m, d: (rng.random((m, d)).argsort(axis=1) >= d - 4).astype(float),
    "scaled": lambda rng, m, d: 1 / np.sqrt(rng.uniform(0.7, 1.3, (m, d))),
    "none": lambda rng, m, d: np.ones((m, d)),
}


def subspace(d: int, k: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("mu_D", [0.8, 1.0])
def test_deviations_are_those_of_the_full_matrices(masks: str, mu_D: float) -> None:
    u, D = subspace(24, 6), MASKS[masks](np.random.default_rng(1), 5, 24)
    expected = [np.linalg.norm(u.T @ np.diag(row**2) @ u - mu_D * np.eye(6), 2) for row in D]
    found = gram_deviations(torch.from_numpy(D), torch.from_numpy(u), mu_D, 5)
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_no_mask_deviates_by_nothing() -> None:
    assert not gram_deviations(None, torch.from_numpy(subspace(9, 2)), 1.0, 4).any()


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999, 1.001, 2.0])
def test_a_deviation_is_computed_only_above_the_threshold(masks: str, share: float) -> None:
    u, D = torch.from_numpy(subspace(24, 6)), MASKS[masks](np.random.default_rng(1), 5, 24)
    for row in torch.from_numpy(D):
        exact = deviation(masked_gram(row, u), 0.9)
        assert deviation(masked_gram(row, u), 0.9, share * exact) == pytest.approx(exact * max(share, 1), rel=1e-12)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("moved", [2, 24])
def test_a_reordered_mask_updates_the_gram_matrix(masks: str, moved: int) -> None:
    rng = np.random.default_rng(2)
    u = torch.from_numpy(subspace(24, 6))
    old = torch.from_numpy(MASKS[masks](rng, 1, 24)[0])
    order = torch.arange(24)
    order[:moved] = order[:moved].roll(1)
    updated, expected = with_diagonal(masked_gram(old, u), old, old[order], u), masked_gram(old[order], u)
    torch.testing.assert_close(updated.core, expected.core, rtol=0, atol=1e-14)
    assert (updated.hidden is None) == (expected.hidden is None)
