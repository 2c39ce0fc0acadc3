"""Checkpoints and data as people have them: shards, folders, prefixes, functions that give batches."""

import importlib
import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import symlab
from symlab.cli import COMMANDS, main, parser
from symlab.cli.texts import results_of
from symlab.own.data import read_data
from symlab.own.network import _extremes, prepare
from symlab.own.weights import Weights, read_weights

BATCHES = """
import numpy as np
import torch

rng = np.random.default_rng(0)
PAIRS = [(torch.from_numpy(rng.normal(size=(n, 6)).astype(np.float32)), torch.arange(n) % 3) for n in (16, 16, 8)]
asked = []


def endless():
    while True:
        asked.append(1)
        yield PAIRS[0]


def sentences():
    for _ in range(2):
        x = torch.from_numpy(rng.integers(0, 11, (4, 5)))
        y = torch.full((4, 5), -100)
        y[:, :2] = x[:, 1:3]
        yield x, y
"""


INDEX, SECOND = "model.safetensors.index.json", "model-00002-of-00002.safetensors"


@pytest.fixture
def mlps(mlps):
    """Two MLPs and inputs without targets, for which there is no curve to be drawn."""
    np.savez(mlps.folder / "inputs.npz", x=np.load(mlps.folder / "data.npz")["x"])
    return mlps


@pytest.fixture
def batches(mlps, monkeypatch):
    """The user's folder with a module ``batches`` too."""
    (mlps.folder / "batches.py").write_text(BATCHES)
    monkeypatch.delitem(sys.modules, "batches", raising=False)
    return mlps


def sharded(folder, state):
    """A folder as transformers saves a large model."""
    folder.mkdir()
    files = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    names = sorted(state)
    of = {name: files[index % 2] for index, name in enumerate(names)}
    for file in files:
        save_file({name: state[name] for name in names if of[name] == file}, folder / file, metadata={"format": "pt"})
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": of}))
    return folder


def align(brought, A, B, *options, factory="mlp", data="inputs.npz"):
    fixed = ("--out", "out", "--device", "cpu", "--lambdas", "3")
    main(["align", str(A), str(B), "--model", f"brought:{factory}", "--data", data, *fixed, *options])


def test_shards_and_folders_give_what_the_whole_file_gives(mlps):
    state = {name: tensor.bfloat16() for name, tensor in mlps.state("mlp", 1).items()}
    mlps.save("B.safetensors", state)
    align(mlps, "A.safetensors", "B.safetensors")
    whole = mlps.load("out/permuted.safetensors")
    folder = sharded(mlps.folder / "B", state)
    (folder / "config.json").write_text("{}")
    for path in (folder, folder / INDEX):
        align(mlps, "A.safetensors", path, "--overwrite")
        assert not (mlps.folder / "out" / "permuted.safetensors").exists()
        shards, permuted = read_weights(folder), read_weights(mlps.folder / "out" / "permuted")
        assert permuted.tensors.keys() == whole.keys()
        assert all(
            torch.equal(tensor, whole[name]) and tensor.dtype == torch.bfloat16
            for name, tensor in permuted.tensors.items()
        )
        names = ({file.name: sorted(names) for file, names in each.shards.items()} for each in (shards, permuted))
        assert next(names) == next(names)
        assert (mlps.folder / "out" / "permuted" / "config.json").read_text() == "{}"
    (mlps.folder / "out" / "permuted" / "tokenizer.json").write_text("{}")
    align(mlps, "A.safetensors", "B.safetensors", "--overwrite")
    assert [path.name for path in (mlps.folder / "out" / "permuted").iterdir()] == ["tokenizer.json"]
    assert all(torch.equal(tensor, whole[name]) for name, tensor in mlps.load("out/permuted.safetensors").items())


