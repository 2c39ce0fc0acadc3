"""Collapse of networks whose answers are planted, against formulas and other code."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from symlab import UserError, collapse
from symlab.measures.collapse_bounds import best_frame, least_loss
from symlab.own.collapse import BOUNDED

K, D, PENALTY = 5, 16, 0.005


def simplex(size=D):
    """K unit vectors [K, size] at equal angles, whose sum is 0."""
    centred = torch.eye(K, dtype=torch.float64) - 1 / K
    basis = torch.linalg.qr(torch.randn(size, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    return torch.nn.functional.normalize(centred @ basis.T, dim=1)


def planted(scale=None):
    """A linear network whose features are its inputs, and whose rows lie along class means of norm sqrt(D)."""
    embedding, readout = nn.Linear(D, D, bias=False), nn.Linear(D, K)
    with torch.no_grad():
        embedding.weight.copy_(torch.eye(D))
        readout.weight.copy_((best_frame(D, K, PENALTY)[1] if scale is None else scale) * simplex())
        readout.bias.zero_()
    return nn.Sequential(embedding, readout).double()


def labels(per_class=6):
    return torch.arange(K).repeat_interleave(per_class)


def test_the_optimum_of_free_features_is_collapsed_and_certified():
    y = labels()
    # The certificate is that of the data, whatever the test data are.
    test = (torch.randn(len(y), D, generator=torch.Generator().manual_seed(1)).double(), y)
    found = collapse(planted(), (math.sqrt(D) * simplex()[y], y), test=test, penalty=PENALTY)
    row, features = found.parts.iloc[0], found.layers.iloc[1]
    for name in ("NC1", "NC2A", "NC3", "NC3_centred"):
        assert row[name] == pytest.approx(0, abs=1e-7), name
    assert row["NC2B"] == pytest.approx(math.sqrt(1 / K)) and row["accuracy"] == 1
    assert features[["NC1", "NC1_row", "NC1_null", "NC2", "NC3"]].max() < 1e-7
    assert row["loss"] + PENALTY / 2 * K * best_frame(D, K, PENALTY)[1] ** 2 == pytest.approx(least_loss(D, K, PENALTY))
    assert found.excess == pytest.approx(0, abs=1e-6) and max(found.bounds.values()) < 0.01


@pytest.mark.parametrize("seen", [True, False])
def test_scatter_is_split_by_what_the_readout_sees(seen):
    """Each sample moved by +-1 along a direction within the rows, or orthogonal to them: NC1 is 1 / D."""
    y, rows = labels(), simplex()
    along = rows[0] if seen else torch.linalg.svd(rows)[2][-1]
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(y) // 2)
    found = collapse(planted(), (math.sqrt(D) * rows[y] + signs[:, None] * along, y), batch_size=7)
    row = found.layers.set_index("layer").loc["features"]
    assert row["NC1"] == pytest.approx(1 / D) and row["NC2"] == pytest.approx(0, abs=1e-6)
    assert row["NC1_row" if seen else "NC1_null"] == pytest.approx(1 / D)
    assert row["NC1_null" if seen else "NC1_row"] == pytest.approx(0, abs=1e-9)
    assert seen or row["NC3"] == pytest.approx(1 - math.cos(math.atan2(1, math.sqrt(D))))


def test_features_without_classes_are_as_far_as_chance_puts_them():
    """Of n samples a class E tr Sigma_W = (1 - 1/n) D and E tr Sigma_B = D (1 - 1/K) / n."""
    n, y = 40, labels(40)
    x = torch.randn(len(y), D, generator=torch.Generator().manual_seed(1)).double()
    row = collapse(planted(), (x, y)).parts.iloc[0]
    assert row["NC1"] == pytest.approx((n - 1) * K / (K - 1), rel=0.2) and row["NC3"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("counts", [(6, 6, 6, 6, 6), (30, 4, 9, 2, 12)])
@pytest.mark.parametrize("spread", [0.03, 0.3, 1.0])
def test_no_network_exceeds_its_certificate_however_large_its_classes(spread, counts):
    y = torch.arange(K).repeat_interleave(torch.tensor(counts))
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(len(y), D, generator=generator).double()
    found = collapse(planted(), (math.sqrt(D) * simplex()[y] + spread * noise + 0.5, y), penalty=PENALTY)
    row = found.parts.iloc[0]
    assert all(row[column] <= found.bounds[name] for name, column in BOUNDED.items())
    assert row["imbalance"] == pytest.approx(max(counts) / min(counts))
    assert spread > 0.03 or found.bounds["NC1"] < 1


def nc1(H, y):
    """Of features by hand, class by class."""
    classes = [H[y == k].double() for k in range(K)]
    means = torch.stack([each.mean(0) for each in classes])
    within = sum(float((each - mean).square().sum()) for each, mean in zip(classes, means, strict=True)) / len(H)
    return within / float((means - means.mean(0)).square().sum() / K)


class Block(nn.Module):
    """A residual block with a norm."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(D, D), nn.LayerNorm(D)

    def forward(self, x):
        return self.norm(x + self.linear(x).relu())


