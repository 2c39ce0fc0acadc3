"""Descents in the plane: what is exact on a mirror, and how fast they leave it where they start beside it."""

import numpy as np
import pandas as pd
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Lines, SmallNetworks
from symlab.papers.mirror_symmetry.small.fig_01_02_05_mirrors import farthest
from symlab.papers.mirror_symmetry.small.lines import LOSSES, descend_along_mirrors
from symlab.papers.mirror_symmetry.small.on_mirrors import (
    ADAM,
    NEURONS,
    ROTATION,
    EqualNeurons,
    Rotation,
    descend_from_mirrors,
)
from symlab.seeds import torch_generator


@pytest.fixture(scope="module")
def rows():
    return descend_along_mirrors(Lines(steps=200, optimizer_steps=200), Job("study"))["mirror_lines.csv"]


def test_on_the_mirrors_of_the_product_not_a_bit_is_off(rows):
    on = rows[(rows["loss_of"] == "rescaling") & (rows["offset"] == 0)]
    assert (on["u"].abs() == on["w"].abs()).all()


def test_a_start_beside_an_unstable_mirror_leaves_at_the_rate_of_the_hessian(rows):
    """At 0 the Hessian of (wu - 1)^2 is -2 along u = w, so the distance grows by 1 + 2 lr a step."""
    beside = rows[(rows["mirror"] == "u = -w") & (rows["offset"] > 0) & (rows["radius"] == 0.3)].set_index("step")[
        "off"
    ]
    assert beside[70] / beside[60] == pytest.approx(1.1**10, rel=1e-3)


def test_gradients_are_those_of_the_losses():
    u, w = np.random.default_rng(0).normal(size=(2, 50))
    for loss, gradient in LOSSES.values():
        for part, (du, dw) in zip(gradient(u, w), ((1e-6, 0), (0, 1e-6)), strict=True):
            assert part == pytest.approx((loss(u + du, w + dw) - loss(u - du, w - dw)) / 2e-6, abs=1e-7)


def test_optimizers_leave_a_mirror_of_rotations_as_their_hessian_says_and_equal_neurons_stay_to_the_bit():
    rows = descend_from_mirrors(400, Job("study"))
    neurons = rows[rows["mirror"] == NEURONS].groupby("optimizer")["off"].max()
    assert (neurons[[name for name in neurons.index if "dropout" not in name]] == 0).all() and len(neurons) == 13
    assert neurons["SGD, dropout 0.1"] > 1e-5
    turned = rows[rows["mirror"] == ROTATION].set_index(["optimizer", "step"])[["off", "tangent"]]
    assert turned.loc[(ADAM, 10), "off"] > 1e-3
    # Once momentum has carried rounding on, both grow alike.
    late = np.log(turned.loc[("SGD, momentum 0.9", 400)] / turned.loc[("SGD, momentum 0.9", 100)])
    assert late["off"] == pytest.approx(late["tangent"], rel=0.05) and late["tangent"] > 1


def test_gradients_on_mirrors_are_those_of_autograd():
    turned, neurons = (kind(Job("study"), torch.float64) for kind in (Rotation, EqualNeurons))
    W, kept = turned.start["W"], torch.tensor([1.0, 0, 1, 1, 0, 1]).double()

    def of_rotation(W):
        return (W.T @ W - turned.C).square().sum()

    def of_network(u, w):
        return ((torch.tanh(neurons.x @ w.T) * kept) @ u - neurons.y).square().mean()

    torch.testing.assert_close(turned.gradient(turned.start, kept)["W"], torch.func.grad(of_rotation)(W))
    change = torch.func.grad(lambda W: (torch.func.grad(of_rotation)(W) * turned.beside).sum())(W)
    torch.testing.assert_close(turned.hessian_times(W, turned.beside), change)
    found = neurons.gradient(neurons.start, kept)
    expected = torch.func.grad(of_network, argnums=(0, 1))(*neurons.start.values())
    torch.testing.assert_close((found["u"], found["w"]), expected)


@pytest.fixture(scope="module")
def small(experiment):
    settings = SmallNetworks(d=3, samples=20, steps=40, gamma_over_critical=[0.5, 0.8, 0.9, 1.1, 2.0], seeds=2)
    return experiment("mirror_symmetry.small_networks", settings)


def test_small_networks_descend_with_decay_and_their_hessian_is_in_blocks_of_the_mirrors(small):
    norms = small["mirror_decay.csv"].set_index(["seed", "gamma_over_critical"])["norm"]
    drawn = torch_generator("study", "tanh", 1)
    x = torch.randn(20, generator=drawn, dtype=torch.float64)
    y = x + 0.5 * torch.randn(20, generator=drawn, dtype=torch.float64)
    start = torch.randn(6, generator=drawn, dtype=torch.float64)
    for share in (0.5, 2.0):
        theta = (0.3 * start / start.norm()).requires_grad_()
        # At 0 the Hessian is -mean(xy) between u and w, and the critical gamma half of its size.
        decay = 2 * share * (x * y).mean().abs().item() / 2
        optimizer = torch.optim.SGD([theta], lr=0.1, weight_decay=decay)
        for _ in range(40):
            optimizer.zero_grad()
            ((torch.tanh(x[:, None] * theta[3:]) @ theta[:3] - y).square().mean() / 2).backward()
            optimizer.step()
        assert norms[1, share] == pytest.approx(theta.norm().item(), rel=1e-9)
    H = small["mirror_hessian.csv"].pivot(index="i", columns="j", values="value").to_numpy()
    blocks = small["mirror_hessian.csv"].query("j == 0")["block"].to_numpy()
    assert pd.Series(blocks).value_counts(sort=False).tolist() == [4, 4, 4, 12]
    apart = blocks[:, None] != blocks
    assert np.abs(H[apart]).max() < 1e-12 < 1e-2 < np.abs(H[~apart]).max()
    np.testing.assert_allclose(H, H.T, atol=1e-12)


def test_theorem_1_and_equations_2_and_6_hold_in_numbers(small):
    rows = small["mirror_theorem.csv"].set_index("part")
    apart = (rows["measured"] - rows["predicted"]).abs()
    share = apart / rows["predicted"].abs()
    assert (share["gamma_0"] < 1e-6).all() and (share["gamma_1"] < 1e-4).all() and (share["eq_6"] < 1e-3).all()
    assert (apart["eq_2"] < 1e-12).all() and (apart["eq_6_without"] < 0.01).all()
    pulls = rows.loc["no_reflection"].set_index("case")["measured"]
    assert pulls["no line is a mirror"] > 1e-3 and pulls["one line is"] < 1e-12


def test_a_distance_is_set_beside_growth_and_not_beside_decline():
    """Linear order makes 4 of a first step, or a quarter: a distance of 8e-15 counts as 2e-15, or as it is."""
    rows = [
        {"mirror": ROTATION, "optimizer": name, "step": step, "off": off, "tangent": tangent}
        for name, end in (("SGD", 4.0), ("SGD, decay 0.01", 0.25))
        for step, off, tangent in ((0, 1e-15, 1.0), (100, 8e-15, end), (300, 1.0, end))
    ]
    found = farthest({"mirror_optimizers.csv": pd.DataFrame(rows)}, ROTATION, r"SGD.*", steps=200, grown=True)
    assert {str(each.case): each.value for each in found} == {
        "SGD": pytest.approx(2e-15, abs=0),
        "SGD, decay 0.01": pytest.approx(8e-15, abs=0),
    }