def test_a_prefix_is_told_taken_off_and_written_back(mlps, capsys):
    prefix = "module._orig_mod."
    align(mlps, "A.safetensors", "B.safetensors")
    plain = mlps.load("out/permuted.safetensors")
    state = mlps.state("mlp", 1)
    mlps.save("B.safetensors", {prefix + name: tensor for name, tensor in state.items()})
    align(mlps, "A.safetensors", "B.safetensors", "--overwrite")
    assert prefix in capsys.readouterr().out
    permuted = mlps.load("out/permuted.safetensors")
    assert permuted.keys() == {prefix + name for name in state}
    assert all(torch.equal(permuted[prefix + name], tensor) for name, tensor in plain.items())


def test_operations_that_are_not_understood_are_told(tmp_path, monkeypatch, capsys):
    class Drawn(torch.nn.Sequential):
        def forward(self, x):
            return self[1](torch.renorm(self[0](x), 2, 0, 1.0))

    module = SimpleNamespace(build=lambda: Drawn(torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)))
    monkeypatch.setitem(sys.modules, "not_understood", module)
    np.savez(tmp_path / "data.npz", x=np.ones((3, 4), np.float32))
    main(["trace", "not_understood:build", "--data", str(tmp_path / "data.npz")])
    assert "Not understood: operation renorm in 'Drawn'" in capsys.readouterr().out


def test_a_prefix_that_only_the_module_has(mlps):
    (mlps.folder / "wrapped.py").write_text(
        "import brought\nfrom torch import nn\ndef build():\n    return nn.Sequential(brought.mlp())\n"
    )
    align(mlps, "A.safetensors", "B.safetensors", "--model", "wrapped:build")
    assert load_file(mlps.folder / "out" / "permuted.safetensors").keys() == mlps.state("mlp", 1).keys()


def test_batches_give_what_a_file_gives(batches):
    import batches as module

    x, y = (torch.cat(column) for column in zip(*module.PAIRS, strict=True))
    mlp = batches.module.mlp()
    data = read_data("batches:PAIRS", mlp)
    assert torch.equal(data.x, x)
    assert torch.equal(data.y, y)
    assert torch.equal(read_data("batches:endless", mlp, 20).x, torch.cat([x[:16], x[:4]]))
    assert len(module.asked) == 2


def test_a_target_for_each_token_and_none_for_some(batches):
    import batches as module

    for seed, name in enumerate("AB"):
        batches.save(f"{name}.safetensors", batches.state("language_model", seed))
    align(batches, "A.safetensors", "B.safetensors", factory="language_model", data="batches:sentences")
    module.rng = np.random.default_rng(0)
    for n in (16, 16, 8):
        module.rng.normal(size=(n, 6))
    x, y = (torch.cat(column) for column in zip(*module.sentences(), strict=True))
    logits = batches.output("language_model", batches.load("A.safetensors"), x)[:, :2].log_softmax(-1)
    of_target = logits.gather(-1, y[:, :2, None])
    curve = pd.read_csv(batches.folder / "out" / "curve.csv")
    at_A = curve[curve["lambda"] == 0]
    assert at_A["loss"].to_numpy() == pytest.approx(-float(of_target.mean()), rel=1e-5)
    assert at_A["accuracy"].to_numpy() == pytest.approx(float((logits.argmax(-1) == y[:, :2]).float().mean()))


def test_a_modules_own_weights_are_given_up_but_not_what_ties_them():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), *[nn.BatchNorm1d(4)] * 2)
    module[2].weight.data = module[0].weight.data
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    own = module[1].weight.data_ptr()
    network = prepare(module, [Weights(Path("A"), state, {})] * 2, "cpu")
    assert network.module[1].weight.data_ptr() != own
    assert network.module[2].weight.data_ptr() == network.module[0].weight.data_ptr()
    assert network.twins["2.weight"] == "0.weight" and network.twins["4.running_mean"] == "3.running_mean"


@pytest.mark.parametrize("entry", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn])
def test_extremes_show_what_is_not_finite(dtype, entry):
    tensor = torch.tensor([[1.0, -2.0], [0.5, 3.0]]).to(dtype)
    assert _extremes(tensor) == (-2.0, 3.0)
    assert _extremes(tensor[:0]) == (0.0, 0.0)
    if dtype != torch.float8_e4m3fn:  # which has no infinities
        tensor[1, 0] = entry
        low, high = _extremes(tensor)
        assert not (np.isfinite(low) and np.isfinite(high)) and np.isnan(low) == np.isnan(entry)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"trace"}))
