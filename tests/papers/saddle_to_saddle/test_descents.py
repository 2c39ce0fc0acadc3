"""Descents from near the origin against plain loops, known directions and closed forms."""

import math

import numpy as np
import pytest
import torch

from symlab.data import Digits
from symlab.data.digits import load
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.chain import Origin, draw_weights, origin_of, run_layers
from symlab.papers.saddle_to_saddle.descents import (
    descend_from_origin,
    follow_sgd,
    measure_layers,
    measure_whole,
    next_escape,
)
from symlab.papers.saddle_to_saddle.localized_loss import escape_of, layer_ratios
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.training.fastest_neuron import fastest_neuron
from symlab.training.flow import Place, follow_flow


def origin(n=40, d=5, classes=3, linear=False):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(d, n, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (n,), generator=generator)
    return Origin(X, torch.nn.functional.one_hot(y, classes).double().T, linear), y


def network(W, x, linear):
    for W_l in W[:-1]:
        x = x @ W_l.T if linear else torch.relu(x @ W_l.T)
    return x @ W[-1].T


def weights(scale=0.4, seed=1, sizes=(5, 7, 7, 3)):
    return draw_weights(sizes, scale, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("rows", [None, torch.tensor([3, 5, 8])])
def test_loss_and_gradient_are_autograd_s(linear, rows):
    problem, y = origin(linear=linear)
    leaves = [W_l.requires_grad_() for W_l in weights()]
    chosen = slice(None) if rows is None else rows
    loss = torch.nn.functional.cross_entropy(network(leaves, problem.X.T[chosen], linear), y[chosen])
    loss.backward()
    gradient, drop = problem.slope([leaf.detach() for leaf in leaves], rows)
    assert drop == pytest.approx(1 - loss.item() / math.log(3))
    for found, leaf in zip(gradient, leaves, strict=True):
        torch.testing.assert_close(found, leaf.grad)


def test_small_drops_are_resolved():
    problem, _ = origin()
    W = weights(1e-4)
    first_order = -float((problem.G * run_layers(W, problem.X)[0][-1]).sum()) / math.log(3)
    assert abs(first_order) < 1e-12 and problem.slope(W)[1] == pytest.approx(first_order, rel=1e-3)


def test_sgd_is_the_plain_loop():
    problem, y = origin()
    start, batches = weights(), torch.Generator().manual_seed(3)
    way = follow_sgd(start, problem, 0.5, 1, 8, batches)
    while (place := next(way)).gradients < 10:
        pass
    same, W, steps = torch.Generator().manual_seed(3), [W_l.clone() for W_l in start], 0
    while steps < place.gradients:
        for rows in torch.randperm(40, generator=same).split(8):
            leaves = [W_l.clone().requires_grad_() for W_l in W]
            torch.nn.functional.cross_entropy(network(leaves, problem.X.T[rows], False), y[rows]).backward()
            norm = torch.cat([W_l.flatten() for W_l in W]).norm()
            W = [W_l - 0.5 / norm * leaf.grad for W_l, leaf in zip(W, leaves, strict=True)]
            if (steps := steps + 1) == place.gradients:
                break
    for found, moved, expected, begun in zip(place.W, place.moved, W, start, strict=True):
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(moved, expected - begun)
    assert place.clock == 0.5 * place.gradients


def test_measures_are_those_of_formulas_and_numpy():
    problem, _ = origin()
    W, start = weights(0.7, 2), weights(0.1, 3)
    if float((problem.G * run_layers(W, problem.X)[0][-1]).sum()) > 0:
        W = [*W[:-1], -W[-1]]
    moved = [W_l - W_0 for W_l, W_0 in zip(W, start, strict=True)]
    place = Place(W, moved, 1.0, 1, 1.0, 0.1)
    v = torch.eye(5, dtype=torch.float64)[0]
    whole, layers = measure_whole(place, problem, v), measure_layers(place, problem, start)
    expected = escape_of(W, problem.X, problem.G)
    assert whole["speed"] == pytest.approx(float(expected.speed)) and whole["residual"] == pytest.approx(
        float(expected.residual)
    )
    s, ds = (np.linalg.svd(each[1].numpy(), compute_uv=False) for each in (W, moved))
    assert layers[2]["second"] == pytest.approx(s[1] / s[0])
    assert layers[2]["A_change"] == pytest.approx((ds[1:] ** 2).sum() / (ds**2).sum())
    ratios = layer_ratios(W, problem.X)
    assert layers[0]["B"] == pytest.approx(float(ratios["B"][0])) and layers[2]["D"] == pytest.approx(
        float(ratios["D"][1])
    )
    direction = np.linalg.svd(W[1].numpy())[2][0]
    shares = [(direction[direction * sign > 0] ** 2).sum() for sign in (1, -1)]
    assert layers[2]["one_sign"] == pytest.approx(max(shares)) and min(shares) > 0.01
    apart, before = (each[1].T @ each[1] - each[0] @ each[0].T for each in (W, start))
    assert layers[1]["strong"] == pytest.approx(float(apart.norm() / (W[0] @ W[0].T).norm()))
    square = float(sum(W_l.square().sum() for W_l in W))
    assert layers[1]["drift"] == pytest.approx(float((apart - before).diagonal().norm()) / (square / 3))
    assert whole["norm"] == pytest.approx(square**0.5)
    assert whole["cosine"] == pytest.approx(abs(np.linalg.svd(W[0].numpy())[2][0][0]), abs=1e-4)
    lost = sum(each.get(f"lost_{term}", 0) for each in layers for term in ("norms", "rank", "cut", "alignment"))
    largest = float(problem.X.norm() * problem.G.norm())
    assert lost + whole["lost_output"] == pytest.approx(math.log(largest / whole["speed"]))


def digits(**settings):
    data = load(Digits(source="digits"), None)
    grid = Descents(samples=400, **settings)
    return lambda *point: descend_from_origin(grid, Job("test", datasets={"digits": data}), "digits", *point)


def test_training_from_small_weights_finds_one_neuron():
    """The table of the review: depth 4, width 32, from 0.0001 on 400 digits."""
    found = digits(drops=[1e-2])(4, 1e-4, "relu", "flow", 0.03, 0)
    event = found["escape_events.csv"].query("event == 0.01").iloc[0]
    assert event["residual"] < 0.1 and event["speed"] > 0.9 * event["one_neuron"]
    layers = found["escape_layers.csv"].query("event == 0.01 and layer > 0")
    assert (
        (layers["second"] < 0.05).all() and (layers["B"].dropna() < 2e-3).all() and (layers["D"].dropna() < 0.02).all()
    )
    assert (layers["drift"].dropna() < 1e-3).all()


def test_a_linear_network_leaves_along_the_first_singular_direction():
    found = digits(drops=[1e-2])(3, 1e-5, "identity", "flow", 0.03, 0)
    event = found["escape_events.csv"].query("event == 0.01").iloc[0]
    assert event["speed"] == pytest.approx(event["one_neuron"], rel=0.02) and event["cosine"] > 0.97
    assert found["escape_layers.csv"].query("event == 0.01 and layer > 0")["second"].max() < 0.01


def test_sgd_leaves_when_the_flow_says_and_with_all_samples_where():
    """At depth 4 with the rate of 0.5 over |theta|^2, from the same weights."""
    run = digits(drops=[1e-2], lr=0.5, gradients=3000)
    flow, sgd, gd = (run(4, 1e-3, "relu", rule, 0.03, 0)["escape_events.csv"] for rule in ("flow", "sgd", "gd"))
    times, residuals = ([each.loc[each["event"] == 0.01, name].item() for each in (flow, sgd, gd)] for name in
                        ("s", "residual"))  # fmt: skip
    assert times[1:] == pytest.approx([times[0]] * 2, rel=0.05)
    assert residuals[2] == pytest.approx(residuals[0], rel=0.05) and residuals[1] > residuals[2]
    assert sgd["gradients"].max() > 3 * flow["gradients"].max() / 2


def test_a_run_that_is_too_short_has_no_row_for_what_it_has_not_reached():
    found = digits(drops=[1e-6, 1e-2], gradients=20)(4, 1e-4, "relu", "flow", 0.03, 1)
    assert found["escape_events.csv"]["event"].tolist() == [0]
    assert found["escape_next.csv"]["left"].item() == 0 and found["escape_next.csv"]["next_speed"].isna().all()


def test_the_next_escape_is_known_where_one_neuron_is_added_by_hand():
    """A network that computes one neuron, to which the fastest one for the cost's gradient there is added."""
    data = load(Digits(source="digits"), None)
    problem = origin_of(data, 2, 200)
    _, v = fastest_neuron(problem.X, problem.G)
    u = -problem.G @ (v @ problem.X).clamp_min(0)
    W = [torch.zeros(4, len(v)).double(), torch.zeros(4, 4).double(), torch.zeros(10, 4).double()]
    W[0][0], W[1][0, 0], W[2][:, 0] = v, 1.0, 3 * u / u.norm()
    G = problem.by_outputs(run_layers(W, problem.X)[0][-1])
    following, w = fastest_neuron(problem.X, G)
    added = [W_l.clone() for W_l in W]
    out = -G @ (w @ problem.X).clamp_min(0)
    added[0][1], added[1][1, 1], added[2][:, 1] = w, 1.0, out / out.norm()
    moved = [torch.zeros_like(W_l) for W_l in W]
    before, after = (Place(each, moved, 1.0, 1, 1.0, 0.2) for each in (W, added))
    found = next_escape(after, [before], problem)
    assert found["next_speed"] == pytest.approx(following) and found["gained_speed"] == pytest.approx(following)
    assert found["cosine"] == pytest.approx(1) and found["second_gained"] == pytest.approx(0, abs=1e-6)


def test_tables_have_a_row_for_each_moment_network_and_layer(experiment):
    data = load(Digits(source="digits"), None)
    grid = Descents(L=[3], std=[1e-2, 1e-3], width=8, seeds=2, samples=100, pool=2, drops=[1e-4, 1e-2])
    tables = experiment("saddle_escape.descents", [grid], Job("study", datasets={"digits": data}))
    events = tables["escape_events.csv"]
    assert len(events) == 2 * 2 * 3 and len(tables["escape_layers.csv"]) == 4 * len(events)
    assert len(tables["escape_next.csv"]) == 4 and set(tables["escape_spectra.csv"]["seed"]) == {0}
    # A seed's weights are one draw, times each scale.
    norms = events[events["event"] == 0].pivot(index="seed", columns="std", values="norm")
    np.testing.assert_allclose(norms[1e-2], 10 * norms[1e-3])


def test_the_gradient_of_float32_weights_far_below_its_steps_is_kept():
    """The updates of the paper's own network near the origin change no float32; apart from the weights they add up."""
    problem, _ = origin()
    single = Origin(problem.X.float(), problem.target.float())
    start = weights(1e-3)
    places = {}
    for name, each, W in (("float64", problem, start), ("float32", single, [W_l.float() for W_l in start])):
        way = follow_flow(W, each.slope, 1e-6, power=1, heun=False)
        places[name] = [next(way) for _ in range(20)][-1]
    for exact, found in zip(places["float64"].moved, places["float32"].moved, strict=True):
        assert float((found.double() - exact).norm() / exact.norm()) < 1e-3
