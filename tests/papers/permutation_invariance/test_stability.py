import numpy as np
import pytest
import torch

from symlab.papers.permutation_invariance.minima import Minima, hessian_at_minimum, stability_limit, uniform_minima
from symlab.papers.permutation_invariance.population_loss import loss_and_gradient, population_loss
from symlab.seeds import numpy_rng, torch_generator


def balanced(M, d, rows_a_type):
    """The minimum whose types all have so many rows of equal value."""
    types = np.tile(np.arange(M), rows_a_type)[None]
    return Minima(M, d, types, np.full(types.shape, 1 / rows_a_type)).dense()[0]


def numerical_hessian(W, M, step):
    m, d = W.shape
    steps = step * torch.eye(m * d, dtype=W.dtype).reshape(-1, m, d)
    ends = [loss_and_gradient(W + sign * steps, M)[1].reshape(m * d, m * d) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


def test_blocks_of_sampled_inputs():
    W = torch.randn(6, 4, generator=torch_generator("rows"), dtype=torch.float64)
    # Parallel, opposite, orthogonal and zero rows among them.
    W[1], W[2], W[3], W[4] = 0.5 * W[0], -2 * W[0], 0, torch.tensor([W[0, 1], -W[0, 0], 0, 0])
    x = torch.randn(1_000_000, 4, generator=torch_generator("inputs"), dtype=torch.float64)
    x /= x.norm(dim=1, keepdim=True)
    J = ((x @ W.T > 0).double()[:, :, None] * x[:, None]).reshape(len(x), -1)
    H = hessian_at_minimum(W)
    # The entries of 2 J J^T are at most 2, their standard deviation at most 1.
    torch.testing.assert_close(2 * J.T @ J / len(x), H, rtol=0, atol=0.004)
    torch.testing.assert_close(H, H.T, rtol=0, atol=1e-15)
    assert torch.linalg.eigvalsh(H)[0] > -1e-12
    assert (H[12:16] == 0).all()


def test_blocks_between_different_rows_are_second_derivatives_anywhere():
    W = torch.randn(3, 4, generator=torch_generator("generic"), dtype=torch.float64)
    numerical, H = numerical_hessian(W, 2, 1e-5), hessian_at_minimum(W)
    for i in range(3):
        for k in range(3):
            block = slice(4 * i, 4 * i + 4), slice(4 * k, 4 * k + 4)
            difference = (numerical[block] - H[block]).abs().max()
            # Within a row the loss bends more, or less, where the student misses the teacher.
            assert difference > 1e-3 if i == k else difference < 1e-8


@pytest.mark.parametrize(("M", "d", "m"), [(3, 4, 3), (3, 4, 7), (6, 8, 12)])
def test_all_second_derivatives_at_a_minimum(M, d, m):
    # The third derivatives jump where rows are parallel, so that central differences are off by the step's order, in
    # units of a row's length.
    W = uniform_minima(M, d, m, 1, numpy_rng("minimum", m)).dense()[0]
    step = 1e-5 * float(W.norm(dim=1).min())
    numerical = numerical_hessian(W, M, step)
    torch.testing.assert_close(numerical, hessian_at_minimum(W, shortest=0.0), rtol=0, atol=1e-5)


def largest_of_balanced(M):
    """d lambda_max of a minimum with one row a type; k rows a type have k times as much.

    By symmetry the eigenvector has one coordinate along the row's own axis and another along all of the others.
    """
    own, across = 1 + (M - 1) / np.pi, M / 2 + 1 / np.pi
    return (own + across) / 2 + np.sqrt((own - across) ** 2 / 4 + (M - 1) / 4)


@pytest.mark.parametrize(("M", "d", "k"), [(6, 8, 1), (6, 8, 3), (12, 20, 2), (5, 5, 2)])
def test_limit_of_balanced_minima_in_closed_form(M, d, k):
    W = balanced(M, d, k)
    assert float(stability_limit(W[None])[0]) == pytest.approx(2 * d / (k * largest_of_balanced(M)), rel=1e-12)


@pytest.mark.parametrize(("M", "d", "least", "most"), [(6, 8, 2.7, 2.9), (12, 20, 3.05, 3.25)])
def test_limit_of_dense_minima_is_inversely_proportional_to_the_width(M, d, least, most):
    for m in (2 * M, 3 * M):
        W = uniform_minima(M, d, m, 10, numpy_rng("dense", M, m)).dense()
        c = stability_limit(W, shortest=0.0) * m / d
        assert least <= float(c.mean()) <= most
        # No distribution of rows over the types is as stable as an even one, up to the mean over distributions.
        assert float(c.mean()) < 2 * M / largest_of_balanced(M)


def test_rows_that_count_as_zero_are_left_out():
    W = balanced(4, 5, 2)
    padded = torch.cat([W, torch.zeros(2, 5, dtype=W.dtype), torch.full((1, 5), 1e-3, dtype=W.dtype)])
    torch.testing.assert_close(stability_limit(padded[None]), stability_limit(W[None]), rtol=1e-12, atol=0)
    assert float(stability_limit(padded[None], shortest=0.0)[0]) < float(stability_limit(W[None])[0]) * 0.99
    assert stability_limit(W[None][:0]).shape == (0,)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_gradient_descent_leaves_a_minimum_beyond_the_limit_only(factor):
    W = balanced(4, 5, 2)
    lr = factor * float(stability_limit(W[None])[0])
    near = W + 1e-9 * torch.randn(W.shape, generator=torch_generator("near"), dtype=W.dtype)
    near_loss = float(population_loss(near, 4))
    assert abs(near_loss) < 1e-14
    for _ in range(150):
        near = near - lr * loss_and_gradient(near, 4)[1]
    away = (near - W).norm()
    assert (away > 1e-6) if factor > 1 else (away < 1e-8)
