"""What products by oneDNN gain over torch's own, in CPU time on one thread, with MNIST-size MLPs.

``pytest tests/benchmarks/test_products.py -s``. Rounds take both libraries and the comparisons in turn; medians of the
ratios within a round are reported. Bare products are the eleven of a training step by the faster library; the loop is a
plain module with torch.optim.AdamW on data in memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from symlab import products
from symlab.alignment.moments import record_pair_moments
from symlab.connectivity.path import curve
from symlab.identifiability.recording import representation_covariances
from symlab.networks import MLP, Lecun, build
from symlab.products import fast_products
from symlab.schemes import Standard, WAsymmetric
from symlab.symmetries.trace import trace
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

SIZES, BATCH, STEPS, ROUNDS = [784, 512, 512, 512, 10], 64, 100, 9
NETWORK = MLP(name="mlp", widths=SIZES[1:-1])
SCHEMES = {
    "W-asymmetric": WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=[64, 64, 64, 256]),
    "standard": Standard(name="standard"),
}
X = torch.randn(BATCH * STEPS, SIZES[0], generator=torch.Generator().manual_seed(0))
Y = torch.arange(len(X)) % 10


def network() -> nn.Module:
    return build(NETWORK, SIZES[0], SIZES[-1])


def training(scheme: Any) -> Callable[[], Any]:
    data = TrainingData(X, Y, X[:0], Y[:0], "classification")
    recipe = Recipe(epochs=1, batch_size=BATCH)
    run = Run(network, data, scheme, Lecun(name="lecun"), recipe, [1], ("s", "v"))
    return lambda: train_block(run, [Replica(0, 0)])


def loop() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for x, y in zip(X.split(BATCH), Y.split(BATCH), strict=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def bare_products() -> Callable[[], None]:
    layers = [
        (torch.randn(BATCH, fan_in), torch.randn(fan_out, fan_in), torch.randn(BATCH, fan_out))
        for fan_in, fan_out in pairwise(SIZES)
    ]

    def work() -> None:
        for _ in range(STEPS):
            for layer, (x, W, g) in enumerate(layers):
                torch.mm(x, W.T)
                torch.mm(g.T, x)
                if layer:
                    torch.mm(g, W)

    return work


def measures() -> dict[str, Callable[[], Any]]:
    module = network()
    A, B = module.state_dict(), network().state_dict()
    traced = trace(module, X[:2])
    lambdas = [0.0, 0.25, 0.5, 0.75, 1.0]
    return {
        "moments of a pair": lambda: record_pair_moments(traced, {0: A}, {0: B}, X.split(1024)),
        "curve": lambda: curve(module, A, B, lambdas, X[:4096], Y[:4096], "classification"),
        "covariances for swap costs": lambda: representation_covariances(module, A, X.split(1024)),
    }


def cpu_ms(work: Callable[[], Any]) -> float:
    began = time.process_time()
    with fast_products():
        work()
    return 1000 * (time.process_time() - began)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(2)


def both(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """CPU ms by torch and by oneDNN."""
    found = []
    for library in ("torch", "onednn"):
        monkeypatch.setenv(products.VARIABLE, library)
        found.append(cpu_ms(work))
    return found[0], found[1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_training_step(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bare = training(SCHEMES[scheme]), bare_products()
    rounds = []
    for _ in range(ROUNDS + 1):
        steps, of_products = both(engine, monkeypatch), both(bare, monkeypatch)
        monkeypatch.setenv(products.VARIABLE, "torch")
        rounds.append((*steps, min(of_products), cpu_ms(loop)))
    print(f"\n{scheme}, ms a step: torch, onednn, its fastest bare products, loop:", end="")
    print(*(f" {statistics.median(column) / STEPS:.2f}" for column in zip(*rounds[1:], strict=True)))
    for name, ratio in {
        "torch over onednn": lambda torchs, onednn, bare, loop: torchs / onednn,
        "onednn over bare products": lambda torchs, onednn, bare, loop: onednn / bare,
        "loop over onednn": lambda torchs, onednn, bare, loop: loop / onednn,
    }.items():
        print(f"{name}: {statistics.median(ratio(*each) for each in rounds[1:]):.2f}")


@pytest.mark.parametrize("measure", measures())
def test_measures(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [both(measures()[measure], monkeypatch) for _ in range(ROUNDS + 1)][1:]
    torchs, onednn = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    print(f"\n{measure}, ms: torch {torchs:.0f}, onednn {onednn:.0f}; torch over onednn {ratio:.2f}")
