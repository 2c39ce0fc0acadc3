"""The population loss and its gradient against sampling, quadrature, automatic differentiation and 50 digits."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from symlab.papers.permutation_invariance.population_loss import (
    batch_loss_and_gradient,
    kappa,
    loss_and_gradient,
    population_loss,
)
from symlab.seeds import numpy_rng, torch_generator


def students(*shape, name="students"):
    return torch.randn(*shape, generator=torch_generator(name, *shape), dtype=torch.float64)


def sphere(n, d, name="inputs"):
    x = students(n, d, name=name)
    return x / x.norm(dim=1, keepdim=True)


def kahan_angle(u, v):
    """The angle between vectors, accurate and differentiable wherever they are not parallel."""
    a, b = u * v.norm(), v * u.norm()
    return 2 * torch.atan2((a - b).norm(), (a + b).norm())


def differentiable_loss(W, M):
    """L(W) written out pair by pair with Kahan's angle."""
    m, d = W.shape
    E = torch.eye(d, dtype=W.dtype)[:M]

    def product(u, v):
        theta = kahan_angle(u, v)
        return u.norm() * v.norm() * ((torch.pi - theta) * theta.cos() + theta.sin()) / (2 * torch.pi * d)

    loss = sum(row.square().sum() for row in W) / (2 * d) + M / (2 * d) + M * (M - 1) / (2 * torch.pi * d)
    loss = loss + sum(product(W[i], W[k]) for i in range(m) for k in range(m) if i != k)
    return loss - 2 * sum(product(W[i], E[j]) for i in range(m) for j in range(M))


def exact_loss(W, M):
    """L(W) in 50 digits, of rows given as lists of floats."""
    with mpmath.workdps(50):
        d = len(W[0])
        E = [[1.0 if k == j else 0.0 for k in range(d)] for j in range(M)]
        rows = [(1, [mpmath.mpf(x) for x in row]) for row in W] + [(-1, [mpmath.mpf(x) for x in row]) for row in E]

        def product(u, v):
            lengths = mpmath.sqrt(mpmath.fdot(u, u) * mpmath.fdot(v, v))
            t = min(mpmath.mpf(1), max(mpmath.mpf(-1), mpmath.fdot(u, v) / lengths))
            return lengths * ((mpmath.pi - mpmath.acos(t)) * t + mpmath.sqrt(1 - t * t)) / (2 * mpmath.pi * d)

        return mpmath.fsum(s * r * product(u, v) for s, u in rows for r, v in rows)


@pytest.mark.parametrize("t", [-1.0, -0.8, 0.0, 0.3, 0.9, 1.0])
def test_kappa_is_the_integral_over_the_angle(t):
    # The expectation over a Gaussian in the plane of u and v is (1 / 2 pi) * 2 * the integral over the angle, and
    # E |g|^2 = d turns the Gaussian into the sphere.
    theta = np.arccos(t)
    value, _ = quad(lambda phi: max(np.cos(phi), 0) * max(np.cos(phi - theta), 0), -np.pi / 2, np.pi / 2, limit=200)
    assert kappa(t, 7) == pytest.approx(value / np.pi / 7, abs=1e-9)


def test_kappa_at_the_ends():
    np.testing.assert_allclose(kappa(np.array([1.0, 0.0, -1.0]), 8), [1 / 16, 1 / (16 * np.pi), 0.0], atol=1e-17)


@pytest.mark.parametrize(("m", "M", "d"), [(4, 3, 5), (2, 4, 4), (7, 1, 3), (3, 2, 2)])
def test_loss_of_sampled_inputs(m, M, d):
    W = students(m, d)
    x = sphere(1_000_000, d)
    errors = ((x @ W.T).relu().sum(1) - x[:, :M].relu().sum(1)).square()
    assert abs(errors.mean() - population_loss(W, M)) < 4 * errors.std() / 1000


@pytest.mark.parametrize(("m", "M", "d"), [(4, 3, 5), (2, 4, 4), (7, 1, 3)])
def test_gradient_against_automatic_differentiation(m, M, d):
    W = students(m, d, name="autograd").requires_grad_()
    expected = differentiable_loss(W, M)
    expected.backward()
    loss, gradient = loss_and_gradient(W.detach(), M)
    torch.testing.assert_close(loss, expected.detach(), rtol=0, atol=1e-13)
    torch.testing.assert_close(gradient, W.grad, rtol=0, atol=1e-13)


