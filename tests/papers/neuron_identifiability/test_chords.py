import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from scipy.integrate import dblquad
from scipy.special import ndtr

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.chords import (
    GELU_CURVATURE,
    LAMBDAS,
    _plane,
    _sine_square_integral,
    chord_table,
    data_chord,
    gaussian_gelu_chord,
    gaussian_relu_chord,
    gelu_bound,
    relu_bound,
)

COLUMNS = ["inputs", "nonlinearity", "scale", "beta", "chord", "norm_F", "bound", "assumption"]
ETA = {"relu": functional.relu, "gelu": functional.gelu}


def layer(m: int, d: int, seed: int, trained: float = 0.3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    f, r_A, r_B = (torch.randn(m, d, generator=generator, dtype=torch.float64) for _ in range(3))
    return f, trained * r_A, trained * r_B


def covariance(d: int, seed: int, rank: int | None = None) -> torch.Tensor:
    root = torch.randn(d, rank or d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.T / d


def chord_by_definition(W_A: torch.Tensor, W_B: torch.Tensor, X: torch.Tensor, nonlinearity: str) -> float:
    """Eq. (30), root of the mean over inputs of the squared norm, largest over the grid."""
    eta = ETA[nonlinearity]

    def at(lam: float) -> float:
        W = (1 - lam) * W_A + lam * W_B
        xi = eta(X @ W.T) - (1 - lam) * eta(X @ W_A.T) - lam * eta(X @ W_B.T)
        return float(xi.square().sum(dim=1).mean().sqrt())

    return max(at(lam) for lam in LAMBDAS.tolist())


@pytest.mark.parametrize("nonlinearity", ["relu", "gelu"])
def test_the_chord_on_data_is_its_definition(nonlinearity: str) -> None:
    f, r_A, r_B = layer(70, 5, 0)
    X = torch.rand(200, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.3
    found = data_chord(X @ f.T, X @ r_A.T, X @ r_B.T, nonlinearity)
    assert found == pytest.approx(chord_by_definition(f + r_A, f + r_B, X, nonlinearity), rel=1e-12)


@pytest.mark.parametrize("trained", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("nonlinearity", ["relu", "gelu"])
def test_the_gaussian_chord_agrees_with_monte_carlo(nonlinearity: str, trained: float) -> None:
    parts = layer(6, 4, 2, trained)
    X = torch.randn(60_000, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    exact = {"relu": gaussian_relu_chord, "gelu": gaussian_gelu_chord}[nonlinearity](*parts)
    measured = data_chord(*(X @ part.T for part in parts), nonlinearity)
    assert exact == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(("sigma_A", "sigma_B", "theta"), [(1.0, 2.0, 0.6), (0.7, 0.7, 2.8), (3.0, 1.0, 1.5)])
def test_one_neuron_agrees_with_two_dimensional_quadrature(sigma_A: float, sigma_B: float, theta: float) -> None:
    W_A = torch.tensor([[sigma_A, 0.0]], dtype=torch.float64)
    W_B = sigma_B * torch.tensor([[math.cos(theta), math.sin(theta)]], dtype=torch.float64)
    zero = torch.zeros_like(W_A)

    def gelu(z: float) -> float:
        return z * float(ndtr(z))

    def integrand(y: float, x: float, lam: float) -> float:
        a, b = sigma_A * x, sigma_B * (math.cos(theta) * x + math.sin(theta) * y)
        xi = gelu((1 - lam) * a + lam * b) - (1 - lam) * gelu(a) - lam * gelu(b)
        return xi**2 * math.exp(-(x**2 + y**2) / 2) / (2 * math.pi)

    values = [
        dblquad(integrand, -7, 7, -7, 7, args=(lam,), epsabs=1e-7, epsrel=1e-5)[0] for lam in LAMBDAS.tolist()[5:14]
    ]
    assert gaussian_gelu_chord(zero, W_A, W_B) == pytest.approx(math.sqrt(max(values)), rel=2e-3)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_trainable_parts_keep_all_digits(size: float) -> None:
    # To leading order the wedge is a right angle's: with sigma = 1 and theta = size * x, E min(..)^2 is
    # (2 / pi) l^2 (1 - l)^2 theta^3 / 3 for each neuron, the largest at l = 1 / 2.
    f = torch.tensor([[1.0, 0.0, 0.0]] * 2, dtype=torch.float64)
    across = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    theta = 2 * size * across.sum(dim=1)
    leading = float((2 / math.pi * theta**3 / 3 / 16).sum().sqrt())
    assert gaussian_relu_chord(f, -size * across, size * across) == pytest.approx(leading, rel=max(10 * size**2, 1e-13))


@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_small_trainable_parts_bend_gelu_by_its_curvature(size: float) -> None:
    # xi = -l (1 - l) / 2 GELU''(Z) Delta^2 with independent Z ~ N(0, 1) and Delta ~ N(0, size^2).
    f, r_B = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, size]]).double()
    z = np.linspace(-12, 12, 200_001)
    phi = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    curvature = math.sqrt(np.sum(((2 - z**2) * phi) ** 2 * phi) * (z[1] - z[0]))
    expected = curvature * math.sqrt(3) * size**2 / 8
    assert gaussian_gelu_chord(f, torch.zeros_like(f), r_B) == pytest.approx(expected, rel=1e-3 + size)


def test_the_integral_of_the_squared_sine() -> None:
    t = torch.tensor([0.0, 1e-8, 1e-3, 0.4999, 0.5, 1.0, math.pi / 2, math.pi], dtype=torch.float64)
    reference = [float(np.mean(np.sin((np.arange(20_000) + 0.5) / 20_000 * x) ** 2)) * x for x in t.tolist()]
    np.testing.assert_allclose(_sine_square_integral(t), reference, rtol=1e-8)
    assert float(_sine_square_integral(t)[1]) == pytest.approx(1e-24 / 3, rel=1e-14)


def test_angles_between_weights() -> None:
    A = torch.tensor([[2.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    B = torch.tensor([[0.0, 3.0], [-2.0, 0.0], [1.0, 1e-11], [1.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
    sigma_A, sigma_B, theta = _plane(torch.zeros_like(A), A, B)
    np.testing.assert_allclose(sigma_A, np.linalg.norm(A, axis=1))
    np.testing.assert_allclose(sigma_B, np.linalg.norm(B, axis=1))
    np.testing.assert_allclose(theta, [math.pi / 2, math.pi, 1e-11, 0.0, 0.0], rtol=1e-12, atol=1e-15)


def test_opposite_and_absent_weights_have_the_chord_of_their_single_input() -> None:
    A, none = torch.tensor([[2.0]]).double(), torch.zeros(1, 1).double()
    # xi = min((1 - l) 2, l 2) |x| for W_B = -W_A, the largest at l = 1 / 2, and 0 where a weight is 0.
    assert gaussian_relu_chord(none, A, -A) == pytest.approx(1.0)
    assert gaussian_relu_chord(none, A, none) == gaussian_relu_chord(none, none, A) == 0.0
    assert gaussian_relu_chord(none, none, none) == gaussian_gelu_chord(none, none, none) == 0.0


def test_the_curvature_of_gelu() -> None:
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(functional.gelu(z).sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), z)
    assert float(second.abs().max()) == pytest.approx(GELU_CURVATURE)


def test_the_bounds_are_their_formulas() -> None:
    assert relu_bound(0.25, 3.0) ** 2 == pytest.approx(2 * math.pi**2 / 3 * 1.25**2 * 0.25**3 * 9)
    assert gelu_bound(0.5, torch.tensor([1.0, 2.0])) == pytest.approx(
        math.sqrt(3) / 2 * math.sqrt(2 / math.pi) / 4 * math.sqrt(17)
    )
    assert math.isnan(relu_bound(1.0, 3.0)) and math.isnan(gelu_bound(math.inf, torch.ones(2)))


@settings(max_examples=20)
@given(
    m=st.integers(1, 6),
    d=st.integers(1, 8),
    trained=st.floats(1e-4, 2),
    ratio=st.floats(0, 1),
    same=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_bounds_are_never_violated(m: int, d: int, trained: float, ratio: float, same: bool, seed: int) -> None:
    f, r_A, r_B = layer(m, d, seed, trained)
    r_B = -ratio * r_A if same else ratio * r_B
    X = torch.zeros(1, d)
    table = chord_table(f, f + r_A, f + r_B, covariance(d, seed), X, [1.0, 0.3, 1e-3])
    table = table[(table["inputs"] == "gaussian") & (table["bound"].notna())]
    assert (table["chord"] <= table["bound"]).all()
    assert (table[table["beta"] < 1]["assumption"] == "").all()


def test_the_relu_bound_has_the_right_order() -> None:
    f, r_A, r_B = layer(40, 10, 5)
    table = chord_table(f, f + r_A, f + r_B, torch.eye(10), torch.zeros(1, 10), [1e-2, 1e-4])
    relu = table[(table["inputs"] == "gaussian") & (table["nonlinearity"] == "relu")]
    ratio = relu["chord"] / relu["bound"]
    assert (ratio > 0.02).all() and ratio.iloc[0] == pytest.approx(ratio.iloc[1], rel=0.05)


def test_every_row_of_the_table_is_its_definition() -> None:
    F, R_A, R_B = layer(12, 6, 7)
    Sigma = covariance(6, 8, rank=4)
    X = torch.randn(50, 6, generator=torch.Generator().manual_seed(9))
    table = chord_table(F, F + R_A, F + R_B, Sigma, X, [1.0, 0.5, 0.1])
    assert list(table.columns) == COLUMNS and len(table) == 12
    f, r = F.numpy(), (R_A.numpy(), R_B.numpy())

    def norms(w: np.ndarray) -> np.ndarray:
        return np.sqrt(np.einsum("id,de,ie->i", w, Sigma.numpy(), w))

    # On inputs of that covariance, weights act as these do on independent ones.
    root = torch.linalg.cholesky(Sigma + 1e-13 * torch.eye(6))
    gaussian = {"relu": gaussian_relu_chord, "gelu": gaussian_gelu_chord}
    for row in table.to_dict("records"):
        s = row["scale"]
        beta = s * max((norms(part) / norms(f)).max() for part in r)
        assert row["beta"] == pytest.approx(beta)
        assert row["norm_F"] == pytest.approx(np.linalg.norm(norms(f)))
        chord = (
            chord_by_definition(F + s * R_A, F + s * R_B, X.double(), row["nonlinearity"])
            if row["inputs"] == "data"
            else gaussian[row["nonlinearity"]](F @ root, s * R_A @ root, s * R_B @ root)
        )
        assert row["chord"] == pytest.approx(chord, rel=1e-9 if row["inputs"] == "data" else 1e-4)
        expected = {"relu": relu_bound(beta, row["norm_F"]), "gelu": gelu_bound(beta, torch.from_numpy(norms(f)))}
        assert row["bound"] == pytest.approx(expected[row["nonlinearity"]], nan_ok=True)
        named = [f"beta = {beta:.3g} >= 1"] * int(beta >= 1) + ["inputs are not Gaussian"] * (row["inputs"] == "data")
        assert row["assumption"] == "; ".join(named)
    assert (table["beta"] >= 1).any() and (table["beta"] < 1).any()


def test_without_fixed_weights_the_rows_stay_and_say_so() -> None:
    _, W_A, W_B = layer(5, 4, 11)
    X = torch.randn(30, 4, generator=torch.Generator().manual_seed(12))
    absent, zero = (chord_table(F, W_A, W_B, torch.eye(4), X, [1.0, 0.1]) for F in (None, torch.zeros(5, 4)))
    assert absent.equals(zero)
    assert absent["assumption"].str.startswith("F = 0: beta is infinite").all()
    assert absent["bound"].isna().all() and np.isinf(absent["beta"]).all() and not absent["norm_F"].any()
    relu = absent[absent["nonlinearity"] == "relu"].set_index(["inputs", "scale"])["chord"]
    assert (relu > 0).all() and relu["data", 1.0] == pytest.approx(10 * relu["data", 0.1])


def test_diverged_weights_are_told() -> None:
    f, r_A, r_B = layer(2, 3, 0)
    with pytest.raises(UserError, match="diverged"):
        chord_table(f, f + r_A, f + torch.nan * r_B, torch.eye(3), torch.zeros(1, 3), [1.0])
