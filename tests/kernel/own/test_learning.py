"""Alignment learned by descent over maps, and its control."""

import pandas as pd
import pytest
import torch
from torch import nn

from symlab import UserError, align, trace
from symlab.alignment.averaging import average
from symlab.alignment.forward import outputs
from symlab.connectivity import learning
from symlab.connectivity.learning import learned_maps, moved
from symlab.own.learning import CLOSED_FORM, CONTROL, LEARNED, Learned, untrained_weights
from symlab.symmetries.actions import Action, act, actions_of, exponential
from symlab.symmetries.symmetry_spec import SymmetrySpec


def network(seed, activation=nn.ReLU):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), activation(), nn.Linear(8, 4, bias=False), nn.Linear(4, 5), nn.Linear(5, 3))


def batch(n=200):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(5))
    return x, (x[:, :3] * x[:, 3:]).argmax(1)


def actions_at(module, x):
    return actions_of(module, trace(module, x[:4]), x[:4], module.state_dict())


@pytest.mark.parametrize("scales", [True, False])
def test_planes_turn_and_grow_as_the_exponential_says(scales):
    X = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.zeros_like(X)
    for i, j in (planes := ((0, 2), (1, 3))):
        expected[:, j, i], expected[:, i, j] = X[:, j, i], -X[:, j, i]
        expected[:, i, i] = expected[:, j, j] = X[:, i, i] if scales else 0
    found = exponential(Action("a", "planes", {}, SymmetrySpec({}, {}), planes=planes), X, scales)
    torch.testing.assert_close(found, torch.matrix_exp(expected))


def test_a_planted_map_near_the_optimum_is_recovered():
    module, (x, _) = network(0).requires_grad_(False).double(), batch()
    x, A = x.double(), {name: tensor.clone() for name, tensor in module.state_dict().items()}
    y, actions = module(x), [action for action in actions_at(module, x) if action.kind == "invertible"]
    assert len(actions) == 2
    generator, B = torch.Generator().manual_seed(1), A
    for action in actions:
        X = 0.1 * torch.randn(*action.size, action.size[-1], generator=generator, dtype=torch.float64)
        B = act(B, action, exponential(action, X, False))
    found = learned_maps(module, list(A), A, B, actions, x, y, "regression", 200, False)
    apart = sum((B[name] - tensor).norm() for name, tensor in A.items())
    left = sum((moved(B, actions, found)[name] - tensor).norm() for name, tensor in A.items())
    # Scales are not asked: the midpoint of s and 1 / s is good already.
    assert left < 0.3 * apart
    midpoints = [average([A, state]) for state in (B, moved(B, actions, found))]
    before, after = ((outputs(module, state, x) - y).square().mean() for state in midpoints)
    assert after < 1e-3 * before


@pytest.mark.parametrize("rate", [0.01, 3.0])
@pytest.mark.parametrize("scales", [True, False])
def test_descent_never_worsens_what_it_starts_from_and_changes_no_function(rate, scales, monkeypatch):
    monkeypatch.setattr(learning, "RATE", rate)
    looked_at = []
    monkeypatch.setattr(learning, "outputs", lambda *given: looked_at.append(outputs(*given)) or looked_at[-1])
    module, (x, y) = network(0).requires_grad_(False), batch()
    A, B = (network(seed).state_dict() for seed in (0, 1))
    actions = [action for action in actions_at(module, x) if scales or action.kind != "scaled"]
    found = learned_maps(module, list(A), A, B, actions, x, y, "classification", 20, scales)
    after = moved(B, actions, found)
    loss = [nn.functional.cross_entropy(outputs(module, average([A, state]), x), y) for state in (B, after)]
    assert len(looked_at) == 1 + learning.LOOKS
    assert float(loss[1]) == pytest.approx(min(float(nn.functional.cross_entropy(each, y)) for each in looked_at))
    if rate == 0.01:
        assert loss[1] < loss[0]
        torch.testing.assert_close(outputs(module, after, x), outputs(module, B, x), atol=1e-4, rtol=1e-4)
    if not scales:
        for M in found.values():
            torch.testing.assert_close(M @ M.mT, torch.eye(M.shape[-1], dtype=M.dtype).expand_as(M))