@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 0.0])
def test_nearly_aligned_rows_lose_no_digits(spread):
    """Close to a minimum rows are almost parallel to one another and to the teacher: theta has eight digits only."""
    noise = numpy_rng("aligned").standard_normal((5, 4))
    W = np.zeros((5, 4))
    W[range(5), [0, 0, 1, 1, 2]] = [0.3, 0.7, 0.5, 0.5, 1.0]
    W += spread * noise
    loss, gradient = loss_and_gradient(torch.from_numpy(W), 3)
    exact = float(exact_loss(W.tolist(), 3))
    assert float(loss) == pytest.approx(exact, abs=2e-15)
    assert float(population_loss(torch.from_numpy(W), 3)) == pytest.approx(float(loss), abs=2e-15)
    if spread < 1e-6:
        return
    # Derivatives of 50-digit losses; the step is far below the distance to the nearest kink of second order.
    step = 1e-15
    for i, k in ((0, 0), (1, 3), (3, 1), (4, 2)):
        ends = []
        for sign in (1, -1):
            with mpmath.workdps(50):
                moved = [[mpmath.mpf(x) for x in row] for row in W.tolist()]
                moved[i][k] += sign * mpmath.mpf(step)
            ends.append(exact_loss(moved, 3))
        with mpmath.workdps(50):
            expected = float((ends[0] - ends[1]) / (2 * mpmath.mpf(step)))
        assert float(gradient[i, k]) == pytest.approx(expected, abs=5e-15)


def test_rows_of_zeros_change_nothing():
    W = students(4, 5, 6)
    padded = torch.cat([W[:, :2], torch.zeros(4, 3, 6, dtype=W.dtype), W[:, 2:]], dim=1)
    loss, gradient = loss_and_gradient(W, 4)
    loss_padded, gradient_padded = loss_and_gradient(padded, 4)
    torch.testing.assert_close(loss_padded, loss, rtol=0, atol=1e-14)
    torch.testing.assert_close(population_loss(padded, 4), loss, rtol=0, atol=1e-14)
    assert (gradient_padded[:, 2:5] == 0).all()
    torch.testing.assert_close(gradient_padded[:, [0, 1, 5, 6, 7]], gradient, rtol=0, atol=1e-14)


def test_students_of_zero_rows_only_opposite_rows_and_infinite_rows():
    zero = torch.zeros(2, 3, 4, dtype=torch.float64)
    loss, gradient = loss_and_gradient(zero, 2)
    np.testing.assert_allclose(loss, (2 / 2 + 2 / (2 * np.pi)) / 4)
    assert (gradient == 0).all()
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    # relu(x) + relu(-x) - relu(x) = relu(-x), of mean square kappa(1).
    assert float(population_loss(opposite, 1)) == pytest.approx(1 / 4, abs=1e-15)
    assert loss_and_gradient(opposite, 1)[1].isfinite().all()
    diverged = torch.full((1, 2, 2), 1e300, dtype=torch.float64)
    assert not loss_and_gradient(diverged, 1)[0].isfinite().any()
    assert not population_loss(diverged, 1).isfinite().any()


def test_leading_axes_are_independent_and_inputs_are_left_alone():
    W = students(2, 3, 4, 5)
    before = W.clone()
    loss, gradient = loss_and_gradient(W, 3)
    assert loss.shape == (2, 3) and gradient.shape == W.shape and population_loss(W, 3).shape == (2, 3)
    assert torch.equal(W, before)
    for a in range(2):
        for b in range(3):
            one_loss, one_gradient = loss_and_gradient(W[a, b], 3)
            torch.testing.assert_close(loss[a, b], one_loss, rtol=0, atol=1e-14)
            torch.testing.assert_close(gradient[a, b], one_gradient, rtol=0, atol=1e-14)
            torch.testing.assert_close(population_loss(W[a, b], 3), one_loss, rtol=0, atol=1e-13)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6), st.integers(0, 4))
@settings(max_examples=60)
def test_the_loss_knows_no_order_of_rows_and_no_rotation_that_the_teacher_lacks(seed, m, M, more):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((m, M + more))
    rows, columns = rng.permutation(m), rng.permutation(M)
    rotation = np.eye(M + more)
    rotation[:M, :M] = np.eye(M)[columns]
    if more:
        rotation[M:, M:] = np.linalg.qr(rng.standard_normal((more, more)))[0]
    loss, gradient = loss_and_gradient(torch.from_numpy(W), M)
    moved_loss, moved_gradient = loss_and_gradient(torch.from_numpy(W[rows] @ rotation), M)
    tolerance = 1e-14 * (1 + np.abs(W).sum() ** 2)
    assert abs(loss - moved_loss) < tolerance
    torch.testing.assert_close(moved_gradient, torch.from_numpy(gradient.numpy()[rows] @ rotation), rtol=0, atol=1e-12)
    assert loss > -tolerance


def test_the_gradient_of_a_batch_against_automatic_differentiation():
    W = students(3, 4, 5)
    W[0, 1] = 0
    x = torch.stack([sphere(16, 5, name=f"small {run}") for run in range(3)])
    loss, gradient = batch_loss_and_gradient(W, x, 3)
    leaf = W.clone().requires_grad_()
    residuals = [(x[run] @ leaf[run].T).relu().sum(1) - x[run, :, :3].relu().sum(1) for run in range(3)]
    expected = torch.stack([residual.square().mean() for residual in residuals])
    expected.sum().backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, leaf.grad)
    assert (gradient[0, 1] == 0).all()
