"""A folder as a user of ``symlab align`` has it: a module of their own, two weights files, data."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from symlab.cli import main

BROUGHT = '''
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))


def stacked():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


class Normed(nn.Module):
    """A residual block with batch norms."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(6)
        self.inner = nn.Conv2d(6, 7, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(7)
        self.outer = nn.Conv2d(7, 6, 3, padding=1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = torch.relu(self.norm1(self.stem(x)))
        x = x + self.outer(torch.relu(self.norm2(self.inner(x))))
        return self.head(x.mean(dim=(2, 3)))


class Tokens(nn.Module):
    """Causal attention on tokens; the head is tied to the embedding, and the mask is a buffer."""

    def __init__(self, masked="persistent", every_token=True):
        super().__init__()
        self.every_token = every_token
        self.embedding = nn.Embedding(11, 8)
        self.query_key_value = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 12)
        self.down = nn.Linear(12, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight
        mask = torch.full((5, 5), -torch.inf).triu(1)
        self.register_buffer("mask", mask, persistent=masked == "persistent")

    def forward(self, x):
        x = self.embedding(x)
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.query_key_value(x).chunk(3, dim=-1))
        attention = torch.softmax(q @ k.transpose(-1, -2) / 2 + self.mask, dim=-1)
        x = x + self.out((attention @ v).transpose(1, 2).flatten(2))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return self.head(x) if self.every_token else self.head(x[:, -1])


def language_model():
    return Tokens()


def last_token():
    return Tokens(masked="hidden", every_token=False)


def raising():
    raise RuntimeError("no such checkpoint")


def returning():
    return {"weights": 1}


class Wordy(nn.Linear):
    def forward(self, x):
        super().forward(x)
        return ["done"]


def wordy():
    return Wordy(6, 3)


class Spectrum(nn.Module):
    """The tracer does not know hfft, so the neurons before it stay in place; the others do not."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(torch.fft.hfft(self.second(torch.tanh(self.first(x))), 3))


class Counting(nn.Module):
    """The forward pass branches on the batch's size."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x)).reshape(len(x), 8)
        return self.head(hidden) if len(x) > 3 else self.head(hidden + 0)


class Positions(nn.Module):
    """Buffers as in transformers: positions that no file holds, an empty one, and an old weight norm."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.utils.weight_norm(nn.Linear(6, 8))
        self.head = nn.Linear(8, 3)
        self.place = nn.Buffer(torch.linspace(0, 1, 6), persistent=False)
        self.register_buffer("missing", None, persistent=False)

    def forward(self, x):
        return self.head(torch.tanh(self.hidden(x + self.place)))


def positions():
    return Positions()


class Hashing(nn.Module):
    """A hidden layer whose activations on different inputs have nothing to do with each other."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 12), nn.Linear(12, 12), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(torch.sin(1e2 * self.second(torch.tanh(self.first(x)))))


class Caching(nn.Module):
    """The bias is computed once, as in LeViT."""

    def __init__(self):
        super().__init__()
        self.bias, self.hidden, self.head = nn.Parameter(torch.ones(8)), nn.Linear(6, 8), nn.Linear(8, 3)
        self.cache = {}

    def forward(self, x):
        if "bias" not in self.cache:
            self.cache["bias"] = torch.sin(self.bias)
        return self.head(torch.tanh(self.hidden(x) + self.cache["bias"]))


def caching():
    return Caching()


def linear():
    return nn.Linear(6, 3)


def lazy():
    return nn.LazyLinear(3)

'''


@dataclass
class Brought:
    """A user's folder, and the command run in it."""

    folder: Path
    module: object

    def state(self, factory, seed):
        """Weights of a network in an ordinary state: all of them random, the variances positive."""
        torch.manual_seed(seed)
        network = getattr(self.module, factory)()
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point() and tensor.isfinite().all():
                tensor.normal_().mul_(0.5)
                if name.endswith("running_var"):
                    tensor.square_().add_(0.5)
        return {name: tensor.clone() for name, tensor in network.state_dict().items()}

    def save(self, name, tensors):
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, self.folder / name)

    def load(self, name):
        return load_file(self.folder / name)

    @staticmethod
    def renumbered(state, rng):
        """The MLP with its two hidden layers renumbered by hand, and how."""
        first, second = rng.permutation(8), rng.permutation(5)
        moved = {f"0.{part}": state[f"0.{part}"][first] for part in ("weight", "bias")}
        moved |= {"2.weight": state["2.weight"][second][:, first], "2.bias": state["2.bias"][second]}
        return state | moved | {"4.weight": state["4.weight"][:, second]}, (first, second)

    def output(self, factory, state, x):
        network = getattr(self.module, factory)()
        network.load_state_dict(state, strict=True)
        with torch.no_grad():
            return network.eval()(x)

    def align(self, factory, *options, data="data.npz", out="out"):
        where = ("--model", f"brought:{factory}", "--data", data, "--out", out, "--device", "cpu")
        main(["align", "A.safetensors", "B.safetensors", *where, *options])


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """The folder with the module ``brought``, and no files yet; those of figures stay empty, which halves the time."""
    monkeypatch.setattr("symlab.cli.align.save", lambda figure, *paths, dpi: [path.touch() for path in paths])
    (tmp_path / "brought.py").write_text(BROUGHT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield Brought(tmp_path, importlib.import_module("brought"))
    del sys.modules["brought"]


@pytest.fixture
def mlps(brought):
    """Two unrelated MLPs and data with targets."""
    rng = np.random.default_rng(0)
    for seed, name in enumerate(("A", "B")):
        brought.save(f"{name}.safetensors", brought.state("mlp", seed))
    x = rng.normal(size=(40, 6)).astype(np.float32)
    np.savez(brought.folder / "data.npz", x=x, y=rng.integers(0, 3, 40))
    return brought
