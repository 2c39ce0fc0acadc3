"""Training on the pretended GPU, in stacks as large as its memory and captured steps, against training on the CPU."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from symlab.errors import Interrupted
from symlab.networks import INITS, NETWORKS, build
from symlab.schemes import SCHEMES
from symlab.settings import choose
from symlab.training import stacks
from symlab.training.cuda_graph import WARM_UP, CapturedStep
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints, training_key
from symlab.training.settings import Recipe
from symlab.training.stacks import OneByOne

pytestmark = pytest.mark.slow

W = {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25}
SYRE = {"name": "syre", "sigma_F": 1.0, "epsilon": 0.01}
MIRRORS = {
    "linears.1.weight": {"P": "pairs", "pairs": [[0, 9], [4, 3]]},
    # A block's gradient lies in memory otherwise than the block.
    "linears.2.weight": {"P": "blocks", "block": [5, 8]},
}
MIRROR = {"name": "dcs", "mirrors": MIRRORS}
MLP = {"name": "mlp", "widths": [32, 32]}
NORMED = {**MLP, "norm": "batchnorm"}
SGD = {"optimizer": "sgd", "momentum": 0.9, "lr": 0.01}
FULL = {"optimizer": "adam", "weight_decay": 0, "batch_size": None, "epochs": 6}
AUGMENT = {"augment": {"flip": True, "crop": 1}}
# Of two masks, which the first stack of four has both.
REPLICAS = [Replica(seed // 3, seed) for seed in range(5)]

CASES = {
    "adamw": (MLP, W, {}),
    "sgd, augmented": (MLP, SYRE, {**SGD, **AUGMENT}),
    "mirrors": (MLP, MIRROR, SGD),
    # By SGD: AdamW takes full steps along gradients that are nothing but rounding, as those before a batch norm are.
    "batch norm": (NORMED, W, SGD),
    "proximal": (MLP, W, {"l1": 0.01, **SGD}),
    "full batches": (MLP, W, {"batch_size": None, "epochs": 6}),
    "float64": (MLP, W, {"precision": "float64"}),
    "bf16": (MLP, W, {"precision": "bf16", **SGD}),
    "convolutions": (None, W, {**SGD, **AUGMENT}),
    "polished": (None, {"name": "standard"}, {**FULL, "polish": {"iterations": 5}}),
}


class Convolutions(nn.Module):
    """Two of them with a norm between, which run channels-last one by one."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.second, self.readout = nn.Conv2d(8, 16, 3, stride=2, bias=False), nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x.unflatten(1, (3, 4, 4)))))
        return self.readout(torch.relu(self.second(x)).mean(dim=(2, 3)))


def samples():
    """168 images of 3 x 4 x 4, so that the last of the batches of 16 has 8."""
    x = torch.randn(168, 48, generator=torch.Generator().manual_seed(2))
    y = x[:, :10].argmax(dim=1)
    return TrainingData(x, y, x[:32], y[:32], "classification", image=(3, 4, 4), black=(-1.0, 0.0, 1.0))


def described(network, scheme, options, data):
    recipe = Recipe(**{"epochs": 2, "batch_size": 16, "lr": 1e-3, **options})
    parts = (choose(SCHEMES, scheme), choose(INITS, {"name": "lecun"}), recipe, (0, recipe.epochs))
    make = Convolutions if network is None else lambda: build(choose(NETWORKS, network), 48, 10)
    return Run(make, data, *parts, ("study", "variant"))


def assert_near(block, other, tolerance, at_start=1e-12):
    """Whole states of each replica, and losses."""
    for epoch, state in block.snapshots.items():
        a, b = (
            torch.cat([each[name].double().reshape(len(REPLICAS), -1) for name in sorted(state)], dim=1)
            for each in (state, other.snapshots[epoch])
        )
        assert ((a - b).norm(dim=1) / b.norm(dim=1)).max() < (tolerance if epoch else at_start)
    for column in ("train_loss", "val_loss"):
        np.testing.assert_allclose(block.history[column], other.history[column], rtol=10 * tolerance)


@pytest.fixture
def replays(monkeypatch):
    """For each call of a captured step whether it was replayed."""
    found, call = [], CapturedStep.__call__

    def counting(self, *inputs):
        outputs = call(self, *inputs)
        found.append(self.replay is not None and outputs is self.outputs)
        return outputs

    monkeypatch.setattr(CapturedStep, "__call__", counting)
    return found


@pytest.mark.parametrize("case", CASES)
def test_training_is_the_cpu_s_up_to_rounding(device, replays, case):
    run, said = described(*CASES[case], samples()), []
    block = train_block(replace(run, device=device), REPLICAS, said.append)
    assert sum(replays) > 0
    how = "side by side" if case == "convolutions" else "in a stack"
    assert any(line.endswith(f"up to 4 {how} on the GPU") for line in said)
    # A block's norm is summed in the order of memory, which rounds a factor otherwise.
    start = {"at_start": 1e-7} if case == "mirrors" else {}
    assert_near(block, train_block(run, REPLICAS), 2e-2 if case == "bf16" else 1e-4, **start)


def test_networks_side_by_side_fork_from_one_stream_and_join_it(device, monkeypatch):
    """Each begins after what was before the step, on a stream of its own; what comes after waits for all."""
    log, one_step, joined = [], OneByOne.step, stacks._joined
    gpu = torch.get_device_module(device)

    def step(self, *inputs):
        log.append((gpu.current_stream(), list(gpu.current_stream().waited), "step"))
        return one_step(self, *inputs)

    def after(results):
        log.append((gpu.current_stream(), list(gpu.current_stream().waited), "join"))
        return joined(results)

    monkeypatch.setattr(OneByOne, "step", step)
    monkeypatch.setattr(stacks, "_joined", after)
    train_block(replace(described(None, W, SGD, samples()), device=device), REPLICAS[:3])
    # Of the last step.
    last = max(place for place, (_, _, of) in enumerate(log) if of == "step")
    each, (here, waited, _) = log[last - 2 : last + 1], log[last + 1]
    assert log[last - 3][2] == "join", "none is trained twice"
    assert len({stream for stream, _, _ in each} | {here}) == 4
    assert all(before[-1] is here for _, before, _ in each)
    assert waited[-3:] == [stream for stream, _, _ in each]


def test_every_full_step_after_the_warm_up_is_replayed(device, replays):
    run = described(MLP, W, {}, samples())
    train_block(replace(run, device=device), REPLICAS[:4])
    of_training = replays[-22:]
    assert of_training == [False] * WARM_UP + [True] * 7 + [False] + [True] * 10 + [False]


@pytest.mark.parametrize("network", [MLP, None], ids=["in a stack", "side by side"])
def test_training_goes_on_where_it_was_left(device, tmp_path, monkeypatch, network):
    run, said = replace(described(network, W, {}, samples()), device=device), []
    whole = train_block(run, REPLICAS)
    first, second = (Checkpoints(tmp_path / "checkpoint", {"key": 0}, 0.0, said.append) for _ in range(2))
    write = first.after_step

    def stop_after(progress, *arguments):
        if (progress.epoch, progress.batch) == (2, 4):
            first.stopped_by = signal.SIGTERM
        write(progress, *arguments)

    monkeypatch.setattr(first, "after_step", stop_after)
    with pytest.raises(Interrupted):
        train_block(run, REPLICAS, checkpoints=first)
    assert_near(train_block(run, REPLICAS, checkpoints=second), whole, 1e-5)
    assert training_key({}, "", "", device, 1)["device"] == "a pretended GPU"
    assert any(line.startswith("going on at replica 0, epoch 2, batch 4") for line in said)
