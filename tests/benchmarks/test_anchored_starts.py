"""Weight matching's three starts against random starts and against rebasin: similarity, barrier and time.

``pytest tests/benchmarks/test_anchored_starts.py -s`` prints, for each family of networks, means over 20 pairs of
seven networks, trained from seeds on digits, or random. Barriers: the largest of three points on the chord, in
cross-entropy of 500 held-out digits. ``pip install --no-deps rebasin==0.0.47 torchview graphviz``, in an environment of
its own, adds rebasin.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import combinations, islice
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from symlab.alignment import weight_matching as weights
from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import weight_matching
from symlab.connectivity.path import interpolate
from symlab.networks import ResNet20, ViT, build
from symlab.symmetries.symmetry_spec import SymmetrySpec, identity
from symlab.symmetries.trace import trace

State = dict[str, Tensor]
NETWORKS, PAIRS, TRAINED = 7, 20, 1297
# A mean similarity may be that much below the best of all others.
LARGEST_LOSS = 0.005
# Timings of milliseconds scatter by that much.
LARGEST_RATIO = 1.1


def mlp(widths: list[int], inputs: int = 64) -> nn.Module:
    sizes = [inputs, *widths]
    layers = [part for n, m in zip(sizes, widths, strict=False) for part in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def cnn() -> nn.Module:
    def layer(n: int, m: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(n, m, 3, stride, padding=1), nn.ReLU()]

    hidden = [*layer(1, 16, 1), *layer(16, 32, 2), *layer(32, 64, 2)]
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *hidden, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Family(NamedTuple):
    build: Callable[[], nn.Module]
    epochs: int
    lr: float = 2e-3
    inputs: int = 64


RESNET20 = ResNet20(name="resnet20", channels=1)
VIT = ViT(name="vit", channels=1, patch=2, dim=24, depth=2, heads=3, mlp_ratio=2)
FAMILIES = {
    "random mlp 3x512": Family(partial(mlp, [512] * 3, 784), 0, inputs=784),
    **{f"mlp {d}x{m}": Family(partial(mlp, [m] * d), 60, 1e-3) for m in (32, 64, 128) for d in (3, 6)},
    "cnn": Family(cnn, 60),
    "resnet20": Family(lambda: build(RESNET20, 64, 10), 10),
    "vit": Family(lambda: build(VIT, 64, 10), 40),
}


@cache
def digits() -> tuple[Tensor, Tensor]:
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))
    return torch.from_numpy(found.data[order]).float() / 8 - 1, torch.from_numpy(found.target[order])


@cache
def networks(family: str) -> list[nn.Module]:
    return [trained(FAMILIES[family], seed) for seed in range(NETWORKS)]


def trained(family: Family, seed: int) -> nn.Module:
    x, y = (of_all[:TRAINED] for of_all in digits())
    torch.manual_seed(seed)
    net = family.build()
    optimizer = torch.optim.AdamW(net.parameters(), family.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, family.epochs * len(x.split(100))))
    for _ in range(family.epochs):
        for batch in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def pairs(family: str) -> list[tuple[nn.Module, nn.Module]]:
    return [*islice(combinations(networks(family), 2), PAIRS)]


def similarity(A: State, B: State) -> float:
    def inner(p: State, q: State) -> float:
        return sum(float((p[name].double() * q[name].double()).sum()) for name in p)

    return inner(A, B) / (inner(A, A) * inner(B, B)) ** 0.5


def barrier(net: nn.Module, A: State, B: State) -> float:
    x, y = (of_all[TRAINED:] for of_all in digits())
    if A[next(iter(A))].shape[-1] == FAMILIES["random mlp 3x512"].inputs:
        return float("nan")
    on_line = torch.linspace(0, 1, 5).tolist()
    with torch.no_grad():
        losses = [
            float(nn.functional.cross_entropy(torch.func.functional_call(net, interpolate(A, B, at), x), y))
            for at in on_line
        ]
    return max(loss - (1 - at) * losses[0] - at * losses[-1] for loss, at in zip(losses, on_line, strict=True))


Match = Callable[[nn.Module, nn.Module, int], State]


def table(family: str, methods: Mapping[str, Match]) -> dict[str, np.ndarray]:
    """By method [pairs, 3]: similarity, barrier and seconds of CPU; each pair is matched by all, one after the other.

    A method gets both networks and the number of the pair, and returns B renumbered.
    """
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in methods}
    for pair, (net_A, net_B) in enumerate(pairs(family)):
        A = net_A.state_dict()
        for name, match in methods.items():
            start = time.process_time()
            moved = match(net_A, net_B, pair)
            seconds = time.process_time() - start
            rows[name].append((similarity(A, moved), barrier(net_A, A, moved), seconds))
    found = {name: np.array(of_method) for name, of_method in rows.items()}
    for name, values in found.items():
        mean, error = values.mean(axis=0), values.std(axis=0) / len(values) ** 0.5
        print(
            f"\n{family}, {name}: similarity {mean[0]:.4f} +- {error[0]:.4f}, barrier {mean[1]:.3f} +- {error[1]:.3f}, "
            f"CPU {1e3 * np.median(values[:, 2]):.0f} ms",
            end="",
        )
    return found


@cache
def spec_of(family: str) -> SymmetrySpec:
    return trace(networks(family)[0], torch.zeros(2, FAMILIES[family].inputs)).spec


def by_symlab(family: str, restarts: int, net_A: nn.Module, net_B: nn.Module, pair: int) -> State:
    spec, rng = spec_of(family), np.random.default_rng(pair)
    A, B = net_A.state_dict(), net_B.state_dict()
    return permute(B, spec, weight_matching(spec, A, B, rng, restarts).permutations)


def by_random_starts(family: str, restarts: int, net_A: nn.Module, net_B: nn.Module, pair: int) -> State:
    """The identity, then random permutations alone: they follow where no anchored start is a new one."""
    with patch.object(weights, "_anchored", lambda spec, *_: identity(spec)):
        return by_symlab(family, restarts, net_A, net_B, pair)


def new_starts(family: str) -> Match:
    """Three starts, two of them anchored, after a call that warms up."""
    by_symlab(family, 3, *pairs(family)[0], 0)
    return partial(by_symlab, family, 3)


def falls_short(found: np.ndarray, others: Iterable[np.ndarray]) -> bool:
    """Whether the mean similarity is below the best of others by more than ``LARGEST_LOSS``."""
    return found[:, 0].mean() < (1 - LARGEST_LOSS) * max(other[:, 0].mean() for other in others)


@pytest.mark.parametrize("family", FAMILIES)
def test_three_starts_reach_what_three_and_nine_random_ones_do(family):
    methods = {
        "identity and two anchored": new_starts(family),
        "identity and two random": partial(by_random_starts, family, 3),
        "identity alone": partial(by_symlab, family, 1),
        "identity and eight random": partial(by_random_starts, family, 9),
    }
    found, before, alone, nine = table(family, methods).values()
    ratio = float(np.median(found[:, 2] / before[:, 2]))
    print(f"; CPU over that of three random ones: {ratio:.2f}")
    assert not falls_short(found, (before, alone))
    assert ratio <= LARGEST_RATIO
    if falls_short(found, [nine]):
        # The goal is missed, which docs/explanation/performance.md says, in the family of few neurons a layer.
        assert family == "mlp 3x32"


@pytest.mark.parametrize("family", FAMILIES)
def test_three_starts_reach_what_rebasin_does(family):
    rebasin = pytest.importorskip("rebasin", reason="rebasin is not installed: see the first lines of this file")
    x = torch.randn(20, FAMILIES[family].inputs, generator=torch.Generator().manual_seed(0))

    def match(net_A: nn.Module, net_B: nn.Module, pair: int) -> State:
        torch.manual_seed(pair)
        moved = copy.deepcopy(net_B)
        rebasin.PermutationCoordinateDescent(copy.deepcopy(net_A), moved, x[:2]).rebasin()
        with torch.no_grad():
            change = float((moved(x) - net_B(x)).abs().max() / net_B(x).abs().max())
        if change > 1e-3:
            pytest.skip(f"rebasin changes the function of {family}: outputs differ by {change:.1g} of their size")
        return {name: tensor.detach() for name, tensor in moved.state_dict().items()}

    found, theirs = table(family, {"identity and two anchored": new_starts(family), "rebasin": match}).values()
    assert not falls_short(found, [theirs])
