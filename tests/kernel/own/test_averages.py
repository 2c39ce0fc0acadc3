"""Networks merged otherwise than by their mean: as functions and on the command line, by one preparation."""

import math

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from symlab import UserError, align, merge
from symlab.alignment.forward import outputs
from symlab.own.report import verdict

N = 120


def build():
    return nn.Sequential(
        nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4)
    )


def drawn(seed):
    torch.manual_seed(seed)
    return {k: t + torch.randn_like(t) / 4 if t.is_floating_point() else t for k, t in build().state_dict().items()}


def renumbered(state, seed):
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randperm(size, generator=generator) for size in (12, 10))
    moved = {k: t[second] if k.startswith("3.") and t.dim() else t for k, t in state.items()}
    moved |= {f"0.{kind}": state[f"0.{kind}"][first] for kind in ("weight", "bias")}
    moved |= {"2.weight": state["2.weight"][second][:, first], "2.bias": state["2.bias"][second]}
    return {k: t.contiguous() for k, t in (moved | {"5.weight": state["5.weight"][:, second]}).items()}


@pytest.fixture
def networks():
    """A start, and two networks close to it, the second renumbered."""
    base = drawn(0)
    for part in ("running_mean", "running_var"):
        base[f"3.{part}"] = base[f"3.{part}"].abs() + 0.5
    A, B = ({k: t + 0.05 * drawn(n)[k] if t.is_floating_point() else t for k, t in base.items()} for n in (1, 2))
    return base, A, B


X = torch.randn(N, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(N) % 4


def parameters(state):
    return {k: t for k, t in state.items() if "running" not in k and t.is_floating_point()}


@torch.no_grad()
def test_what_renumbered_networks_learned_is_added_to_their_base(networks):
    base, A, B = networks
    found = merge(build(), [A, renumbered(B, 3)], (X, Y), base=base, scale=2.0, weights=[3, 1])
    assert found.trunk is None and found.names == ["states[0]", "states[1]"]
    for name, tensor in parameters(found.state).items():
        expected = base[name] + 1.5 * (A[name] - base[name]) + 0.5 * (B[name] - base[name])
        torch.testing.assert_close(tensor, expected)
    together = (3 * outputs(build(), A, X) + outputs(build(), B, X)) / 4
    loss = found.scores.set_index("network").loc["ensemble", "loss"]
    assert loss == pytest.approx(float(nn.functional.cross_entropy(together, Y)), rel=1e-5)
    assert "Verdict" in str(found) and "learned since base, times 2" in str(found)
    forgotten = merge(build(), [renumbered(B, 4)], X, base=base, scale=-1.0)
    for name, tensor in parameters(forgotten.state).items():
        torch.testing.assert_close(tensor, 2 * base[name] - B[name])


@torch.no_grad()
def test_up_to_a_layer_networks_are_one_and_beyond_each_keeps_its_own(networks, tmp_path):
    _, A, B = networks
    found = merge(build(), [A, renumbered(B, 3)], (X, Y), until="2")
    assert {name for name in found.trunk if "running" not in name} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    for state, own in zip(found.states, (A, B), strict=True):
        for name, tensor in parameters(state).items():
            shared = name.startswith(("0.", "2."))
            torch.testing.assert_close(tensor, (A[name] + B[name]) / 2 if shared else own[name])
        normed = outputs(build()[:3], {name: state[name] for name in state if name[0] in "02"}, X)
        torch.testing.assert_close(state["3.running_mean"], normed.mean(0), atol=1e-4, rtol=1e-4)
    for _ in range(2):
        found.save(tmp_path)
    assert torch.equal(load_file(tmp_path / "2.safetensors")["5.weight"], B["5.weight"])
    by = found.scores.set_index("network")
    together = sum(outputs(build(), state, X) for state in found.states) / 2
    assert by.loc["merged", "loss"] == pytest.approx(float(nn.functional.cross_entropy(together, Y)), rel=1e-5)
    for head, state in zip(("states[0]", "states[1]"), found.states, strict=True):
        alone = float(nn.functional.cross_entropy(outputs(build(), state, X), Y))
        assert by.loc[f"merged, head of {head}", "loss"] == pytest.approx(alone, rel=1e-5)


@torch.no_grad()
def test_least_squares_leave_copies_in_another_order_one_network(networks):
    _, A, _ = networks
    plain = {name: tensor for name, tensor in A.items() if "3." not in name}
    module = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 10), nn.Identity(), nn.ReLU(), nn.Linear(10, 4))
    copies = [plain, {name: tensor for name, tensor in renumbered(A, 5).items() if "3." not in name}]
    found = merge(module, copies, (X, Y), average="least-squares")
    assert align(module, *copies, X).permutations.keys() == {"0", "2"}
    torch.testing.assert_close(outputs(module, found.state, X), outputs(module, plain, X), atol=1e-3, rtol=1e-3)
    assert (outputs(module, found.plain, X) - outputs(module, plain, X)).abs().max() > 0.1
    with pytest.raises(UserError, match="least squares need inputs"):
        from symlab import trace

        merge(module, copies, None, "weight", average="least-squares", traced=trace(module, X))


