"""The README's ways to extend symlab: each is one file and one registry line."""

DATA = '''
"""Points on two rings."""
import numpy as np
from symlab.data.dataset import Dataset
from symlab.seeds import numpy_rng


def load(spec, data_dir):
    rng = numpy_rng("rings", spec["seed"])
    def sample(n):
        y = rng.integers(0, 2, n)
        angle = rng.uniform(0, 2 * np.pi, n)
        x = (1 + y)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return {"x": x.astype(np.float32), "y": y.astype(np.int64)}
    parts = {name: sample(n) for name, n in (("train", 400), ("val", 50), ("test", 100))}
    arrays = {f"{axis}_{name}": part[axis] for name, part in parts.items() for axis in "xy"}
    return Dataset(**arrays, task="classification", n_classes=2, provenance={"source": "rings"})
'''
NETWORK = '''
"""One hidden layer of cosines."""
import torch
from torch import nn


class Cosines(nn.Module):
    def __init__(self, n_inputs, n_outputs, width=48):
        super().__init__()
        self.features, self.readout = nn.Linear(n_inputs, width), nn.Linear(width, n_outputs)

    def forward(self, x):
        return self.readout(torch.cos(self.features(x)))
'''
SCHEME = '''
"""Every second input of a neuron is fixed at sigma_F."""
import torch


def checkerboard(scheme, shapes, seed):
    parts = {}
    for weight, (fan_out, fan_in) in shapes.items():
        M = (torch.arange(fan_out)[:, None] + torch.arange(fan_in)) % 2
        parts[weight] = scheme["sigma_F"] * M.float(), 1.0 - M
    return parts
'''
STUDY = {
    "dataset": "rings",
    "network": {"name": "cosines"},
    "recipe": {"epochs": 30, "lr": 0.01},
    "seeds": 2,
    "variants": {
        "free": {"scheme": {"name": "standard"}},
        "checked": {"scheme": {"name": "checkerboard", "sigma_F": 1}},
    },
    "matching": {},
    "interpolation": {"lambdas": 3},
    "identification": {},
}


def register(path, registry, line):
    """Add a line at the top of a registry's dictionary."""
    text = path.read_text()
    before, opening, after = text.partition(f"{registry} = {{\n")
    if not opening:
        before, opening, after = text.partition(f"{registry}: ")
        declaration, brace, after = after.partition("{\n")
        opening += declaration + brace
    path.write_text(f"{before}{opening}    {line}\n{after}")


def test_a_data_set_a_network_and_a_scheme_of_ones_own(fresh):
    library = fresh.folder / "workflow" / "symlab"
    (library / "data" / "rings.py").write_text(DATA)
    (library / "networks" / "cosines.py").write_text(NETWORK)
    (library / "networks" / "checkerboard.py").write_text(SCHEME)
    register(library / "data" / "__init__.py", "SOURCES", '"rings": rings.load,')
    text = (library / "data" / "__init__.py").read_text()
    (library / "data" / "__init__.py").write_text(text.replace("data import ", "data import rings, ", 1))
    register(library / "networks" / "__init__.py", "NETWORKS", '"cosines": "symlab.networks.cosines:Cosines",')
    register(
        library / "networks" / "__init__.py", "SCHEMES", '"checkerboard": "symlab.networks.checkerboard:checkerboard",'
    )
    fresh.edit_config(lambda config: config.update(datasets={"rings": {"source": "rings"}}, studies={"mine": STUDY}))
    result = fresh.snakemake("tables")
    assert result.returncode == 0, result.stderr[-4000:]
    from symlab.artifacts import read_table, read_tensors

    tables = fresh.folder / "results" / "smoke" / "mine"
    history = read_table(tables / "tables" / "history.csv")
    assert history[history["epoch"] == 30]["train_accuracy"].min() > 0.9
    assert set(read_table(tables / "tables" / "barriers.csv")["variant"]) == {"free", "checked"}
    assert set(read_table(tables / "tables" / "subspaces.csv")["point"]) == {"input", "hidden1", "output"}
    # Its symmetry was found by tracing: nothing in the network says which of its axes are neurons.
    assert set(read_table(tables / "tables" / "matching.csv")["point"]) == {"features"}
    assert set(read_table(tables / "tables" / "barriers.csv")["aligned"]) == {False, True}
    state, _ = read_tensors(tables / "checked" / "models" / "0.safetensors", "models")
    weight = state["30/features.weight"]
    assert (weight[:, 0::2, 1] == 1).all() and (weight[:, 0::2, 0] != 1).all()
