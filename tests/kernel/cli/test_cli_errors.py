"""What a user may get wrong is told in a sentence on stderr, with exit status 1 and nothing written."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from symlab.alignment import permute as permute_module
from symlab.cli import align as align_module


def refused(brought, capsys, factory="mlp", *options, **files):
    """The sentence that the command ends with, after checking that it left nothing behind."""
    before = {path.name for path in brought.folder.iterdir()}
    with pytest.raises(SystemExit) as raised:
        brought.align(factory, *options, **files)
    assert isinstance(raised.value.code, str), "a sentence, which Python prints on stderr with exit status 1"
    assert {path.name for path in brought.folder.iterdir()} - {"__pycache__"} == before - {"__pycache__"}
    assert capsys.readouterr() == ("", "")
    return raised.value.code


def saved(brought, **arrays):
    np.savez(brought.folder / "data.npz", **arrays)


X = np.zeros((4, 6), dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("missing", lambda path: path.unlink(), ["A.safetensors does not exist"]),
        ("truncated", lambda path: path.write_bytes(path.read_bytes()[:-5]), ["truncated or not a file of weights"]),
        ("folder", lambda path: (path.unlink(), path.mkdir()), ["a folder without files of weights"]),
        ("code", lambda path: torch.save(torch.nn.Linear(2, 2), path), ["would run code", "module.state_dict()"]),
        ("two", lambda path: torch.save({key: {"w": torch.ones(2)} for key in "ab"}, path), ["'a', 'b'", "no state"]),
        ("numbers", lambda path: torch.save({"epoch": 3}, path), ["'epoch'", "no state dict"]),
        ("cut", lambda path: path.write_bytes(b"PK\x03\x04 no archive"), ["no checkpoint of torch"]),
    ],
)
def test_files_of_weights(mlps, capsys, name, change, words):
    change(mlps.folder / "A.safetensors")
    sentence = refused(mlps, capsys)
    assert all(word in sentence for word in words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("2.bias"), ["B.safetensors does not fit Sequential", "it lacks '2.bias'"]),
        (lambda state: state.update(extra=torch.ones(1)), ["it holds 'extra'", "state_dict()"]),
        (
            lambda state: [state.update({f"module.{name}": state.pop(name)}) for name in list(state)[1:]],
            ["it holds 'module.0.bias'", "state_dict()"],
        ),
        (lambda state: state.update({"0.bias": torch.ones(7)}), ["'0.bias'", "(8,) in A", "(7,) in B"]),
        (lambda state: state["2.weight"].view(-1)[3].fill_(torch.nan), ["'2.weight'", "NaN or infinite"]),
        (lambda state: state["2.weight"].view(-1)[3].fill_(torch.inf), ["'2.weight'", "NaN or infinite"]),
        (lambda state: state.update({"0.bias": torch.ones(8, dtype=torch.int8)}), ["'0.bias'", "int8"]),
    ],
)
def test_weights_that_do_not_fit(mlps, capsys, change, words):
    state = mlps.state("mlp", 1)
    change(state)
    mlps.save("B.safetensors", state)
    sentence = refused(mlps, capsys)
    assert all(word in sentence for word in words), sentence


def test_weights_of_another_shape_than_the_module(mlps, capsys):
    for name in ("A", "B"):
        mlps.save(f"{name}.safetensors", mlps.state("mlp", 1) | {"0.bias": torch.ones(7)})
    assert "'0.bias' has shape (7,) in A.safetensors, but (8,) in the module" in refused(mlps, capsys)


def test_tied_weights_with_two_values(brought, capsys):
    state = brought.state("last_token", 0)
    for name in ("A", "B"):
        brought.save(f"{name}.safetensors", state | {"head.weight": state["head.weight"] + 1})
    saved(brought, x=np.zeros((4, 5), dtype=np.int64))
    assert "different values for 'embedding.weight' and 'head.weight'" in refused(brought, capsys, "last_token")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("brought", ["it must name a module and a function"]),
        ("absent.networks:build", ["importing absent.networks", "PYTHONPATH"]),
        ("brought:absent", ["brought", "has no such function"]),
        ("brought:LIMIT", ["calling brought:LIMIT() without arguments failed with TypeError"]),
        ("brought:raising", ["RuntimeError: no such checkpoint", "line ", "brought.py"]),
        ("brought:returning", ["returned a dict", "nn.Module"]),
        ("broken:build", ["importing broken", "SyntaxError"]),
        ("importing:build", ["importing importing", "'absent_dependency'"]),
    ],
)
def test_factories(mlps, capsys, model, words, monkeypatch):
    (mlps.folder / "broken.py").write_text("def build(:\n")
    (mlps.folder / "importing.py").write_text("import absent_dependency\n")
    sentence = refused(mlps, capsys, "mlp", "--model", model)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"inputs": X}, ["holds 'inputs'", "no 'x'"]),
        ({"x": X[:0]}, ["at least one sample"]),
        ({"x": X * np.nan}, ["x in data.npz", "NaN"]),
        ({"x": X.astype(object)}, ["plain arrays", "object"]),
        ({"x": X.astype(str)}, ["must hold real numbers"]),
        ({"x": np.zeros((4, 7), dtype=np.float32)}, ["Sequential", "('n', 7)", "RuntimeError"]),
        ({"x": np.zeros((4, 6), dtype=np.int64)}, ["integers (tokens)"]),
        ({"x": X, "y": np.zeros(5, dtype=np.int64)}, ["(5,)", "x has 4 samples"]),
        ({"x": X, "y": np.array([0, 1, 2, 3])}, ["label 3", "3 classes", "0 to 2"]),
        ({"x": X, "y": np.array([0, 1, 2, -1])}, ["label -1"]),
        ({"x": X, "y": np.zeros(4)}, ["('n',)", "as many outputs", "integers"]),
    ],
)
def test_data(mlps, capsys, arrays, words):
    saved(mlps, **arrays)
    sentence = refused(mlps, capsys)
    assert all(word in sentence for word in words), sentence


def test_files_of_data(mlps, capsys):
    assert "absent.npz does not exist" in refused(mlps, capsys, data="absent.npz")
    (mlps.folder / "text.npz").write_text("x, y\n")
    assert "cannot be read as an .npz file" in refused(mlps, capsys, data="text.npz")
    assert "numpy.savez" in refused(mlps, capsys, data="data.csv")
    mlps.save("other.safetensors", {"images": torch.ones(2)})
    assert "holds 'images'" in refused(mlps, capsys, data="other.safetensors")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lambdas", "24"), ["--lambdas is 24", "odd"]),
        (("--group", "full", "--learn", "-1"), ["learn is -1"]),
        (("--task", "regression"), ["as many outputs"]),
        (("--metric", "brought:absent"), ["brought", "no such function"]),
        (("--metric", "brought:raising"), ["calling the metric", "TypeError"]),
        (("--out", "data.npz"), ["data.npz is no folder"]),
        (("--out", "data.npz/out"), ["data.npz is no folder"]),
    ],
)
def test_options(mlps, capsys, options, words):
    sentence = refused(mlps, capsys, "mlp", *options)
    assert all(word in sentence for word in words), sentence


def test_an_output_that_is_no_tensor(brought, capsys):
    for name in ("A", "B"):
        brought.save(f"{name}.safetensors", brought.state("wordy", 0))
    saved(brought, x=X)
    assert "returned a list without tensors" in refused(brought, capsys, "wordy")


def test_class_labels_for_logits_at_every_token(brought, capsys):
    for name in ("A", "B"):
        state = brought.state("language_model", 0)
        brought.save(f"{name}.safetensors", state)
    saved(brought, x=np.zeros((4, 5), dtype=np.int64), y=np.zeros(4, dtype=np.int64))
    assert "logits of shape ('n', 'classes'), or of the labels' own where each is 0 or 1, not ('n', 5, 11)" in refused(
        brought, capsys, "language_model"
    )


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("linear", ["no neurons of Linear can be renumbered"]),
        ("lazy", ["lazy layers", "call it once"]),
    ],
)
def test_networks_that_cannot_be_aligned(brought, capsys, factory, words):
    state = {"weight": torch.ones(3, 6), "bias": torch.ones(3)}
    for name in ("A", "B"):
        brought.save(f"{name}.safetensors", state)
    saved(brought, x=X)
    sentence = refused(brought, capsys, factory)
    assert all(word in sentence for word in words), sentence


def test_a_disk_that_is_full_leaves_nothing_behind(mlps, capsys, monkeypatch):
    def full(path, table):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(align_module, "write_table", full)
    assert "No space left on device" in refused(mlps, capsys)
    (mlps.folder / "out").mkdir()
    assert "No space left on device" in refused(mlps, capsys)
    assert list((mlps.folder / "out").iterdir()) == []


def test_a_wrong_permutation_is_never_written(mlps, capsys, monkeypatch):
    monkeypatch.setattr(permute_module, "differences", lambda before, after: (1.0, 1.0, 0.1))
    assert "renumbering the neurons changed the network" in refused(mlps, capsys)


def test_a_cache_of_what_was_computed_from_other_weights(brought, capsys):
    for seed, name in enumerate("AB"):
        brought.save(f"{name}.safetensors", brought.state("caching", seed))
    saved(brought, x=np.ones((4, 6), np.float32), y=np.zeros(4, np.int64))
    assert "keeps something that it computed from the weights" in refused(brought, capsys, "caching")


def test_a_gpu_that_is_not_there(mlps, capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "torch sees no GPU" in refused(mlps, capsys, "mlp", "--device", "cuda")


def command(*arguments, folder, **environment):
    return subprocess.run(
        [sys.executable, "-m", "symlab", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        timeout=60,
    )


def test_an_interrupt_ends_with_the_shell_s_status_of_one(mlps, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(align_module, "align", interrupted)
    with pytest.raises(SystemExit) as ended:
        mlps.align("mlp")
    assert ended.value.code == 128 + signal.SIGINT


def test_help_and_a_process_that_ends_with_a_sentence_and_status_1_do_not_wait_for_torch(tmp_path):
    # A module of that name that cannot be imported stands before the real one.
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    for arguments in (("--help",), ("align", "--help")):
        result = command(*arguments, folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "symlab align A.safetensors B.safetensors" in result.stdout
    result = command("algin", folder=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: there is no command 'algin'; did you mean align?\n"
