"""Constraints on a network's first layer: against what they say in matrices, and steps against torch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention, softshrink

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.sparse_networks import Trained, beside, constraint_of, cosines, sparsify
from symlab.papers.mirror_symmetry.settings import (
    BLOCKS,
    COSINES,
    ENTRIES,
    FACTORS,
    PAIRS,
    PROXIMAL,
    PRUNED,
    RANK,
    ROWS,
    SparseNetworks,
)

WIDTH, SIDE = 8, 4
STRUCTURES = SparseNetworks().structures


@pytest.fixture
def constraint(structure):
    return constraint_of(structure, WIDTH, SIDE**2)


@pytest.fixture
def start(constraint):
    return torch.randn(constraint.shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def theta(constraint, start):
    return constraint.start(start.repeat(2, *[1] * start.dim()))[0]


def penalty(structure, theta):
    """The sum of sizes, written down for each structure."""
    return {
        ENTRIES: lambda: theta.abs().sum((1, 2)),
        ROWS: lambda: theta.norm(dim=2).sum(1),
        BLOCKS: lambda: sum(
            theta[:, i : i + 4, j : j + 4].norm(dim=(1, 2)) for i in range(0, WIDTH, 4) for j in range(0, SIDE**2, 4)
        ),
        RANK: lambda: torch.linalg.matrix_norm(theta, "nuc"),
        PAIRS: lambda: (theta[:, 0::2] - theta[:, 1::2]).abs().sum((1, 2)) / 2**0.5,
        COSINES: lambda: (theta @ torch.from_numpy(cosines(SIDE)).float()).abs().sum((1, 2)),
    }[structure]()


def test_cosines_are_orthonormal_and_the_first_is_the_mean():
    columns = cosines(SIDE)
    assert np.allclose(columns.T @ columns, np.eye(SIDE**2)) and np.allclose(columns[:, 0], 1 / SIDE)
    waves = np.cos(np.pi * (np.arange(SIDE) + 0.5) / SIDE)
    assert np.allclose(columns[:, 1], np.tile(waves, SIDE) / np.linalg.norm(np.tile(waves, SIDE)))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_proximal_map_is_the_minimum_of_its_definition(structure, constraint, theta):
    """Of |x - theta|^2 / 2 + by * penalty(x): no nearby point is lower."""
    by = torch.full((2, 1, 1), 0.3)
    torch.testing.assert_close(constraint.sizes(theta).sum((1, 2)), penalty(structure, theta))
    least = constraint.shrink(theta, by)

    def value(x):
        return ((x - theta) ** 2).sum((1, 2)) / 2 + 0.3 * penalty(structure, x)

    drawn = torch.Generator().manual_seed(1)
    for size in (1e-2, 1e-1, 1.0):
        for _ in range(20):
            assert (value(least + size * torch.randn(theta.shape, generator=drawn)) >= value(least) - 1e-4).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_decay_of_factors_is_the_penalty_at_balanced_ones(structure, constraint, start, theta):
    """They start at theta; a step of no loss shrinks the product by 2 rate strength, what is free by nothing."""
    trained = Trained(FACTORS, constraint, start[None], [0.0, 0.5], lr=0.1)
    torch.testing.assert_close(constraint.scheme.compose(*trained.factors), theta)
    trained.step(torch.zeros_like(theta))
    smaller = torch.tensor([1.0, 0.95**2])[:, None, None]
    expected = theta * smaller if structure == RANK else constraint.put(theta, constraint.off(theta) * smaller)
    torch.testing.assert_close(trained.theta, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_what_is_pruned_stays_0_and_is_the_smallest(structure, constraint, start, theta):
    trained = Trained(PRUNED, constraint, start[None], [0.0, 0.5], lr=0.1)
    before = constraint.sizes(trained.theta)
    trained.prune()
    trained.step(torch.zeros_like(theta))
    torch.testing.assert_close(trained.theta[0], theta[0], rtol=1e-4, atol=1e-5)
    left = constraint.sizes(trained.theta)[1] > 1e-5
    assert left.double().mean() == pytest.approx(0.5)
    # Singular values come in falling order; of all else the same parts are left.
    assert before[1][left].min() >= before[1][~left].max()
    trained.step(torch.ones_like(theta))
    assert ((constraint.sizes(trained.theta)[1] > 1e-5) == left).all()


@pytest.mark.parametrize("structure", [ENTRIES, RANK])
def test_networks_say_what_torch_says_of_each_by_itself(structure, constraint, theta):
    """Of the head torch's own attention: queries are rows times Q^T K, keys and values rows, scaled alike."""
    drawn = torch.Generator().manual_seed(2)
    rest = [torch.randn(2, *shape, generator=drawn) for shape, _ in constraint.rest(3)]
    x = torch.randn(5, SIDE**2, generator=drawn)
    bias, readout, offset = rest[-3:]
    for run in range(2):
        if structure == RANK:
            rows = torch.cat([x.view(-1, SIDE, SIDE), torch.eye(SIDE).repeat(5, 1, 1)], 2)
            mixed = scaled_dot_product_attention(rows @ theta[run], rows, rows) @ rest[0][run].T
            hidden = (mixed + bias[run]).relu().mean(1)
        else:
            hidden = (x @ theta[run].T + bias[run]).relu()
        expected = hidden @ readout[run].T + offset[run]
        torch.testing.assert_close(constraint.logits(theta, rest, x)[run], expected, rtol=1e-4, atol=1e-5)


