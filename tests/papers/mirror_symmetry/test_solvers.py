"""Convex problems and their factors: optimality conditions, gradients against autograd, signs that cannot change."""

import functools

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso as CoordinateDescent

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.proximal import accelerate
from symlab.papers.mirror_symmetry.convex.solvers import (
    EQUAL,
    FACTORS,
    FISTA,
    ISTA,
    UNEQUAL,
    Columns,
    EqualPairs,
    GroupLasso,
    Lasso,
    NuclearNorm,
    Scores,
    walk,
)
from symlab.papers.mirror_symmetry.settings import Solvers
from symlab.schemes.parametrisation import UNDECAYED

SMALL = Solvers(d=10, n=40, side=5, steps=1000, per_decade=2, seeds=2, strengths=[0.1, 0.4])
KINDS = (Lasso, GroupLasso, NuclearNorm, EqualPairs, Columns, Scores)


@functools.cache
def drawn(kind):
    """Problems of a kind and their minima, for all tests."""
    problem = kind.draw_all(SMALL, "study")
    return problem, problem.minimum()


def loss_of(problem, theta):
    """Of the samples themselves, for the whole batch."""
    flat = theta.reshape(len(theta), problem.x.shape[2], -1)
    return (problem.x @ flat - problem.y).square().sum((1, 2)) / problem.x.shape[1]


def penalty_of(kind, theta):
    return {
        Lasso: lambda: theta.abs().sum((1, 2)),
        GroupLasso: lambda: theta.norm(dim=2).sum(1),
        **dict.fromkeys((NuclearNorm, Scores), lambda: torch.linalg.matrix_norm(theta, "nuc")),
        EqualPairs: lambda: (theta[:, 0::2] - theta[:, 1::2]).abs().sum((1, 2)) / 2**0.5,
        Columns: lambda: (Columns.columns(theta.shape[1]).T @ theta).abs().sum((1, 2)),
    }[kind]()


def test_accelerated_steps_are_those_of_beck_and_teboulle():
    """On theta^2 / 2: weights 1, w and (1 + sqrt(1 + 4 w^2)) / 2; the third step is the first with momentum."""
    path = accelerate(lambda theta: theta, lambda theta: theta, torch.ones(1, 1, 1).double(), torch.tensor(0.1))
    w = (1 + 5**0.5) / 2
    momentum = (w - 1) / ((1 + (1 + 4 * w**2) ** 0.5) / 2)
    assert [float(next(path)) for _ in range(4)] == pytest.approx([1, 0.9, 0.81, 0.9 * (0.81 - momentum * 0.09)])


@pytest.mark.parametrize("kind", KINDS)
def test_minima_meet_their_optimality_conditions(kind):
    """theta minimises iff -gradient / (2 alpha) has dual norm 1 at most and the penalty as product with theta."""
    problem, minimum = drawn(kind)
    theta = minimum.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(problem, theta).sum(), theta)
    dual = -gradient / (2 * problem.alpha)
    if kind in (EqualPairs, Columns):
        columns = kind.columns(SMALL.d)
        # Nothing holds what the penalty does not see, and the rest is a lasso of O^T theta.
        torch.testing.assert_close(dual, columns @ (columns.T @ dual), rtol=0, atol=1e-6)
        assert ((columns.T @ dual).abs() <= 1 + 1e-6).all()
        torch.testing.assert_close((dual * theta).sum((1, 2)), penalty_of(kind, theta), rtol=1e-5, atol=1e-6)
        return
    largest = {Lasso: dual.abs().amax((1, 2)), GroupLasso: dual.norm(dim=2).amax(1)}
    bound = largest.get(kind, torch.linalg.matrix_norm(dual, 2))
    assert (bound <= 1 + 1e-6).all()
    torch.testing.assert_close((dual * theta).sum((1, 2)), penalty_of(kind, theta), rtol=1e-6, atol=1e-7)


