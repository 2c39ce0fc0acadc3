"""The replica engine: stacks against single networks, a seed's independence of its company, what the history says."""

import time

import pandas as pd
import pytest
import torch
from torch import nn

from symlab.data import Digits, load
from symlab.errors import UserError
from symlab.networks import INITS, NETWORKS, build
from symlab.schemes import SCHEMES as ALL_SCHEMES
from symlab.settings import choose
from symlab.training import stack_size
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.samples import losses
from symlab.training.schedule import learning_rate
from symlab.training.settings import Recipe
from symlab.training.variant import train_variant

SCHEMES = [
    {"name": "standard"},
    {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25},
    {"name": "syre", "sigma_F": 1.0, "epsilon": 0.01},
    {"name": "sparse", "density": 0.5},
    {"name": "residual"},
]


def make_data(n=200, d=12, classes=5, task="classification"):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, d, generator=generator)
    y = x[:, :classes].argmax(dim=1) if task == "classification" else x[:, 0].relu()
    return TrainingData(x, y, x[:40], y[:40], task)


@pytest.fixture
def train(train):
    """Trains MLPs of two hidden layers, in batches of 32."""

    def train_mlps(replicas, scheme=None, norm="layernorm", activation="gelu", data=None, **options):
        network = {"name": "mlp", "widths": [16, 16], "norm": norm, "activation": activation}
        data = data or make_data()
        outputs = 5 if data.task == "classification" else 1
        return train(
            lambda: build(choose(NETWORKS, network), 12, outputs),
            data,
            replicas,
            scheme,
            **{"batch_size": 32} | options,
        )

    return train_mlps


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm", "none"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "sigma"])
def test_stacked_training_equals_separate_training(train, monkeypatch, norm, activation):
    blocks = []
    for stacked in (False, True):
        monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes, stacked=stacked: stacked)
        blocks.append(train([(0, 0), (0, 1), (1, 0)], SCHEMES[1], norm, activation))
    for name, tensor in blocks[0].snapshots[2].items():
        # A bias in front of a batch norm has no effect; its gradient is rounding noise, which AdamW scales up.
        if norm == "batchnorm" and (name.endswith(".running_mean") or name in ("linears.0.bias", "linears.1.bias")):
            continue
        torch.testing.assert_close(tensor, blocks[1].snapshots[2][name], rtol=1e-3, atol=1e-4)
    columns = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
    torch.testing.assert_close(*(torch.tensor(b.history[columns].values) for b in blocks), rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm", "none"])
@pytest.mark.parametrize("company", [[(0, 3)], [(0, 3), (0, 2)], [(0, 9), (1, 1), (0, 3)], [(0, s) for s in range(13)]])
def test_a_seed_gives_the_same_bits_in_any_company(train, stacked, norm, company):
    reference = train([(0, s) for s in range(6)], SCHEMES[2], norm)
    block = train(company, SCHEMES[2], norm)
    place = block.replicas.index(Replica(0, 3))
    for epoch in (0, 2):
        for name, tensor in block.snapshots[epoch].items():
            assert torch.equal(tensor[place], reference.snapshots[epoch][name][3]), name


def test_fixed_weights_never_move_and_trainable_ones_do(train, stacked):
    block = train([(0, 0), (0, 1), (1, 0), (1, 1)], SCHEMES[1])
    for position, mask_seed in enumerate([0, 0, 1, 1]):
        for name, (F, D) in block.fixed[mask_seed].items():
            before, after = (block.snapshots[epoch][name][position] for epoch in (0, 2))
            assert torch.equal(after[D == 0], F[D == 0])
            assert (before[D == 1] != after[D == 1]).float().mean() > 0.99


def test_a_sweep_over_sigma_shares_masks_and_scales_values(train):
    one, two = (train([(0, 0)], {**SCHEMES[1], "sigma_F": sigma}).fixed[0]["linears.0.weight"] for sigma in (1.0, 2.0))
    assert torch.equal(one[1], two[1])
    torch.testing.assert_close(2 * one[0], two[0])


@pytest.mark.parametrize(("batch_size", "lr"), [(None, 1e-2), (32, 1e-9)])
def test_history_counts_all_training_samples_before_their_step_and_held_out_ones_after_the_epoch(train, batch_size, lr):
    """Exact where an epoch is one step, or where steps move nothing; the last batch of 32 has 8 samples."""
    began = time.perf_counter()
    block = train([(1, 0), (0, 1), (0, 0)], epochs=3, snapshots=range(4), batch_size=batch_size, lr=lr)
    data, module = make_data(), build(choose(NETWORKS, {"name": "mlp", "widths": [16, 16]}), 12, 5)
    rows = block.history.set_index(["mask_seed", "seed", "epoch"])
    assert list(rows.index) == [(*each, epoch) for each in ((0, 0), (0, 1), (1, 0)) for epoch in (1, 2, 3)]
    assert (rows["time_s"] > 0).all() and rows["time_s"].sum() < time.perf_counter() - began
    for (mask_seed, seed, epoch), row in rows.iterrows():
        place = block.replicas.index(Replica(mask_seed, seed))
        for part, x, y, at in (
            ("train", data.x_train, data.y_train, epoch - 1),
            ("val", data.x_val, data.y_val, epoch),
        ):
            state = {name: tensor[place] for name, tensor in block.snapshots[at].items()}
            outputs = torch.func.functional_call(module, state, (x,))
            assert row[f"{part}_accuracy"] == pytest.approx((outputs.argmax(1) == y).double().mean().item())
            assert row[f"{part}_loss"] == pytest.approx(nn.functional.cross_entropy(outputs, y).item(), rel=1e-5)


def test_the_loss_s_gradient_is_exact_to_rounding_where_samples_are_fitted_well():
    """A probability of 1 less 1e-5 leaves a gradient of 1e-5, whose error is float32's at 1; 2e-6 with logsumexp."""
    logits = torch.randn(400, 10, generator=torch.Generator().manual_seed(0)) + 20
    targets = torch.arange(400) % 10
    logits[torch.arange(400), targets] = logits.max(dim=1).values + 12
    single, double = logits.clone().requires_grad_(), logits.double().requires_grad_()
    losses("classification", single, targets).mul(400).backward()
    torch.nn.functional.cross_entropy(double, targets).mul(400).backward()
    assert (single.grad - double.grad).abs().max() < 4e-7


def test_the_loss_of_classes_taught_by_squared_error_is_half_the_squared_distance_from_their_unit_vectors():
    outputs = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(14).reshape(2, 7) % 3
    for place, loss in enumerate(losses("one_hot", outputs, targets)):
        far = [(row - torch.eye(3)[y]).norm() ** 2 / 2 for row, y in zip(outputs[place], targets[place], strict=True)]
        assert float(loss) == pytest.approx(float(sum(far)) / 7)


@pytest.mark.parametrize(("n", "batch_size"), [(65, 32), (64, 1), (1, 32), (1, None)])
def test_batches_of_one_sample_are_refused_where_a_norm_needs_two(train, n, batch_size):
    with pytest.raises(UserError, match=r"study study, variant variant: .* which a batch norm cannot"):
        train([(0, 0)], norm="batchnorm", data=make_data(n), batch_size=batch_size)
    assert len(train([(0, 0)], data=make_data(n), batch_size=batch_size, epochs=1, snapshots=()).history) == 1


def test_regression_has_a_loss_and_no_accuracy(train):
    history = train([(0, 0), (0, 1)], data=make_data(task="regression"), epochs=30).history
    assert history["train_accuracy"].isna().all() and history["val_accuracy"].isna().all()
    first, last = (history[history["epoch"] == epoch]["train_loss"].mean() for epoch in (1, 30))
    assert last < first / 4


def test_divergence_names_variant_and_seed(train, stacked):
    with pytest.raises(UserError, match=r"study study, variant variant, mask seed 0, seed 4 .* epoch"):
        train([(0, 4), (0, 5)], norm="none", activation="relu", optimizer="sgd", lr=1e6, epochs=4)


def schedule(name, **keys):
    return Recipe(epochs=10, batch_size=32, lr=2.0, schedule={"name": name, **keys})


def test_schedules():
    assert learning_rate(schedule("constant"), 77, 10) == 2.0
    growth = schedule("exponential", gamma=1.5, growth_epochs=3)
    assert [learning_rate(growth, step, 10) for step in (0, 9, 10, 29, 30, 90)] == pytest.approx(
        [2, 2, 3, 4.5, 6.75, 6.75]
    )
    warmup = schedule("warmup", warmup_epochs=2)
    assert [learning_rate(warmup, step, 10) for step in (0, 9, 19, 20, 99)] == pytest.approx([0.1, 1.0, 2.0, 2.0, 2.0])
    cosine = schedule("cosine")
    assert [learning_rate(cosine, step, 10) for step in (0, 50, 100)] == pytest.approx([2.0, 1.0, 0.0])
    warm_cosine = schedule("cosine", warmup_epochs=5)
    assert [learning_rate(warm_cosine, step, 10) for step in (24, 50, 75)] == pytest.approx([1.0, 2.0, 1.0])


def test_without_validation_data_there_is_no_validation_loss(train):
    data = make_data()
    block = train([(0, 0)], data=TrainingData(data.x_train, data.y_train, data.x_val[:0], data.y_val[:0], data.task))
    assert block.history["val_loss"].isna().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme["name"])
