"""The forecast of an escape against training, and what it says against formulas."""

import functools
import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from symlab import SGD, UserError, escape, mirrors
from symlab.batches import Inputs
from symlab.training.fastest_neuron import fastest_neuron
from symlab.training.flow import follow_flow


def digits(n=200):
    found = load_digits()
    x = torch.tensor(found.data[:n] / 16, dtype=torch.float32)
    return (x - x.mean()) / x.std(), torch.tensor(found.target[:n])


def initial(module, std, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator))
    return module


def mlp(std=0.02):
    maps = [nn.Linear(a, b, bias=False) for a, b in ((64, 24), (24, 24), (24, 10))]
    return initial(nn.Sequential(maps[0], nn.ReLU(), maps[1], nn.ReLU(), maps[2]), std)


def convolutions(std=0.05):
    return initial(
        nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 8, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(72, 16, bias=False), nn.LeakyReLU(0.1), nn.Linear(16, 10, bias=False),
        ),
        std,
    )  # fmt: skip


def trained_steps(module, x, y, lr, drop=0.01, momentum=0.0, power=0.0):
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum)
    for step in range(20_000):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        if loss.item() < (1 - drop) * math.log(10):
            return step
        loss.backward()
        norm = math.sqrt(sum(float(p.detach().square().sum()) for p in module.parameters()))
        optimizer.param_groups[0]["lr"] = lr / norm**power
        optimizer.step()
    return math.inf


@functools.cache
def forecast(make):
    return escape(make(), digits())


# The network decides of the flow; rates and momentum of how its time is counted.
@pytest.mark.parametrize(
    ("make", "lr", "power", "momentum"),
    [(mlp, 0.1, 0, 0), (mlp, 0.05, 1, 0), (mlp, 0.001, 0, 0.9), (convolutions, 0.1, 0, 0)],
)
def test_the_forecast_is_what_training_takes(make, lr, power, momentum):
    x, y = digits()
    found = forecast(make)
    steps = trained_steps(make(), x, y, lr, momentum=momentum, power=power)
    assert steps > 30 and found.steps(lr, power, momentum) == pytest.approx(steps, rel=0.04)
    assert found.gradients < 500 and found.degree == 3
    with pytest.raises(UserError, match=f"lr is -1 and momentum {momentum};"):
        found.steps(-1, momentum=momentum)
    with pytest.raises(UserError, match="momentum 1;"):
        found.steps(0.1, momentum=1)


def outputs(W, x):
    return torch.relu(torch.relu(x @ W[0].T) @ W[1].T) @ W[2].T


def test_it_says_what_autograd_does():
    x, y = digits()
    found = escape(mlp(0.01), (x, y), drop=0.02)
    x = x.double()

    def slope(W):
        leaves = [W_l.clone().requires_grad_() for W_l in W]
        with torch.enable_grad():
            loss = nn.functional.cross_entropy(outputs(leaves, x), y)
        return torch.autograd.grad(loss, leaves), 1 - loss.item() / math.log(10)

    start = [parameter.detach().double() for parameter in mlp(0.01).parameters()]
    place = next(each for each in follow_flow(start, slope, 0.03) if each.seen >= 0.02)
    G = (0.1 - nn.functional.one_hot(y, 10).double()) / len(y)
    size = math.sqrt(sum(float(W_l.square().sum()) for W_l in place.W))
    rho = [(math.sqrt(3) / size * W_l).requires_grad_() for W_l in place.W]
    loss = (G * outputs(rho, x)).sum()
    loss.backward()
    speed = -loss.item()
    beside = math.sqrt(sum(float((each.grad + speed * each.detach()).square().sum()) for each in rho))
    assert found.speed == pytest.approx(speed) and found.residual == pytest.approx(beside / (speed * math.sqrt(3)))
    assert found.one_neuron == pytest.approx(fastest_neuron(x.T, G.T)[0]) and found.speed < found.one_neuron * 1.001
    assert (found.course["drop"].iloc[:-1] < 0.02).all() and found.course["time"].is_monotonic_increasing
    s = np.linalg.svd(place.W[1].numpy(), compute_uv=False)
    assert found.layers["second"][1] == pytest.approx(s[1] / s[0], rel=1e-5)
    s = np.linalg.svd((place.W[1] - start[1]).detach().numpy(), compute_uv=False)
    assert found.layers["second_change"][1] == pytest.approx(s[1] / s[0], rel=1e-4)
    assert found.course["norm"].iloc[-1] == pytest.approx(size, rel=0.03)
    assert list(found.layers["weight"]) == ["0.weight", "2.weight", "4.weight"]
    assert found.course["drop"].iloc[-1] == pytest.approx(0.02)


def test_batches_and_real_targets_make_no_difference_but_for_the_loss():
    x, y = digits(60)
    targets = torch.nn.functional.one_hot(y, 10).float() - 0.1
    whole, parts = (escape(mlp(), (x, targets), drop=0.05, batch_size=rows) for rows in (60, 17))
    assert whole.steps(0.1) == pytest.approx(parts.steps(0.1)) and whole.speed == pytest.approx(parts.speed)
    module = mlp()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    first, steps = nn.functional.mse_loss(torch.zeros(60, 10), targets).item(), 0
    while (loss := nn.functional.mse_loss(module(x), targets)).item() > 0.95 * first:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    assert whole.steps(0.2) == pytest.approx(steps, rel=0.05)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)),
        nn.Sequential(nn.Linear(64, 8, bias=False), nn.Tanh(), nn.Linear(8, 10, bias=False)),
        nn.Linear(64, 10, bias=False),
    ],
)
def test_networks_without_such_a_saddle_are_refused(module):
    with pytest.raises(UserError, match="homogeneous"):
        escape(module, digits())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"task": lambda outputs, y: (outputs.argmax(1) == y).float()}, "no metric of your own"),
        *(({name: value}, f"{name} (is )?{value}\\b") for name in ("drop", "h") for value in (0, 1)),
        ({"gradients": 0}, "gradients 0"),
        ({"weights": mlp().state_dict() | {"0.weight": torch.zeros(24, 64)}}, "no gradient at its weights"),
    ],
)
def test_what_no_descent_can_follow_is_refused(options, told):
    with pytest.raises(UserError, match=told):
        escape(mlp(), digits(), **options)


def test_a_loss_of_0_at_the_origin_is_refused():
    x, _ = digits()
    with pytest.raises(UserError, match="all targets y are 0"):
        escape(mlp(), (x, torch.zeros(len(x), 10)), task="regression")


class Halves(nn.Module):
    """An MLP whose inputs come in two."""

    def __init__(self):
        super().__init__()
        self.layers, self.drop = mlp(), nn.Dropout()

    def forward(self, left, right):
        return self.layers(self.drop(torch.cat([left, right], 1)))


def test_several_inputs_are_taken_as_one_is_and_nothing_is_dropped():
    x, y = digits()
    found, whole = escape(Halves(), {"left": x[:, :20], "right": x[:, 20:], "y": y}), escape(mlp(), (x, y))
    assert found.course.equals(whole.course) and math.isnan(found.one_neuron)
    training = SGD(0.1, batch=50)
    found, whole = (
        mirrors(module, None, data, training=training, pairs=1, steps=3)
        for module, data in ((Halves(), {"left": x[:, :20], "right": x[:, 20:], "y": y}), (mlp(), (x, y)))
    )
    assert found.pairs["exponent"].to_list() == pytest.approx(whole.pairs["exponent"].to_list())
    assert list(map(len, Inputs((x[:, :20], x[:, 20:])).split(100))) == list(map(len, x.split(100)))
