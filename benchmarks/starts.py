"""Starts of weight matching against random ones and against rebasin: similarity, barrier and time.

    python benchmarks/starts.py [FAMILY ...] [--pairs 20]

Means over pairs of networks from seeds of their own: seven random ones or such as are trained on 1,297 digits, or the
eight of the demo's. A barrier is the largest excess over the chord at a quarter, half and three quarters, in
cross-entropy of other digits. Last, four networks of each family in one order by weights, averaged. For rebasin: ``pip
install --no-deps --target FOLDER rebasin==0.0.47 torchview graphviz``, and FOLDER in PYTHONPATH.
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call

from symlab.alignment.permute import permute
from symlab.alignment.similarities import agreement
from symlab.alignment.universe import match_to_universe
from symlab.alignment.weight_matching import weight_matching
from symlab.connectivity.path import interpolate
from symlab.data import Digits
from symlab.data.digits import load
from symlab.networks import ResNet20, ViT, build
from symlab.pipeline.config import parse_config
from symlab.symmetries.symmetry_spec import SymmetrySpec, random_permutations
from symlab.symmetries.trace import trace
from symlab.training.variant import train_variant

State = dict[str, Tensor]
Found = tuple[State, float]
NETWORKS, TRAINED = 7, 1297


def mlp(*sizes: int) -> nn.Module:
    layers = [part for n, m in pairwise(sizes) for part in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def cnn() -> nn.Module:
    convolutions = [(1, 16, 1), (16, 32, 2), (32, 64, 2)]
    hidden = [part for n, m, stride in convolutions for part in (nn.Conv2d(n, m, 3, stride, 1), nn.ReLU())]
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *hidden, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Family(NamedTuple):
    """Networks, and samples that they were not trained on (inputs alone of random ones)."""

    nets: list[nn.Module]
    x: Tensor
    y: Tensor | None


def random() -> Family:
    return Family(
        [_seeded(seed, partial(mlp, 784, 512, 512, 512)) for seed in range(NETWORKS)], torch.randn(20, 784), None
    )


def unlike(*sizes: int) -> Family:
    """Layers of N(0, 1/n) times scales from 1/10 to 10, drawn for each network."""
    nets = [_seeded(seed, partial(mlp, *sizes)) for seed in range(NETWORKS)]
    with torch.no_grad():
        for seed, net in enumerate(nets):
            drawn = torch.Generator().manual_seed(seed)
            for layer in net:
                if isinstance(layer, nn.Linear):
                    scale = 10 ** (2 * torch.rand((), generator=drawn) - 1)
                    layer.weight.normal_(0, scale / layer.in_features**0.5, generator=drawn)
                    layer.bias.zero_()
    return Family(nets, torch.randn(20, sizes[0]), None)


def on_digits(made: Callable[[], nn.Module], epochs: int, lr: float) -> Family:
    x, y = digits()
    return Family([trained(made, epochs, lr, seed) for seed in range(NETWORKS)], x[TRAINED:], y[TRAINED:])


def demo(variant: str) -> Family:
    """The networks of the demo's study of digits, as its training job makes them."""
    study = parse_config(yaml.safe_load(Path("config.yaml").read_text())).studies["digits"]
    dataset, spec = load(Digits(source="digits"), None), study.training_spec(variant, 0)
    states = train_variant(spec, dataset, "cpu", lambda line: None)[0].snapshots[study.epochs(variant)[-1]]
    nets = [build(study.variants[variant].network, dataset.n_inputs, dataset.n_outputs).eval() for _ in range(8)]
    for seed, net in enumerate(nets):
        net.load_state_dict({name: each[seed] for name, each in states.items()})
    x, y = map(torch.from_numpy, dataset.split("test"))
    return Family(nets, x, y)


RESNET20 = ResNet20(name="resnet20", channels=1)
VIT = ViT(name="vit", channels=1, patch=2, dim=24, depth=2, heads=3, mlp_ratio=2)
FAMILIES: dict[str, Callable[[], Family]] = {
    "demo standard": partial(demo, "standard"),
    "demo sigma_F 0": partial(demo, "w_sigma_F0"),
    "random 784-3x512": random,
    "unlike scales 784-3x128": partial(unlike, 784, 128, 128, 128),
    **{f"MLP {d}x{m}": partial(on_digits, partial(mlp, 64, *[m] * d), 60, 1e-3) for m in (32, 64, 128) for d in (3, 6)},
    "CNN": partial(on_digits, cnn, 60, 2e-3),
    "ResNet20": partial(on_digits, lambda: build(RESNET20, 64, 10), 10, 2e-3),
    "ViT": partial(on_digits, lambda: build(VIT, 64, 10), 40, 2e-3),
}


@cache
def digits() -> tuple[Tensor, Tensor]:
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))
    return torch.from_numpy(found.data[order]).float() / 8 - 1, torch.from_numpy(found.target[order])


def _seeded(seed: int, made: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(seed)
    return made().eval()


def trained(made: Callable[[], nn.Module], epochs: int, lr: float, seed: int) -> nn.Module:
    (x, y), net = (each[:TRAINED] for each in digits()), _seeded(seed, made).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(x.split(100)))
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


