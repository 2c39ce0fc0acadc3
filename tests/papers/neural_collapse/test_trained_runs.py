"""Networks minimised to collapse: what is penalised, the other objectives, and where descents begin."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.func import functional_call

from symlab.data import Digits, load
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.initialise import sample_parameters
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.growth import grow
from symlab.papers.neural_collapse.made_data import OwnInputs
from symlab.papers.neural_collapse.networks import (
    EveryToken,
    Margins,
    Tokens,
    build_network,
    penalties_by_path,
    with_zeros,
)
from symlab.papers.neural_collapse.run_tables import mixed_labels
from symlab.papers.neural_collapse.samples import Samples, samples_of
from symlab.papers.neural_collapse.settings import Runs, penalties_of
from symlab.papers.neural_collapse.trained_runs import (
    SHARES,
    Descent,
    grown_well,
    minimise_depth,
    objectives,
    of_starts,
)
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

N, INPUTS, CLASSES = 24, 7, 3
X = torch.randn(N, INPUTS, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % CLASSES


def network(layers=1, bias=True, depth=4):
    return LayerNormResNet(INPUTS, CLASSES, 8, depth, layers, output_bias=bias)


def trained(data, make, seeds=(0, 1), steps=1, lr=0.1, penalties=None):
    recipe = Recipe(optimizer="sgd", lr=lr, momentum=0, weight_decay=0, penalties=penalties or {}, epochs=steps,
                    batch_size=None, precision="float64")  # fmt: skip
    run = Run(make, data, Standard(name="standard"), TorchDefault(name="torch"), recipe, [0, steps], ("s", "v"))
    return train_block(run, [Replica(0, seed) for seed in seeds])


def loss_by_hand(outputs, task):
    if task == "one_hot":
        return (outputs - torch.eye(CLASSES, dtype=outputs.dtype)[Y]).pow(2).sum() / (2 * N)
    return torch.nn.functional.cross_entropy(outputs, Y)


@pytest.mark.parametrize(
    ("layers", "task"), [(1, "classification"), (2, "classification"), (1, "one_hot"), (2, "one_hot")]
)
def test_a_step_is_that_of_autograd_with_penalties_where_they_belong(layers, task):
    bias = task == "classification"
    penalties = penalties_by_path(network(layers, bias), 0.3, 0.2)
    block = trained(TrainingData(X, Y, X[:0], Y[:0], task), lambda: network(layers, bias), penalties=penalties)
    for seed in (0, 1):
        start = {name: t[seed].double().requires_grad_() for name, t in block.snapshots[0].items()}
        objective = loss_by_hand(functional_call(network(layers, bias).double(), start, (X.double(),)), task)
        for name, tensor in start.items():
            if "weight" in name and name != "embedding.weight":
                objective = objective + (0.2 if "readout" in name else 0.3) / 2 * tensor.square().sum()
        gradients = torch.autograd.grad(objective, list(start.values()))
        for (name, tensor), gradient in zip(start.items(), gradients, strict=True):
            moved = block.snapshots[1][name][seed].double()
            torch.testing.assert_close(moved, tensor - 0.1 * gradient, atol=1e-9, rtol=0)


def test_gd_shrinks_the_column_sums_of_w_by_the_penalty_alone():
    """The fit's gradient of 1^T W is 0, since the errors of a sample sum to 0."""
    penalties = penalties_by_path(network(), 0.3, 0.2)
    block = trained(TrainingData(X, Y, X[:0], Y[:0], "classification"), network, penalties=penalties)
    before, after = (block.snapshots[epoch]["readout.weight"].sum(dim=1) for epoch in (0, 1))
    torch.testing.assert_close(after, (1 - 0.1 * 0.2) * before, atol=1e-12, rtol=0)


def test_penalties_by_depth():
    keys = {"network": "rn2", "per_class": 3, "penalty": 0.1}
    assert penalties_of(0.1, "constant", 5) == (0.1, 0.1)
    assert penalties_of(0.1, "uniform", 5) == (0.02, 0.02)
    assert penalties_of(0.1, "split", 5) == (0.02, 0.1)
    tokens = {"network": "t11", "every_token": True}
    Runs(**keys | tokens)
    for wrong in ({"L": [1, 2]}, {"L": [3, 2]}, {"optimizer": "sgd"}, {"every_token": True}, {"patch": 4},
                  tokens | {"loss": "squared_error"}):  # fmt: skip
        with pytest.raises(ValidationError):
            Runs(**keys | wrong)


