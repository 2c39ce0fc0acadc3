"""What is refused names its true cause; what stays in place names the operation that keeps it."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from symlab import SGD, UserError, align, diagnose, merge, mirrors, trace
from symlab.own import models
from symlab.own.report import coverage
from symlab.own.weights import read_weights


def plain():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


class Packed(nn.Module):
    """Texts of several lengths, packed for an LSTM."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)

    def forward(self, x):
        lengths = (x != 0).any(-1).sum(1).clamp(min=1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1][0][-1]


class Deciding(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = plain()

    def forward(self, x):
        return self.layers(x) if x.sum() > 0 else self.layers(-x)


class Descending(nn.Module):
    """Goes down an energy by its gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = self.first(x)
        with torch.enable_grad():
            h = h if h.requires_grad else h.requires_grad_()
            (slope,) = torch.autograd.grad(h.logsumexp(1).sum(), h, create_graph=True)
        return self.head(h - slope)


def int8():
    return torch.ao.quantization.quantize_dynamic(plain(), {nn.Linear})


def quantising():
    network = plain().train()
    network.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    return torch.ao.quantization.prepare_qat(network)


@pytest.mark.parametrize(
    ("build", "shape", "words"),
    [
        (lambda: torch.jit.trace(plain(), torch.randn(2, 4)), (3, 4), "compiled by torch.jit"),
        (int8, (3, 4), "quantised in '0'"),
        (quantising, (3, 4), "'0.weight_fake_quant' quantises what the network computes"),
        (Packed, (3, 5, 4), "packs sequences by their lengths"),
        (Descending, (3, 4), "differentiates within its forward pass"),
        (Deciding, (3, 4), r"depends on values \(line \d+ of .*test_refusals.py\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_network_that_cannot_be_traced_is_told_why(build, shape, words):
    with pytest.raises(UserError, match=words) as raised:
        trace(build(), torch.randn(shape))
    if "values" not in words:
        assert "control flow" not in str(raised.value)


class Described(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = plain()

    def forward(self, x, scale):
        return self.layers(x * scale)


class Waves(nn.Module):
    """Weights of frequencies, as Fourier operators have them."""

    def __init__(self):
        super().__init__()
        self.layers, self.weight = plain(), nn.Parameter(torch.randn(3, dtype=torch.cfloat))

    def forward(self, x):
        return self.layers(torch.fft.irfft(torch.fft.rfft(x) * self.weight))


class Scores(nn.Module):
    """How much the heads of tokens attend: dimensions within two heads, and nothing else that may be renumbered."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 8), nn.Linear(4, 8)

    def forward(self, x):
        q, k = (of(x).unflatten(-1, (2, 4)).transpose(1, 2) for of in (self.q, self.k))
        return (q @ k.mT).softmax(-1).sum(1)


def normed(gain=1.0):
    network = nn.Sequential(nn.Linear(4, 8), nn.RMSNorm(8), nn.Linear(8, 2))
    nn.init.constant_(network[1].weight, gain)
    return network


def without_gains():
    return align(normed(), normed(), normed(), (X, Y), group="full", learn=3, untrained=normed(0.0))


X, Y = torch.randn(9, 4), torch.arange(9) % 2
TOKENS = torch.randn(9, 3, 4)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: align(plain(), plain(), X, X), "B is a Tensor"),
        (lambda: align(Described(), Described(), Described(), {"x": X, "scale": X[:5]}), "have 9 and 5 samples"),
        (lambda: align(Waves(), Waves(), Waves(), X), "in A holds complex numbers, which symlab does not"),
        (lambda: align(plain(), plain(), plain(), None), "activations are compared on inputs: give them as data"),
        (lambda: diagnose(plain(), plain(), plain(), None), "needs inputs to compute the network at"),
        (lambda: merge(plain(), [plain()] * 2, None, "weight", repair=True, traced=trace(plain(), X)), "REPAIR needs"),
        (lambda: merge(plain(), [plain(), plain()], X, weights=0.5), r"weights = 0\.5 are no numbers"),
        (lambda: align(plain(), plain(), plain(), X).curve(), "a curve needs targets"),
        (lambda: align(X, plain(), plain(), X), "the network is given as a Tensor"),
        (lambda: align(plain(), plain(), plain(), (X, X[:, 0]), task="classification"), "are no labels of classes"),
        (lambda: align(plain(), plain(), plain(), (X, Y), task=lambda o, y: o[:1]), r"shape \(1, 2\) for \d+ samples"),
        (lambda: align(plain(), {0: X}, plain(), X), "A holds 0, and no state dict"),
        (without_gains, "gains of the untrained network are next to 0"),
        (lambda: diagnose(Scores(), Scores(), Scores(), TOKENS), "no neurons that one permutation renumbers"),
        (
            lambda: mirrors(Scores(), None, (TOKENS, TOKENS[..., :3]), training=SGD(0.1, batch=9), task="regression"),
            "no group of two neurons or more",
        ),
    ],
)
def test_what_cannot_be_asked_of_networks_or_data_is_told(ask, words):
    with pytest.raises(UserError, match=words):
        ask()


