"""The unconstrained features model: closed forms against descent from random starts, and certificates that hold."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar

from symlab.measures.collapse import class_scatter, collapse_metrics
from symlab.measures.collapse_bounds import (
    best_frame,
    certified_alignment,
    certified_collapse,
    certified_cosine,
    certified_frame,
    least_loss,
)
from symlab.papers.neural_collapse.fig_beyond import certified_scatter
from symlab.papers.neural_collapse.made_data import least_free_loss

D, K = 64, 10
PENALTY = 0.005
LOSSES = pytest.mark.parametrize(
    ("loss", "bias"), [("cross_entropy", True), ("squared_error", False), ("squared_error", True)]
)
TIGHT = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}


def unconstrained(theta, labels, loss, bias, penalty):
    """Loss of free features (mean 0, norm sqrt(d)) and a linear readout, and features and W."""
    W, b, X = theta.split([K * D, K, len(labels) * D])
    W, X = W.reshape(K, D), torch.nn.functional.layer_norm(X.reshape(-1, D), (D,), eps=0)
    out = X @ W.T + (b if bias else 0)
    if loss == "cross_entropy":
        fit = torch.nn.functional.cross_entropy(out, labels)
    else:
        fit = (out - torch.eye(K, dtype=out.dtype)[labels]).square().sum() / (2 * len(labels))
    return fit + penalty / 2 * W.square().sum(), X, W


def descend_freely(labels, loss, bias, penalty, seed, options):
    """Descent from random features and weights; by how much its loss is above the closed form, features and W."""

    def objective(theta):
        theta = torch.from_numpy(theta).requires_grad_()
        value = unconstrained(theta, labels, loss, bias, penalty)[0]
        value.backward()
        return value.item(), theta.grad.numpy()

    start = np.random.default_rng(seed).normal(size=(K + len(labels)) * D + K) * 0.3
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    expected = least_free_loss(loss, D, K, penalty, bias)
    return found.fun - expected, *unconstrained(torch.from_numpy(found.x), labels, loss, bias, penalty)[1:]


@pytest.mark.parametrize("seed", range(2))
@LOSSES
def test_descent_from_random_features_ends_at_the_closed_form_and_collapsed(loss, bias, seed):
    labels = torch.arange(K)
    excess, X, W = descend_freely(labels, loss, bias, PENALTY, seed, TIGHT)
    assert abs(excess) < 1e-6
    of_squares = (K - 1) / K / (D + PENALTY * (K - 1)) if bias else 1 / (D + PENALTY * K)
    norm = best_frame(D, K, PENALTY)[1] if loss == "cross_entropy" else math.sqrt(D) * of_squares
    torch.testing.assert_close(W.norm(dim=1), torch.full((K,), norm, dtype=W.dtype), atol=1e-3, rtol=0)
    # One sample a class has no scatter; the rest is measured as of trained networks.
    metrics = collapse_metrics(X, W, labels)
    assert metrics["NC2A" if bias else "NC2B"] < 1e-3 and metrics["NC3"] < 1e-3


@pytest.mark.slow
@LOSSES
def test_ten_samples_a_class_collapse_to_the_closed_form(loss, bias):
    # At ten times the penalty of the runs: at theirs, squared error is so flat that NC2 stops at 1e-5.
    labels, options = torch.arange(10 * K) % K, {"maxiter": 20000, "maxfun": 40000, "ftol": 0, "gtol": 1e-12}
    excess, X, W = descend_freely(labels, loss, bias, 10 * PENALTY, 0, {**options, "maxcor": 20})
    metrics = collapse_metrics(X, W, labels)
    assert abs(excess) < 1e-12
    assert max(metrics[name] for name in ("NC1", "NC2A" if bias else "NC2B", "NC3")) < 1e-6


def test_the_values_of_the_paper_s_settings():
    """From the specification, computed with another program."""
    for classes, penalty, norm, value in (
        (10, 0.005, 0.8480, 0.02276),
        (10, 0.0025, 0.9174, 0.01310),
        (2, 0.005, 0.5039, 0.00158),
    ):
        assert (
            abs(best_frame(D, classes, penalty)[1] - norm) < 1e-4
            and abs(least_loss(D, classes, penalty) - value) < 1e-5
        )
    assert abs(least_free_loss("squared_error", D, K, PENALTY, bias=False) - 0.00039032) < 1e-8
    assert abs(least_free_loss("squared_error", D, K, PENALTY, bias=True) - 0.00031618) < 1e-8


def random_networks():
    """What a loss bounds and the bound, by loss, for classes of any scatter and a readout fitted to them or not."""
    for seed in range(400):
        generator = np.random.default_rng(seed)
        classes, d, n = int(generator.integers(2, 8)), int(generator.integers(9, 40)), int(generator.integers(1, 6))
        penalty = float(10 ** generator.uniform(-4, -1))
        means = generator.normal(size=(classes, d))
        x = np.repeat(means, n, axis=0) + 10 ** generator.uniform(-3, 0.5) * generator.normal(size=(classes * n, d))
        X = torch.nn.functional.layer_norm(torch.from_numpy(x), (d,), eps=0)
        y = torch.arange(classes).repeat_interleave(n)
        # A readout by ridge regression at the best scale: some of these losses are near the least of their features.
        H = torch.cat([X, torch.ones(len(X), 1, dtype=X.dtype)], 1)
        unit = torch.eye(classes, dtype=X.dtype)[y] - 1 / classes
        ridge = 10 ** generator.uniform(-3, 1) * torch.eye(d + 1, dtype=X.dtype)
        readout = torch.linalg.solve(H.T @ H + ridge, H.T @ unit)

        def loss(scale, H=H, readout=readout, y=y, penalty=penalty):
            squares = (scale * readout[:-1]).square().sum()
            return float(torch.nn.functional.cross_entropy(scale * H @ readout, y) + penalty / 2 * squares)

        best = minimize_scalar(loss, bounds=(0, 50), method="bounded")
        nc1 = float(collapse_metrics(X, readout[:-1].T, y)["NC1"])
        yield "cross_entropy", nc1, certified_collapse(best.fun, d, classes, penalty)
        # The least squared error of these features: what the bound is nearest to.
        Y = torch.eye(classes, dtype=X.dtype)[y]
        W = torch.linalg.solve(X.T @ X + len(X) * penalty * torch.eye(d, dtype=X.dtype), X.T @ Y)
        least = float((X @ W - Y).square().sum() / (2 * len(X)) + penalty / 2 * W.square().sum())
        scatter = float(class_scatter(X, y, classes)[1].square().sum() / len(X))
        yield "squared_error", scatter, certified_scatter(least, d, classes, penalty)


def test_no_network_is_less_collapsed_than_its_loss_certifies():
    found = list(random_networks())
    for loss in ("cross_entropy", "squared_error"):
        pairs = np.array([pair for of, *pair in found if of == loss])
        assert (pairs[:, 0] <= pairs[:, 1] * (1 + 1e-9) + 1e-9).all()
        # The bound is not empty: it says something about most of these, and is within a factor of ten for many.
        assert np.isfinite(pairs[:, 1]).mean() > 0.5 and (pairs[:, 1] < 10 * pairs[:, 0]).mean() > 0.1


def test_a_certificate_ends_where_the_loss_does():
    assert certified_collapse(least_loss(D, K, PENALTY), D, K, PENALTY) == 0
    assert certified_collapse(math.log(K), D, K, PENALTY) == math.inf
    for scatter in (0.1, 1, 10):
        assert math.isclose(certified_collapse(least_loss(scatter, K, PENALTY), D, K, PENALTY), D / scatter - 1)
    assert abs(certified_scatter(least_free_loss("squared_error", D, K, PENALTY, bias=False), D, K, PENALTY)) < 1e-9
    assert certified_scatter(0.5, D, K, PENALTY) == math.inf


def alignment(X, W, labels):
    """NC3 of W less its mean row, by hand."""
    W = W - W.mean(0)
    cosines = (X * W[labels]).sum(1) / X.norm(dim=1) / W[labels].norm(dim=1)
    return 1 - cosines.mean().item()


@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_network_is_less_aligned_than_its_loss_certifies(scale, seed):
    """The optimum with noise on features and rows, and a shift of all rows, which no loss sees."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(K).repeat_interleave(6)
    _, X, W = descend_freely(torch.arange(K), "cross_entropy", True, PENALTY, seed, TIGHT)
    X = X.detach()[labels]
    X = math.sqrt(D) * torch.nn.functional.normalize(X + scale * torch.randn(X.shape, generator=generator), dim=1)
    W = W.detach() * (1 + 0.3 * scale * torch.randn(K, 1, generator=generator)) + 0.1 * scale
    fit = torch.nn.functional.cross_entropy(X @ W.T, labels)
    loss = float(fit + PENALTY / 2 * W.square().sum())
    assert alignment(X, W, labels) <= certified_alignment(loss, D, K, PENALTY)
    centred = W - W.mean(0)
    r = centred.square().sum(1).mean().sqrt()
    mean_cosine = float((X * centred[labels]).sum(1).mean() / math.sqrt(D) / r)
    assert mean_cosine >= certified_cosine(loss, D, K, PENALTY) - 1e-9


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 0.1, 0.4])
def test_no_readout_is_further_from_a_simplex_than_its_loss_certifies(scale, classes):
    """The optimum with rows, class means and biases moved at random; one margin or one row changed; a shift of rows."""
    generator = np.random.default_rng(0)
    _, norm = best_frame(D, classes, PENALTY)
    E = np.eye(classes) - 1 / classes
    frame = E @ np.linalg.qr(generator.normal(size=(D, classes)))[0].T * math.sqrt(classes / (classes - 1))
    E_norm = math.sqrt(classes - 1)
    for kind in ("all", "rows", "row", "margin", "shift"):
        for _ in range(5):
            W, M = norm * frame, math.sqrt(D) * frame
            if kind == "all":
                M = M + scale * generator.normal(size=M.shape)
            if kind in ("all", "rows"):
                W = W + scale * norm / math.sqrt(D) * generator.normal(size=W.shape)
            if kind == "row":
                W = W * np.where(np.arange(classes) == 0, 1 + scale, 1)[:, None]
            if kind == "margin":
                W, M = (each + scale * np.outer(np.eye(classes)[0], each[0] - each[1]) for each in (W, M))
            W = W + scale * norm * (kind == "shift")
            M = math.sqrt(D) * M / np.linalg.norm(M, axis=1, keepdims=True)
            logits = M @ W.T + scale * generator.normal(size=classes) * (kind == "all")
            fit = np.mean(np.log(np.exp(logits - np.diag(logits)[:, None]).sum(1)))
            G = W @ W.T
            measured = np.linalg.norm(G - (G * E).sum() / E_norm**2 * E) / np.linalg.norm(G)
            assert measured <= certified_frame(fit + PENALTY / 2 * (W**2).sum(), D, classes, PENALTY), kind


def test_a_certificate_of_the_readout_goes_with_the_root_of_what_the_loss_is_above_the_least():
    least = least_loss(D, K, PENALTY)
    near, nearer = (certified_frame(least * (1 + excess), D, K, PENALTY) for excess in (1e-3, 1e-5))
    assert 0 < nearer < 0.1 * near * 1.1 and near < 0.1
    assert 0.1 < certified_frame(1.01 * least, D, K, PENALTY) < certified_frame(1.5 * least, D, K, PENALTY) <= 1


def test_a_certificate_of_alignment_is_sharp_at_the_optimum_and_says_nothing_of_constant_features():
    least = least_loss(D, K, PENALTY)
    assert certified_alignment(least * (1 + 1e-9), D, K, PENALTY) < 1e-6
    assert certified_alignment(least_loss(0, K, PENALTY), D, K, PENALTY) == 2
    assert certified_alignment(1.2 * least, D, K, PENALTY) < certified_alignment(1.5 * least, D, K, PENALTY) < 2
