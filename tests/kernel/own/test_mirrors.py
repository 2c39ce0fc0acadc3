"""Exponents across pairs of neurons, against what training then does."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from symlab import SGD, UserError, align, mirrors, trace
from symlab.networks import ViT, build
from symlab.own.mirrors import closest_pairs, neuron_vectors


class Net(nn.Module):
    """One hidden layer of tanh."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.first(x)))


LR, DECAY = 0.1, 0.02


@pytest.fixture(scope="module")
def data():
    torch.manual_seed(0)
    x = torch.randn(400, 4)
    return x, torch.sin(x[:, :1]) + 0.3 * torch.randn(400, 1)


def train(net, data, steps, decay=DECAY, batch=None, seed=0, lr=LR, momentum=0):
    """SGD with batches drawn with replacement, or gradient descent."""
    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr, momentum, weight_decay=decay)
    for _ in range(steps):
        rows = torch.randint(len(data[0]), (batch,), generator=drawn) if batch else slice(None)
        optimizer.zero_grad()
        (net(data[0][rows]) - data[1][rows]).square().mean().backward()
        optimizer.step()
        yield


def trained(data, decay):
    """A network in double precision, trained with neurons 0 and 1 equal."""
    torch.manual_seed(1)
    net = Net().double()
    with torch.no_grad():
        for weights in (net.first.weight, net.first.bias, net.head.weight.T):
            weights[1] = weights[0]
    data = tuple(part.double() for part in data)
    list(train(net, data, 2000, decay))
    return net, data


@pytest.fixture(scope="module")
def on_mirror(data):
    return trained(data, DECAY)


def vectors(net):
    return torch.cat([net.first.weight, net.first.bias[:, None], net.head.weight.T], dim=1)