def test_layers_test_data_and_the_module_s_own_weights():
    torch.manual_seed(3)
    stem = nn.Sequential(nn.Linear(8, D), nn.ReLU(inplace=True))
    network = nn.Sequential(stem, nn.Sequential(*(Block() for _ in range(3))))
    network.append(nn.Linear(D, K))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    x, y = torch.randn(40, 8), torch.arange(40) % K
    found = collapse(network, (x, y), test=(x[:20], y[:20]), batch_size=16)
    names = ["0.0", "0.1", "1.0", "1.1", "1.2"]
    given, h = [], x
    with torch.no_grad():
        for module in (*network[0], *network[1]):
            given.append((h := module(h)).clone())
    for part, n in (("train", 40), ("test", 20)):
        rows = found.layers[found.layers["part"] == part].set_index("layer")
        assert list(rows.index) == [*names, "features"]
        expected = [nc1(layer[:n], y[:n]) for layer in (*given, given[-1])]
        assert rows["NC1"].tolist() == pytest.approx(expected, rel=1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not any(part._forward_hooks for part in network.modules())
    assert not found.bounds and "weight decay" in found.remarks[0]


class Shortcut(nn.Module):
    """A residual block around which a shortcut has parts of its own."""

    def __init__(self):
        super().__init__()
        self.linear, self.around = nn.Linear(D, D), nn.Sequential(nn.Linear(D, D), nn.LayerNorm(D))

    def forward(self, x):
        return self.linear(x).relu() + self.around(x)


class Written(nn.Module):
    """Attributes one after another, or around each a residual connection, and a further head."""

    def __init__(self, parts, residual=False, texts=False):
        super().__init__()
        self.words = nn.Embedding(7, D) if texts else None
        for name, part in parts.items():
            self.add_module(name, part)
        self.names, self.residual = list(parts), residual
        self.further, self.aux = nn.Sequential(nn.Linear(D, D), nn.ReLU()), nn.Linear(D, 3)
        self.readout = nn.Linear(D, K)

    def forward(self, x):
        h = self.words(x).sum(1) if self.words else x
        for name in self.names:
            h = h + getattr(self, name)(h) if self.residual else getattr(self, name)(h)
        return {"aux": self.aux(self.further(h)), "logits": self.readout(h)}


class Inner(nn.Module):
    """A block that is a sequence, with or without a shortcut around it."""

    def __init__(self, around):
        super().__init__()
        self.around, self.parts = around, nn.Sequential(nn.Linear(D, D), nn.ReLU())

    def forward(self, x):
        return self.parts(x) + x if self.around else self.parts(x)


class Skipping(nn.Module):
    """Sequences in a list, one of which has a shortcut around it, and norms in another that are called in between."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Sequential(nn.Linear(D, D), nn.ReLU()) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(D) for _ in range(2)])

    def forward(self, x):
        h = self.norms[0](self.parts[0](x))
        return self.norms[1](self.parts[1](h) + h)


class Body(nn.Module):
    """Attributes one after another, in another order, whose outputs are given in a form of its own."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        return SimpleNamespace(h=self.last(self.first(x).relu()))


class Encoder(nn.Module):
    """What another part computes."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, x):
        return self.body(x).h


class InPlace(nn.Module):
    """Layers of tokens, whose outputs are views in autograd's graph, which is changed by what changes them in place."""

    def __init__(self):
        super().__init__()
        self.parts, self.last = nn.ModuleList([nn.Linear(D, D) for _ in range(2)]), nn.Linear(D, D)

    def forward(self, x):
        h = x.unflatten(1, (2, -1)).repeat(1, 1, 2)
        for part in self.parts:
            h = part(h).relu_()
        return self.last(h.mean(1))


class Frozen(nn.Module):
    """Layers that are computed without gradients, as those of a network whose readout alone was trained."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(D, D), nn.ReLU())

    def forward(self, x):
        with torch.no_grad():
            return self.layers(x)


@pytest.mark.parametrize(
    ("network", "layers"),
    [
        (lambda: nn.Sequential(Frozen(), nn.Linear(D, K)), ["0.layers.0", "0.layers.1"]),
        (lambda: Written({"stem": nn.Linear(D, D), "b1": Shortcut(), "b2": Shortcut()}), ["stem", "b1", "b2"]),
        (lambda: Written({"b1": Shortcut(), "b2": Shortcut()}, texts=True), ["words", "b1", "b2"]),
        (lambda: Written({"stem": nn.Linear(D, D), "drop": nn.AlphaDropout(), "block": Shortcut()}), ["stem", "block"]),
        (lambda: Written({"around": nn.Linear(D, D)}, residual=True), ["around"]),
        (lambda: Written({"stem": nn.Sequential(nn.Linear(D, D), nn.ReLU())}), ["stem.0", "stem.1"]),
        (lambda: nn.Sequential(nn.Linear(D, D), weight_norm(nn.Linear(D, D)), nn.Linear(D, K)), ["0", "1"]),
        (lambda: Written({f"s{n}": nn.Sequential(Inner(n > 0)) for n in (0, 1)}), ["s0.0", "s1.0"]),
        (lambda: Written({"parts": Skipping()}), ["parts.parts.0", "parts.norms.0", "parts.parts.1", "parts.norms.1"]),
        (lambda: Written({"encoder": Encoder()}), ["encoder.body.first", "encoder.body.last"]),
        (lambda: Written({"tokens": InPlace()}), ["tokens.parts.0", "tokens.parts.1"]),
    ],
    ids=[
        "no gradients",
        "blocks",
        "texts",
        "a block",
        "a branch",
        "a sequence",
        "norms of weights",
        "blocks of stages",
        "calls of two lists",
        "an encoder",
        "views in place",
    ],
)
def test_layers_that_are_not_named_lie_one_after_another_on_the_way(network, layers):
    torch.manual_seed(5)
    module = network()
    passes = []
    module.register_forward_pre_hook(lambda *_: passes.append(1))
    x = torch.randint(7, (30, 4)) if getattr(module, "words", None) else torch.randn(30, D)
    found = collapse(module, (x, torch.arange(30) % K))
    assert found.layers["layer"].tolist() == [*layers, "features"]
    taken = ", ".join(map(repr, layers))
    assert f"Layers were not named; these were taken: {taken}. Others are chosen by layers" in str(found)
    searched = len(passes)
    assert "not named" not in str(collapse(module, (x, torch.arange(30) % K), layers=layers))
    assert len(passes) == 2 * searched - 1


class Tokens(nn.Module):
    """Reads one token of each text, or all of them."""

    def __init__(self, every):
        super().__init__()
        self.words, self.blocks = nn.Embedding(7, D), nn.ModuleList([nn.Linear(D, D), nn.Linear(D, D)])
        self.readout, self.every = nn.Linear(D, K), every

    def forward(self, x):
        h = self.words(x)
        for block in self.blocks:
            h = h + block(h).relu()
        given = self.readout(h)
        return (given if self.every else given[torch.arange(len(x)), x.argmax(1)], h)


def test_the_token_that_outputs_are_of_is_found_and_every_labelled_token_counts():
    torch.manual_seed(4)
    x = torch.randint(7, (30, 4))
    one, every = Tokens(False), Tokens(True)
    h = one.words(x)
    for block in one.blocks:
        h = h + block(h).relu()
    h = h.detach()
    y, place = torch.arange(30) % K, x.argmax(1)
    found = collapse(one, (x, y), token=-1)
    expected = nc1(h[torch.arange(30), place], y)
    assert found.parts["NC1"][0] == pytest.approx(expected, rel=1e-4)
    last = nc1(one.blocks[0](one.words(x)).detach()[:, -1], y)
    assert found.layers["NC1"][0] == pytest.approx(last, rel=1e-4)
    y = torch.randint(K, (30, 4))
    y[:, 0] = -100
    found = collapse(every, (x, y))
    assert found.parts["samples"][0] == 90 and found.layers["size"].unique().tolist() == [D]


class Words(nn.Module):
    """The next word of each, by a readout that may be the embedding."""

    def __init__(self, tied):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.layer, self.readout = nn.Embedding(K, D), nn.Linear(D, D), nn.Linear(D, K, bias=False)
        self.readout.weight = self.embedding.weight if tied else nn.Parameter(self.embedding.weight.detach().clone())

    def forward(self, x):
        return self.readout(torch.relu(self.layer(self.embedding(x))))


def test_a_readout_may_be_tied():
    x = torch.randint(K, (40, 4), generator=torch.Generator().manual_seed(0))
    tied, alone = (collapse(Words(each), (x[:, :-1], x[:, 1:])) for each in (True, False))
    assert tied.readout == "readout" and tied.parts.equals(alone.parts) and tied.layers.equals(alone.layers)


def test_classes_without_samples_are_left_out_and_said():
    y = labels() % 3
    found = collapse(planted(), (math.sqrt(D) * simplex()[y], y))
    assert found.parts["classes"][0] == 3 and "2 of the 5 classes" in str(found)
    assert found.parts["NC1"][0] == pytest.approx(0, abs=1e-9)


def test_a_readout_that_no_outputs_come_from_is_asked_for():
    with pytest.raises(UserError, match=r"no nn\.Linear"):
        collapse(nn.Sequential(planted(), nn.Softmax(1)).double(), (torch.randn(30, D).double(), labels()))
    with pytest.raises(UserError, match=r"no nn\.Linear of Every gives its outputs, of shape \('n', 2, 5\)"):
        collapse(Every().double(), (torch.randn(30, 4, D).double(), labels()[:, None].expand(-1, 2)))


class Every(nn.Module):
    """The outputs of every second token."""

    def __init__(self):
        super().__init__()
        self.layers = planted()

    def forward(self, x):
        return self.layers(x)[:, ::2]


class Parts(nn.Module):
    """A network with parts whose outputs are no features of samples."""

    def __init__(self):
        super().__init__()
        self.layers, self.largest, self.turned = planted(), Part(lambda x: x.argmax(1)), Part(lambda x: x.T)

    def forward(self, x):
        h = self.layers[0](x)
        return self.layers[1](h) + 0 * self.largest(h)[:, None] + 0 * self.turned(h).sum()


class Part(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_parts_without_a_row_of_numbers_for_each_sample_are_no_layers():
    y = labels()
    found = collapse(Parts().double(), (math.sqrt(D) * simplex()[y], y), layers=["layers.0", "largest", "turned"])
    assert found.layers["layer"].tolist() == ["layers.0", "features"]


def test_a_readout_that_is_named_needs_no_outputs_but_has_no_certificate():
    y = labels()
    module = nn.Sequential(planted(), nn.LogSoftmax(1)).double()
    found = collapse(module, (math.sqrt(D) * simplex()[y], y), readout="0.1", penalty=PENALTY)
    assert found.parts["NC1"][0] < 1e-9 and not found.bounds and "not those of the readout" in found.remarks[0]
