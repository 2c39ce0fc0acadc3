"""Training that is stopped or killed goes on from its checkpoint with the same bits."""

import signal

import pytest
import torch

from symlab.artifacts import read_header
from symlab.errors import Interrupted
from symlab.networks import build
from symlab.training import replicas as engine
from symlab.training.replicas import Replica, train_block
from symlab.training.resume import Checkpoints
from symlab.training.stacks import TrainingData

KEY = ("study", "variant")
REPLICAS = [Replica(0, 0), Replica(0, 1), Replica(1, 0)]
# 90 samples in batches of 16: 6 steps an epoch, the last one smaller.
STEPS = 6
WAYS = {
    "one by one": (0, 10),
    "in stacks of two": (10**9, 2),
    "all together": (10**9, 10),
}
# Masked (the optimizer moves W_eff), scaled (it moves W beside W_eff), neither; both optimizers; norms with buffers.
CASES = {
    "masked": ({"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25}, "adamw", "batchnorm"),
    "scaled": ({"name": "syre", "sigma_F": 1.0, "epsilon": 0.01}, "adamw", "layernorm"),
    "standard": ({"name": "standard"}, "sgd", "batchnorm"),
}


class Killed(Exception):
    """Stands for a SIGKILL: nothing after it runs."""


def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(90, 12, generator=generator)
    y = x[:, :5].argmax(dim=1)
    return TrainingData(x, y, x[:40], y[:40], "classification")


def train(recipe, case, checkpoints=None, net=None, given=None):
    scheme, optimizer, norm = CASES[case]
    schedule = {"name": "cosine", "warmup_epochs": 1}
    recipe = recipe | {"optimizer": optimizer, "epochs": 3, "schedule": schedule}
    given = given or data()
    network = {"name": "mlp", "widths": [16, 16], "norm": norm, "activation": "gelu"}
    make = net or (lambda: build(network, 12, 5))
    args = (make, given, REPLICAS, scheme, {"name": "lecun"}, recipe, (0, 1, 3), KEY, "cpu")
    return train_block(*args, checkpoints=checkpoints)


def same(a, b):
    assert a.snapshots.keys() == b.snapshots.keys()
    for epoch, state in a.snapshots.items():
        assert state.keys() == b.snapshots[epoch].keys()
        for name, tensor in state.items():
            assert torch.equal(tensor, b.snapshots[epoch][name]), (epoch, name)
    assert a.history.drop(columns="time_s").equals(b.history.drop(columns="time_s"))
    return True


def stopper(path, at, how, minutes=0.0, key=None):
    """Checkpoints that are written after every step; the one number ``at`` is the last before the stop."""
    written = []

    def report(line):
        written.append(line)
        if sum(line.startswith("checkpoint") for line in written) == at:
            if how == "SIGKILL":
                raise Killed
            signal.raise_signal(signal.SIGTERM)

    return Checkpoints(path, key or {"spec": 1}, minutes, report)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_stopped_training_ends_with_the_same_bits(monkeypatch, tmp_path, recipe, case, way, how):
    below, size = WAYS[way]
    monkeypatch.setattr(engine, "STACK_BELOW_PARAMETERS", below)
    monkeypatch.setattr(engine, "CPU_STACK", size)
    whole = train(recipe, case)
    path = tmp_path / "checkpoint.safetensors"
    # The first step, within an epoch, its last step, and within another stack where there is one; each goes on
    # from the one before.
    for at in (1, 3, 8, STEPS):
        with stopper(path, at, how) as checkpoints, pytest.raises(Killed if how == "SIGKILL" else Interrupted):
            train(recipe, case, checkpoints)
        assert path.exists()
    with Checkpoints(path, {"spec": 1}, 10, lambda line: None) as checkpoints:
        assert same(train(recipe, case, checkpoints), whole)
        checkpoints.clear()
    assert not path.exists()


def test_augmented_convolutions_go_on_with_the_same_bits(tmp_path, recipe, conv_net, images):
    recipe = recipe | {"augment": {"flip": True, "crop": 1}}
    whole = train(recipe, "masked", net=conv_net, given=images)
    path = tmp_path / "checkpoint.safetensors"
    for at in (2, 6):
        with stopper(path, at, "SIGTERM") as checkpoints, pytest.raises(Interrupted, match="the next run goes on"):
            train(recipe, "masked", checkpoints, net=conv_net, given=images)
    with Checkpoints(path, {"spec": 1}, 10, lambda line: None) as checkpoints:
        assert same(train(recipe, "masked", checkpoints, net=conv_net, given=images), whole)


def test_sigterm_writes_a_checkpoint_long_before_one_is_due(tmp_path, recipe):
    path = tmp_path / "checkpoint.safetensors"
    with Checkpoints(path, {"spec": 1}, 60, lambda line: None) as checkpoints:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted) as stopped:
            train(recipe, "masked", checkpoints)
    assert stopped.value.by == signal.SIGTERM and read_header(path, "checkpoint")["batch"] == 1
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_checkpoints_come_by_the_clock(tmp_path, recipe):
    path, lines = tmp_path / "checkpoint.safetensors", []
    train(recipe, "masked", Checkpoints(path, {"spec": 1}, 60, lines.append))
    assert not path.exists() and not lines


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_checkpoint_is_reported_and_left_aside(tmp_path, recipe, damage):
    path, lines = tmp_path / "checkpoint.safetensors", []
    with stopper(path, 3, "SIGTERM") as checkpoints, pytest.raises(Interrupted):
        train(recipe, "masked", checkpoints)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes({"truncated": content[:-100], "flipped": content, "empty": b""}[damage])
    found = train(recipe, "masked", Checkpoints(path, {"spec": 1}, 60, lines.append))
    assert "begins anew" in lines[0] and str(path) in lines[0]
    assert same(found, train(recipe, "masked"))


def test_a_checkpoint_of_something_else_is_not_used(tmp_path, recipe):
    path, lines = tmp_path / "checkpoint.safetensors", []
    with stopper(path, 3, "SIGTERM", key={"spec": 2}) as checkpoints, pytest.raises(Interrupted):
        train(recipe, "standard", checkpoints)
    found = train(recipe, "masked", Checkpoints(path, {"spec": 1}, 60, lines.append))
    assert "of other settings" in lines[0]
    assert same(found, train(recipe, "masked"))
