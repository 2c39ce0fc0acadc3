import math

import numpy as np
import pytest
import torch

from symlab.identifiability.gram import weighted_gram
from symlab.identifiability.subspace import coherence
from symlab.papers.neuron_identifiability.bounds import (
    SquaredMoments,
    bernstein_moments,
    bernstein_tail,
    gram_deviation_bound,
    layer_scheme,
    sensitivity_bound,
    squared_moments,
)
from symlab.schemes import Residual, Scheme, Sparse, Standard, Syre, WAsymmetric, WAsymmetricHeads

DRAWS = 400_000


def grams(D, U):
    """S_i = U^T diag(d_i)^2 U of every row d_i of D (Eq. 9)."""
    return torch.stack([weighted_gram(d, U) for d in D])


def sampled_squares(scheme: Scheme, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    if isinstance(scheme, Syre):
        return 1 / rng.uniform(1 - scheme.epsilon, 1 + scheme.epsilon, size)
    density = scheme.density if isinstance(scheme, Sparse) else 1 - scheme.fixed_fraction
    return (rng.random(size) < density).astype(float)


@pytest.mark.parametrize(
    "scheme",
    [
        Sparse(name="sparse", density=0.15),
        Syre(name="syre", sigma_F=1.0, epsilon=0.01),
        Syre(name="syre", sigma_F=1.0, epsilon=0.5),
        WAsymmetric(name="w_asymmetric", sigma_F=1.0, fixed_fraction=0.25),
    ],
)
def test_the_moments_are_those_of_samples(scheme: Scheme) -> None:
    squares = sampled_squares(scheme, np.random.default_rng(0), (DRAWS,))
    moments = squared_moments(scheme, fan_in=100)
    assert moments.mu_D == pytest.approx(squares.mean(), abs=5 * squares.std() / math.sqrt(DRAWS))
    assert moments.sigma_D2 == pytest.approx(squares.var(), rel=0.02)
    deviation = np.abs(squares - moments.mu_D).max()
    assert deviation <= moments.b_D * (1 + 1e-12)
    assert deviation == pytest.approx(moments.b_D, rel=0.01)


def test_a_layer_without_masks_does_not_deviate() -> None:
    for scheme in (Standard(name="standard"), Residual(name="residual")):
        assert gram_deviation_bound(squared_moments(scheme, 10), nu=0.5, k=3, delta=0.1) == 0.0


def test_a_count_and_its_fraction_have_the_same_moments() -> None:
    by_count = squared_moments(WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=64), 784)
    assert by_count == squared_moments(WAsymmetric(name="w_asymmetric", sigma_F=1.0, fixed_fraction=64 / 784), 784)
    assert by_count.mu_D == pytest.approx(720 / 784)
    # 29.7 weights of 90 are 30.
    rounded = squared_moments(WAsymmetric(name="w_asymmetric", sigma_F=1.0, fixed_fraction=0.33), 90)
    assert rounded.mu_D == pytest.approx(60 / 90)


def test_the_bound_is_its_formula() -> None:
    L = math.log(2 * 3 / 0.1)
    bound = gram_deviation_bound(SquaredMoments(0.5, 0.25, 0.5), nu=0.2, k=3, delta=0.1)
    assert bound == pytest.approx(math.sqrt(2 * 0.25 * 0.2 * L) + 2 / 3 * 0.5 * 0.2 * L)


@pytest.mark.parametrize("scheme", [Sparse(name="sparse", density=0.5), Syre(name="syre", sigma_F=1.0, epsilon=0.5)])
def test_the_bound_holds_with_its_probability_and_is_not_vacuous(scheme: Scheme) -> None:
    rng = np.random.default_rng(1)
    d, k, delta = 400, 3, 0.1
    U = torch.from_numpy(np.linalg.qr(rng.standard_normal((d, k)))[0])
    D = torch.from_numpy(np.sqrt(sampled_squares(scheme, rng, (500, d))))
    moments = squared_moments(scheme, d)
    bound = gram_deviation_bound(moments, coherence(U), k, delta)
    identity = torch.eye(k, dtype=torch.float64)
    deviations = torch.linalg.matrix_norm(grams(D, U) - moments.mu_D * identity, ord=2)
    assert float((deviations <= bound).double().mean()) >= 1 - delta
    assert bound < 10 * float(deviations.median())


