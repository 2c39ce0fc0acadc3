"""Merging trained networks: what the average is worth, and what REPAIR and weights do to it."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrizations import weight_norm

from symlab import merge, trace
from symlab.alignment.averaging import average
from symlab.alignment.forward import outputs
from symlab.connectivity.merge import average_network, scores
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.repair import folded, with_goal_statistics
from symlab.errors import UserError
from symlab.own.report import verdict

N_NETWORKS = 4


def mlp(norm=False):
    norms = [nn.BatchNorm1d(32)] if norm else []
    return nn.Sequential(nn.Linear(64, 32), *norms, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


@cache
def digits():
    data = load_digits()
    return torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)


def untrained(n, norm=False):
    """States that differ in everything, running statistics among it."""
    states = []
    for seed in range(n):
        torch.manual_seed(seed)
        state = mlp(norm).state_dict()
        states.append({k: t + torch.rand(t.shape) / 9 if t.is_floating_point() else t for k, t in state.items()})
    return states


@cache
def trained():
    x, y = digits()
    states = []
    for seed in range(N_NETWORKS):
        torch.manual_seed(seed)
        network = mlp()
        optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
        for _ in range(40):
            optimiser.zero_grad()
            cross_entropy(network(x), y).backward()
            optimiser.step()
        states.append({name: tensor.detach().clone() for name, tensor in network.state_dict().items()})
    return states


@cache
def matched():
    x, _ = digits()
    traced = trace(mlp(), x)
    return {method: merge(mlp(), trained(), x, method, traced=traced) for method in ("activation", "weight")}


def loss(state, module=None):
    x, y = digits()
    return float(cross_entropy(outputs(module or mlp(), state, x), y))


@pytest.mark.parametrize("method", ["activation", "weight"])
def test_trained_networks_merge_with_a_smaller_barrier(method):
    ends = np.mean([loss(state) for state in trained()])
    plain, merged = loss(average(trained())), loss(matched()[method].state)
    assert 0 < merged - ends < (plain - ends) / 2


def test_repair_lowers_the_barrier_and_gives_layers_the_mean_statistics():
    x, _ = digits()
    permuted = matched()["activation"].universe.permuted
    repaired = average_network(mlp(), permuted, x, repair=True)
    assert loss(repaired) < loss(matched()["activation"].state)
    moments = [first_layer(state) for state in permuted]
    goal = [torch.stack(of).mean(dim=0) for of in zip(*moments, strict=True)]
    for found, expected in zip(first_layer(repaired), goal, strict=True):
        torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)


def first_layer(state):
    """Means and deviations of the first layer's outputs."""
    z = digits()[0] @ state["0.weight"].T + state["0.bias"]
    return z.mean(dim=0), z.std(dim=0)


@pytest.mark.parametrize("norm", [False, True])
def test_a_rescaling_network_is_folded_into_a_plain_one(norm):
    x, _ = digits()
    module = mlp(norm)
    rescaling, ends = with_goal_statistics(module, untrained(2, norm), x, foldable=True)
    goal = average(ends)
    state = {**goal, **running_statistics(rescaling, goal, x)}
    plain = folded(state)
    assert plain.keys() == module.state_dict().keys()
    torch.testing.assert_close(outputs(module, plain, x), outputs(rescaling, state, x), atol=1e-3, rtol=1e-3)


def test_layers_without_biases_or_with_shared_weights_take_up_no_rescaling():
    x = torch.randn(50, 6)
    tied = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    tied[2].weight = tied[0].weight
    normed = nn.Sequential(weight_norm(nn.Linear(6, 6)), nn.ReLU(), nn.Linear(6, 2))
    for module in (tied, normed, nn.Sequential(nn.Linear(6, 6, bias=False), nn.ReLU(), nn.Linear(6, 2))):
        with pytest.raises(UserError, match="a weight and a bias of its own"):
            average_network(module, [module.state_dict()] * 2, x, repair=True)


def test_statistics_of_batch_norms_are_those_of_the_average():
    x, _ = digits()
    merged = average_network(mlp(norm=True), untrained(2, norm=True), x)
    mean, _ = first_layer(merged)
    torch.testing.assert_close(merged["1.running_mean"], mean, atol=1e-3, rtol=1e-3)
    with pytest.raises(UserError, match="batch norm"):
        average_network(mlp(norm=True), untrained(2, norm=True), None)