@torch.no_grad()
def barrier(family: Family, A: State, B: State) -> float:
    if family.y is None:
        return float("nan")
    at = [0.0, 0.25, 0.5, 0.75, 1.0]
    losses = [scores(family, interpolate(A, B, lam))[0] for lam in at]
    return max(loss - (1 - lam) * losses[0] - lam * losses[-1] for lam, loss in zip(at, losses, strict=True))


@torch.no_grad()
def scores(family: Family, state: State) -> tuple[float, float]:
    """Loss and accuracy."""
    outputs = functional_call(family.nets[0], state, family.x)
    return float(nn.functional.cross_entropy(outputs, family.y)), float((outputs.argmax(1) == family.y).float().mean())


def by_symlab(spec: SymmetrySpec, restarts: int, net_A: nn.Module, net_B: nn.Module, pair: int) -> Found:
    A, B, begun = net_A.state_dict(), net_B.state_dict(), time.process_time()
    found = weight_matching(spec, A, B, np.random.default_rng(pair), restarts)
    return permute(B, spec, found.permutations), time.process_time() - begun


def by_descent(spec: SymmetrySpec, net_A: nn.Module, net_B: nn.Module, pair: int) -> Iterator[Found]:
    """The best of descents from the identity and up to eight random permutations, after each."""
    A, rng = net_A.state_dict(), np.random.default_rng(pair)
    starts = [
        net_B.state_dict(),
        *(permute(net_B.state_dict(), spec, random_permutations(spec, rng)) for _ in range(8)),
    ]

    def descend(start: State) -> Found:
        begun = time.process_time()
        moved = permute(start, spec, weight_matching(spec, A, start, rng).permutations)
        return moved, time.process_time() - begun

    def better(so_far: Found, new: Found) -> Found:
        best = max(so_far[0], new[0], key=lambda state: agreement(A, state))
        return best, so_far[1] + new[1]

    return accumulate(map(descend, starts), better)


def by_rebasin(x: Tensor, net_A: nn.Module, net_B: nn.Module, pair: int) -> Found:
    from rebasin import PermutationCoordinateDescent

    torch.manual_seed(pair)
    moved, begun = copy.deepcopy(net_B), time.process_time()
    PermutationCoordinateDescent(copy.deepcopy(net_A), moved, x[:2]).rebasin()
    seconds = time.process_time() - begun
    with torch.no_grad():
        if not torch.allclose(moved(x), net_B(x), rtol=1e-3, atol=1e-3):
            raise ValueError("alters the function")
    return {name: tensor.detach() for name, tensor in moved.state_dict().items()}, seconds


def results(name: str, family: Family, n_pairs: int) -> dict[str, list[tuple[float, float, float]]]:
    """By way for each pair: similarity, barrier and seconds of CPU."""
    spec = trace(family.nets[0], family.x[:2]).spec
    rows: dict[str, list[tuple[float, float, float]]] = {}
    by_symlab(spec, 3, *family.nets[:2], 0)
    for pair, nets in enumerate([*combinations(family.nets, 2)][:n_pairs]):
        A = nets[0].state_dict()
        found: dict[str, Any] = {f"symlab, {n} starts": by_symlab(spec, n, *nets, pair) for n in (3, 5)}
        descents = [*by_descent(spec, *nets, pair)]
        found |= {"identity": descents[0], "identity, 2 random": descents[2], "identity, 8 random": descents[8]}
        if find_spec("rebasin"):
            try:
                found["rebasin"] = by_rebasin(family.x[:20], *nets, pair)
            except Exception as error:
                print(f"{name}: rebasin: {error}", flush=True)
        for way, (moved, seconds) in found.items():
            similarity = agreement(A, moved) / (agreement(A, A) * agreement(moved, moved)) ** 0.5
            rows.setdefault(way, []).append((similarity, barrier(family, A, moved), seconds))
    return rows


def averages(family: Family) -> None:
    """Loss and accuracy of four networks' average, in one order by weights from the identity and from three starts."""
    traced, states = trace(family.nets[0], family.x[:2]), [net.state_dict() for net in family.nets[:4]]
    for restarts in (1, 3):
        found = match_to_universe(traced, states, np.random.default_rng(0), restarts=restarts).permuted
        loss, accuracy = scores(family, {name: sum(state[name] for state in found) / 4 for name in states[0]})
        print(f"  four in one order, {restarts} starts: loss {loss:.3f}, accuracy {100 * accuracy:.1f} %", flush=True)


def main() -> None:
    """Print a line for each family and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--pairs", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.families or FAMILIES:
        family = FAMILIES[name]()
        found = {way: np.array(rows) for way, rows in results(name, family, arguments.pairs).items()}
        for way, values in found.items():
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / len(values) ** 0.5
            less = values[:, 1] - found["identity, 2 random"][:, 1]
            print(
                f"{name} ({len(values)} pairs): {way}: similarity {mean[0]:.4f} ± {error[0]:.4f}, barrier "
                f"{mean[1]:.3f} ± {error[1]:.3f} (less identity's with 2 random: {less.mean():.3f} ± "
                f"{less.std(ddof=1) / len(less) ** 0.5:.3f}), CPU {1e3 * np.median(values[:, 2]):.0f} ms",
                flush=True,
            )
        if family.y is not None:
            averages(family)


if __name__ == "__main__":
    main()
