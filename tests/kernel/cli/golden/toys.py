"""Networks, batches and losses of a user's beside those of conftest.py and nets.py, for ../test_golden.py."""

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import TensorDataset


class Stream(nn.Module):
    """Heads and a gated layer on a stream with norms, and a constant on what a last layer reads."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
        self.q, self.k, self.v, self.o = (nn.Linear(6, 6, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 6)
        self.norms = nn.ModuleList(nn.RMSNorm(6, eps=1e-6) for _ in range(3))

    def forward(self, x):
        x = self.embedding(x)
        h = self.norms[0](x)
        q, k, v = (of(h).unflatten(-1, (2, 3)).transpose(1, 2) for of in (self.q, self.k, self.v))
        x = x + self.o(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        h = self.norms[1](x)
        x = x + self.down(functional.silu(self.gate(h)) * self.up(h))
        return self.head(self.norms[2](x))


class Placed(nn.Module):
    """A constant tells neurons apart, neurons are summed up one after another, and names are its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(*n) for n in ((5, 6), (6, 7), (7, 4), (4, 3)))
        self.register_buffer("waves", torch.arange(6).sin(), persistent=False)

    def group_names(self):
        return {"third": "the third layer"}

    def forward(self, x):
        h = torch.tanh(self.first(x) + self.waves)
        return self.last(torch.tanh(self.third(torch.relu(self.second(h)).cumsum(1))))


class Many(nn.Module):
    """More groups than are printed, and more operations that the tracer does not know."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(3, 3) for _ in range(17))
        self.unknown = nn.ModuleList(nn.Linear(3, 4) for _ in range(9))

    def forward(self, x):
        for layer in self.hidden:
            x = torch.sin(layer(x))
        return sum(torch.fft.hfft(layer(x), 3) for layer in self.unknown)


class Dead(nn.Module):
    """Hidden neurons that no input moves, and others."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 6), nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.relu(self.first(x)))))


class Convolving(nn.Module):
    """Convolutions without biases, positively homogeneous."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.Linear(16, 2, bias=False)

    def forward(self, x):
        return self.head(functional.max_pool2d(torch.relu(self.conv(x)), 2).flatten(1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x + self.linear(x).relu())


class Reading(nn.Module):
    """Reads the last token of each text, or all."""

    def __init__(self, every=False):
        super().__init__()
        self.words, self.blocks = nn.Embedding(7, 6), nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.unused, self.readout, self.every = nn.Linear(6, 4), nn.Linear(6, 4), every

    def forward(self, x):
        h = self.words(x)
        for block in self.blocks:
            h = h + block(h).relu()
        given = self.readout(h)
        return given if self.every else given[:, -1], h


class Normalising(nn.Module):
    """Queries and keys without a second derivative where they are 0."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.head = nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(1, 1)

    def forward(self, x):
        q, k = self.q(x).abs().sqrt(), self.k(x)
        return self.head((q * k).sum(1, keepdim=True))


class Two(nn.Module):
    """Two hidden neurons, two inputs by name alone, an argument with a default, and outputs of several kinds."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(3, 2), nn.Linear(3, 2, bias=False), nn.Linear(2, 4)

    def forward(self, *, left, right, scale=2.0):
        logits = self.head(torch.tanh(self.left(left) + self.right(right)))
        return {"hidden": [left], "logits": scale * logits}


class Rotary(nn.Module):
    """Heads whose queries and keys are turned by their place."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out, self.head = nn.Embedding(9, 6), nn.Linear(8, 6), nn.Linear(6, 4)
        self.q, self.k, self.v = (nn.Linear(6, 8, bias=False) for _ in range(3))

    def forward(self, x):
        x = self.embedding(x)
        angle = torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.1])
        cos, sin = (torch.cat([each, each], -1).to(x) for each in (angle.cos(), angle.sin()))
        q, k, v = (of(x).unflatten(-1, (2, 4)).transpose(1, 2) for of in (self.q, self.k, self.v))
        q, k = (each * cos + torch.cat([-each[..., 2:], each[..., :2]], -1) * sin for each in (q, k))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.head(torch.tanh(x).mean(1))