def growth_in_training(net, layers, data, moved, steps, decay):
    """By how much a step of gradient descent changes the logarithm of a distance, after the first third.

    ``moved`` makes neurons (rows of weights, bias and reading weight) of neurons and coordinates across the mirror; the
    distance begins at 1e-9 in the direction of least curvature, by the Hessian of autograd.
    """
    first, head = layers

    def neurons():
        return torch.cat([first.weight, first.bias[:, None], head.weight.T], dim=1).detach()

    theta, n = neurons(), first.in_features

    def loss(across):
        rows = moved(theta, across)
        hidden = torch.tanh(data[0] @ rows[:, :n].T + rows[:, n])
        return (hidden @ rows[:, n + 1 :] + head.bias.detach() - data[1]).square().mean()

    curvatures, directions = torch.linalg.eigh(torch.func.hessian(loss)(torch.zeros(n + 2).double()))
    rows = moved(theta, 1e-9 * directions[:, 0])
    with torch.no_grad():
        first.weight[:], first.bias[:], head.weight[:] = rows[:, :n], rows[:, n], rows[:, n + 1 :].T
    apart = []
    for _ in train(net, data, steps, decay):
        apart.append(float((neurons() - moved(neurons(), torch.zeros(n + 2))).norm()))
    return float(curvatures[0]) + decay, np.log(apart[-1] / apart[steps // 3 - 1]) / (steps - steps // 3)


def together(a, b):
    """Neurons a and b at their mean, and apart by a difference."""

    def moved(theta, difference):
        rows, mean = list(theta), (theta[a] + theta[b]) / 2
        rows[a], rows[b] = mean + difference / 2**0.5, mean - difference / 2**0.5
        return torch.stack(rows)

    return moved


def test_with_whole_batches_the_exponent_is_what_training_does_beside_the_mirror(on_mirror):
    """Of the pair on its mirror, and of one put there; known before the 200 steps, in which the network moves."""
    net, data = on_mirror
    training, theta = SGD(LR, DECAY, batch=len(data[0])), vectors(net).detach()
    rows = mirrors(net, net, data, training=training, pairs=2, steps=200, task="regression").pairs
    for row in rows.to_dict("records"):
        a, b, other = row["a"], row["b"], deepcopy(net)
        h, grown = growth_in_training(other, (other.first, other.head), data, together(a, b), 200, DECAY)
        assert row["exponent"] == pytest.approx(grown, rel=0.1)
        assert row["distance"] == pytest.approx(
            float((theta[a] - theta[b]).norm() / (theta[a].norm() + theta[b].norm()))
        )
        assert row["merges"] == (row["exponent"] < 0) and row["steps"] * abs(row["exponent"]) == pytest.approx(
            np.log(2)
        )
    assert np.log(1 - LR * h) != pytest.approx(grown, rel=0.5)  # The network moves: the first curvature tells little.


def test_neurons_may_have_more_weights_than_lanczos_takes_steps():
    generator = torch.Generator().manual_seed(4)
    net = nn.Sequential(nn.Linear(40, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        for weights in (net[0].weight, net[0].bias, net[2].weight.T):
            weights.copy_(torch.randn(weights.shape, generator=generator, dtype=torch.float64) / 2)
            weights[1] = weights[0]
    x = torch.randn(300, 40, generator=generator, dtype=torch.float64)
    data = x, torch.sin(x[:, :1])
    found = mirrors(net, net, data, training=SGD(LR, batch=300), pairs=1, steps=150, task="regression").pairs.iloc[0]
    grown = growth_in_training(net, (net[0], net[2]), data, together(0, 1), 150, 0)[1]
    assert found["exponent"] == pytest.approx(grown, rel=3e-2)


def test_a_neuron_whose_sign_is_free_has_the_mirror_at_0(on_mirror):
    """Tanh is odd in weights and bias: with one neuron at 0."""
    net, data = on_mirror
    found = mirrors(net, net, data, training=SGD(LR, DECAY, batch=len(data[0])), pairs=2, steps=200, task="regression")
    sizes, row = vectors(net).detach().norm(dim=1), found.zeros.iloc[0]
    assert len(found.zeros) == 2 and row["neuron"] == int(sizes.argmin())
    assert row["size"] == pytest.approx(float(sizes.min() / sizes.mean()))

    def moved(theta, neuron):
        return torch.stack([neuron.to(one) if at == row["neuron"] else one for at, one in enumerate(theta)])

    other = deepcopy(net)
    grown = growth_in_training(other, (other.first, other.head), data, moved, 200, DECAY)[1]
    assert row["exponent"] == pytest.approx(grown, rel=3e-2)
    assert row["curvature"] == pytest.approx((1 - np.exp(grown)) / LR, rel=5e-2)
    assert row["vanishes"] == (row["exponent"] < 0) and "2 smallest neurons" in str(found)


def test_relu_has_no_sign_and_heads_have(data, monkeypatch):
    x, y = data
    monkeypatch.setattr("symlab.own.mirrors.LANCZOS", 2)  # What is asked here is which there are.
    relu = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    assert mirrors(relu, relu, (x, y), training=SGD(LR), pairs=1, steps=3, task="regression").zeros.empty
    vit = build(ViT(name="vit", patch=4, dim=8, depth=1, heads=2, channels=1), 64, 10)
    images = torch.randn(20, 64, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 10
    zeros = mirrors(vit, vit, images, training=SGD(LR, batch=20), pairs=8, steps=1).zeros
    # Two heads of four dimensions, of query and key and of value and output.
    dimensions = zeros[zeros["group"].str.startswith("blocks.0.attention") & zeros["group"].str.endswith(":1")]
    assert dimensions.groupby("group")["neuron"].agg(lambda of: sorted(of)).tolist() == [[*range(8)]] * 2
    assert dimensions["turns"].str.contains("query.weight").sum() == 8


class Packed(nn.Module):
    """Queries, keys and values of two heads in one matrix."""

    def __init__(self):
        super().__init__()
        self.heads, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.heads(x, x, x, need_weights=False)[0].mean(1))


def test_neurons_within_a_packed_matrix_are_measured_and_learned(monkeypatch):
    monkeypatch.setattr("symlab.own.mirrors.LANCZOS", 2)
    torch.manual_seed(0)
    A, B, batch = Packed(), Packed(), (torch.randn(24, 5, 8), torch.arange(24) % 3)
    zeros = mirrors(A, None, batch, training=SGD(LR, batch=20), pairs=8, steps=1).zeros
    values = zeros[zeros["turns"] == "heads.in_proj_weight, heads.in_proj_bias, heads.out_proj.weight"]
    written = torch.cat([A.heads.in_proj_weight[16:], A.heads.in_proj_bias[16:, None], A.heads.out_proj.weight.T], 1)
    lengths = written.norm(dim=1)
    of_values = values[values["group"].str.endswith(":2")].sort_values("neuron")
    assert of_values["size"].to_numpy() == pytest.approx((lengths / lengths.mean()).detach().numpy(), rel=1e-5)
    found = align(A, A, B, batch, group="orthogonal", learn=1, batch_size=8)
    assert "Mapped by invertible maps" in str(found) and found.learned is not None


def test_a_pair_beside_its_mirror_merges_in_training_as_fast_as_its_exponent_says(data):
    decay = 0.3
    net, data = trained(data, decay)
    training = SGD(LR, decay, batch=len(data[0]))
    found = mirrors(net, net, data, training=training, pairs=1, steps=100, task="regression").pairs.iloc[0]
    assert (found["a"], found["b"]) == (0, 1) and found["merges"]
    with torch.no_grad():
        net.first.weight[0] += 1e-7 * torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    apart = [float((vectors(net)[0] - vectors(net)[1]).detach().norm()) for _ in train(net, data, 600, decay)]
    assert np.log(apart[-1] / apart[299]) / 300 == pytest.approx(found["exponent"], rel=0.05)


def test_momentum_moves_the_network_too(data):
    """Of a network that still learns: growth by torch's own SGD, whole batches, beside the mirror of 0 and 1."""
    torch.manual_seed(1)
    net, (x, y) = Net().double(), (part.double() for part in data)
    with torch.no_grad():
        for weights in (net.first.weight, net.first.bias, net.head.weight.T):
            weights[1] = weights[0]
    training = SGD(0.02, DECAY, momentum=0.9, batch=len(x))
    found = mirrors(net, net, (x, y), training=training, pairs=1, steps=300, task="regression").pairs.iloc[0]
    assert (found["a"], found["b"]) == (0, 1)
    with torch.no_grad():
        net.first.weight[0] += 1e-9 * torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    steps = train(net, (x, y), 300, lr=0.02, momentum=0.9)
    apart = [float((vectors(net)[0] - vectors(net)[1]).detach().norm()) for _ in steps]
    assert found["exponent"] == pytest.approx(np.log(apart[-1] / apart[99]) / 200, rel=0.1)


def counted(monkeypatch):
    """Of each Hessian product from here on the names of the weights that it is taken with."""
    from symlab.symmetries.mirrors import slopes

    calls = []

    def counting(loss, state, v):
        calls.append({*v})
        return slopes(loss, state, v)

    monkeypatch.setattr("symlab.own.mirrors.slopes", counting)
    return calls


def test_no_more_is_computed_than_an_exponent_needs(on_mirror, monkeypatch):
    """With whole batches it is known at once; only weights that the mirror moves are differentiated."""
    net, (x, y) = on_mirror
    calls = counted(monkeypatch)
    given = {"pairs": 1, "task": "regression"}
    short = mirrors(net, net, (x, y), training=SGD(LR, DECAY, batch=len(x)), steps=2000, **given).pairs
    assert 120 < len(calls) < 2 * 140 and {"head.bias"} not in calls
    assert all(names == {"first.weight", "first.bias", "head.weight"} for names in calls)
    assert short["exponent"][0] == pytest.approx(
        mirrors(net, net, (x, y), training=SGD(LR, DECAY, batch=len(x)), steps=89, **given).pairs["exponent"][0],
        rel=0.05,
    )


def test_exponents_of_steps_too_few_for_an_error_are_said_to_be_uncertain(data):
    """Of 8 steps 6 are late, one a block; of 7 there are five. -inf, a distance of 0 after a step, is certain."""
    torch.manual_seed(0)
    net = Net()
    for steps, unknown in ((7, True), (8, False)):
        found = mirrors(net, None, data, training=SGD(LR, batch=4), pairs=2, steps=steps, task="regression")
        assert found.pairs["error"].isna().all() == unknown
        told = [line for line in str(found).splitlines() if "closest pair" in line]
        said = ["of 2 it is uncertain, for so few steps tell no error of the exponent" in line for line in told]
        assert said and all(each == unknown for each in said)
    found.pairs[["exponent", "error"]] = -np.inf, np.nan
    assert "few steps" not in str(found).splitlines()[1]


class Tagger(nn.Module):
    """The class of each token of a text, by a recurrent network in both directions."""

    data = torch.arange(120).reshape(20, 6) % 7, torch.arange(120).reshape(20, 6) % 3

    def __init__(self):
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(7, 4), nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(self.tokens(x))[0])


class Alibi(nn.Module):
    """Causal attention whose heads know distances alone."""

    data = Tagger.data

    def __init__(self):
        super().__init__()
        self.tokens, self.norm, self.packed = nn.Embedding(7, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.out, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        (n, length), h = x.shape, self.tokens(x)
        q, k, v = self.packed(self.norm(h)).view(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        apart = (torch.arange(length) - torch.arange(length)[:, None]).clamp(max=0)
        seen = torch.full((length, length), -torch.inf).triu(1) + torch.tensor([0.5, 0.25])[:, None, None] * apart
        mixed = (q @ k.mT / 2 + seen).softmax(-1) @ v
        return self.head(h + self.out(mixed.transpose(1, 2).flatten(2)))


class Conformer(nn.Module):
    """Attention, then a gated depthwise convolution with a batch norm, on frames."""

    data = torch.randn(20, 6, 5, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3

    def __init__(self):
        super().__init__()
        self.first, self.heads = nn.Linear(5, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.up, self.depthwise = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 3, padding=1, groups=8)
        self.norms, self.batch = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)]), nn.BatchNorm1d(8)
        self.down, self.head = nn.Conv1d(8, 8, 1), nn.Linear(8, 3)

    def forward(self, x):
        h = self.first(x)
        read = self.norms[0](h)
        h = h + self.heads(read, read, read, need_weights=False)[0]
        gated = nn.functional.glu(self.up(self.norms[1](h).mT), dim=1)
        h = h + self.down(nn.functional.silu(self.batch(self.depthwise(gated)))).mT
        return self.head(h.mean(1))


@pytest.mark.parametrize(("kind", "groups"), [(Tagger, 3), (Alibi, 1), (Conformer, 2)])
def test_speech_and_texts_are_judged(kind, groups, monkeypatch):
    """All pairs and signs of such networks, with exponents that are numbers."""
    monkeypatch.setattr("symlab.own.mirrors.LANCZOS", 2)
    torch.manual_seed(0)
    found = mirrors(kind(), None, kind.data, training=SGD(LR, momentum=0.9, batch=10), pairs=1, steps=3)
    assert found.pairs["group"].nunique() == groups
    # Of the tagger, dimensions of the embedding, which a linear map reads, and hidden units of both directions.
    zeros = {"tokens", "lstm.weight_ih_l0", "lstm.weight_ih_l0_reverse"}
    assert (set(found.zeros["group"]) == zeros) == (kind is Tagger) and len(found.zeros)
    for table in (found.pairs, found.zeros):
        assert np.isfinite(table[["exponent", "curvature", "steps"]].to_numpy(float)).all()


def test_vectors_are_all_that_a_neuron_has(on_mirror):
    net, (x, _) = on_mirror
    spec = trace(net, x[:2]).spec
    state = {name: value.detach() for name, value in net.state_dict().items()}
    (group,) = spec.free
    torch.testing.assert_close(neuron_vectors(spec, state, group).sort(1).values, vectors(net).detach().sort(1).values)
    assert next(closest_pairs(spec, state, group, 1)) == (0, 1, 0.0)


def test_neurons_of_which_decay_leaves_nothing_merge_in_one_step(data):
    """1 - lr (H + decay) = 0 where no sample reaches a pair, so that H = 0."""
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    state = {name: torch.full_like(tensor, -float(name == "0.bias")) for name, tensor in net.state_dict().items()}
    row = mirrors(net, state, data, training=SGD(1.0, 1.0, batch=10), pairs=1, steps=3, task="regression").pairs
    assert row["exponent"].tolist() == [-np.inf] and row["merges"].tolist() == [True]


@pytest.mark.parametrize(
    ("given", "message"),
    [({"training": SGD(0.0)}, "lr must be"), ({"training": SGD(0.1), "pairs": 0}, "pairs is 0; it must be at least 1")],
)
def test_settings_that_are_none_are_told(on_mirror, given, message):
    net, data = on_mirror
    with pytest.raises(UserError, match=message):
        mirrors(net, net, data, task="regression", **given)
