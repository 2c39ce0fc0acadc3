"""Speeds on polygons: closed forms, brute force, certificates, and what descent reaches."""

import math
import time

import numpy as np
import pytest
import torch

from symlab.data import Digits
from symlab.data.digits import load
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle import optimal_speed
from symlab.papers.saddle_to_saddle.chain import origin_of
from symlab.papers.saddle_to_saddle.fig_02_05_06_circle import trend_p_value
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.polygon import best_rank_one_speed, certify_speed, polygon, rank_one_speed
from symlab.papers.saddle_to_saddle.settings import DataSpeeds, NearRankOne, Polygons
from symlab.seeds import torch_generator
from symlab.training.fastest_neuron import fastest_neuron

ANGLES = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)


def test_equation_6_its_closed_form_and_a_network_of_one_neuron_agree():
    xi = ANGLES.remainder(math.pi / 4)
    quarter = math.pi / 4
    printed = ((xi + quarter).cos() - xi.cos() + (xi - quarter).cos() - (xi - 2 * quarter).cos()).abs()
    closed = (math.pi / 8 - xi).sin().abs() / math.cos(math.pi / 8)
    torch.testing.assert_close(closed, printed, atol=1e-14, rtol=0)
    torch.testing.assert_close(rank_one_speed(8, ANGLES), printed, atol=1e-14, rtol=0)


@pytest.mark.parametrize(
    ("N", "one_neuron", "certified"),
    [(4, 1, 1), (6, 0, 2 * math.sqrt(3) - 3), (8, math.sqrt(2) - 1, 0.5), (10, 0, 0.30127), (12, 0.26795, 0.366025)],
)
def test_one_neuron_by_brute_force_and_the_certificate(N, one_neuron, certified):
    fine = torch.linspace(0, 2 * math.pi, 20_001, dtype=torch.float64)
    assert best_rank_one_speed(N) == pytest.approx(one_neuron, abs=1e-5)
    assert float(rank_one_speed(N, fine).max()) == pytest.approx(best_rank_one_speed(N), abs=1e-6)
    assert certified - 5e-6 < certify_speed(N) < certified + 2e-5


def test_the_circle_is_certified_to_five_millionths_in_a_second():
    start = time.process_time()
    assert certify_speed(8) == pytest.approx(0.5, abs=5e-6)
    assert time.process_time() - start < 1
    with pytest.raises(ValueError, match="do not hold the kinks"):
        certify_speed(8, directions=100)


def test_no_random_network_is_faster_than_the_certificate():
    for N in (6, 8):
        X, G = polygon(N)
        found = descend(random_directions(40, [2, 8, 8, 1], torch.Generator().manual_seed(0)), X, G, 800)
        assert float(found.speeds.max()) <= certify_speed(N)


def test_descents_together_are_those_one_after_the_other():
    X, G = polygon(8)
    sizes = [2, 5, 5, 1]
    start = random_directions(6, sizes, torch.Generator().manual_seed(3))
    together = descend(start, X, G, 300)
    for run in range(6):
        alone = descend([W_l[run : run + 1] for W_l in start], X, G, 300)
        torch.testing.assert_close(alone.curves[0], together.curves[run], atol=1e-9, rtol=0)


def test_descent_is_the_plain_loop():
    X, G = polygon(8)
    sizes = [2, 4, 4, 1]
    start = random_directions(1, sizes, torch.Generator().manual_seed(5))
    W = [W_l[0] for W_l in start]
    for step in range(50):
        leaves = [W_l.clone().requires_grad_() for W_l in W]
        loss = (G * (leaves[2] @ torch.relu(leaves[1] @ torch.relu(leaves[0] @ X)))).sum()
        loss.backward()
        rate = 0.05 if step < 25 else 0.005 if step < 40 else 0.0005
        # A gradient shorter than 0.7 counts as that long.
        size = math.sqrt(sum(float(leaf.grad.square().sum()) for leaf in leaves))
        rate *= max(0.7 / size, 1)
        moved = [leaf.detach() - rate * leaf.grad for leaf in leaves]
        norm = math.sqrt(sum(float(each.square().sum()) for each in moved))
        W = [math.sqrt(3) / norm * each for each in moved]
    found = descend(start, X, G, 50)
    for expected, W_l in zip(W, found.W, strict=True):
        torch.testing.assert_close(W_l[0], expected, atol=1e-12, rtol=0)


def test_the_experiment_gives_a_row_a_run_and_never_beats_the_certificate(experiment):
    grid = Polygons(N=[8], widths=[2, 8], runs=30, steps=600, doublings=0)
    tables = experiment("saddle_escape.polygons", [grid], Job("test"))
    runs = tables["polygon_runs.csv"]
    assert len(runs) == 60 and set(runs["outcome"]) <= {"success", "failure", "dead", "undecided"}
    assert (runs["speed"] <= tables["polygon_limits.csv"]["certified"].item()).all()
    assert (runs.loc[runs["width"] == 2, "outcome"] != "success").all()


