import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.optimize import minimize
from scipy.special import erf

from symlab.errors import UserError
from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.identifiability.recording import layer_inputs
from symlab.networks import MLP, Lecun, build
from symlab.papers.neuron_identifiability import ridge, ridge_solvers
from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions, layer_functions
from symlab.papers.neuron_identifiability.ridge import ridge_costs, ridge_swap_costs
from symlab.papers.neuron_identifiability.ridge_problems import (
    input_moments,
    largest_slope,
    nonlinear,
    surrogate,
    times_derivative,
)
from symlab.schemes import WAsymmetric
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Replica, Run, train_block
from symlab.training.settings import Recipe

PHI = {"identity": lambda z: z, "relu": lambda z: np.maximum(z, 0), "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2}


def a_layer(
    phi: str, scheme: str = "w_asymmetric", m: int = 5, d: int = 6, seed: int = 0, norm: bool = True
) -> NeuronFunctions:
    """Random neurons; a third of each mask's entries are 0, or all of ``syre``'s are near 1."""
    rng = np.random.default_rng(seed)
    F, D = np.zeros((m, d)), np.ones((m, d))
    if scheme == "w_asymmetric":
        hidden = rng.random((m, d)).argsort(axis=1) < d // 3
        F, D = hidden * rng.standard_normal((m, d)), 1.0 - hidden
    elif scheme == "syre":
        F, D = rng.standard_normal((m, d)), 1 / np.sqrt(rng.uniform(0.9, 1.1, (m, d)))
    scales = [rng.uniform(0.3, 2, m) * rng.choice([-1, 1], m), rng.standard_normal(m), rng.standard_normal(m)]
    alpha, kappa, bias = scales if norm else (np.ones(m), np.zeros(m), np.zeros(m))
    parts = (F + D * rng.standard_normal((m, d)), F, D, alpha, kappa, bias)
    return NeuronFunctions(*(torch.from_numpy(part) for part in parts), nonlinearity=phi)


def inputs(n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + 0.3


def all_pairs(m: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(m).repeat_interleave(m), torch.arange(m).repeat(m)


def objective(layer: NeuronFunctions, X: torch.Tensor, i: int, j: int, beta: float, w: np.ndarray) -> float:
    """Def. E.3's objective written out in numpy."""
    W, F, D, alpha, kappa, bias = (
        getattr(layer, name).numpy() for name in ("W_eff", "F", "D", "alpha", "kappa", "bias")
    )
    phi, x = PHI[layer.nonlinearity], X.double().numpy()
    target = phi(alpha[j] * (x @ W[j] + bias[j]) + kappa[j])
    realized = phi(alpha[i] * (x @ (F[i] + D[i] * w) + bias[i]) + kappa[i])
    return float(np.mean((target - realized) ** 2) / beta + w @ w)


def bounds(layer: NeuronFunctions, X: torch.Tensor, i: torch.Tensor, j: torch.Tensor, beta: float) -> torch.Tensor:
    """Of Theorem E.4, float64: the minima of its surrogates."""
    return surrogate(layer, input_moments(X, torch.ones(1, len(X))).plain, i, j, beta)[1]


@given(
    scheme=st.sampled_from(["standard", "w_asymmetric", "syre"]),
    n=st.integers(1, 30),
    d=st.integers(3, 9),
    beta=st.sampled_from([1e-3, 0.1, 2.0]),
    seed=st.integers(0, 2**31),
)
def test_linear_neurons_have_the_closed_form_of_ridge_regression(
    scheme: str, n: int, d: int, beta: float, seed: int
) -> None:
    layer, X = a_layer("identity", scheme, m=3, d=d, seed=seed), inputs(n, d, seed)
    i, j = all_pairs(3)
    expected = []
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        G = layer.alpha[a] * X * layer.D[a]
        shift = layer.alpha * layer.bias + layer.kappa
        gap = X @ (layer.alpha[b] * layer.W_eff[b] - layer.alpha[a] * layer.F[a]) + shift[b] - shift[a]
        stacked = torch.cat([G / (beta * n) ** 0.5, torch.eye(d)]).numpy()
        right = np.concatenate([gap.numpy() / (beta * n) ** 0.5, np.zeros(d)])
        w = np.linalg.lstsq(stacked, right, rcond=None)[0]
        expected.append(objective(layer, X, a, b, beta, w))
    costs = ridge_costs(layer, X, i, j, beta)
    np.testing.assert_allclose(costs, expected, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(bounds(layer, X, i, j, beta), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("phi", ["gelu", "relu"])
def test_costs_are_the_lowest_that_many_starts_find(phi: str) -> None:
    layer, X, beta = a_layer(phi, m=3, d=4), inputs(40, 4), 0.05
    i, j = (neurons[1:8:2] for neurons in all_pairs(3))
    costs = ridge_costs(layer, X, i, j, beta)
    rng = np.random.default_rng(0)
    for found, a, b in zip(costs.tolist(), i.tolist(), j.tolist(), strict=True):
        runs = [
            minimize(lambda w, a=a, b=b: objective(layer, X, a, b, beta, w), start, tol=1e-10).fun
            for start in 2 * rng.standard_normal((8, 4))
        ]
        assert found == pytest.approx(min(runs), rel=1e-4)


@given(
    phi=st.sampled_from(["gelu", "relu"]),
    scheme=st.sampled_from(["standard", "w_asymmetric", "syre"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    n=st.integers(1, 60),
    d=st.integers(3, 9),
    beta=st.sampled_from([1e-3, 0.01, 0.1, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_no_cost_exceeds_the_bound_of_theorem_e4_or_the_own_weights(
    phi: str, scheme: str, dtype: torch.dtype, n: int, d: int, beta: float, seed: int
) -> None:
    layer, X = a_layer(phi, scheme, m=3, d=d, seed=seed), inputs(n, d, seed)
    costs = ridge_costs(layer, X.to(dtype), *all_pairs(3), beta)
    assert costs.dtype == torch.float64
    assert bool(torch.isfinite(costs).all()) and bool((costs >= 0).all())
    # The rounding of the inputs to float32 stays out: costs and bounds are of the rounded inputs.
    slack = 1e-7
    assert bool((costs <= bounds(layer, X.to(dtype), *all_pairs(3), beta) * (1 + slack) + slack**2).all())
    own = layer.own_weights.square().sum(dim=1)
    assert bool((costs.reshape(3, 3).diagonal() <= own * (1 + slack)).all())


def test_the_bound_is_the_minimum_of_its_surrogate() -> None:
    layer, X, beta = a_layer("gelu", m=2, d=5), inputs(50, 5), 0.02
    bound = float(bounds(layer, X, torch.tensor([0]), torch.tensor([1]), beta))
    x, L = X.numpy(), 1.1289042
    W, F, D, alpha, shift = (getattr(layer, name).numpy() for name in ("W_eff", "F", "D", "alpha", "shift"))
    y = alpha[1] * x @ W[1] + shift[1]

    def surrogate(w: np.ndarray) -> float:
        z = alpha[0] * x @ (F[0] + D[0] * w) + shift[0]
        return float(L**2 / beta * np.mean((y - z) ** 2) + w @ w)

    assert bound == pytest.approx(minimize(surrogate, np.zeros(5), tol=1e-12).fun, rel=1e-6)


def test_the_steepest_slope_of_gelu() -> None:
    z = torch.linspace(-6, 6, 200_001, dtype=torch.float64)
    slopes = times_derivative("gelu", torch.ones_like(z), z).abs()
    assert float(slopes.max()) == pytest.approx(largest_slope("gelu"), abs=1e-9)
    assert bool((slopes <= largest_slope("gelu")).all())


@pytest.mark.parametrize("phi", ["gelu", "relu", "identity"])
def test_the_derivative_is_the_one_autograd_finds(phi: str) -> None:
    z = torch.linspace(-4, 4, 101, dtype=torch.float64, requires_grad=True)
    r = torch.linspace(1, 3, 101, dtype=torch.float64)
    (expected,) = torch.autograd.grad((r * nonlinear(phi, z)).sum(), z)
    torch.testing.assert_close(times_derivative(phi, r, z.detach()), expected)


@pytest.mark.parametrize("phi", ["relu", "gelu"])
def test_without_error_tolerance_the_costs_are_the_mahalanobis_costs(phi: str) -> None:
    layer = a_layer(phi, "w_asymmetric", m=4, d=9, norm=False)
    U = torch.linalg.qr(inputs(9, 3, seed=1)).Q
    latents = inputs(400, 3, seed=2)
    X = (latents - latents.mean(dim=0)) @ U.T
    exact = realization_costs(layer.W_eff, layer.F, layer.D, U).flatten()
    errors = [float((ridge_costs(layer, X, *all_pairs(4), beta) / exact - 1).abs().max()) for beta in (1e-2, 1e-4)]
    assert errors[1] < errors[0] / 30
    assert errors[1] < 1e-2
    pairs = torch.triu_indices(4, 4, offset=1)
    swaps = ridge_swap_costs(layer, X, pairs.T, 1e-7)
    torch.testing.assert_close(swaps, swap_costs(exact.reshape(4, 4))[pairs[0], pairs[1]], rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def trained() -> tuple[NeuronFunctions, torch.Tensor]:
    """The second layer of a batch norm network that classifies points by a quadratic rule."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 16, generator=generator)
    y = (x[:, :4].square().sum(dim=1) > 3.4).long()
    data = TrainingData(x, y, x[:64], y[:64], "classification")
    recipe = Recipe(optimizer="adamw", lr=3e-3, weight_decay=0.01, decay_bias=True, epochs=10, batch_size=128)
    network = MLP(name="mlp", widths=[16, 16], norm="batchnorm")
    scheme = WAsymmetric(name="w_asymmetric", fixed_fraction=0.25, sigma_F=1.0)
    run = Run(lambda: build(network, 16, 2), data, scheme, Lecun(name="lecun"), recipe, [10], ("study", "variant"))
    block = train_block(run, [Replica(0, 0)])
    state = {name: tensor[0] for name, tensor in block.snapshots[10].items()}
    module = build(network, 16, 2)
    functions = layer_functions(module, state, "linears.1", *block.fixed[0]["linears.1.weight"])
    return functions, layer_inputs(module, state, x)["linears.1"]


def test_on_a_trained_network_costs_are_below_bound_and_own_weights_and_all_but_one_below_those_of_adamw(
    trained: tuple[NeuronFunctions, torch.Tensor],
) -> None:
    functions, X = trained
    i, j = all_pairs(6)
    costs = ridge_costs(functions, X, i, j, 0.01)
    assert bool((costs <= bounds(functions, X, i, j, 0.01) * (1 + 1e-5)).all())
    own = functions.own_weights.square().sum(dim=1)[:6]
    assert bool((costs.reshape(6, 6).diagonal() <= own).all())
    # The paper's solver (Appendix F.7), all pairs at once, from the realizer's weights.
    z = lambda u: X.double() @ (functions.alpha[:, None] * u).T + functions.shift  # noqa: E731
    targets, phi = nonlinear(functions.nonlinearity, z(functions.W_eff)), torch.nn.functional.gelu
    w = functions.own_weights[i].clone().requires_grad_()
    optimizer = torch.optim.AdamW([w], lr=0.005, weight_decay=0)
    for _ in range(2000):
        u = functions.alpha[i, None] * (functions.F[i] + functions.D[i] * w)
        realized = phi(X.double() @ u.T + functions.shift[i])
        papers = (targets[:, j] - realized).square().mean(dim=0) / 0.01 + w.square().sum(dim=1)
        optimizer.zero_grad()
        papers.sum().backward()
        optimizer.step()
    papers = papers.detach()
    # The objective is not convex, and each solver ends in a minimum that the other one misses.
    assert int((costs > papers * (1 + 1e-3)).sum()) <= 1
    assert float(costs.sum()) < float(papers.sum())
    assert float(papers.median() / costs.median()) == pytest.approx(1, abs=0.02)


def test_hidden_inputs_change_nothing() -> None:
    layer, X = a_layer("gelu", m=3), inputs(50, 6)
    pad = lambda part: torch.cat([part, torch.zeros(3, 4, dtype=torch.float64)], dim=1)  # noqa: E731
    wider = NeuronFunctions(
        *(pad(part) for part in (layer.W_eff, layer.F, layer.D)), layer.alpha, layer.kappa, layer.bias, "gelu"
    )
    expected = ridge_costs(layer, X, *all_pairs(3), 0.01)
    padded = ridge_costs(wider, torch.cat([X, inputs(50, 4, seed=9)], dim=1), *all_pairs(3), 0.01)
    torch.testing.assert_close(padded, expected, rtol=1e-6, atol=1e-9)


def test_a_neuron_without_inputs_pays_for_the_whole_error() -> None:
    layer, X, beta = a_layer("relu", m=2), inputs(30, 6), 0.1
    layer.D[0] = 0
    layer.W_eff[0] = layer.F[0]
    costs = ridge_costs(layer, X, torch.tensor([0, 0]), torch.tensor([0, 1]), beta)
    assert float(costs[0]) == pytest.approx(0, abs=1e-12)
    assert float(costs[1]) == pytest.approx(objective(layer, X, 0, 1, beta, np.zeros(6)), rel=1e-10)


def test_how_pairs_are_grouped_changes_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, X = a_layer("gelu", m=6), inputs(200, 6)
    i, j = all_pairs(6)
    together = ridge_costs(layer, X, i, j, 0.01)
    order = torch.randperm(36, generator=torch.Generator().manual_seed(0))
    shuffled = ridge_costs(layer, X, i[order], j[order], 0.01)
    torch.testing.assert_close(shuffled, together[order], rtol=1e-5, atol=1e-8)
    for name, value in (("CHUNK", 5), ("FACTOR_BYTES", 1)):
        monkeypatch.setattr(ridge, name, value)
        torch.testing.assert_close(ridge_costs(layer, X, i, j, 0.01), together, rtol=1e-5, atol=1e-8)
    single = [float(ridge_costs(layer, X, a[None], b[None], 0.01)) for a, b in zip(i[:12], j[:12], strict=True)]
    np.testing.assert_allclose(single, together[:12], rtol=1e-5, atol=1e-8)


def test_costs_that_vanish_stay_numbers() -> None:
    layer, X = a_layer("relu", "standard", m=3, d=3, seed=2), inputs(1, 3, 2).float()
    for beta in (1e-3, 0.01, 1.0):
        costs = ridge_costs(layer, X, *all_pairs(3), beta)
        assert bool(torch.isfinite(costs).all())


def test_swap_costs_are_made_of_four_costs() -> None:
    layer, X = a_layer("gelu", m=5), inputs(80, 6)
    pairs = torch.tensor([[0, 1], [2, 4], [0, 4]])
    swaps = ridge_swap_costs(layer, X, pairs, 0.01)
    C2 = ridge_costs(layer, X, *all_pairs(5), 0.01).reshape(5, 5)
    by_hand = [float(C2[i, j] + C2[j, i] - C2[i, i] - C2[j, j]) for i, j in pairs.tolist()]
    np.testing.assert_allclose(swaps, by_hand, rtol=1e-4, atol=1e-5)


def test_float32_inputs_cost_little_accuracy() -> None:
    layer, X = a_layer("gelu", m=4, d=12), inputs(700, 12)
    exact, rounded = (ridge_costs(layer, x, *all_pairs(4), 0.01) for x in (X, X.float()))
    torch.testing.assert_close(rounded, exact, rtol=2e-5, atol=1e-6)


def test_inputs_of_a_diverged_network_are_told() -> None:
    with pytest.raises(UserError, match="not finite"):
        ridge_costs(a_layer("gelu"), torch.full((4, 6), torch.inf), torch.tensor([0]), torch.tensor([1]), 0.01)


# The smallest beta takes L-BFGS thousands of steps.
@pytest.mark.parametrize("beta", [1e-3, 1e-6, pytest.param(1e-12, marks=pytest.mark.slow)])
def test_float32_inputs_on_a_subspace_do_not_break_the_factorisation(beta: float) -> None:
    layer = a_layer("gelu", m=6, d=128)
    X = (inputs(400, 2) @ torch.linalg.qr(inputs(128, 2, seed=1)).Q.T).float()
    layer = dataclasses.replace(layer, alpha=layer.alpha * 100)
    costs = ridge_costs(layer, X, *all_pairs(6), beta)
    assert bool(torch.isfinite(costs).all())
    # At the smaller beta the quadratic is too ill-conditioned for float64 to find its minimiser.
    assert beta < 1e-3 or bool((costs <= bounds(layer, X, *all_pairs(6), beta) * (1 + 1e-6)).all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_finds_the_same_costs() -> None:
    layer, X = a_layer("gelu", m=12, d=20), inputs(500, 20).float()
    parts = ("W_eff", "F", "D", "alpha", "kappa", "bias")
    on_gpu = dataclasses.replace(layer, **{name: getattr(layer, name).cuda() for name in parts})
    there = ridge_costs(on_gpu, X.cuda(), *all_pairs(12), 0.01)
    here = ridge_costs(layer, X, *all_pairs(12), 0.01)
    # The problem is not convex, so a pair may end in another minimum.
    assert float(((there.cpu() / here - 1).abs() < 1e-3).double().mean()) > 0.95


def test_a_quasi_newton_direction_knows_the_last_step():
    """H y = s of every pair that L-BFGS keeps last (the secant equation), and the precondition elsewhere."""
    generator = torch.Generator().manual_seed(0)
    s, y = (torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    y = y * (s * y).sum(dim=1, keepdim=True).sign()  # curvature is above 0
    pairs = [ridge_solvers._pair(s, y)]
    H = lambda g: -ridge_solvers._direction(g, pairs, lambda q, which: 2 * q, torch.arange(3))  # noqa: E731
    torch.testing.assert_close(H(y), s)
    across = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    for other in (s, y):
        # Orthogonal to both, which are no basis: first made so to s, then to what of y is left.
        other = other - (other * s).sum(1, keepdim=True) / s.square().sum(1, keepdim=True) * s * (other is not s)
        across = across - (across * other).sum(1, keepdim=True) / other.square().sum(1, keepdim=True) * other
    torch.testing.assert_close(H(across), 2 * across)