def test_scores_are_those_of_query_and_key():
    """q^T Q^T K k of unit vectors is an entry of the product, which the samples' features read."""
    features, _, _ = Scores.draw(SMALL, torch.Generator().manual_seed(0))
    q, k, *_ = (
        torch.randn(320, 5, generator=generator, dtype=torch.float64)
        for generator in [torch.Generator().manual_seed(0)] * 2
    )
    M = torch.randn(5, 5, dtype=torch.float64)
    torch.testing.assert_close(features @ M.flatten(), torch.einsum("ni,ij,nj->n", q, M, k))


@pytest.mark.parametrize("kind", KINDS)
def test_factors_descend_the_loss_with_decay(kind):
    problem, _ = drawn(kind)
    factors = [each.requires_grad_() for each in problem.begin(UNEQUAL)]
    theta = problem.factors.compose(*factors)
    decayed = [suffix != UNDECAYED for suffix in problem.factors.suffixes]
    decay = sum((problem.alpha * f.square()).sum() for f, decays in zip(factors, decayed, strict=True) if decays)
    by_hand = torch.autograd.grad(loss_of(problem, theta).sum() + decay, factors)
    pulled = problem.factors.pull_back(problem.gradient(theta), *factors)
    # What does not decay of a composed parameter, v, has no part along O, and its gradient none that counts.
    for mine, theirs, factor, decays in zip(pulled, by_hand, factors, decayed, strict=True):
        torch.testing.assert_close(mine + 2 * problem.alpha * factor * decays, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_objectives_differ_as_those_of_the_samples(kind):
    problem, here = drawn(kind)
    there = problem.factors.compose(*problem.begin(UNEQUAL))
    strength = 2 * problem.alpha[:, 0, 0]
    full = [loss_of(problem, theta) + strength * penalty_of(kind, theta) for theta in (here, there)]
    torch.testing.assert_close(problem.objective(there) - problem.objective(here), full[1] - full[0])
    assert (full[1] > full[0]).all()


def test_the_minimum_of_a_lasso_is_that_of_coordinate_descent():
    """Of scikit-learn, whose objective is half of ours at the same alpha."""
    problem, minimum = drawn(Lasso)
    for x, y, alpha, found in zip(problem.x, problem.y, problem.alpha, minimum, strict=True):
        solver = CoordinateDescent(alpha=float(alpha), fit_intercept=False, tol=1e-14, max_iter=1_000_000)
        np.testing.assert_allclose(found[:, 0], solver.fit(x.numpy(), y[:, 0].numpy()).coef_, atol=1e-10)


def test_starts_have_the_same_product_off_and_on_the_mirrors():
    problem, _ = drawn(Lasso)
    (u, w), (a, b) = problem.begin(UNEQUAL), problem.begin(EQUAL)
    torch.testing.assert_close(u * w, a * b)
    assert (a.abs() == b.abs()).all() and not (u.abs() == w.abs()).any()


def test_on_the_mirrors_not_a_bit_is_off_and_no_sign_changes():
    problem, _ = drawn(Lasso)
    signs = [theta.sign() for _, theta in walk(problem, FACTORS, EQUAL, SMALL)]
    assert all(((sign == signs[0]) | (sign == 0)).all() for sign in signs)


def test_queries_and_keys_have_a_table_of_every_method(experiment):
    settings = SMALL.model_copy(update={"problems": ["query and key"], "steps": 100})
    rows = experiment("mirror_symmetry.solvers", settings, Job("study"))["mirror_solvers.csv"]
    assert set(rows["method"]) == {ISTA, FISTA, FACTORS} and set(rows["start"]) == {UNEQUAL}
    assert rows["gap"].gt(-1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_all_methods_come_down_to_the_minimum(kind):
    problem, minimum = drawn(kind)
    least = problem.objective(minimum)
    for method, within in ((ISTA, 1e-8), (FISTA, 1e-8), (FACTORS, 1e-2)):
        gaps = torch.stack([problem.objective(theta) - least for _, theta in walk(problem, method, UNEQUAL, SMALL)])
        assert (gaps[-1] < within * gaps[0]).all(), method
        assert (gaps > -1e-9).all()