@pytest.mark.parametrize(
    ("accuracy", "error", "message"),
    [
        (0.89, 0.05, "averaging is advisable, 1.0 ± 5.0 points of accuracy below the networks' mean; it keeps 99 %"),
        (0.80, 0.06, "undecided on so few samples, 10.0 ± 6.0 points of accuracy below"),
        (0.80, 0.04, "averaging has a price, 10.0 ± 4.0 points"),
        (0.8808, 0.001, "has a price, 1.9 ± 0.1 points of accuracy below the networks' mean; it keeps 97.6 %"),
        (0.4968, 0.001, "is broken, 40.3 ± 0.1 points of accuracy below the networks' mean; it keeps 49.6 %"),
        (0.45, 0.01, "the average is broken, 45.0 ± 1.0 points"),
        (0.09, 0.01, "the average is broken, no better than a constant"),
        (0.09, 0.5, "none, for these data do not show the networks to be better than a constant (the average is 81.0"),
        (0.15, 0.39, "undecided on so few samples, 75.0 ± 39.0 points"),
        (0.45, math.nan, "none, for one number has no error (45.0 points"),
        (math.nan, math.nan, "the average is broken, its loss is no number"),
    ],
)
def test_a_verdict_says_no_more_than_the_samples_do(accuracy, error, message):
    names = ["A", "B", "average", "constant"]
    scores = pd.DataFrame({"network": names, "accuracy": [0.9, 0.9, accuracy, 0.1]})
    told = scores.assign(accuracy_difference=scores["accuracy"] - 0.9, accuracy_difference_error=error)
    assert message in verdict(told, "average", 2)


def test_a_verdict_on_losses_knows_that_less_is_better():
    scores = pd.DataFrame({"network": ["A", "B", "average", "constant"], "loss": [1.0, 1.0, 1.3, 2.0]})
    scores = scores.assign(accuracy=math.nan, loss_difference=scores["loss"] - 1, loss_difference_error=0.01)
    told = verdict(scores, "average", 2)
    assert "averaging has a price, 0.3 ± 0.01 in loss above the networks' mean; it keeps 70 % of" in told
    diverged = scores.assign(loss=[1.0, math.nan, 1.3, 2.0])
    assert "none, for the loss of some network" in verdict(diverged, "average", 2)
    alone = scores.assign(loss_difference_error=[0.01, 0.01, 0.01, math.nan])
    assert "none, for one number has no error (0.3 ± 0.01 in loss above" in verdict(alone, "average", 2)


@torch.no_grad()
def test_averages_are_scored_in_the_types_that_they_are_written_in():
    """Those of A's file: half way between two weights of bfloat16 there is none."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    x, y = torch.eye(2), torch.zeros(2, 1)
    A, B = ({"0.weight": torch.eye(2), "2.weight": torch.tensor([[first, 2.0]])} for first in (1.0, 1.0078125))

    def average(A, B):
        return align(net, A, B, (x, y)).scores.set_index("network").loc["midpoint with B aligned", "loss"]

    rounded, exact = (float((torch.tensor(first) ** 2 + 4) / 2) for first in (1.0, 1.00390625))
    coarse = {name: tensor.bfloat16() for name, tensor in A.items()}
    assert average(coarse, B) == pytest.approx(rounded, rel=1e-6)
    assert average(A, {name: tensor.bfloat16() for name, tensor in B.items()}) == pytest.approx(exact, rel=1e-6)