def test_repeats_begin_one_rounding_apart_and_have_rows_of_their_own():
    """The first is the run without repeats, to what few steps make of rounding; strengths do not mix with repeats."""
    start = torch.randn(3, 5)
    first, other = beside(start, 2, torch.Generator().manual_seed(0))
    assert (first == start).all() and (other != start).any()
    torch.testing.assert_close(other, start, rtol=2.5e-7, atol=0)
    starts = torch.randn(2, WIDTH, SIDE**2)
    every = Trained(PROXIMAL, constraint_of(ENTRIES, WIDTH, SIDE**2), starts, [0.1, 0.5], lr=1.0)
    every.step(torch.zeros_like(every.theta))
    by_hand = [softshrink(each, strength) for each in starts for strength in (0.1, 0.5)]
    torch.testing.assert_close(every.theta, torch.stack(by_hand))
    data = SimpleNamespace(split=lambda _: (np.eye(20, SIDE**2, dtype="float32"), np.arange(20) % 3))
    options = {"width": WIDTH, "steps": 10, "batch": 4, "strengths": [0.01, 30.0], "shares": [0.0, 0.5], "seeds": 1}
    one, two = (
        sparsify(SparseNetworks(**options, repeats=repeats), Job("study", datasets={"toy": data}), "toy", ENTRIES, 0)
        for repeats in (1, 2)
    )
    one, two = (tables["mirror_sparse.csv"].set_index(["method", "strength", "share"]) for tables in (one, two))
    assert len(two) == 2 * len(one) and set(two["repeat"]) == {0, 1}
    for repeat in (0, 1):
        of = two[two["repeat"] == repeat].loc[one.index]
        assert (of["vanished"] - one["vanished"]).abs().max() < 0.05
    of_proximal = two.xs(PROXIMAL)["vanished"].groupby("strength")
    assert of_proximal.min()[30.0] == 1 and of_proximal.max()[0.01] < 1


def test_without_a_strength_all_methods_are_sgd_and_the_table_is_whole():
    """Proximal SGD of no penalty is pruning of nothing; a share of 0 leaves accuracies as they are."""
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=(20, SIDE**2)).astype("float32")
    data = SimpleNamespace(split=lambda _: (x, np.arange(20) % 3))
    settings = SparseNetworks(width=WIDTH, steps=10, batch=4, strengths=[1e-12, 0.1], shares=[0.0, 0.5], seeds=1)
    rows = sparsify(settings, Job("study", datasets={"toy": data}), "toy", ENTRIES, 0)["mirror_sparse.csv"]
    assert len(rows) == 3 * 2 * 2 and rows[["train", "test"]].stack().between(0, 100).all()
    whole = rows[rows["share"] == 0].set_index(["method", "strength"])["train"]
    assert whole[PROXIMAL, 1e-12] == whole[PRUNED, 0.0]