def test_weights_count_in_the_average():
    a, b = ({"w": torch.tensor([value]), "n": torch.tensor(n)} for value, n in ((1.0, 3), (5.0, 4)))
    assert average([a, b], [3, 1]) == {"w": torch.tensor([2.0]), "n": torch.tensor(3)}
    x, _ = digits()
    traced = trace(mlp(), x)
    merged = merge(mlp(), trained()[:2], x, weights=[1, 3], traced=traced)
    first, second = (state["2.bias"] for state in merged.universe.permuted)
    torch.testing.assert_close(merged.state["2.bias"], 0.25 * first + 0.75 * second)
    for wrong in ([1, 2, 3], [1, -1], [1, math.nan]):
        with pytest.raises(UserError, match=r"weights"):
            merge(mlp(), trained()[:2], x, weights=wrong, traced=traced)


def test_weights_count_in_what_repair_restores_by_hand():
    """The first layer gets the weighted means and deviations of the ends, the last layer their weighted weights."""
    x, _ = digits()
    states, weights = [{name: t.double() for name, t in state.items()} for state in untrained(3)], (0.5, 0.3, 0.2)
    found = average_network(mlp().double(), states, x.double(), weights=[5, 3, 2], repair=True)

    def weighted(parts):
        return sum(weight * part for weight, part in zip(weights, parts, strict=True))

    W, b = (weighted(state[f"0.{entry}"] for state in states) for entry in ("weight", "bias"))
    z = x.double() @ W.T + b
    ends = [x.double() @ state["0.weight"].T + state["0.bias"] for state in states]
    mean, deviation = weighted(end.mean(0) for end in ends), weighted(end.std(0) for end in ends)
    scale = deviation / z.std(0)
    torch.testing.assert_close(found["0.weight"], scale[:, None] * W, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found["0.bias"], scale * (b - z.mean(0)) + mean, rtol=1e-6, atol=1e-7)
    for entry in ("4.weight", "4.bias"):
        torch.testing.assert_close(found[entry], weighted(state[entry] for state in states))


def test_scores_by_hand():
    x, y = digits()
    states = dict(zip("AB", trained()[:2], strict=True))
    table = scores(mlp(), states, x, y, "classification", {"ensemble": {"A": 1.0, "B": 3.0}}, rows=500).set_index(
        "network"
    )
    logits = {name: outputs(mlp(), state, x).double() for name, state in states.items()}
    logits["ensemble"] = 0.25 * logits["A"] + 0.75 * logits["B"]
    for name, out in logits.items():
        losses = -torch.log_softmax(out, dim=1)[torch.arange(len(y)), y]
        right = (out.argmax(dim=1) == y).double()
        assert table.loc[name, "loss"] == pytest.approx(float(losses.mean()), rel=1e-4)
        assert table.loc[name, "loss_error"] == pytest.approx(float(losses.std()) / len(y) ** 0.5, rel=1e-4)
        assert table.loc[name, "accuracy"] == pytest.approx(float(right.mean()))
    regression = nn.Linear(64, 1)
    of = scores(regression, {"A": regression.state_dict()}, x, y.float(), "regression", {"ensemble": {"A": 1.0}})
    assert of["loss"][0] == pytest.approx(float(((regression(x).flatten() - y) ** 2).mean().detach()), rel=1e-4)
    assert of["loss"][0] == pytest.approx(of["loss"][1], rel=1e-6) and of["accuracy"].isna().all()


def planted(outputs):
    """A network that gives each of n samples, which are their numbers, any outputs; and its state."""
    return nn.Embedding(*outputs.shape), {"weight": outputs}


def test_a_difference_on_the_same_samples_has_the_error_of_their_differences():
    """1,000 samples, on 100 of which both networks are wrong, and the average on 20 more."""
    n, wrong = 1000, {"A": 100, "B": 100, "average": 120}
    y = torch.arange(n) % 2
    tables = {name: torch.eye(2)[(y + (torch.arange(n) < rows)) % 2] for name, rows in wrong.items()}
    module, states = planted(tables["A"])[0], {name: planted(table)[1] for name, table in tables.items()}
    found = scores(module, states, torch.arange(n), y, "classification", {}, 300, ["A", "B"]).set_index("network")
    apart = np.array([-(100 <= at < 120) for at in range(n)], dtype=float)
    of = found.loc["average"]
    assert of["accuracy_difference"] == pytest.approx(-0.02) and found.loc["A", "accuracy_difference"] == 0
    assert of["accuracy_difference_error"] == pytest.approx(apart.std(ddof=1) / n**0.5, rel=1e-9)
    # As if the samples of both were others, 2 points would lie within two errors.
    assert 2 * np.hypot(of["accuracy_error"], found.loc["A", "accuracy_error"]) > 0.02
    assert "averaging has a price, 2.0 ± 0.4 points" in verdict(found.reset_index(), "average", 2)


