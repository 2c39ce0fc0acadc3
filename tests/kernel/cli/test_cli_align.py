"""``symlab align``: files in, files out."""

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import symlab
from symlab.artifacts import read_tensors
from symlab.products import products_by

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("method", "dtype"),
    [*product(("activation", "weight"), (torch.float32,)), ("activation", torch.float16), ("weight", torch.bfloat16)],
)
def test_a_planted_permutation_is_recovered(mlps, capsys, method, dtype):
    A = {name: tensor.to(dtype) for name, tensor in mlps.state("mlp", 3).items()}
    mlps.save("A.safetensors", A)
    mlps.save("B.safetensors", mlps.renumbered(A, np.random.default_rng(4))[0])
    mlps.align("mlp", "--method", method, "--restarts", "2")

    permuted = mlps.load("out/permuted.safetensors")
    assert permuted.keys() == A.keys()
    for name, tensor in A.items():
        assert permuted[name].dtype == dtype
        assert torch.equal(permuted[name], tensor)
    _, header = read_tensors(mlps.folder / "out" / "permutations.safetensors", "permutations")
    for name in "AB":
        content = (mlps.folder / f"{name}.safetensors").read_bytes()
        assert header[f"{name}_sha256"] == hashlib.sha256(content).hexdigest()
    matching = pd.read_csv(mlps.folder / "out" / "matching.csv")
    assert matching.loc[matching["permutation"] == "match", "objective"].to_numpy() == pytest.approx(1)
    barriers = pd.read_csv(mlps.folder / "out" / "barriers.csv").set_index("aligned")
    assert barriers.loc[True, "barrier_max"] == pytest.approx(0, abs=1e-5)
    assert barriers.loc[False, "barrier_max"] > 1e-3

    flat = [
        torch.cat([tensor.float().flatten() for tensor in mlps.load(f"{name}.safetensors").values()]) for name in "AB"
    ]
    similarity = f"{torch.cosine_similarity(*flat, dim=0):.4f} as they are, 1.0000 permuted"
    assert (similarity in capsys.readouterr().out) == (method == "weight")
    run = json.loads((mlps.folder / "out" / "run.json").read_text())
    assert (run["symlab"], run["torch"], run["products"]) == (symlab.__version__, torch.__version__, products_by())


def test_buffers_that_no_file_holds(brought):
    A = brought.state("positions", 0)
    pi = np.random.default_rng(1).permutation(8)
    B = {
        name: tensor[:, pi] if name == "head.weight" else tensor[pi]
        for name, tensor in A.items()
        if "head.b" not in name
    }
    for name, state in (("A", A), ("B", B | {"head.bias": A["head.bias"]})):
        brought.save(f"{name}.safetensors", state)
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    np.savez(brought.folder / "data.npz", x=x, y=np.zeros(40, np.int64))
    brought.align("positions")
    for name, tensor in brought.load("out/permuted.safetensors").items():
        assert torch.equal(tensor, A[name])


def residual_pair(brought, n=30):
    for seed, name in enumerate(("A", "B")):
        brought.save(f"{name}.safetensors", brought.state("Normed", seed))
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 1, 4, 4)).astype(np.float32)
    np.savez(brought.folder / "data.npz", x=x, y=rng.integers(0, 3, n))
    return torch.from_numpy(x)


@pytest.mark.parametrize("options", [(), ("--repair",), ("--method", "weight", "--samples", "20", "--batch-size", "7")])
def test_a_residual_network_with_batch_norms_keeps_its_function(brought, options):
    x = residual_pair(brought)
    brought.align("Normed", "--lambdas", "5", *options)
    B, permuted = brought.load("B.safetensors"), brought.load("out/permuted.safetensors")
    assert not torch.equal(permuted["stem.weight"], B["stem.weight"])
    torch.testing.assert_close(brought.output("Normed", permuted, x), brought.output("Normed", B, x))
    curve = pd.read_csv(brought.folder / "out" / "curve.csv")
    assert len(curve) == 10 and curve["loss"].notna().all()
    # Both paths start at A, and end in the same function.
    ends = curve.pivot(index="lambda", columns="aligned", values="loss").loc[[0.0, 1.0]]
    assert ends[True].to_numpy() == pytest.approx(ends[False].to_numpy(), rel=1e-4)


