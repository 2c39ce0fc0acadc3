"""Training that is stopped or killed goes on from its checkpoint with the same bits."""

import itertools
import signal

import pytest
import torch

from symlab.artifacts import ArtifactError, read_header
from symlab.errors import Interrupted
from symlab.networks import NETWORKS, Lecun, build
from symlab.schemes import SCHEMES
from symlab.settings import choose
from symlab.training import replicas as engine
from symlab.training import stack_size
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints, training_key
from symlab.training.settings import Recipe

KEY = ("study", "variant")
REPLICAS = [Replica(0, 0), Replica(0, 1), Replica(1, 0)]
# 90 samples in batches of 16: 6 steps an epoch, the last one smaller.
STEPS = 6
WAYS = {"one by one": (0, 10), "in stacks of two": (10**9, 2), "all together": (10**9, 10)}
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
    make = net or (lambda: build(choose(NETWORKS, network), 12, 5))
    scheme, recipe = choose(SCHEMES, scheme), Recipe(**recipe)
    run = Run(make, given, scheme, Lecun(name="lecun"), recipe, (0, 1, 3), KEY)
    return train_block(run, REPLICAS, checkpoints=checkpoints)


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
    monkeypatch.setattr(stack_size, "STACK_BELOW_PARAMETERS", below)
    monkeypatch.setattr(stack_size, "CPU_STACK", size)
    whole = train(recipe, case)
    path = tmp_path / "checkpoint.safetensors"
    # The first step, within an epoch, the last step of a stack of 18, and within another stack where there is one;
    # each goes on from the one before.
    for at in (1, 3, 8, STEPS, 5) if size == 2 or below == 0 else (1, 3, 8):
        with stopper(path, at, how) as checkpoints, pytest.raises(Killed if how == "SIGKILL" else Interrupted):
            train(recipe, case, checkpoints)
        assert path.exists()
    with Checkpoints(path, {"spec": 1}, 10, lambda line: None) as checkpoints:
        assert same(train(recipe, case, checkpoints), whole)
    # It outlives training, so that a job whose outputs get lost before Snakemake has seen them costs seconds.
    steps = []
    monkeypatch.setattr(engine, "learning_rate", lambda *args: steps.append(args))
    assert same(train(recipe, case, Checkpoints(path, {"spec": 1}, 10, lambda line: None)), whole)
    assert not steps


def test_augmented_convolutions_go_on_with_the_same_bits(tmp_path, recipe, conv_net, images):
    recipe = recipe | {"augment": {"flip": True, "crop": 1}}
    whole = train(recipe, "masked", net=conv_net, given=images)
    path = tmp_path / "checkpoint.safetensors"
    for at in (2, 6):
        with stopper(path, at, "SIGTERM") as checkpoints, pytest.raises(Interrupted, match="the next run goes on"):
            train(recipe, "masked", checkpoints, net=conv_net, given=images)
    with Checkpoints(path, {"spec": 1}, 10, lambda line: None) as checkpoints:
        assert same(train(recipe, "masked", checkpoints, net=conv_net, given=images), whole)


def test_training_takes_signals_itself_and_gives_them_back(tmp_path, recipe):
    path, taken = tmp_path / "checkpoint.safetensors", []
    # Whatever the job has set, which training must not leave a signal to.
    before = signal.signal(signal.SIGTERM, lambda number, frame: taken.append(number))
    try:
        own = signal.getsignal(signal.SIGTERM)
        with pytest.raises(Interrupted):
            train(recipe, "masked", stopper(path, 3, "SIGTERM"))
        assert taken == [] and signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_long_before_one_is_due(tmp_path, recipe, number):
    path, before = tmp_path / "checkpoint.safetensors", signal.getsignal(number)
    with Checkpoints(path, {"spec": 1}, 60, lambda line: None) as checkpoints:
        signal.raise_signal(number)
        with pytest.raises(Interrupted) as stopped:
            train(recipe, "masked", checkpoints)
    assert stopped.value.by == number and read_header(path, "checkpoint")["batch"] == 1
    assert signal.getsignal(number) == before


def test_a_checkpoint_that_cannot_be_written_stops_nothing_but_a_stop(tmp_path, recipe):
    (tmp_path / "folder").write_text("a file in the folder's place")
    path, lines = tmp_path / "folder" / "checkpoint.safetensors", []
    assert same(train(recipe, "masked", Checkpoints(path, {"spec": 1}, 0, lines.append)), train(recipe, "masked"))
    assert all(line.startswith("no checkpoint, training goes on: ") and "cannot be written" in line for line in lines)
    with Checkpoints(path, {"spec": 1}, 60, lines.append) as checkpoints:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(ArtifactError, match="cannot be written"):
            train(recipe, "masked", checkpoints)


def test_the_next_checkpoint_is_due_an_interval_after_the_last(monkeypatch, tmp_path, recipe):
    lines, now = [], itertools.count()
    # A second passes at every look at the clock: once a step, and once more where a checkpoint is written.
    monkeypatch.setattr("symlab.training.resume.time.monotonic", lambda: float(next(now)))
    train(recipe, "standard", Checkpoints(tmp_path / "checkpoint.safetensors", {"spec": 1}, 10 / 60, lines.append))
    other = Checkpoints(tmp_path / "a.safetensors", {"spec": 1}, 10, print).beside("b")
    assert (other.path.name, other.key, other.seconds) == ("a_b.safetensors", {"spec": 1}, 600)
    # 18 steps; the last one writes one too.
    assert [line.rpartition(" ")[0] for line in lines] == [f"checkpoint at replica 0, epoch {n}, batch" for n in (2, 3)]


def test_time_spent_before_a_stop_counts(monkeypatch, tmp_path, recipe):
    path = tmp_path / "checkpoint.safetensors"
    with stopper(path, 3, "SIGTERM") as checkpoints, pytest.raises(Interrupted):
        train(recipe, "standard", checkpoints)
    spent = read_header(path, "checkpoint")["seconds"]
    assert spent > 0
    history = train(recipe, "standard", Checkpoints(path, {"spec": 1}, 60, lambda line: None)).history
    # A stack of three is trained with a copy of its first member: the seconds are shared by four.
    assert history["time_s"].iloc[0] > spent / (len(REPLICAS) + 1)


def test_everything_that_decides_the_bits_is_in_the_key(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    given = {"spec": {"lr": 1}, "data": "d", "code": "c", "device": "cpu", "threads": 1}
    key = training_key(**given)
    others = {"spec": {"lr": 2}, "data": "e", "code": "f", "device": "cuda", "threads": 2}
    assert all(training_key(**given | {name: value}) != key for name, value in others.items())
    assert key["torch"] == torch.__version__


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
    damaged = {"truncated": content[:-100], "flipped": content, "empty": b""}
    path.write_bytes(damaged[damage])
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