def test_margins_are_those_of_each_class():
    outputs = torch.tensor([[2.0, 0.5, 0.0], [0.0, 0.5, 3.0]]).double()
    y = torch.tensor([0, 1])
    # Of class 0, margin 1: 2 - 0.5 and 2 - 0 suffice. Of class 1, margin 4/3: 0.5 - 0 lacks 5/6, 0.5 - 3 lacks 23/6.
    expected = ((5 / 6) ** 2 + (23 / 6) ** 2) / 2 / 2 / 2
    found = Margins(X, Y, X[:0], Y[:0], "margins").losses(outputs, y)
    assert float(found) == pytest.approx(expected)


def test_every_token_is_a_sample_with_the_next_and_contexts_that_recur_are_one():
    torch.manual_seed(0)
    x = torch.tensor([[1, 2, 0], [1, 2, 1], [1, 0, 1]]).float()
    y = torch.tensor([[2, 0, 2], [2, 1, 0], [0, 1, 1]])
    module = EveryToken(3, 3, 8, 2, vocabulary=3).double()
    outputs = module(x)
    data = Tokens(x, y, x[:0], y[:0], "tokens")
    expected = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten())
    torch.testing.assert_close(data.losses(outputs, y), expected)
    # A causal network gives equal contexts equal outputs, and its last token's are the usual network's.
    assert torch.equal(outputs[0, 1], outputs[1, 1])
    usual = CausalTransformer(3, 3, 8, 2, vocabulary=3).double()
    usual.load_state_dict(module.state_dict())
    torch.testing.assert_close(usual(x), outputs[:, -1])
    places, labels, shares = mixed_labels(Samples(x, y, x, y, 3))
    # (1) goes on with 2, 2, 0; (1, 2) with 0, 1; all others with one word each.
    assert len(places) == 6 and len(labels) == 5
    mixes = {tuple(label.numpy().round(2)): float(share) for label, share in zip(labels, shares, strict=True)}
    assert mixes[0.33, 0.0, 0.67] == pytest.approx(3 / 9) and mixes[0.5, 0.5, 0.0] == pytest.approx(2 / 9)
    assert [mixes[0.0, 1.0, 0.0], mixes[1.0, 0.0, 0.0]] == pytest.approx([2 / 9, 1 / 9])


def test_networks_with_inputs_of_their_own_are_those_of_separate_runs():
    inputs = torch.randn(2, N, INPUTS, generator=torch.Generator().manual_seed(1))
    together = trained(OwnInputs(inputs.flatten(0, 1), Y.repeat(2), X[:0], Y[:0], "one_hot", seeds=2), network, steps=3)
    for seed in (0, 1):
        alone = trained(TrainingData(inputs[seed], Y, X[:0], Y[:0], "one_hot"), network, (seed,), 3)
        for name, tensor in together.snapshots[3].items():
            torch.testing.assert_close(tensor[seed], alone.snapshots[3][name][0])


@pytest.mark.parametrize(
    ("kind", "pre_norm"), [("rn1", False), ("rn1", True), ("rn2", False), ("t11", True), ("t12", False), ("t22", True)]
)
def test_every_deeper_network_contains_that_with_hidden_weights_of_zero(kind, pre_norm):
    digits = load(Digits(source="digits"), None)
    grid = Runs(network=kind, pre_norm=pre_norm, per_class=3, patch=4 if kind[0] == "t" else None, width=8)
    samples, torch_ = samples_of(grid, digits), torch.Generator().manual_seed(0)
    bare = with_zeros(build_network(grid, samples, 1 if grid.transformer else 2))
    state = sample_parameters(bare, TorchDefault(name="torch"), torch_)
    assert [name for name in state if name.startswith("blocks")] and not any(
        "weight" in name for name in state if name.startswith("blocks")
    )
    for L in (2, 5):
        deep = build_network(grid, samples, L)
        zeros = {n: torch.zeros_like(t) for n, t in deep.named_parameters() if n not in state}
        found, expected = functional_call(deep, state | zeros, (samples.x,)), functional_call(bare, state, (samples.x,))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_each_network_grows_by_the_largest_share_no_worse_than_zeros_or_by_the_least_objective():
    data = TrainingData(X, Y, X[:0], Y[:0], "classification")
    descent = Descent(lambda: network(2, depth=5), data, (0.3, 0.2), ("s", "v"), 0, 1, 0.1, 3)
    torch.manual_seed(0)
    # Branches next to nothing, of the usual size, and large ones.
    sizes = torch.tensor([0.01, 1.0, 10.0]).double()
    state = {
        name: torch.randn(3, *tensor.shape).double() / 3 * sizes.reshape(3, *[1] * tensor.dim())
        for name, tensor in network(2, depth=3).named_parameters()
    }
    grown = grown_well(descent, state, 4)
    for seed in range(3):
        by_hand = []
        for share in (*SHARES, 0):
            way = {name: tensor[seed] for name, tensor in grow(state, 4, share).items()}
            fit = loss_by_hand(functional_call(network(2, depth=5).double(), way, (X.double(),)), "classification")
            squares = {n: t.square().sum() for n, t in way.items() if "weight" in n and "embedding" not in n}
            last = squares.pop("readout.weight")
            by_hand.append(float(fit + 0.3 / 2 * sum(squares.values()) + 0.2 / 2 * last))
        *by_share, zeros = by_hand
        well = [found for found in by_share if found <= zeros] or [min(by_share)]
        assert objectives(descent, grown)[seed] == pytest.approx(well[0], rel=1e-9)


