"""What ``symlab mirrors`` forecasts of pairs of neurons, and what SGD then makes of them.

    python benchmarks/forecasts.py [--networks 4] [--steps 300]

For each of some MLPs on digits the closest pair of each layer is put on its mirror, the network trained on for 2,000
steps (it stays on the mirror), and the exponent forecast. Then the pair is moved 1e-9 off the mirror, in the direction
of least curvature, and trained on: once with the network's nearest point on the mirror put back after each step, and
once as networks are trained, which the forecast follows. Printed are, a pair, the forecast and by how much a step
changed the logarithm of the distance in both cases.
"""

import argparse
import copy
import math

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from symlab import mirrors, trace
from symlab.own import mirrors as own
from symlab.own.models import load_models
from symlab.symmetries.mirrors import Mirror, State, neurons, random_state, unit

TRAINING, BESIDE = own.SGD(lr=0.1, weight_decay=0.01, batch=64), 1e-9


def train(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, drawn: torch.Generator, held: Mirror | None = None
) -> None:
    """By SGD; where a mirror is given, the nearest point on it stays where it is."""
    descent = torch.optim.SGD(net.parameters(), lr=TRAINING.lr, weight_decay=TRAINING.weight_decay)
    on = None if held is None else held.on({name: value.clone() for name, value in net.state_dict().items()})
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=drawn)[: TRAINING.batch]
        descent.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        descent.step()
        if held is not None and on is not None:
            off = held.off(dict(net.state_dict()))
            net.load_state_dict({name: value + off[name] for name, value in on.items()})


def growth(
    net: nn.Module, mirror: Mirror, v: State, data: tuple[torch.Tensor, torch.Tensor], steps: int, held: bool
) -> float:
    """By how much a step changed the logarithm of the distance, after the first third; it begins at ``BESIDE``."""
    other, drawn, logarithms = copy.deepcopy(net), torch.Generator().manual_seed(7), []
    other.load_state_dict({name: value + BESIDE * v.get(name, 0) for name, value in net.state_dict().items()})
    for part in (steps // 3, steps - steps // 3):
        train(other, *data, part, drawn, mirror if held else None)
        logarithms.append(math.log(mirror.order_parameter(dict(other.state_dict()))))
    return (logarithms[1] - logarithms[0]) / (steps - steps // 3)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--networks", type=int, default=4)
    asked.add_argument("--steps", type=int, default=300)
    options = asked.parse_args()
    x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(5))[:1024]
    data = x[rows] / 16, y[rows]
    found = []
    for seed in range(options.networks):
        torch.manual_seed(seed)
        layers = [nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10)]
        net, drawn = nn.Sequential(*layers).double(), torch.Generator().manual_seed(100 + seed)
        train(net, *data, 3000, drawn)
        spec = trace(net, data[0][:2]).spec
        for pair in mirrors(net, net, data, training=TRAINING, pairs=1, steps=3).pairs.itertuples():
            mirror, on = neurons(spec, pair.group, pair.a, pair.b), copy.deepcopy(net)
            on.load_state_dict(mirror.on(dict(net.state_dict())))
            train(on, *data, 2000, drawn)
            across = own._Across(load_models(on, {"the network": on}, data, seed=0), TRAINING, own.STEPS, 0)
            forecast, error = across.exponent(mirror)[1:]
            anywhere = unit(mirror.off(random_state(dict(on.state_dict()), torch.Generator().manual_seed(seed))))
            turned = {name: value for name, value in anywhere.items() if value.any()}
            least = across._least_curved(mirror.on(across.state), turned, torch.arange(len(data[0])), mirror)
            found.append([forecast, *(growth(on, mirror, least, data, options.steps, held) for held in (True, False))])
            print(f"{seed} {pair.group}: forecast {forecast:.5f} +- {error:.5f}; ", end="")
            print(f"held {found[-1][1]:.5f}, trained {found[-1][2]:.5f}", flush=True)
    forecast, *measured = np.array(found).T
    for name, values in zip(("held", "trained"), measured, strict=True):
        same, apart = int((np.sign(values) == np.sign(forecast)).sum()), np.abs(values - forecast).max()
        print(f"{name}: of {len(values)} pairs {same} as forecast in sign; largest difference {apart:.5f} a step")


if __name__ == "__main__":
    main()
