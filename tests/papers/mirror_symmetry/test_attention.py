"""Attention layers: against torch's attention and optimizers, and the rotations that leave them as they are."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import ADAM, DESCENT, Attention
from symlab.papers.mirror_symmetry.small.attention import _draw_data, _draw_weights, predict

SMALL = Attention(N=7, T=4, d=3, decays=[0.1, 1.0], steps=6, descent_steps=6, every=3, seeds=2)


def predict_plainly(Z, weights):
    """One network at one data set: layers [layers, 3, D, D]."""
    for Q, K, V in weights:
        Z = Z + scaled_dot_product_attention(Z @ Q.T, Z @ K.T, Z @ V.T)
    return Z[:, -1, -1]


@pytest.mark.parametrize("layers", [1, 2])
def test_predictions_are_those_of_torch_attention(layers):
    drawn = torch.Generator().manual_seed(0)
    Z = torch.randn(2, 7, 4, 4, generator=drawn)
    weights = torch.randn(2, 3, layers, 3, 4, 4, generator=drawn)
    found = predict(Z, weights)
    for seed in range(2):
        for net in range(3):
            torch.testing.assert_close(found[seed, net], predict_plainly(Z[seed], weights[seed, net]))


def test_a_rotation_of_query_and_key_together_changes_nothing():
    drawn = torch.Generator().manual_seed(0)
    Z, weights = torch.randn(1, 7, 4, 4, generator=drawn), torch.randn(1, 1, 2, 3, 4, 4, generator=drawn)
    turned = weights.clone()
    turned[..., :2, :, :] = torch.linalg.qr(torch.randn(4, 4, generator=drawn))[0] @ turned[..., :2, :, :]
    torch.testing.assert_close(predict(Z, turned), predict(Z, weights), rtol=1e-4, atol=1e-4)


def test_targets_are_linear_in_the_features_and_hidden_in_the_query_alone():
    Z, y = _draw_data(SMALL.model_copy(update={"T": 9}), Job("study"), 0)
    for point, target in zip(Z, y, strict=True):
        coefficients = torch.linalg.lstsq(point[:-1, :3], point[:-1, 3:]).solution
        torch.testing.assert_close(point[-1, :3] @ coefficients, target[None], rtol=1e-3, atol=1e-4)
    assert not Z[:, -1, -1].any()


@pytest.mark.parametrize("layers", [1, 2])
def test_training_is_that_of_torch_with_coupled_weight_decay(layers, experiment):
    rows = experiment("mirror_symmetry.attention", SMALL.model_copy(update={"layers": [layers]}), Job("study"))[
        "mirror_attention.csv"
    ]
    assert {*zip(rows["layers"], rows["N"], rows["T"], rows["d"], strict=True)} == {(layers, SMALL.N, SMALL.T, SMALL.d)}
    assert {*zip(rows["optimizer"], rows["lr"], strict=True)} == {(ADAM, 4e-3), (DESCENT, 5e-3)}
    Z, y = _draw_data(SMALL, Job("study"), 1)
    for name, make in ((ADAM, torch.optim.Adam), (DESCENT, torch.optim.SGD)):
        weights = _draw_weights(SMALL, Job("study"), layers, 1).requires_grad_()
        optimizer = make([weights], lr=4e-3 if name == ADAM else 5e-3, weight_decay=1.0)
        for _ in range(6):
            optimizer.zero_grad()
            (predict_plainly(Z, weights) - y).square().mean().backward()
            optimizer.step()
        of = rows[(rows["optimizer"] == name) & (rows["decay"] == 1) & (rows["seed"] == 1) & (rows["step"] == 6)]
        loss = (predict_plainly(Z, weights) - y).square().mean().item()
        assert np.allclose(of["loss"], loss, rtol=1e-4)
        sigma = torch.linalg.svdvals(weights.detach())
        assert np.allclose(
            of["apart_key"], ((sigma[:, 1] - sigma[:, 0]).norm(dim=1) / sigma[:, 0].norm(dim=1)), rtol=1e-3
        )
        Q, K, _ = weights.detach().unbind(1)
        assert np.allclose(of["unbalance"], (Q @ Q.mT - K @ K.mT).norm(dim=(1, 2)), rtol=1e-3)
        assert (of["rank_query"].to_numpy() == (sigma[:, 0] > 0.01 * sigma[:, 0, :1]).sum(1).numpy()).all()


def test_the_unbalance_of_query_and_key_is_what_descent_conserves_but_for_decay(experiment):
    """Along gradient flow Q Q^T - K K^T falls as exp(-2 decay time), while Q and K move on their own."""
    slow = SMALL.model_copy(update={"decays": [0.001, 0.5], "descent_steps": 200, "descent_lr": 2e-3, "layers": [1]})
    rows = experiment("mirror_symmetry.attention", slow)["mirror_attention.csv"]
    rows = rows[rows["optimizer"] == DESCENT].set_index(["layer", "decay", "seed"])
    first, last = rows[rows["step"] == 0], rows[rows["step"] == 200]
    decays = last.index.get_level_values("decay").to_numpy()
    fallen = (last["unbalance"] / first["unbalance"]).to_numpy()
    np.testing.assert_allclose(fallen, np.exp(-2 * decays * 0.4), rtol=0.01)
    assert (first["loss"] / last["loss"]).min() > 1.05


def test_a_rate_at_which_descent_diverges_is_told(experiment):
    with pytest.raises(UserError, match="diverged"):
        experiment(
            "mirror_symmetry.attention", SMALL.model_copy(update={"descent_lr": 1e4, "descent_steps": 30}), Job("study")
        )
