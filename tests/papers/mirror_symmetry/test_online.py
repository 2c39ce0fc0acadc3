"""Online SGD against autograd, one run at a time; laws against draws; exponents where they are known."""

import math

import numpy as np
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.adam import Adam
from symlab.papers.mirror_symmetry.online.law import (
    critical_rate,
    half_rate,
    noise_strength,
    relaxation_steps,
    simulate_products,
    stationary_share,
)
from symlab.papers.mirror_symmetry.online.matrix_rank import draw_copies, lyapunov_exponents, step_factors
from symlab.papers.mirror_symmetry.online.one_product import draw_means, strength_of
from symlab.papers.mirror_symmetry.online.product_sgd import (
    draw_samples,
    largest_by_chance,
    moments_of,
    predict,
    step_sgd,
    step_with_adam,
)
from symlab.papers.mirror_symmetry.settings import AdamSparsity, Edges, OnlineRank, Sparsity
from symlab.seeds import numpy_rng

D, RATES = 6, np.array([0.01, 0.03])


def descend(loss, weights, lr, steps, optimizer=torch.optim.SGD, **options):
    """Weights after so many steps of a loss(weights, step), by autograd."""
    weights = [torch.tensor(each, requires_grad=True) for each in weights]
    update = optimizer(weights, lr=lr, **options)
    for step in range(steps):
        update.zero_grad()
        loss(weights, step).backward()
        update.step()
    return [each.detach().numpy() for each in weights]


@pytest.fixture
def samples():
    def make(batch, steps=40):
        return draw_samples([np.random.default_rng(seed) for seed in range(2)], steps, batch, D, 1.0)

    return make


@pytest.mark.parametrize("batch", [1, 3])
def test_stacked_runs_are_those_of_autograd(samples, batch):
    drawn = samples(batch)
    u, w = np.random.default_rng(5).normal(size=(2, 2, 2, D)) / 3
    start = u[1, 1].copy(), w[1, 1].copy()
    plain = u.copy()
    error, plain_error = step_sgd([u, w], RATES, drawn), step_sgd([plain], RATES, drawn)
    x, y = torch.from_numpy(drawn.x[:, 1]), torch.from_numpy(drawn.y[:, 1])

    def of_products(weights, step):
        return ((x[step] @ (weights[0] * weights[1]) - y[step]) ** 2).mean()

    def of_plain(weights, step):
        return ((x[step] @ weights[0] - y[step]) ** 2).mean()

    expected = descend(of_products, start, RATES[1], len(x))
    np.testing.assert_allclose(np.stack([u[1, 1], w[1, 1]]), expected, atol=1e-13)
    np.testing.assert_allclose(plain[1, 1], descend(of_plain, start[:1], RATES[1], len(x))[0], atol=1e-13)
    assert error.shape == plain_error.shape == (2, 2)


def test_labels_are_means_of_inputs_and_noise():
    drawn = draw_samples([np.random.default_rng(0)], 4000, 2, 3, 2.0)
    noise = drawn.y - drawn.x.mean(axis=-1)
    assert noise.std() == pytest.approx(2.0, rel=0.05)
    assert np.corrcoef(noise.ravel(), drawn.x[..., 0].ravel())[0, 1] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(("batch", "sigma"), [(1, 2.0), (4, 0.5)])
def test_noise_strength_is_that_of_draws(batch, sigma):
    drawn = draw_samples([np.random.default_rng(1)], 40_000, batch, D, sigma)
    h = -2 * np.mean(drawn.y[..., None] * drawn.x, axis=2)
    assert np.mean(h**2) / 4 == pytest.approx(noise_strength(D, sigma, batch), rel=0.03)
    assert np.mean(h) == pytest.approx(-2 / D, abs=0.03)


def test_half_rates_tend_to_the_critical_one():
    assert critical_rate(200, 2.0, 1) == pytest.approx(1 / (200 * 4 + 1), rel=2e-3)
    assert half_rate(200, 2.0, 1, 1e5) == pytest.approx(0.00274, rel=2e-3)
    assert half_rate(200, 2.0, 1, 1e12) == pytest.approx(critical_rate(200, 2.0, 1), rel=1e-4)