def test_a_gpu_gives_what_the_cpu_gives_up_to_rounding(train, scheme):
    blocks = [train([(0, 0), (0, 1), (1, 0)], scheme, device=device) for device in ("cpu", "cuda")]
    for epoch in (0, 2):
        for name, tensor in blocks[0].snapshots[epoch].items():
            torch.testing.assert_close(tensor, blocks[1].snapshots[epoch][name], rtol=1e-3, atol=1e-4)


def test_a_variant_is_trained_as_its_spec_says_and_its_header_tells():
    dataset = load(Digits(source="digits"), None)
    parts = {"network": {"name": "mlp", "widths": [5]}, "init": {"name": "torch"}, "scheme": SCHEMES[2]}
    named = {"study": "s", "variant": "v", **parts, "recipe": {"epochs": 1, "lr": 0.01}}
    block, header = train_variant({**named, "replicas": [[0, 1], [0, 2]], "epochs": [0, 1]}, dataset, "cpu", print)
    assert header == {**named, "n_inputs": 64, "n_outputs": 10}
    data = TrainingData(*map(torch.from_numpy, (*dataset.split("train"), *dataset.split("val"))), "classification")
    chosen = (choose(kinds, parts[part]) for kinds, part in ((ALL_SCHEMES, "scheme"), (INITS, "init")))
    recipe = Recipe(epochs=1, lr=0.01)
    run = Run(lambda: build(choose(NETWORKS, parts["network"]), 64, 10), data, *chosen, recipe, [0, 1], ("s", "v"))
    expected = train_block(run, [Replica(0, 1), Replica(0, 2)])
    histories = (of.history.drop(columns="time_s") for of in (block, expected))
    pd.testing.assert_frame_equal(*histories)
    assert block.snapshots.keys() == expected.snapshots.keys() == {0, 1}
    for epoch, snapshot in expected.snapshots.items():
        assert all(torch.equal(block.snapshots[epoch][name], tensor) for name, tensor in snapshot.items())
