"""Formulas of the localized loss against finite differences, numpy, Euler's method and the paper's own examples."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import odeint

from symlab.papers.saddle_to_saddle.chain import chain_gradient, run_layers, squared_norm
from symlab.papers.saddle_to_saddle.fig_time import growth
from symlab.papers.saddle_to_saddle.localized_loss import (
    bound_near_rank_one,
    escape_of,
    first_direction,
    layer_ratios,
    lift,
    speed_budget,
    to_sphere,
)
from symlab.papers.saddle_to_saddle.polygon import example_one, polygon
from symlab.training.fastest_neuron import fastest_neuron

OCTAGON = polygon(8)


def localized_loss(W, X, G):
    return (G * run_layers(W, X)[0][-1]).sum()


def gradient_at_kinks(W, X, G, kinks):
    """Of L0, with a derivative of relu in each hidden layer where its input is 0 (a subgradient of Clarke's)."""
    (Z, inner), slope, gradients = run_layers(W, X), G, []
    for place in reversed(range(len(W))):
        gradients.append(slope @ inner[place].mT)
        if place:
            below = Z[place - 1]
            slope = W[place].mT @ slope * torch.where(below.abs() < 1e-12, kinks[place - 1], (below > 0).double())
    return gradients[::-1]


def weights(*sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = zip(sizes[1:], sizes[:-1], strict=True)
    return [torch.randn(out, into, generator=generator, dtype=torch.float64) for out, into in pairs]


def data(d, n, k, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, n, generator=generator, dtype=torch.float64) for rows in (d, k))


def in_numpy(W, X):
    Z = X
    for W_l in W[:-1]:
        Z = np.maximum(W_l @ Z, 0)
    return W[-1] @ Z


def test_loss_gradient_and_homogeneity_are_those_of_an_independent_network():
    W, (X, G) = weights(5, 7, 4, 3), data(5, 11, 3)
    expected = (G.numpy() * in_numpy([W_l.numpy() for W_l in W], X.numpy())).sum()
    assert float(localized_loss(W, X, G)) == pytest.approx(expected)
    leaves = [W_l.clone().requires_grad_() for W_l in W]
    localized_loss(leaves, X, G).backward()
    for gradient, leaf in zip(chain_gradient(W, *run_layers(W, X), G), leaves, strict=True):
        torch.testing.assert_close(gradient, leaf.grad)
    torch.testing.assert_close(localized_loss([1.7 * W_l for W_l in W], X, G), 1.7**3 * localized_loss(W, X, G))


def test_the_construction_of_example_1_escapes_at_half_along_a_clarke_subgradient():
    W, (X, G) = example_one(), OCTAGON
    assert float(escape_of(W, X, G).speed) == pytest.approx(0.5, abs=1e-12)
    at_kinks = gradient_at_kinks(W, X, G, [0, math.sqrt(2) / 4])
    for gradient, W_l in zip(at_kinks, W, strict=True):
        assert float((gradient + 0.5 * W_l).norm()) < 1e-12
    printed = [*W[:2], -W[2]]
    assert float(escape_of(printed, X, G).speed) == pytest.approx(-0.5, abs=1e-12)


def test_ratios_of_the_construction():
    ratios = layer_ratios(example_one(), OCTAGON[0])
    np.testing.assert_allclose(ratios["A"], [0.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(ratios["B"], [0.5, 0.625, 0], atol=1e-12)
    np.testing.assert_allclose(ratios["D"], [0.5, 0.5], atol=1e-12)


def test_ratios_are_those_of_numpy_s_singular_values():
    W, (X, _) = weights(5, 7, 4, 3), data(5, 11, 3)
    ratios, (Z, inner) = layer_ratios(W, X), run_layers(W, X)
    for found, matrices in ((ratios["A"], W), (ratios["B"], inner)):
        for value, matrix in zip(found, matrices, strict=True):
            s = np.linalg.svd(matrix.numpy(), compute_uv=False)
            assert float(value) == pytest.approx((s[1:] ** 2).sum() / (s**2).sum())
    for value, before in zip(ratios["D"], Z[:-1], strict=True):
        cut = before.numpy() - np.maximum(before.numpy(), 0)
        assert float(value) == pytest.approx((cut**2).sum() / (before.numpy() ** 2).sum())


@settings(max_examples=100)
@given(seed=st.integers(0, 2**20), L=st.integers(2, 6), width=st.integers(1, 6))
def test_the_speed_budget_is_an_identity_and_no_term_is_negative_on_the_sphere(seed, L, width):
    W = weights(3, *[width] * (L - 1), 2, seed=seed)
    X, G = data(3, 9, 2, seed=seed + 1)
    if abs(float(localized_loss(W, X, G))) < 1e-6:
        return
    W = to_sphere(W if localized_loss(W, X, G) < 0 else [*W[:-1], -W[-1]])
    budget = speed_budget(W, X, G)
    total = float((X.norm() * G.norm() / -localized_loss(W, X, G)).log())
    assert float(sum(budget.values())) == pytest.approx(total, abs=1e-10)
    assert float(sum(budget["norms", layer] for layer in range(1, L + 1))) > -1e-12
    assert all(float(lost) > -1e-12 for (term, _), lost in budget.items() if term != "norms")
    # A corollary of the identity, stronger than Proposition 3.4.
    ratios = layer_ratios(W, X)
    assert float(ratios["B"].sum() + ratios["D"].sum()) <= 2 * total + 1e-9


def test_the_speed_budget_of_the_construction():
    budget = speed_budget(example_one(), *OCTAGON)
    assert float(sum(budget.values())) == pytest.approx(math.log(16), abs=1e-12)
    rank = [math.log(2) / 2, -math.log(0.375) / 2, 0]
    np.testing.assert_allclose([budget["rank", layer] for layer in range(3)], rank, atol=1e-12)
    np.testing.assert_allclose(budget["output", 4], math.log(2), atol=1e-12)
    assert float(budget["cut", 1]) == pytest.approx(math.log(2) / 2) and float(budget["alignment", 3]) < 1e-12


@settings(max_examples=100)
@given(seed=st.integers(0, 2**20), L=st.integers(2, 6), scale=st.floats(0.01, 3))
def test_the_residual_is_that_of_autograd_and_does_not_depend_on_the_norm(seed, L, scale):
    W = weights(3, *[5] * (L - 1), 2, seed=seed)
    X, G = data(3, 9, 2, seed=seed + 1)
    if localized_loss(W, X, G) > -1e-3:
        return
    theta = torch.cat([W_l.flatten() for W_l in W])
    rho = (theta * math.sqrt(L) / theta.norm()).requires_grad_()
    Z, start = X, 0
    for place, W_l in enumerate(W):
        Z = rho[start : start + W_l.numel()].reshape(W_l.shape) @ (torch.relu(Z) if place else Z)
        start += W_l.numel()
    loss = (G * Z).sum()
    loss.backward()
    speed = -loss.item()
    expected = float((rho.grad + speed * rho.detach()).norm()) / (speed * math.sqrt(L))
    assert float(escape_of([scale * W_l for W_l in W], X, G).residual) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**20), L=st.integers(2, 4), k=st.integers(1, 5))
def test_lifted_weights_are_no_slower_and_have_rank_one_where_stated(seed, L, k):
    W = to_sphere(weights(3, *[5] * (L - 1), 2, seed=seed))
    X, G = data(3, 9, 2, seed=seed + 1)
    if abs(float(localized_loss(W, X, G))) < 1e-6:
        return
    if localized_loss(W, X, G) > 0:
        W = [*W[:-1], -W[-1]]
    before = float(escape_of(W, X, G).speed)
    deeper = lift(W, X, G, k)
    assert len(deeper) == L + k and float(squared_norm(deeper)) == pytest.approx(L + k)
    assert float(escape_of(deeper, X, G).speed) >= before - 1e-12
    ratios, (Z, inner) = layer_ratios(deeper, X), run_layers(deeper, X)
    np.testing.assert_allclose(ratios["A"][L - 2 :], 0, atol=1e-12)
    for layer in range(L, L + k):
        torch.testing.assert_close(Z[layer - 1], inner[layer])


def test_a_lifted_construction_keeps_its_speed_at_depth_20():
    deep = lift(example_one(), *OCTAGON, 17)
    assert float(escape_of(deep, *OCTAGON).speed) == pytest.approx(0.5, abs=1e-12)
    ratios = layer_ratios(deep, OCTAGON[0])
    assert float(ratios["B"][1]) == pytest.approx(0.625) and float(ratios["D"][1]) == pytest.approx(0.5)
    assert (ratios["B"][2:] < 1e-12).sum() == 18
    # Proposition 3.4: in half of the layers B_l is at most 2 log(|X| |G| / speed) / (L / 2), of |X| |G| = 8.
    assert (ratios["B"] <= 2 * math.log(8 / 0.5) / 10).sum() >= 10


def test_the_direction_that_one_neuron_is_pulled_to_is_an_escape_direction():
    # With G nowhere positive the localized loss is concave in w, and following its gradient ends in a direction.
    X, G = data(3, 6, 1)
    G = -G.abs()
    w = torch.ones(1, 3, dtype=torch.float64)
    for _ in range(100):
        w = -(G * (w @ X > 0)) @ X.T
        w = w / w.norm()
    one = torch.ones(1, 1, dtype=torch.float64)
    assert float(escape_of([w, one, one], X, G).residual) < 1e-12
    assert float(escape_of([-w, one, one], X, G).residual) > 1e-2


@pytest.mark.parametrize("L", [2, 3, 5])
def test_the_prediction_from_a_speed_is_proposition_2_2(L):
    """s is the time in units of |theta|^(2 - L), summed up here on a fine grid of the time of gradient flow on L0.

    It multiplies an escape direction of norm sqrt(L) by kappa, which grows by speed kappa^(L - 1): Proposition 2.2,
    corrected.
    """
    speed, scale = 0.4, 0.1
    ends = 2.0 if L == 2 else 0.9 * scale ** (2 - L) / (L - 2) / speed
    time = np.linspace(0, ends, 20_001)
    norm = math.sqrt(L) * odeint(lambda kappa, _: speed * kappa ** (L - 1), scale, time, rtol=1e-9)[:, 0]
    s = np.concatenate([[0], np.cumsum(np.diff(time) * (norm[1:] ** (L - 2) + norm[:-1] ** (L - 2)) / 2)])
    key = {"dataset": "d", "L": L, "std": 1e-4, "activation": "relu", "rule": "flow", "h": 0.03, "ends": 0.1, "seed": 0}
    moments = pd.DataFrame({"event": [0, 1e-4, 1e-2], "s": s[[0, 5000, -1]], "norm": norm[[0, 5000, -1]]})
    found = growth(moments.assign(speed=speed, **key))
    if L > 2:
        assert found["predicted"].item() == pytest.approx(found["taken"].item(), rel=1e-4)
    else:
        assert found.empty


def test_the_fastest_neuron_is_that_of_brute_force_and_of_linear_algebra():
    X, G = data(2, 9, 3)
    angle = torch.linspace(0, 2 * math.pi, 100_001, dtype=torch.float64)
    speeds = (torch.stack([angle.cos(), angle.sin()], 1) @ X).clamp_min(0) @ G.T
    speed, v = fastest_neuron(X, G)
    assert speed == pytest.approx(float(speeds.norm(dim=1).max()), rel=1e-4)
    assert float(((v @ X).clamp_min(0) @ G.T).norm()) == pytest.approx(speed) and float(v.norm()) == pytest.approx(1)
    linear, v = fastest_neuron(X, G, linear=True)
    assert linear == pytest.approx(np.linalg.svd((G @ X.T).numpy(), compute_uv=False)[0])
    assert float((v @ X @ G.T).norm()) == pytest.approx(linear)


def test_top_singular_vectors_of_activations_have_one_sign():
    """Lemma A.6; by power iteration as by numpy."""
    W, (X, _) = weights(5, 7, 4, 3), data(5, 11, 3)
    for inner in run_layers(W, X)[1][1:]:
        v = first_direction(inner)
        assert float(v.min()) >= 0 or float(v.max()) <= 0
        expected = np.linalg.svd(inner.numpy())[2][0]
        np.testing.assert_allclose(np.abs(v.numpy()), np.abs(expected), atol=1e-6)


def test_the_bound_near_rank_one_by_hand():
    """8 |G| eps / (s - |G| eps) for |G| = 5 and s = 1."""
    G = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    assert bound_near_rank_one(0.1, G, 1.0) == pytest.approx(8.0)
    assert bound_near_rank_one(0.04, G, 1.0) == pytest.approx(2.0)
    assert bound_near_rank_one(0.2, G, 1.0) == math.inf