class Graph(nn.Module):
    """The nodes of one graph, and its edges."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x, edges):
        h = torch.relu(self.first(x))
        return self.head(h.index_add(0, edges[:, 1], h[edges[:, 0]]))


def mlp():
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))


def weighted():
    """The same, whose weights are never drawn."""
    network = mlp().double()
    for parameter in network.parameters():
        numbers = torch.arange(1.0, parameter.numel() + 1, dtype=torch.float64)
        parameter.data = numbers.square().sin().view_as(parameter)
    return network


def rectified():
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


def one_logit():
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))


def regressor():
    return one_logit()


def sigmoid():
    return nn.Sequential(*one_logit(), nn.Sigmoid())


def averaged():
    return AveragedModel(mlp())


def parallel():
    return nn.DataParallel(mlp())


def scripted():
    return torch.jit.script(mlp())


def weight_normed():
    first, last = map(nn.utils.parametrizations.weight_norm, (nn.Linear(5, 6), nn.Linear(6, 3)))
    return nn.Sequential(first, nn.Tanh(), last)


def imaginary():
    return nn.Linear(5, 3, dtype=torch.complex64)


def bare():
    return nn.Sequential(nn.ReLU())


def homogeneous():
    """With small initial weights, drawn by numpy."""
    sizes = ((5, 6), (6, 4), (4, 3))
    network = nn.Sequential(*(part for n in sizes for part in (nn.Linear(*n, bias=False), nn.ReLU())))[:-1].double()
    rng = np.random.default_rng(5)
    for weight in network.parameters():
        weight.data = torch.from_numpy(0.15 * rng.normal(size=weight.shape))
    return network


def counting():
    """Positively homogeneous, of tokens."""
    layers = nn.Linear(15, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False)
    return nn.Sequential(nn.Embedding(7, 5), nn.Flatten(), *layers)


def blocks():
    first = nn.Sequential(nn.Linear(5, 6), nn.ReLU())
    return nn.Sequential(first, nn.Sequential(*(Block() for _ in range(3))), nn.Linear(6, 4))


def reading():
    return Reading()


def reading_all():
    return Reading(every=True)


def pairs():
    """Batches of inputs and labels."""
    rng = np.random.default_rng(3)
    for n in (16, 16, 8):
        yield torch.from_numpy(rng.normal(size=(n, 5))), torch.arange(n) % 3


def named():
    """Batches of a module's two inputs by name, and more than it takes."""
    rng = np.random.default_rng(4)
    for n in (16, 12):
        parts = {name: torch.from_numpy(rng.normal(size=(n, 3))) for name in ("right", "left")}
        yield parts | {"label": torch.arange(n) % 4, "number": torch.arange(n)}


def named_otherwise():
    """The same in another order."""
    return [{name: batch[name] for name in ("left", "label", "right")} for batch in named()]


def graph():
    rng = np.random.default_rng(6)
    return [
        ((torch.from_numpy(rng.normal(size=(12, 5))), torch.from_numpy(rng.integers(0, 12, (12, 2)))), [0, 1, 2] * 4)
    ]


def graph_and_lost_edges():
    """Which all nodes together would not help."""
    (((nodes, edges), labels),) = graph()
    return [((nodes, edges + 12), labels)]


def tokens():
    """Batches of texts of several lengths by name, with masks, filled up with zeros."""
    rng = np.random.default_rng(7)
    for n, longest in ((16, 5), (12, 7)):
        mask = torch.arange(longest) < torch.from_numpy(rng.integers(2, longest + 1, (n, 1)))
        yield {"input_ids": torch.from_numpy(rng.integers(1, 9, (n, longest))) * mask, "attention_mask": mask.long(),
               "labels": torch.from_numpy(rng.integers(0, 3, n))}  # fmt: skip


def unmasked():
    return [{"input_ids": batch["input_ids"]} for batch in tokens()][:1]


def frame():
    """Tables of pandas, whose numbers are of another order of bytes."""
    rng = np.random.default_rng(8)
    x = pd.DataFrame(rng.normal(size=(20, 5)).astype(">f8"))
    return x, pd.Series(rng.integers(0, 3, 20).astype(np.uint16))


DATASET = TensorDataset(torch.from_numpy(np.random.default_rng(9).normal(size=(20, 5))), torch.arange(20) % 3)


def lists():
    """Inputs alone, and one after another."""
    return list(torch.arange(100.0).reshape(20, 5).sin().split(10))


def scalars():
    return [(torch.zeros(5), 1), (torch.ones(5), 0)]


def uneven():
    return [(torch.zeros(2, 5), torch.zeros(3))]


def ragged():
    return [torch.zeros(2, 5), torch.zeros(2, 7)]


def failing():
    yield torch.zeros(2, 5)
    raise OSError("no such image")


NUMBER, NONE = 3, []


def absolute(outputs, y):
    return (outputs - y).abs().mean(1)


def exploding(outputs, y):
    return torch.full((len(y),), torch.inf)


def missed(outputs, y):
    """One number for all samples."""
    return (outputs.argmax(1) != y).double().mean()
