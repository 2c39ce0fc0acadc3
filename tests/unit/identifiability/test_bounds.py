import math

import numpy as np
import pytest
import torch

from symlab.errors import UserError
from symlab.identifiability.bounds import SquaredMoments, gram_deviation_bound, squared_moments
from symlab.identifiability.realization import gram
from symlab.identifiability.subspace import coherence

DRAWS = 400_000


def sampled_squares(scheme: dict, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    if scheme["name"] == "syre":
        return 1 / rng.uniform(1 - scheme["epsilon"], 1 + scheme["epsilon"], size)
    density = scheme["density"] if scheme["name"] == "sparse" else 1 - scheme["fixed_fraction"]
    return (rng.random(size) < density).astype(float)


@pytest.mark.parametrize(
    "scheme",
    [
        {"name": "sparse", "density": 0.15},
        {"name": "syre", "epsilon": 0.01},
        {"name": "syre", "epsilon": 0.5},
        {"name": "w_asymmetric", "fixed_fraction": 0.25},
    ],
)
def test_the_moments_are_those_of_samples(scheme: dict) -> None:
    squares = sampled_squares(scheme, np.random.default_rng(0), (DRAWS,))
    moments = squared_moments(scheme, fan_in=100)
    assert moments.mu_D == pytest.approx(squares.mean(), abs=5 * squares.std() / math.sqrt(DRAWS))
    assert moments.sigma_D2 == pytest.approx(squares.var(), rel=0.02)
    deviation = np.abs(squares - moments.mu_D).max()
    assert deviation <= moments.b_D * (1 + 1e-12)
    assert deviation == pytest.approx(moments.b_D, rel=0.01)


def test_a_layer_without_masks_does_not_deviate() -> None:
    for name in ("standard", "residual"):
        assert gram_deviation_bound(squared_moments({"name": name}, 10), nu=0.5, k=3, delta=0.1) == 0.0


def test_a_count_and_its_fraction_have_the_same_moments() -> None:
    by_count = squared_moments({"name": "w_asymmetric", "n_fixed": 64}, 784)
    assert by_count == squared_moments({"name": "w_asymmetric", "fixed_fraction": 64 / 784}, 784)
    assert by_count.mu_D == pytest.approx(720 / 784)


def test_the_bound_is_its_formula() -> None:
    L = math.log(2 * 3 / 0.1)
    bound = gram_deviation_bound(SquaredMoments(0.5, 0.25, 0.5), nu=0.2, k=3, delta=0.1)
    assert bound == pytest.approx(math.sqrt(2 * 0.25 * 0.2 * L) + 2 / 3 * 0.5 * 0.2 * L)


@pytest.mark.parametrize("scheme", [{"name": "sparse", "density": 0.5}, {"name": "syre", "epsilon": 0.5}])
def test_the_bound_holds_with_its_probability_and_is_not_vacuous(scheme: dict) -> None:
    rng = np.random.default_rng(1)
    d, k, delta = 400, 3, 0.1
    U = torch.from_numpy(np.linalg.qr(rng.standard_normal((d, k)))[0])
    D = torch.from_numpy(np.sqrt(sampled_squares(scheme, rng, (500, d))))
    moments = squared_moments(scheme, d)
    bound = gram_deviation_bound(moments, coherence(U), k, delta)
    identity = torch.eye(k, dtype=torch.float64)
    deviations = torch.linalg.matrix_norm(gram(D, U) - moments.mu_D * identity, ord=2)
    assert float((deviations <= bound).double().mean()) >= 1 - delta
    assert bound < 10 * float(deviations.median())


def test_what_is_no_probability_or_no_scheme_is_refused() -> None:
    with pytest.raises(UserError, match="delta is 1"):
        gram_deviation_bound(SquaredMoments(1.0, 0.0, 0.0), 0.5, 2, 1)
    with pytest.raises(UserError, match="'dropout'"):
        squared_moments({"name": "dropout"}, 4)
    with pytest.raises(UserError, match="epsilon"):
        squared_moments({"name": "syre", "epsilon": 1.0}, 4)
