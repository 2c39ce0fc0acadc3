"""Ridge realization costs of one layer against the paper's optimizer, batched and as usual research code.

``pytest tests/benchmarks/test_ridge.py -s`` prints the figures; ``python tests/benchmarks/test_ridge.py`` measures the
64 x 64 costs of a whole layer as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from symlab.identifiability import ridge_solvers
from symlab.identifiability.neuron_functions import NeuronFunctions
from symlab.identifiability.ridge import RidgeCosts, ridge_costs
from symlab.seeds import torch_generator

BETA = 0.01
ITERATIONS = 15_000
GOAL_RATIO = 20.0


def masked_layer(n: int, m: int, d: int, n_fixed: int) -> tuple[NeuronFunctions, Tensor]:
    """A W-asymmetric GELU layer with sigma_F = 1 and batch norm of unit variance, and inputs of decaying variance."""
    generator = torch_generator("benchmark", "ridge", m, d)
    X = torch.randn(n, d, generator=generator) @ torch.linalg.qr(torch.randn(d, d, generator=generator)).Q
    X *= torch.arange(1, d + 1).float().rsqrt()
    hidden = torch.zeros(m, d).scatter_(1, torch.rand(m, d, generator=generator).argsort(dim=1)[:, :n_fixed], 1.0)
    F = (hidden * torch.randn(m, d, generator=generator)).double()
    D = 1 - hidden.double()
    W_eff = F + D * torch.randn(m, d, generator=generator) / d**0.5
    alpha = 1 / (X.double() @ W_eff.T).std(dim=0)
    zeros = torch.zeros(m, dtype=torch.float64)
    return NeuronFunctions(W_eff, F, D, alpha, zeros, zeros, "gelu"), X


def plain_cost(layer: NeuronFunctions, X: Tensor, i: int, j: int, iterations: int) -> float:
    """One pair as research code has it: autograd and torch's AdamW."""
    W, F, D, alpha = (part.float() for part in (layer.W_eff, layer.F, layer.D, layer.alpha))
    target = torch.nn.functional.gelu(alpha[j] * (X @ W[j]))
    w = layer.own_weights[i].float().clone().requires_grad_()
    optimizer = torch.optim.AdamW([w], lr=0.005, weight_decay=0.0)
    for _ in range(iterations):
        optimizer.zero_grad()
        realized = torch.nn.functional.gelu(alpha[i] * (X @ (F[i] + D[i] * w)))
        loss = (target - realized).square().mean() / BETA + w.square().sum()
        loss.backward()
        optimizer.step()
    return loss.item()


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def with_adamw(layer: NeuronFunctions, X: Tensor, i: Tensor, j: Tensor, iterations: int) -> RidgeCosts:
    before, ridge_solvers.ADAMW_ITERATIONS = ridge_solvers.ADAMW_ITERATIONS, iterations
    try:
        return ridge_costs(layer, X, i, j, BETA, "adamw")
    finally:
        ridge_solvers.ADAMW_ITERATIONS = before


def measure(n: int, m: int, d: int, n_fixed: int) -> dict[str, float]:
    """Seconds for all m targets of one realizer; AdamW's are those of 100 and 20 iterations, scaled to 15,000."""
    layer, X = masked_layer(n, m, d, n_fixed)
    i, j = torch.zeros(m, dtype=torch.int64), torch.arange(m)
    ridge_costs(layer, X, i, j, BETA)
    ours = min(seconds(lambda: ridge_costs(layer, X, i, j, BETA)) for _ in range(3))
    batched = seconds(lambda: with_adamw(layer, X, i, j, 100)) * ITERATIONS / 100
    plain = seconds(lambda: plain_cost(layer, X, 0, 1, 20)) * ITERATIONS / 20 * m
    return {
        "lbfgs_s": ours,
        "adamw_s": batched,
        "plain_s": plain,
        "ratio": batched / ours,
        "ratio_to_plain": plain / ours,
    }


def test_the_plain_code_minimises_the_same_objective() -> None:
    layer, X = masked_layer(500, 8, 16, 2)
    i, j = torch.tensor([0, 3]), torch.tensor([1, 3])
    ours = with_adamw(layer, X, i, j, 500).cost
    plain = [plain_cost(layer, X, a, b, 501) for a, b in ((0, 1), (3, 3))]
    torch.testing.assert_close(torch.tensor(plain, dtype=torch.float64), ours, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("n", "m", "d", "n_fixed"), [(6000, 64, 128, 16), (6000, 128, 784, 64)])
def test_one_realizer(benchmark: Any, n: int, m: int, d: int, n_fixed: int) -> None:
    figures = benchmark.pedantic(measure, args=(n, m, d, n_fixed), rounds=1)
    benchmark.extra_info.update(figures)
    print(figures)
    assert figures["ratio"] >= GOAL_RATIO


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_block_of_an_mnist_layer_on_a_gpu() -> None:
    layer, X = masked_layer(6000, 128, 784, 64)
    pairs = torch.arange(128).repeat_interleave(128), torch.arange(128).repeat(128)
    on_gpu = X.cuda()
    ridge_costs(layer, on_gpu, pairs[0][:128], pairs[1][:128], BETA)

    def block() -> None:
        ridge_costs(layer, on_gpu, *pairs, BETA)
        torch.cuda.synchronize()

    taken = seconds(block)
    print({"block_on_gpu_s": taken})
    assert taken < 180


if __name__ == "__main__":
    for sizes in ((6000, 64, 128, 16), (6000, 128, 784, 64)):
        print(json.dumps({"sizes": sizes, **measure(*sizes)}))
    layer, X = masked_layer(6000, 64, 128, 16)
    pairs = torch.arange(64).repeat_interleave(64), torch.arange(64).repeat(64)
    print(json.dumps({"whole_layer_s": seconds(lambda: ridge_costs(layer, X, *pairs, BETA))}))
