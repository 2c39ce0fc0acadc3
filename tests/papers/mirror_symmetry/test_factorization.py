"""Factors with decay and the convex problem behind them: closed forms, optimality conditions, torch's own steps."""

from itertools import islice

import numpy as np
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.factorization import pose
from symlab.papers.mirror_symmetry.convex.solvers import NuclearNorm, steps_of_factors
from symlab.papers.mirror_symmetry.settings import LABELS, Factorization

SMALL = Factorization(d=6, n=30, gammas=[0.0, 0.2, 0.7, 4.0], steps=800, seeds=1)


@pytest.fixture(scope="module")
def rows(experiment):
    return experiment("mirror_symmetry.factorization", SMALL)["mirror_factors.csv"]


def posed(labels, gamma=0.5):
    """A, S, W and U of one problem in its matrix form, and the convex minimum M."""
    problem, targets = pose(
        SMALL.model_copy(update={"gammas": [gamma]}), Job("study"), 0, torch.full((2,), gamma).double()
    )
    place = LABELS.index(labels)
    u, w = (each[place].mT.clone() for each in problem.begin(""))
    return targets[place], problem.S[place], w, u, problem.minimum(200)[place].mT


def test_the_convex_minimum_is_the_known_one_where_both_matrices_commute():
    """For A = I it has the eigenvectors of S and the eigenvalues 1 - gamma / s, or 0."""
    X = torch.randn(5, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    S = X @ X.T / 20
    s, V = torch.linalg.eigh(S)
    gamma = float(s[2]) * 0.9
    start = torch.zeros(1, 2, 5, 5, dtype=torch.float64)
    found = NuclearNorm(S[None], S[None], torch.tensor([gamma]).double(), start).minimum(200)[0].mT
    assert torch.allclose(found, V @ torch.diag((1 - gamma / s).clamp(min=0)) @ V.T, atol=1e-10)


def test_the_convex_minimum_meets_its_optimality_conditions():
    """The gradient is -2 gamma times a subgradient: U V^T on the range, of spectral norm at most 1 elsewhere."""
    gamma = 0.5
    A, S, _, _, M = posed(LABELS[0], gamma)
    dual = -(M - A) @ S / gamma
    assert 0 < torch.linalg.matrix_rank(M, tol=1e-9) < 6
    assert torch.linalg.matrix_norm(dual, 2) <= 1 + 1e-9
    assert (dual * M).sum() == pytest.approx(float(torch.linalg.svdvals(M).sum()))


def test_steps_are_those_of_torch_with_twice_gamma_as_weight_decay():
    for place, labels in enumerate(LABELS):
        for gamma in (0.2, 0.7):
            A, S, w, u, _ = posed(labels, gamma)
            w.requires_grad_(), u.requires_grad_()
            optimizer = torch.optim.SGD([w, u], lr=SMALL.lr, weight_decay=2 * gamma)
            for _ in range(100):
                optimizer.zero_grad()
                torch.trace((w @ u - A) @ S @ (w @ u - A).T).backward()
                optimizer.step()
            one = SMALL.model_copy(update={"gammas": [gamma]})
            problem, _ = pose(one, Job("study"), 0, torch.full((2,), gamma, dtype=torch.float64))
            theta = next(islice(steps_of_factors(problem, problem.begin(""), SMALL.lr), 100, None))
            torch.testing.assert_close(theta[place].mT, (w @ u).detach(), rtol=1e-9, atol=1e-12)


def test_ranks_come_to_the_convex_minimums(rows):
    last = rows[rows["step"] == 800]
    assert (last["rank"] - last["convex"]).abs().max() <= 1 and last["convex"].nunique() > 2
    assert (rows.loc[rows["gamma"] == 4, "convex"] == 0).all()


def test_counts_are_those_of_the_singular_values_of_the_target_times_the_covariance(rows, experiment):
    A, S, *_ = posed(LABELS[0])
    sigma = np.linalg.svd((A @ S).numpy(), compute_uv=False)
    # One gamma between each two singular values, so that a threshold off by a factor counts otherwise at some of them.
    edges = np.concatenate([[sigma[0] * 1.5], sigma, [0]])
    between = (edges[:-1] + 2 * edges[1:]) / 3
    settings = SMALL.model_copy(update={"gammas": sorted(between.tolist())})
    found = experiment("mirror_symmetry.factorization", settings)["mirror_factors.csv"]
    found = found[(found["labels"] == LABELS[0]) & (found["step"] == 400)].set_index("gamma")
    assert found.loc[between, "above"].tolist() == list(range(7))
    band = np.log(1e6) / (4 * 0.01 * 400)
    assert found.loc[between, "above_band"].tolist() == [(sigma > gamma - band).sum() for gamma in between]


def test_ranks_are_counts_of_the_singular_values_of_plain_descent(experiment):
    """At decays so close that a threshold off by a factor of two counts otherwise at some of them."""
    gammas = torch.linspace(0.3, 1.5, 25).double()
    settings = SMALL.model_copy(update={"gammas": gammas.tolist(), "steps": 400})
    found = experiment("mirror_symmetry.factorization", settings)["mirror_factors.csv"]
    found = found[(found["labels"] == LABELS[0]) & (found["step"] == 400)]
    A, S, w, u, _ = posed(LABELS[0])
    w, u, decay = w.expand(25, -1, -1), u.expand(25, -1, -1), gammas[:, None, None]
    for _ in range(400):
        slope = (w @ u - A) @ S
        w, u = (w - 0.02 * (slope @ u.mT + decay * w), u - 0.02 * (w.mT @ slope + decay * u))
    sigma = torch.linalg.svdvals(w @ u)
    shares = sigma / sigma[:, :1]
    assert ((shares > 1e-3) & (shares < 2e-3)).any() and ((shares > 5e-4) & (shares < 1e-3)).any()
    assert found["rank"].tolist() == ((shares > 1e-3) & (sigma > 1e-6)).sum(1).tolist()
    assert found["zero_rank"].tolist() == (sigma > 1e-6).sum(1).tolist()