def test_a_command_leaves_out_what_its_function_does(name):
    """Defaults are written down in both, and are the same."""
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    parameters = inspect.signature(getattr(symlab, name)).parameters.values()
    of_function = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
    of_command = {each.dest: each.default for each in commands[name]._actions if each.dest in of_function}
    assert of_command and {key: value or None for key, value in of_command.items()} == {
        key: of_function[key] or None for key in of_command
    }


class Asked(Exception):
    """What a command asks its function, by the function's names."""


FUNCTIONS = {"align": "align_networks", "merge": "merge_networks", "diagnose": "diagnose_networks"}
FUNCTIONS |= {"escape": "escape_of", "mirrors": "mirrors_of", "collapse": "collapse_of", "trace": "load_models"}
NAMES = {"model": "module", "checkpoint": "weights", "layer": "layers", "networks": "states"}
# What the command does itself, with what the function gives.
OF_COMMAND = {"help", "out", "overwrite", "lambdas", "complete"}
OF_COMMAND_NAMED = {("align", "repair"), *(("escape", name) for name in ("lr", "power", "momentum"))}
READ = {"weights": ("2,1", [2.0, 1.0]), "layer": ("a=2,1", {"a": [2.0, 1.0]}), "layers": ("a, b.*", ["a", "b.*"])}


def asked(name, monkeypatch, arguments):
    """The arguments of the function of a command, those of SGD and of keywords among them."""
    module = importlib.import_module(f"symlab.cli.{name}")
    signature = inspect.signature(getattr(module, FUNCTIONS[name]))

    def asking(*given, **named):
        bound = signature.bind(*given, **named).arguments
        raise Asked(bound | bound.pop("options", {}) | vars(bound.get("training", Asked())))

    with monkeypatch.context() as patched, pytest.raises(Asked) as raised:
        patched.setattr(module, FUNCTIONS[name], asking)
        main([name, *arguments])
    return raised.value.args[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_what_the_function_is_asked(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    actions = next(action for action in parser()._actions if action.dest == "command").choices[name]._actions
    positional = [action.dest for action in actions if not action.option_strings]
    options = {action.dest: action for action in actions if action.option_strings}
    assert ("out" in options) == ("overwrite" in options)
    needed = [word for action in options.values() if action.required for word in (action.option_strings[0], "0.5")]
    first = asked(name, monkeypatch, [*positional, *needed])
    assert {dest: first[NAMES.get(dest, dest)] for dest in positional} == {
        dest: [dest] if dest == "networks" else dest for dest in positional
    }
    for result in results_of(name) if "out" in options else ():
        (tmp_path / result).touch()
        given = [*positional, *needed, "--out", str(tmp_path)]
        with pytest.raises(SystemExit, match=f"where {result} lies already"):
            main([name, *given])
        assert asked(name, monkeypatch, [*given, "--overwrite"]).keys() == first.keys()
        (tmp_path / result).unlink()
    assert first.keys() - {"training", "folder"} <= {NAMES.get(dest, dest) for dest in (*positional, *options)}
    for dest in options.keys() - OF_COMMAND - {each for command, each in OF_COMMAND_NAMED if command == name}:
        action, more = options[dest], ["--learn", "1"] * (dest == "untrained")
        by_type = {int: ("7", 7), float: ("0.25", 0.25)}.get(action.type, (f"a.{dest}", f"a.{dest}"))
        word, value = (action.choices[-1],) * 2 if action.choices else READ.get(dest, by_type)
        word, value = ([], True) if action.nargs == 0 else ([word], value)
        value = {value: value} if (name, dest) == ("trace", "checkpoint") else value
        given = asked(name, monkeypatch, [*positional, *needed, *more, action.option_strings[0], *word])
        assert given[NAMES.get(dest, dest)] == value != first.get(NAMES.get(dest, dest)), dest