def test_labels_of_one_sample_are_one_unit_of_errors():
    """Texts of 5 labels that are all right or all wrong hold as much as one label each; some have fewer."""
    generator = torch.Generator().manual_seed(0)
    right_of = {name: torch.rand(60, 1, generator=generator) < share for name, share in (("A", 0.8), ("average", 0.6))}
    tables = {name: torch.stack([each, ~each], 1).float().expand(60, 2, 5) for name, each in right_of.items()}

    class Texts(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(tables["A"].clone())

        def forward(self, x):
            return self.table[x]

    given = {name: {"table": table} for name, table in tables.items()}, torch.arange(60)
    y = torch.zeros(60, 5, dtype=torch.int64)
    found = scores(Texts(), *given, y, "classification", {}, 7, ["A"]).set_index("network").loc["average"]
    one = right_of["average"].flatten().double()
    assert found["accuracy_error"] == pytest.approx(float(one.std()) / 60**0.5, rel=1e-6)
    apart = (right_of["average"].double() - right_of["A"].double()).flatten()
    assert found["accuracy_difference_error"] == pytest.approx(float(apart.std()) / 60**0.5, rel=1e-6)
    y[torch.rand(60, 5, generator=generator) < 0.4] = -100
    found = scores(Texts(), *given, y, "classification", {}, 7).set_index("network").loc["average"]
    counts = (y >= 0).sum(1).double()
    without = torch.stack([(one * counts)[rest].sum() / counts[rest].sum() for rest in ~torch.eye(60).bool()])
    jackknife = float((without - without.mean()).square().sum().mul(59 / 60).sqrt())
    assert found["accuracy_error"] == pytest.approx(jackknife, rel=0.03)


def test_a_metric_of_a_whole_batch_has_as_many_units_as_batches():
    x = torch.arange(40)
    module, state = planted(torch.randn(40, 1, generator=torch.Generator().manual_seed(0)))
    y = torch.zeros(40)

    def error_of(metric):
        return scores(module, {"A": state}, x, y, metric, {}, 10)["loss_error"][0]

    by_batch = state["weight"].view(4, 10).square().mean(1)
    assert error_of(lambda out, y: out.square().mean()) == pytest.approx(float(by_batch.std()) / 2, rel=1e-6)
    by_sample = state["weight"].square().flatten()
    for columns in (1, 3):
        found = error_of(lambda out, y, columns=columns: out.square().expand(-1, columns))
        assert found == pytest.approx(float(by_sample.std()) / 40**0.5, rel=1e-6)


def test_the_constant_of_a_metric_is_the_first_network_s_mean_output_over_all_samples():
    x, y = torch.arange(40), torch.zeros(40)
    module, state = planted(torch.randn(40, 1, generator=torch.Generator().manual_seed(0)))
    found = scores(
        module, {"A": state, "B": {"weight": state["weight"] + 1}}, x, y, lambda out, y: out.square(), {}, 12
    )
    expected = float(state["weight"].double().mean()) ** 2
    assert found.set_index("network").loc["constant", "loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("x", [torch.arange(12 * 40).view(12, 40) % 9, torch.randn(12, 40, 5)])
def test_the_constant_of_a_logit_a_token_is_one_with_and_without_an_axis_of_one_class(x):
    """The entropy of the share of ones among all tokens; of labels that are no tokens', the mean of each one's."""
    y = (torch.rand(12, 40, generator=torch.Generator().manual_seed(0)) < 0.3).long()

    class Tagger(nn.Module):
        def __init__(self, shape):
            super().__init__()
            self.shape, self.bias = shape, nn.Parameter(torch.zeros(40, 1))

        def forward(self, x):
            return self.bias.expand(len(x), 40, 1).reshape(len(x), *self.shape)

    def loss(shape, x):
        module = Tagger(shape)
        found = scores(module, {"A": module.state_dict()}, x, y, "classification", {}, 5)
        return found.set_index("network").loc["constant", "loss"]

    def entropy(p):
        return float(-(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)).mean())

    for shape in ((40,), (40, 1)):
        assert loss(shape, x) == pytest.approx(entropy(y.double().mean()))
    for other in (torch.randn(12, 6), torch.randn(12, 7, 5)):
        assert loss((40,), other) == pytest.approx(entropy(y.double().mean(0)))
    y[::4, ::3] = -100
    shares = [(column[column >= 0] == 1).double().mean() for column in y.T]
    each = [share if label else 1 - share for row in y for label, share in zip(row, shares, strict=True) if label >= 0]
    assert loss((40,), torch.randn(12, 6)) == pytest.approx(-float(torch.stack(each).log().mean()))