def test_lifted_networks_are_no_slower_and_budgets_add_up(experiment):
    grid = Polygons(N=[8], L=[3, 4, 6], widths=[6], runs=10, steps=600, doublings=0)
    tables = experiment("saddle_escape.polygons", [grid], Job("test"))
    best = tables["polygon_runs.csv"].groupby("L")["speed"].max()
    lifts = tables["polygon_lifts.csv"]
    assert sorted(zip(lifts["of"], lifts["L"], strict=True)) == [(3, 4), (3, 6), (4, 6)]
    assert all(row.speed >= best[row.of] - 1e-12 for row in lifts.itertuples())
    budget = tables["polygon_budget.csv"]
    for (of, L), lost in budget.groupby(["of", "L"])["lost"]:
        speed = 0.5 if of == "Example 1" else best[L]
        assert lost.sum() == pytest.approx(math.log(8 / speed), abs=1e-9)
    assert budget.loc[budget["term"] != "norms", "lost"].min() > -1e-12


@pytest.mark.parametrize("L", [8, 12])
def test_great_depths_are_reached_from_random_weights(L):
    """A fixed step stays at speed 0 there."""
    X, G = polygon(8)
    start = random_directions(20, [2, *[8] * (L - 1), 1], torch.Generator().manual_seed(0))
    assert float(descend(start, X, G, 1500).speeds.max()) > 0.495


def test_speeds_on_data_begin_with_that_of_one_neuron(experiment):
    dataset = load(Digits(source="digits"), None)
    settings = DataSpeeds(L=[3], width=3, runs=12, steps=1500, samples=50, pool=4)
    job = Job("test", datasets={"digits": dataset})
    table = experiment("saddle_escape.data_speeds", settings, job)["data_speeds.csv"]
    assert table.groupby("L").size().to_dict() == {2: 12, 3: 12}
    origin = origin_of(dataset, 4, 50)
    one = fastest_neuron(origin.X, origin.G)[0]
    assert table.loc[table["L"] == 2, "speed"].max() == pytest.approx(one, rel=1e-3)


def test_inputs_near_rank_one_have_the_speed_and_the_bound_of_proposition_3_3(experiment):
    """Where X = u v^T, |u| = |v| = 1, the fastest network hands u on whole, and its speed is |G v|."""
    settings = NearRankOne(noise=[1e-9, 0.02], seeds=2, d=3, n=6, width=4, runs=6, steps=400)
    rows = experiment("saddle_escape.near_rank_one", settings)["near_rank_one.csv"].set_index(["noise", "seed"])
    ratios = [
        f"{letter}_{layer}"
        for letter, first, last in ("A13", "B02", "D12")
        for layer in range(int(first), int(last) + 1)
    ]
    assert list(rows.columns[2:]) == ratios
    drawn = torch_generator("study", "near rank one", 1)
    u, v, E, G = (torch.randn(*size, generator=drawn, dtype=torch.float64) for size in ((3, 1), (1, 6), (3, 6), (2, 6)))
    v = (v / v.norm()).abs()
    plain = rows.loc[1e-9, 1]
    assert plain["speed"] == pytest.approx(float((G @ v.T).norm()), rel=1e-4)
    X = u.abs() @ v / u.norm() + 0.02 * E / E.norm()
    near = rows.loc[0.02, 1]
    s = np.linalg.svd(X.numpy(), compute_uv=False)
    assert near["B_0"] == pytest.approx((s[1:] ** 2).sum() / (s**2).sum(), rel=1e-9)
    lost = 0.02 * float(G.norm())
    assert near["bound"] == pytest.approx(8 * lost / (near["speed"] - lost))
    assert (plain[ratios] < 1e-6).all() and 1e-6 < near[ratios].max() < near["bound"]
    assert abs(near["speed"] - plain["speed"]) < lost


def test_the_trend_is_that_of_other_software():
    # Agresti's example of malformations and alcohol: z^2 = 6.570, one-sided p = 0.0052.
    hits, n = np.array([48, 38, 5, 1, 1]), np.array([17114, 14502, 793, 127, 38])
    assert trend_p_value(hits, n, np.array([0, 0.5, 1.5, 4, 7])) == pytest.approx(0.0052, abs=1e-4)
    assert trend_p_value(np.zeros(3), np.full(3, 9), np.arange(3.0)) == 1


def test_the_slope_is_the_norm_of_the_gradient_along_the_sphere(monkeypatch):
    """Of the loss per squared norm of the weights, by autograd; the last tenth of ten steps is one, from the ninth."""
    monkeypatch.setattr(optimal_speed, "STAGES", ((1.0, 1.0),))
    X, G = polygon(8)
    start = random_directions(3, [2, 5, 4, 1], torch.Generator().manual_seed(1))
    W, found = descend(start, X, G, 9).W, descend(start, X, G, 10).slope
    for run in range(3):
        theta = [W_l[run].clone().requires_grad_() for W_l in W]
        loss = (G * (theta[2] @ torch.relu(theta[1] @ torch.relu(theta[0] @ X)))).sum()
        g = torch.cat([each.flatten() for each in torch.autograd.grad(loss, theta)])
        flat = torch.cat([each.detach().flatten() for each in theta])
        along = g - (g @ flat) / (flat @ flat) * flat
        assert float(found[run]) == pytest.approx(float(along.norm()), rel=1e-9)