def test_single_products_are_those_of_their_steps():
    """The walk in long steps against u, w with a normal gradient of the same mean and variance."""
    lr, d, sigma, T = 0.02, 10, 2.0, 4000
    drawn = np.random.default_rng(2)
    u, w = drawn.normal(0, d**-0.5, (2, 2000))
    for _ in range(T):
        g = 2 * lr * (u * w - 1 / d + math.sqrt(noise_strength(d, sigma, 1)) * drawn.standard_normal(2000))
        u, w = u - g * w, w - g * u
    alone = simulate_products(lr, d, sigma, 1, [T // 2, T], np.random.default_rng(3))[1]
    for below in (1e-2, 1e-6, 1e-10):
        assert np.mean(alone < below) == pytest.approx(np.mean(np.abs(u * w) < below), abs=0.05)


@pytest.mark.parametrize(("d", "sigma", "relative"), [(50, 1.0, 0.6), (50, 2.0, 0.7), (20, 1.0, 0.7)])
def test_below_the_critical_rate_products_tend_to_a_gamma_law(d, sigma, relative):
    """After ten relaxation times, at three thresholds."""
    lr = relative * critical_rate(d, sigma, 1)
    steps = round(10 * relaxation_steps(lr, d, sigma, 1))
    (theta,) = simulate_products(lr, d, sigma, 1, [steps], np.random.default_rng(0), 3000)
    for below in (1e-3, 1e-6, 1e-9):
        # Four standard errors of a share of 3,000.
        assert np.mean(theta < below) == pytest.approx(stationary_share(lr, d, sigma, 1, below), abs=0.037)
    assert stationary_share(1.01 * lr / relative, d, sigma, 1) == 1


def test_the_mean_of_the_stationary_law_is_where_its_drift_is_none():
    """The mean of u w is shape times scale, 1/d - lr s2, at which d ln Z has no drift: the signal left is lr s2."""
    d, sigma, lr = 50, 1.0, 0.01
    below = np.geomspace(1e-12, 1, 20_001)
    shares = np.array([stationary_share(lr, d, sigma, 1, each) for each in below])
    mean = np.sum(np.diff(shares) * (below[1:] + below[:-1]) / 2)
    assert mean == pytest.approx(1 / d - lr * noise_strength(d, sigma, 1), rel=1e-3)


def test_chance_is_exceeded_by_one_of_twenty_runs_of_single_products():
    """Shares of products of the same law, in cells that share their products."""
    drawn = np.random.default_rng(0)
    cuts = np.array([0.2, 0.5, 0.9])[:, None]
    chance = largest_by_chance(drawn.random(4000) < cuts, 300, drawn, sets=1)
    farther = [
        np.abs(np.mean(drawn.random(300) < cuts, 1) - np.mean(drawn.random(4000) < cuts, 1)).max() for _ in range(2000)
    ]
    assert np.mean(np.array(farther) > chance) == pytest.approx(0.05, abs=0.025)


def test_tables_of_a_small_grid(experiment):
    settings = Sparsity(d=10, sigma=[2.0], lr=[0.001, 0.5], batch=[1, None], seeds=2, steps=2000)
    found = experiment("mirror_symmetry.sparsity", [settings])
    rows, law = found["mirror_sparsity.csv"], found["mirror_sparsity_law.csv"]
    assert set(rows["step"]) == set(law["step"]) == moments_of(2000, 10) == {1000, 2000}
    plain = rows[(rows["model"] == "plain") & (rows["step"] == 2000)].set_index("lr")
    assert plain.loc[0.5, "diverged"].all() and not plain.loc[0.001, "diverged"].any()
    expected = rows[np.isinf(rows["batch"])]
    assert set(expected["model"]) == {"product"}
    assert (expected[expected["lr"] == 0.5]["excess"] < 1e-6).all()
    again = predict({"d": 10, "sigma": 2.0, "batch": 1.0}, np.array([0.001]), [1000, 2000], 2, Job("study"))[
        "mirror_sparsity_law.csv"
    ]
    same = law[(law["lr"] == 0.001) & (law["batch"] == 1)]
    np.testing.assert_array_equal(again["alone_3"], same["alone_3"])


def test_medians_of_single_products_are_those_of_runs_of_d():
    """At a rate at which mirrors attract; products come in order, d a run, at the steps of the second half."""
    steps, at = [1000, 2000, 4000], {"d": 1000, "sigma": 2.0, "batch": 1.0}
    found = predict(at, np.array([1e-5, 0.01]), steps, 2, Job("study"))["mirror_sparsity_alone.csv"]
    assert set(found["lr"]) == {0.01} and set(found["step"]) == {2000, 4000} and len(found) == 2 * 4
    drawn = numpy_rng("study", "sparsity", "products alone", "1000", "2", "1")
    alone = simulate_products(0.01, 1000, 2.0, 1, steps, drawn)
    third = found[(found["step"] == 4000) & (found["run"] == 2)].iloc[0]
    assert third["median_log"] == pytest.approx(np.median(np.log(alone[2, 2000:3000])))


def test_adam_is_pytorchs(samples):
    drawn = samples(1)
    start = np.random.default_rng(4).normal(size=(2, D)) / 3
    weights = np.repeat(start[:, None], 2, axis=1)
    step_with_adam(weights, Adam(weights, np.array([0.0, 0.9]), 0.999), np.array([0.01, 0.01]), drawn)
    x, y = torch.from_numpy(drawn.x[:, 0, 0]), torch.from_numpy(drawn.y[:, 0, 0])

    def loss(weights, step):
        return (x[step] @ (weights[0] * weights[1]) - y[step]) ** 2

    for place, beta1 in enumerate((0.0, 0.9)):
        expected = descend(loss, start, 0.01, len(x), torch.optim.Adam, betas=(beta1, 0.999))
        np.testing.assert_allclose(weights[:, place], expected, atol=1e-12)


def test_the_table_of_adam_is_that_of_each_run_alone(experiment):
    settings = AdamSparsity(d=4, sigma=0.5, beta1=[0.9, 0.0], lr=[0.02, 0.004], seeds=2, steps=1000)
    rows = experiment("mirror_symmetry.adam", settings)["mirror_adam.csv"].set_index(["seed", "beta1", "lr"])
    assert len(rows) == 8
    start = numpy_rng("study", "adam", "start", 1).normal(0, 0.5, (2, 1, 4))
    drawn = draw_samples([numpy_rng("study", "adam", "samples", 1)], 1000, 1, 4, 0.5)
    for beta1, lr in ((0.0, 0.02), (0.9, 0.004)):
        weights = start.copy()
        step_with_adam(weights, Adam(weights, np.array([beta1]), 0.999), np.array([lr]), drawn)
        u, w = weights[:, 0]
        found = rows.loc[1, beta1, lr]
        assert found["excess"] == pytest.approx(((u * w - 0.25) ** 2).sum(), rel=1e-9)
        assert found[["below_3", "below_6"]].tolist() == [np.mean(np.abs(u * w) < below) for below in (1e-3, 1e-6)]


def test_means_over_batches_are_drawn_from_their_joint_law():
    drawn = np.random.default_rng(0)
    x = drawn.standard_normal((60_000, 3))
    products = np.mean(x * (0.5 * x + drawn.standard_normal(x.shape)), axis=1)
    direct = np.stack([np.mean(x**2, axis=1), products])
    found = np.stack(draw_means(drawn, 60_000, 3, 0.5, 1.0))
    np.testing.assert_allclose(np.mean(found, axis=1), np.mean(direct, axis=1), rtol=0.03)
    np.testing.assert_allclose(np.cov(found), np.cov(direct), rtol=0.05)
    np.testing.assert_allclose(*(np.mean(np.prod(each**2, axis=0)) for each in (found, direct)), rtol=0.1)


def test_one_product_collapses_between_its_edges_alone(experiment):
    settings = Edges(lr=[0.02, 0.25, 5.0], batch=[1], runs=50, steps=3000, draws=50_000)
    rows = experiment("mirror_symmetry.edges", settings)
    found = rows["mirror_edges.csv"].set_index("lr")
    assert found["share"].round().tolist() == [0, 1, 0]
    assert (found["growth"] < 0).tolist() == [False, True, False]
    assert (found["second_order"] < 0).tolist() == [False, True, True]
    assert found["error"].to_numpy() == pytest.approx(found["deviation"] / 50_000**0.5)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_second_order_of_one_product_is_that_of_the_batches_drawn(batch, experiment):
    """-lr E h - lr^2 E h^2 / 2 of h = -2 mean(y x), from samples: E h^2 needs the fourth moment of x."""
    slope, sigma, lr = 0.5, 1.0, 0.25
    settings = Edges(lr=[lr, 1.0], batch=[batch], runs=2, steps=2, draws=100, slope=slope, sigma=sigma)
    drawn = np.random.default_rng(0)
    x = drawn.standard_normal((400_000, batch))
    h = -2 * np.mean(x * (slope * x + sigma * drawn.standard_normal(x.shape)), axis=1)
    assert 4 * strength_of(batch, slope, sigma) == pytest.approx(np.mean(h**2), rel=0.02)
    row = experiment("mirror_symmetry.edges", settings)["mirror_edges.csv"].set_index("lr").loc[lr]
    assert row["second_order"] == pytest.approx(-lr * np.mean(h) - lr**2 / 2 * np.mean(h**2), rel=0.05)


@pytest.mark.parametrize("model", ["vanilla", "residual", "skip"])
def test_factors_are_those_of_autograd(model):
    """Of the residual form in its own coordinates: the symmetry is moved by I, not removed."""
    d, mu, lr = 4, np.array([0.2, 0.7]), np.array([0.01, 0.02])
    x, y = draw_copies(np.random.default_rng(0), 30, mu, d)
    W, U, V = np.random.default_rng(1).normal(size=(3, 2, d, d)) / 3
    eye = np.eye(d) if model == "residual" else np.zeros((d, d))
    start = [each[1].copy() for each in ((W, U, V) if model == "skip" else (W, U))]
    own = W + eye, U + eye
    step_factors(*own, V if model == "skip" else None, lr, x, y)
    inputs, labels, move = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(eye)

    def loss(weights, step):
        out = (move + weights[0]) @ (move + weights[1]) @ inputs[step]
        out = out + weights[2] @ inputs[step] if model == "skip" else out
        return ((out - labels[step, 1]) ** 2).sum()

    expected = descend(loss, start, lr[1], len(x))
    for found, each, moved in zip((*own, V), expected, (eye, eye, 0), strict=False):
        np.testing.assert_allclose(found[1], each + moved, atol=1e-13)


def test_exponents_of_one_input_are_means_of_logarithms():
    """Up to the logarithm of what the first vector has of the eigenvector, over the steps."""
    lr, mu = np.array([0.1, 0.4]), np.array([0.5, 0.1])
    found = lyapunov_exponents(lr, mu, 1, 2000, np.random.default_rng(0))
    stream = np.random.default_rng(0)
    drawn = [draw_copies(stream, 1000, mu, 1) for _ in range(2)]
    x, y = (np.concatenate([each[part] for each in drawn]) for part in (0, 1))
    for run in (0, 1):
        g = 2 * lr[run] * y[:, run, 0] * x[:, 0]
        expected = sorted((np.mean(np.log(np.abs(1 + sign * g))) for sign in (1, -1)), reverse=True)
        np.testing.assert_allclose(found.loc[found["lr"] == lr[run], "exponent"], expected, atol=math.log(2) / 2000)


def test_ranks_of_a_small_grid(experiment):
    settings = OnlineRank(d=4, lr=[0.01, 5.0], mu=[0.5], seeds=1, steps=4000, exponent_steps=1000)
    found = experiment("mirror_symmetry.online_rank", [settings])
    rows = found["mirror_rank.csv"]
    assert rows[rows["lr"] == 5.0]["diverged"].all() and rows[rows["lr"] == 5.0]["rank_3"].isna().all()
    learned = rows[rows["lr"] == 0.01].set_index(["model", "matrix"])
    assert learned.loc[("vanilla", "map"), "rank_3"] == 4
    assert len(found["mirror_rank_exponents.csv"]) == 2 * 8