@pytest.mark.parametrize("n_free", [4, 20, 36])
def test_the_bound_for_masks_with_exact_counts_holds_and_is_within_twice_the_independent_one(n_free: int) -> None:
    rng = np.random.default_rng(n_free)
    d, k, delta = 40, 3, 0.2
    U = torch.from_numpy(np.linalg.qr(rng.standard_normal((d, k)))[0])
    D = torch.from_numpy((rng.random((2000, d)).argsort(axis=1) < n_free).astype(float))
    scheme = WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=d - n_free)
    proxies, moments = bernstein_moments(scheme, d), squared_moments(scheme, d)
    identity = torch.eye(k, dtype=torch.float64)
    deviations = torch.linalg.matrix_norm(grams(D, U) - moments.mu_D * identity, ord=2)
    bound = gram_deviation_bound(proxies, coherence(U), k, delta)
    assert float((deviations > bound).double().mean()) <= delta
    independent = gram_deviation_bound(moments, coherence(U), k, delta)
    assert independent <= bound <= 2 * independent
    # The variance proxies of draws with replacement, from their definition.
    u = U.numpy()
    X = np.einsum("la,lb->lab", u, u) - np.eye(k) / d
    variance = min(n_free, d - n_free) * np.linalg.norm(np.einsum("lab,lbc->ac", X, X) / d, 2)
    assert variance <= proxies.sigma_D2 * coherence(U)
    assert max(np.linalg.norm(x, 2) for x in X) <= proxies.b_D * coherence(U)


def test_independent_masks_need_no_other_moments_and_full_rows_do_not_deviate() -> None:
    for scheme in (
        Sparse(name="sparse", density=0.3),
        Syre(name="syre", sigma_F=1.0, epsilon=0.1),
        Standard(name="standard"),
    ):
        assert bernstein_moments(scheme, 10) == squared_moments(scheme, 10)
    nothing_hidden = bernstein_moments(WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=0), 10)
    assert nothing_hidden == squared_moments(Sparse(name="sparse", density=1.0), 10) == SquaredMoments(1.0, 0.0, 0.0)


def test_the_tail_at_the_bound_is_at_most_delta() -> None:
    moments = SquaredMoments(0.5, 0.25, 0.5)
    for delta in (1e-6, 0.01, 0.5):
        bound = gram_deviation_bound(moments, 0.2, 3, delta)
        assert delta / 1000 < bernstein_tail(moments, 0.2, 3, bound) <= delta
    assert bernstein_tail(moments, 0.2, 3, 0.0) == 6.0


def test_the_sensitivity_bound_is_its_formula() -> None:
    assert sensitivity_bound(0.5, 0.2, 1.0) == pytest.approx(1 + 0.25 * 2.5)
    assert sensitivity_bound(0.0, 0.0, 0.7) == 0.0
    assert math.isnan(sensitivity_bound(0.5, 1.0, 1.0))


def test_a_layer_has_its_own_count() -> None:
    fan_ins = {"linears.0": 8, "linears.1": 16}
    listed = WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=[2, 4])
    assert layer_scheme(listed, fan_ins, "linears.1") == WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=4)
    fraction = WAsymmetric(name="w_asymmetric", sigma_F=1.0, fixed_fraction=0.5)
    assert layer_scheme(fraction, fan_ins, "linears.0") == WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=4)
    assert layer_scheme(Syre(name="syre", sigma_F=1.0), fan_ins, "linears.0") == Syre(name="syre", sigma_F=1.0)


def test_unknown_moments_are_none() -> None:
    shared = WAsymmetricHeads(name="w_asymmetric_heads", sigma_F=1.0, n_fixed=2, heads=2)
    with pytest.raises(NotImplementedError, match="w_asymmetric_heads"):
        squared_moments(shared, 4)