class Nine(nn.Linear):
    def forward(self, x):
        return super().forward(x)[torch.arange(9)]


@pytest.mark.parametrize(("largest", "told"), [(36, True), (35, False)])
def test_samples_that_are_taken_together_alone_are_told_unless_they_are_too_many(monkeypatch, largest, told):
    monkeypatch.setattr(models, "LARGEST_OUTPUT", largest)
    with pytest.raises(UserError, match=r"calling Nine .* failed") as raised:
        align(Nine(4, 2), Nine(4, 2), Nine(4, 2), X)
    assert ("takes all of them together" in str(raised.value)) == told


class Summing(nn.Module):
    """Hidden neurons of the first layer are summed up one after another, those of the second are free."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu().cumsum(1)).relu())


def test_axes_that_an_operation_keeps_are_told_from_those_of_inputs_and_outputs():
    network = Summing()
    spec = trace(network, torch.randn(3, 4)).spec
    assert spec.free == ["second"]
    kept = {axis for operation, axes in spec.mixed.items() for axis in axes}
    assert kept == {("first.weight", 0), ("first.bias", 0), ("second.weight", 1)}
    by_operation, _, of_ends = coverage(network, spec).partition("; these stay, as those of inputs and outputs do")
    assert "cumsum" in by_operation and "'second.weight'" in by_operation and "'last.weight'" in of_ends


class WithFeatures(nn.Module):
    """Returns its hidden features too."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        features = self.first(x).relu()
        return {"logits": self.last(features), "features": features}


def test_networks_all_of_whose_neurons_are_returned_are_refused_by_this_reason():
    A, B = WithFeatures(), WithFeatures()
    with pytest.raises(UserError, match="All 2 tensors that it returns have to stay as they are"):
        align(A, A.state_dict(), B.state_dict(), torch.randn(9, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda A, B, data: align(plain(), A, A, data),
        lambda A, B, data: diagnose(plain(), A, A, data),
        lambda A, B, data: merge(plain(), [A, B, A], data),
        lambda A, B, data: merge(plain(), [A, B], data, base=A),
    ],
)
def test_a_file_that_stands_for_two_networks_is_refused(tmp_path, call):
    """Tables name networks by their files: the two would share a row."""
    files = [str(tmp_path / f"{name}.safetensors") for name in "AB"]
    for file in files:
        save_file(plain().state_dict(), file)
    with pytest.raises(UserError, match=r"A\.safetensors is named twice"):
        call(*files, (torch.randn(9, 4), torch.arange(9) % 2))


def test_lists_of_files_that_are_not_there_or_hold_a_weight_twice_are_refused(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    with pytest.raises(UserError, match=r"index\.json does not exist"):
        read_weights(index)
    for name in "ab":
        save_file({"weight": X, name: Y}, tmp_path / f"{name}.safetensors")
    index.write_text(json.dumps({"weight_map": {name: f"{name}.safetensors" for name in "ab"}}))
    with pytest.raises(UserError, match="'weight' lies in two of the files"):
        read_weights(index)
