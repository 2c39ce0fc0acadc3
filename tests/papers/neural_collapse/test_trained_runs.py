"""Training to collapse: gradients by hand against autograd, what is penalised, and the experiment end to end."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.func import functional_call

from symlab.data import Digits, load
from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.settings import Runs
from symlab.papers.neural_collapse.trained_runs import build_network, penalties_by_path
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

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


@pytest.mark.parametrize("data_class", [ResNetData, TrainingData])
@pytest.mark.parametrize(
    ("layers", "task"), [(1, "classification"), (2, "classification"), (1, "one_hot"), (2, "one_hot")]
)
def test_a_step_is_that_of_autograd_with_penalties_where_they_belong(layers, task, data_class):
    bias = task == "classification"
    penalties = penalties_by_path(network(layers, bias), 0.3, 0.2)
    block = trained(data_class(X, Y, X[:0], Y[:0], task), lambda: network(layers, bias), penalties=penalties)
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
    block = trained(ResNetData(X, Y, X[:0], Y[:0], "classification"), network, penalties=penalties)
    before, after = (block.snapshots[epoch]["readout.weight"].sum(dim=1) for epoch in (0, 1))
    torch.testing.assert_close(after, (1 - 0.1 * 0.2) * before, atol=1e-12, rtol=0)


def test_a_seed_does_not_depend_on_its_company():
    data = ResNetData(X, Y, X[:0], Y[:0], "classification")
    alone, both = trained(data, network, (1,), 3), trained(data, network, (0, 1, 2), 3)
    for name, tensor in both.snapshots[3].items():
        assert torch.equal(tensor[1], alone.snapshots[3][name][0])


def test_penalties_by_depth():
    keys = {"network": "rn2", "per_class": 3, "penalty": 0.1}
    assert Runs(**keys, by_depth="constant").penalties(5) == (0.1, 0.1)
    assert Runs(**keys, by_depth="uniform").penalties(5) == (0.02, 0.02)
    assert Runs(**keys, by_depth="split").penalties(5) == (0.02, 0.1)
    with pytest.raises(ValidationError, match="at least"):
        Runs(**keys, L=[0, 1])


@pytest.fixture(scope="module")
def tables(experiment):
    digits = load(Digits(source="digits"), None)
    shared = {"steps": 60, "seeds": 2, "per_class": 12, "moments": 5}
    grids = [
        Runs(network="rn1", L=[1, 3], **shared),
        Runs(network="rn2", L=[2], loss="squared_error", hidden_penalty=[0.001, 0.1], **shared),
        Runs(network="t11", L=[2], patch=4, **shared),
    ]
    return experiment("neural_collapse.runs", grids, Job("s", datasets={"digits": digits})), digits


def test_the_tables_hold_every_network_at_every_moment(tables):
    found, _ = tables
    course, layers = found["collapse_course.csv"], found["collapse_layers.csv"]
    networks = course.groupby(["network", "L", "hidden_penalty", "seed"])
    assert networks.ngroups == 2 * 2 + 2 * 2 + 2 and set(networks.size()) == {6}
    assert sorted(course["step"].unique()) == [0, 12, 24, 36, 48, 60]
    assert not course.isna().any().any()
    ends = course[course["step"] == 60]
    starts = course[course["step"] == 0]
    assert (ends["fit"].to_numpy() < starts["fit"].to_numpy()).all()
    # The last layer of the second table is what the first one measures; a transformer's embedding is a layer more.
    last = layers[layers["layer"] == layers.groupby(["network", "L"])["layer"].transform("max")]
    merged = ends.merge(last, on=["network", "L", "hidden_penalty", "seed"], suffixes=("", "_layer"))
    assert len(merged) == len(ends)
    np.testing.assert_allclose(merged["NC1"], merged["NC1_layer"], rtol=1e-12)
    assert set(found["collapse_samples.csv"]["N"]) == {120}


def test_a_text_network_has_a_row_for_every_word():
    reviews = load(Digits(source="digits"), None)
    object.__setattr__(reviews, "image", None)
    module = build_network(Runs(network="t11", per_class=3), reviews, 64, 2)
    assert len(module.embedding.weight) == int(reviews.x_train.max()) + 1


def test_a_run_takes_the_data_set_that_it_names(experiment):
    digits = load(Digits(source="digits"), None)
    job = Job("s", datasets={"a": digits, "b": digits})
    run = {"network": "rn1", "L": [1], "steps": 5, "seeds": 1, "per_class": 3, "moments": 5, "width": 8}
    grids = [Runs(**run, dataset="b"), Runs(**run, pre_norm=True)]
    course = experiment("neural_collapse.runs", grids, job)["collapse_course.csv"]
    assert course.groupby("pre_norm")["dataset"].unique().map(list).to_dict() == {False: ["b"], True: ["a", "b"]}
    with pytest.raises(UserError, match="names the data set 'c'"):
        experiment("neural_collapse.runs", [Runs(**run, dataset="c")], job)