def test_each_network_goes_on_from_the_start_that_led_lower_and_deeper_ones_may_begin_with_the_first():
    job, data = Job("s"), TrainingData(X, Y, X[:0], Y[:0], "classification")
    descent = Descent(network, data, (0.01, 0.01), ("s", "v"), 0, 8, 0.1, 2, tolerance=1e-9)
    torch.manual_seed(0)
    start = {n: torch.randn(2, *tensor.shape).double() / 3 for n, tensor in network().named_parameters()}
    good, _ = replace(descent, start=start, iterations=20).run(job)
    # Of the first network the first start is good, of the second the second.
    crossed = [{n: torch.stack([a[n][0], b[n][1]]) for n in good} for a, b in ((good, start), (start, good))]
    state, left, chosen, found = of_starts(job, descent, crossed)
    assert chosen.tolist() == [0, 3]
    # Of the iterations 19 of 20 are in float32.
    quarter = [replace(descent, start=each, iterations=2, single=1).run(job) for each in (good, crossed[0], crossed[1])]
    alone, ended = replace(descent, start=quarter[0][0], iterations=6, single=14 / 15).run(job)
    for name in good:
        torch.testing.assert_close(state[name], alone[name])
        torch.testing.assert_close(left[name], torch.cat([quarter[1][0][name], quarter[2][0][name]]))
    np.testing.assert_allclose(found["objective"], ended["objective"])
    spent = sum(each["evaluations"] for _, each in quarter[1:]) + ended["evaluations"]
    np.testing.assert_array_equal(found["evaluations"], spent)
    # Where others have to be lower by more than they are, the first goes on.
    lead = float(quarter[1][1]["objective"][1] / quarter[2][1]["objective"][1]) - 1
    for lower, second in ((0.9 * lead, 3), (1.1 * lead, 1)):
        assert of_starts(job, descent, crossed, lower)[2].tolist() == [0, second]


def test_the_first_depth_takes_several_times_the_effort_whatever_depths_follow(monkeypatch):
    run, asked = Descent.run, []
    monkeypatch.setattr(Descent, "run", lambda self, *a, **k: asked.append(self.iterations) or run(self, *a, **k))
    grid = Runs(network="rn1", L=[2, 4], per_class=3, steps=2, seeds=1, effort=40, reference=0, by_depth="uniform")
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    first = minimise_depth(grid, job, "digits", 2, 0)
    # One on plain and one on whitened pixels; then a quarter, the rest, and networks without branches.
    assert asked[:4] == [1, 1, 10, 30] and sum(asked[2:4]) == 2 * 40 // 2
    minimise_depth(grid.model_copy(update={"L": [2]}), job, "digits", 2, 0)
    assert asked[5:9] == asked[:4]
    deeper = minimise_depth(grid, job, "digits", 4, 2, first)
    assert asked[10:12] == [2, 8] and sum(asked[10:12]) == 40 // 4
    asked.clear()
    minimise_depth(grid.model_copy(update={"first": 6}), job, "digits", 2, 0)
    assert asked[2:4] == [30, 90]
    # Of networks without blocks the penalties at other depths are others, if all of them fall with depth.
    assert deeper["without"] == minimise_depth(grid, job, "digits", 4, 0)["without"] < 0.9 * first["without"]