@pytest.mark.parametrize("factory", ["language_model", "last_token"])
def test_tokens_with_tied_weights_and_a_mask(brought, factory):
    states = [brought.state(factory, seed) for seed in (0, 1)]
    for name, state in zip("AB", states, strict=True):
        # What safetensors' save_model does: of tied weights one name is kept.
        brought.save(f"{name}.safetensors", {key: tensor for key, tensor in state.items() if key != "embedding.weight"})
    rng = np.random.default_rng(0)
    x = rng.integers(0, 11, (30, 5))
    with_labels = {"y": rng.integers(0, 11, 30)} if factory == "last_token" else {}
    np.savez(brought.folder / "data.npz", x=x.astype(np.int32), **with_labels)
    brought.align(factory, "--lambdas", "3")

    permuted = brought.load("out/permuted.safetensors")
    assert permuted.keys() == states[0].keys() - {"embedding.weight"}
    assert not torch.equal(permuted["up.weight"], states[1]["up.weight"])
    permuted["embedding.weight"] = permuted["head.weight"]
    before, after = (brought.output(factory, state, torch.from_numpy(x)) for state in (states[1], permuted))
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)
    assert (brought.folder / "out" / "curve.csv").exists() == bool(with_labels)
    if with_labels:
        assert pd.read_csv(brought.folder / "out" / "curve.csv")["loss"].notna().all()


def test_results_are_replaced_only_when_asked(mlps):
    mlps.align("mlp")
    (mlps.folder / "out" / "notes.txt").write_text("mine")
    mlps.save("data.safetensors", {"x": torch.randn(20, 6)})
    mlps.align("mlp", "--overwrite", data="data.safetensors")
    # A curve of other data would be taken for this run's.
    assert not (mlps.folder / "out" / "curve.csv").exists()
    assert (mlps.folder / "out" / "notes.txt").read_text() == "mine"


def test_the_same_seed_gives_the_same_files(mlps):
    for out in ("one", "two"):
        mlps.align("mlp", "--method", "weight", "--samples", "30", "--seed", "5", out=out)
    # Which folder the results went to is among the options that run.json holds.
    for path in (mlps.folder / "one").iterdir():
        assert path.name == "run.json" or path.read_bytes() == (mlps.folder / "two" / path.name).read_bytes(), path


def test_moments_in_several_passes_give_the_same_table(mlps, monkeypatch):
    tables = []
    for at_once in (2**31, 1):
        monkeypatch.setattr("symlab.own.align.MOMENTS_AT_ONCE", at_once)
        mlps.align("mlp", "--method", "weight", "--overwrite")
        tables.append((mlps.folder / "out" / "matching.csv").read_bytes())
    assert tables[0] == tables[1]


@pytest.mark.parametrize("factory", ["mlp", "Counting"])
def test_a_last_batch_of_another_size_and_a_single_sample(mlps, factory):
    for seed, name in enumerate(("A", "B")):
        mlps.save(f"{name}.safetensors", mlps.state(factory, seed))
    mlps.align(factory, "--batch-size", "19")
    mlps.align(factory, "--samples", "1", "--overwrite")
    assert len(pd.read_csv(mlps.folder / "out" / "curve.csv")) == 50


def test_metadata_of_the_file_are_kept(mlps):
    save_file(mlps.load("B.safetensors"), mlps.folder / "B.safetensors", metadata={"format": "pt"})
    mlps.align("mlp", out=".")
    with safe_open(mlps.folder / "permuted.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.slow
def test_the_example_runs_as_its_readme_says(tmp_path):
    for name in ("examples", "workflow/symlab"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    commands = (tmp_path / "examples/align/README.md").read_text().split("```")[1]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    result = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""

    folder = tmp_path / "examples/align"
    barriers = pd.read_csv(folder / "aligned" / "barriers.csv").set_index("aligned")
    assert barriers.loc[True, "barrier_max"] < 0.5 * barriers.loc[False, "barrier_max"]
    assert barriers.loc[True, "drop_max_pp"] < barriers.loc[False, "drop_max_pp"] - 5
    # Read with nothing of symlab's.
    namespace = runpy.run_path(str(folder / "model.py"))
    x, outputs = load_file(folder / "data.safetensors")["x"][:200], []
    for file in ("B.safetensors", "aligned/permuted.safetensors"):
        network = namespace["DigitsResNet"]().eval()
        network.load_state_dict(load_file(folder / file))
        with torch.no_grad():
            outputs.append(network(x))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-4)
