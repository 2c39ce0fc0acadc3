"""Swap costs of one wide layer against the usual research code, and the memory of a very wide one.

``pytest tests/benchmarks --benchmark-only`` runs both; ``python tests/benchmarks/test_swap_costs.py`` prints the
figures of a paired measurement; with the argument ``wide`` it runs the very wide layer once.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.seeds import torch_generator

Layer = tuple[Tensor, Tensor, Tensor, Tensor]
GOAL_RATIO = 3.0
GOAL_WIDE_GIB = 4.0


def masked_layer(m: int, d: int, k: int, n_fixed: int) -> Layer:
    """W_eff, F, D [m, d] and U [d, k], float32, of a W-asymmetric layer with sigma_F = 1."""
    generator = torch_generator("benchmark", m, d, k)
    hidden = torch.zeros(m, d).scatter_(1, torch.rand(m, d, generator=generator).argsort(dim=1)[:, :n_fixed], 1.0)
    F = hidden * torch.randn(m, d, generator=generator)
    D = 1 - hidden
    W_eff = F + D * torch.randn(m, d, generator=generator) / d**0.5
    U = torch.linalg.qr(torch.randn(d, k, generator=generator, dtype=torch.float64)).Q
    return W_eff, F, D, U.float()


def ours(W_eff: Tensor, F: Tensor, D: Tensor, U: Tensor) -> Tensor:
    return swap_costs(realization_costs(W_eff, F, D, U))


def reference(W_eff: Tensor, F: Tensor, D: Tensor, U: Tensor, hermitian: bool = False) -> Tensor:
    """Every step for all neurons at once in the dtype of the weights, as one writes it from the formulas."""
    a = W_eff @ U
    v = F @ U
    S = torch.einsum("dk,id,dl->ikl", U, D**2, U)
    S_pinv = torch.linalg.pinv(S, hermitian=hermitian)
    diff = a[None, :] - v[:, None]
    c2 = torch.einsum("ijk,ikl,ijl->ij", diff, S_pinv, diff)
    own = c2.diagonal()
    return c2 + c2.T - own[:, None] - own[None, :]


def reference_hermitian(W_eff: Tensor, F: Tensor, D: Tensor, U: Tensor) -> Tensor:
    return reference(W_eff, F, D, U, hermitian=True)


def seconds(run: Callable[..., Tensor], layer: Layer) -> float:
    start = time.perf_counter()
    run(*layer)
    return time.perf_counter() - start


def measure(threads: int, repeats: int = 5) -> dict[str, float]:
    """Median seconds of ours and of the reference, alternating in one run, and the median of each round's ratio."""
    layer = masked_layer(512, 784, 120, 64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for run in (ours, reference, reference_hermitian):
            run(*layer)
        rounds = [[seconds(run, layer) for run in (ours, reference, reference_hermitian)] for _ in range(repeats)]
    finally:
        torch.set_num_threads(before)
    return {
        "threads": threads,
        "ours_s": statistics.median(times[0] for times in rounds),
        "reference_s": statistics.median(times[1] for times in rounds),
        "ratio": statistics.median(times[1] / times[0] for times in rounds),
        "ratio_to_hermitian_pinv": statistics.median(times[2] / times[0] for times in rounds),
    }


def run_wide() -> dict[str, float]:
    """Seconds and the process's peak resident GiB for m = d = 2048, k = 400, n_fixed = 256."""
    layer = masked_layer(2048, 2048, 400, 256)
    elapsed = seconds(ours, layer)
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": elapsed, "peak_gib": kibibytes / 2**20, "threads": torch.get_num_threads()}


def run_wide_in_a_process(threads: int) -> dict[str, float]:
    """``run_wide`` in a fresh process, so that the peak is its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, str(Path(__file__)), "wide"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(finished.stdout)


def test_both_compute_the_same() -> None:
    layer = masked_layer(64, 784, 30, 64)
    exact = ours(*layer)
    W_eff, F, D, U = (part.double() for part in layer)
    torch.testing.assert_close(reference(W_eff, F, D, torch.linalg.qr(U).Q), exact, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(reference(*layer).double(), exact, rtol=1e-3, atol=1e-3)


def test_a_layer_of_512_neurons(benchmark: Any) -> None:
    figures = measure(threads=2)
    benchmark.extra_info.update(figures)
    print(figures)
    layer = masked_layer(512, 784, 120, 64)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        benchmark.pedantic(ours, args=layer, rounds=5, warmup_rounds=1)
    finally:
        torch.set_num_threads(before)
    assert figures["ratio"] >= GOAL_RATIO


def test_a_layer_of_2048_neurons_fits(benchmark: Any) -> None:
    figures = benchmark.pedantic(run_wide_in_a_process, args=(2,), rounds=1)
    benchmark.extra_info.update(figures)
    print(figures)
    assert figures["peak_gib"] < GOAL_WIDE_GIB


if __name__ == "__main__":
    if sys.argv[1:] == ["wide"]:
        print(json.dumps(run_wide()))
    else:
        for count in (2, 1):
            print(json.dumps(measure(threads=count)))
        print(json.dumps(run_wide_in_a_process(threads=2)))
