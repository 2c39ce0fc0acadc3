"""Exponents across pairs of neurons: against finite differences, and against what training then does."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from symlab import SGD, UserError, align, mirrors
from symlab.cli import main
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


def train(net, data, steps, decay=DECAY, batch=None, seed=0):
    """SGD with batches drawn with replacement, or gradient descent."""
    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, weight_decay=decay)
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


def test_with_whole_batches_the_exponent_is_that_of_the_least_curvature_across_the_mirror(on_mirror):
    """The Hessian of all that two neurons have, projected on their differences, by autograd."""
    net, (x, y) = on_mirror
    training = SGD(LR, DECAY, batch=len(x))
    row = mirrors(net, net, (x, y), training=training, pairs=2, steps=200, task="regression").pairs.iloc[1]
    a, b = int(row["a"]), int(row["b"])
    theta, rest = vectors(net).detach(), net.head.bias.detach()
    mean = (theta[a] + theta[b]) / 2

    def loss(difference):
        moved = list(theta)
        moved[a], moved[b] = mean + difference / 2**0.5, mean - difference / 2**0.5
        moved = torch.stack(moved)
        return (torch.tanh(x @ moved[:, :4].T + moved[:, 4]) @ moved[:, 5:] + rest - y).square().mean()

    h = torch.linalg.eigvalsh(torch.func.hessian(loss)(torch.zeros(6).double())) + DECAY
    assert row["curvature"] == pytest.approx(float(h[0]), rel=3e-2)
    assert row["exponent"] == pytest.approx(float((1 - LR * h).abs().log().max()), rel=3e-2)
    assert row["distance"] == pytest.approx(float((theta[a] - theta[b]).norm() / (theta[a].norm() + theta[b].norm())))
    assert row["merges"] == (row["exponent"] < 0) and row["steps"] == pytest.approx(np.log(2) / abs(row["exponent"]))


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
    first, head = torch.cat([net[0].weight, net[0].bias[:, None]], dim=1).detach(), net[2].weight.detach()

    def loss(difference):
        apart = torch.stack([difference[:41], -difference[:41]]) / 2**0.5
        weights = first + torch.cat([apart, apart.new_zeros(1, 41)])
        readout = head + torch.stack([difference[41], -difference[41], difference[41] * 0]) / 2**0.5
        hidden = torch.tanh(x @ weights[:, :40].T + weights[:, 40])
        return (hidden @ readout.T + net[2].bias.detach() - data[1]).square().mean()

    h = torch.linalg.eigvalsh(torch.func.hessian(loss)(torch.zeros(42).double()))
    assert found["exponent"] == pytest.approx(float((1 - LR * h).abs().log().max()), rel=3e-2)


def test_a_neuron_whose_sign_is_free_has_the_mirror_at_0(on_mirror):
    """Tanh is odd in weights and bias: with one neuron at 0, the Hessian of all its parameters, by autograd."""
    net, (x, y) = on_mirror
    found = mirrors(net, net, (x, y), training=SGD(LR, DECAY, batch=len(x)), pairs=2, steps=200, task="regression")
    sizes, row = vectors(net).detach().norm(dim=1), found.zeros.iloc[0]
    assert len(found.zeros) == 2 and row["neuron"] == int(sizes.argmin())
    assert row["size"] == pytest.approx(float(sizes.min() / sizes.mean()))
    rest = net.head.bias.detach()

    def loss(neuron):
        theta = torch.stack([neuron if at == row["neuron"] else one for at, one in enumerate(vectors(net).detach())])
        return (torch.tanh(x @ theta[:, :4].T + theta[:, 4]) @ theta[:, 5:] + rest - y).square().mean()

    h = torch.linalg.eigvalsh(torch.func.hessian(loss)(torch.zeros(6).double())) + DECAY
    assert row["curvature"] == pytest.approx(float(h[0]), rel=3e-2)
    assert row["exponent"] == pytest.approx(float((1 - LR * h).abs().log().max()), rel=3e-2)
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


def test_vectors_are_all_that_a_neuron_has(on_mirror):
    net, (x, _) = on_mirror
    from symlab import trace

    spec = trace(net, x[:2]).spec
    state = {name: value.detach() for name, value in net.state_dict().items()}
    (group,) = spec.free
    torch.testing.assert_close(neuron_vectors(spec, state, group).sort(1).values, vectors(net).detach().sort(1).values)
    assert next(closest_pairs(spec, state, group, 1)) == (0, 1, 0.0)


@pytest.mark.parametrize(
    ("training", "message"),
    [(SGD(0.0), "lr"), (SGD(0.1, momentum=1.0), "momentum"), (SGD(0.1, batch=500), "batches of 500")],
)
def test_settings_that_are_none_are_told(on_mirror, training, message):
    net, data = on_mirror
    with pytest.raises(UserError, match=message):
        mirrors(net, net, data, training=training, task="regression")
    with pytest.raises(UserError, match="targets"):
        mirrors(net, net, data[0], training=SGD(0.1))
    for counted in ("pairs", "steps"):
        with pytest.raises(UserError, match=f"{counted} is 0; it must be at least 1"):
            mirrors(net, net, data, training=SGD(0.1), task="regression", **{counted: 0})


def test_the_command_writes_the_pairs(tmp_path, monkeypatch, capsys, data):
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))\n"
    )
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=data[0].numpy(), y=data[1].numpy())
    main(["mirrors", "net:build", "--data", "data.npz", "--lr", "0.1", "--pairs", "3", "--steps", "20", "--out", "out"])
    assert len(pd.read_csv("out/pairs.csv")) == 3 and "of the 3 closest pairs" in capsys.readouterr().out
