"""``symlab merge``: files in, files out, and sentences for what does not fit."""

import hashlib

import numpy as np
import pandas as pd
import pytest
import torch

from symlab.artifacts import read_tensors
from symlab.cli import main

FILES = ("A.safetensors", "B.safetensors", "C.safetensors")


def run(factory, *options, files=FILES):
    needed = ["--model", f"brought:{factory}", "--data", "data.npz", "--out", "out", "--device", "cpu"]
    main(["merge", *files, *needed, *options])


@pytest.mark.parametrize(("method", "dtype"), [("activation", torch.float16), ("weight", torch.float32)])
def test_planted_copies_merge_to_the_first(mlps, method, dtype):
    A = {name: tensor.to(dtype) for name, tensor in mlps.state("mlp", 3).items()}
    mlps.save("A.safetensors", A)
    orders = []
    for seed, name in enumerate(("B", "C")):
        copy, order = mlps.renumbered(A, np.random.default_rng(seed))
        mlps.save(f"{name}.safetensors", copy)
        orders.append(order)
    run("mlp", "--method", method)
    merged = mlps.load("out/merged.safetensors")
    assert merged.keys() == A.keys()
    for name, tensor in A.items():
        assert merged[name].dtype == dtype and torch.equal(merged[name], tensor)
    found, header = read_tensors(mlps.folder / "out" / "permutations.safetensors", "permutations")
    assert header["sha256"] == [hashlib.sha256((mlps.folder / name).read_bytes()).hexdigest() for name in FILES]
    assert sorted(pi.shape for pi in found.values()) == [(3, 5), (3, 8)]
    for pi in found.values():
        # What is placed at i of a renumbered copy is where the renumbering has put neuron i.
        assert pi[0].tolist() == list(range(pi.shape[1]))
        for n, order in enumerate(orders, start=1):
            assert pi[n].tolist() == np.argsort(order[0 if pi.shape[1] == 8 else 1]).tolist()

    by = pd.read_csv(mlps.folder / "out" / "scores.csv").set_index("network")["loss"]
    assert by[[*FILES, "merged", "ensemble"]].to_numpy() == pytest.approx(by["A.safetensors"], rel=1e-4)
    assert abs(by["plain average"] - by["merged"]) > 1e-3


def test_the_network_of_which_a_group_is_left_in_place_is_named(brought, capsys):
    A, order = brought.state("Hashing", 0), torch.randperm(12, generator=torch.Generator().manual_seed(1))
    copy = A | {f"second.{part}": A[f"second.{part}"][order] for part in ("weight", "bias")}
    copy["head.weight"] = A["head.weight"][:, order]
    for name, state in zip(FILES, (A, copy, brought.state("Hashing", 2)), strict=True):
        brought.save(name, state)
    np.savez(brought.folder / "data.npz", x=np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32))
    run("Hashing")
    (told,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Left in place"))
    assert told.endswith("second (C.safetensors).")


def test_tied_weights_and_masks_of_a_language_model(brought):
    for seed, name in enumerate(FILES):
        state = brought.state("language_model", seed)
        brought.save(name, {entry: tensor for entry, tensor in state.items() if entry != "head.weight"})
    np.savez(brought.folder / "data.npz", x=np.random.default_rng(0).integers(0, 11, (30, 5)))
    run("language_model")
    merged, A = brought.load("out/merged.safetensors"), brought.load(FILES[0])
    assert merged.keys() == A.keys()
    assert torch.equal(merged["mask"], A["mask"])
    assert all(tensor.isfinite().all() for name, tensor in merged.items() if name != "mask")