def test_learning_prints_what_an_untrained_network_reaches():
    module, data = network(7), batch()
    aligned = align(module, network(0), network(1), data, group="full", learn=30, seed=3)
    learned = aligned.learned
    assert learned is not None and str(learned) in str(aligned)
    assert learned.scores["network"].tolist()[:3] == [CLOSED_FORM, LEARNED, CONTROL] and learned.samples == 40
    x = data[0]
    torch.testing.assert_close(
        outputs(module, learned.control, x), outputs(module, untrained_weights(module, seed=3), x), atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(outputs(module, aligned.permuted, x), network(1)(x), atol=1e-4, rtol=1e-4)
    # On the fifth of the samples that descent, seeded alike, does not see.
    held = torch.randperm(200, generator=torch.Generator().manual_seed(3))[160:]
    loss = learned.scores.set_index("network")["loss"]
    for row, other in ((LEARNED, aligned.permuted), (CONTROL, learned.control)):
        mean = {name: (tensor + other[name]) / 2 for name, tensor in aligned.reference.items()}
        by_hand = torch.nn.functional.cross_entropy(outputs(module, mean, x[held]), data[1][held])
        assert loss[row] == pytest.approx(float(by_hand), rel=1e-4)
    test = (x[:30] + 1, data[1][:30])
    given = align(module, network(0), network(1), data, test=test, group="full", learn=30, untrained=network(9), seed=3)
    # Where there are test data, descent sees all others.
    assert given.learned.samples == 30
    mean = {name: (tensor + given.permuted[name]) / 2 for name, tensor in given.reference.items()}
    by_hand = torch.nn.functional.cross_entropy(outputs(module, mean, test[0]), test[1])
    assert given.learned.scores.set_index("network").loc[LEARNED, "loss"] == pytest.approx(float(by_hand), rel=1e-4)
    torch.testing.assert_close(outputs(module, given.learned.control, x), network(9)(x), atol=1e-4, rtol=1e-4)
    again = align(module, network(0), network(1), data, group="full", learn=30, untrained=network(9), seed=3)
    assert all(torch.equal(again.permuted[name], tensor) for name, tensor in aligned.permuted.items())


def test_an_untrained_network_has_other_weights_and_the_module_keeps_its_own():
    module = network(0)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    drawn = untrained_weights(module, seed=0)
    assert not any(torch.equal(drawn[name], tensor) for name, tensor in before.items())
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize(
    ("learned", "control", "judged"),
    [(0.61, 0.58, "little about B"), (0.61, 0.45, "24 % of what is gained"), (0.4, 0.5, "gains nothing")],
)
def test_the_control_is_held_against_the_gain(learned, control, judged):
    rows = [(CLOSED_FORM, 0.4), (LEARNED, learned), (CONTROL, control)]
    scores = pd.DataFrame([{"network": name, "loss": 1.0, "accuracy": accuracy} for name, accuracy in rows])
    told = str(Learned(scores.assign(accuracy_error=[0.02, 0.031, 0.01]), 100, {}))
    assert judged in told and f"{100 * control:.1f} %" in told and told.endswith("(standard errors up to 3.1 points).")
    assert f"reaches {100 * learned:.1f} % at the midpoint, the closed form 40.0 %" in told
    # Of losses less is better.
    losses = 1 - scores["accuracy"]
    of_losses = scores.assign(loss=losses, accuracy=None, accuracy_error=None, loss_error=[0.02, 0.031, 0.01])
    told = str(Learned(of_losses, 100, {}))
    assert judged in told and told.endswith("(standard errors up to 0.0310).")
    assert f"a loss of {1 - learned:.4f} at the midpoint, the closed form a loss of 0.6000" in told


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Parameter(torch.randn(6, 8)), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(x @ self.first))


def test_of_weights_that_nothing_draws_anew_an_untrained_network_is_asked_for():
    with pytest.raises(UserError, match="give one as untrained"):
        align(Bare(), Bare(), Bare(), batch(), group="full", learn=5)
