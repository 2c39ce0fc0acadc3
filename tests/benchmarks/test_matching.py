"""Matching one pair of MNIST-size MLPs: streaming moments against keeping all activations, in time and peak memory.

Run with: pytest tests/benchmarks/test_matching.py -s, on a machine whose cores are free: two threads that wait for a
busy core are slower than one, and the ratio then says nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symlab.alignment.matching import match, objective
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.symmetry_spec import symmetry_spec
from symlab.networks import build

N_IMAGES, THREADS, ROUNDS = 54_000, 2, 3
MIN_SPEEDUP, MIN_MEMORY_RATIO = 3.0, 5.0


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    config = {"name": "mlp", "widths": [512, 512, 512]}
    return build(config, 784, 10).eval(), build(config, 784, 10).eval()


def images() -> Tensor:
    return torch.randn(N_IMAGES, 784, generator=torch.Generator().manual_seed(1))


def streaming(net_a: nn.Module, net_b: nn.Module, x: Tensor) -> list[float]:
    """The objective of each layer, as symlab computes it."""
    states = ({"pair": net.state_dict()} for net in (net_a, net_b))
    moments = record_pair_moments(net_a, *states, symmetry_spec(net_a).points, x.split(1024))
    correlations = [of_group.correlation() for of_group in moments["pair"].values()]
    return [objective(S, match(S)) for S in correlations]


def keeping(net_a: nn.Module, net_b: nn.Module, x: Tensor, correlate) -> list[float]:
    """The same as research code usually does it: loop over a loader, keep all activations, correlate at the end."""
    kept: dict[tuple[int, int], list[Tensor]] = {}
    handles = []
    for which, net in enumerate((net_a, net_b)):
        for layer, activation in enumerate(net.activations):
            kept[which, layer] = []
            append = kept[which, layer].append
            handles.append(activation.register_forward_hook(lambda m, i, output, append=append: append(output.cpu())))
    with torch.no_grad():
        for (batch,) in DataLoader(TensorDataset(x), batch_size=64):
            net_a(batch)
            net_b(batch)
    for handle in handles:
        handle.remove()
    activations = {key: torch.cat(kept.pop(key)).numpy() for key in list(kept)}
    objectives = []
    for layer in range(3):
        S = correlate(activations[0, layer], activations[1, layer])
        rows, columns = linear_sum_assignment(S, maximize=True)
        objectives.append(float(S[rows, columns].mean()))
    return objectives


def corrcoef(z_a: np.ndarray, z_b: np.ndarray) -> np.ndarray:
    """numpy's own correlation of the stacked activations, of which only the block between the networks is used."""
    d = z_a.shape[1]
    return np.corrcoef(z_a.T, z_b.T)[:d, d:]


def standardised_product(z_a: np.ndarray, z_b: np.ndarray) -> np.ndarray:
    """A leaner reference: standardise in float32, one matrix product."""
    z_a = (z_a - z_a.mean(axis=0)) / z_a.std(axis=0)
    z_b = (z_b - z_b.mean(axis=0)) / z_b.std(axis=0)
    return z_a.T @ z_b / len(z_a)


METHODS = {
    "streaming": streaming,
    "keeping, corrcoef": lambda *args: keeping(*args, corrcoef),
    "keeping, standardised": lambda *args: keeping(*args, standardised_product),
}


def peak_rss_mb() -> float:
    """The process's own high-water mark (getrusage would also count what its parent had before the exec)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure_memory(method: str) -> None:
    torch.set_num_threads(THREADS)
    nets, x = networks(), images()
    before = peak_rss_mb()
    METHODS[method](*nets, x)
    print(json.dumps({"peak_mb": peak_rss_mb(), "beyond_data_mb": peak_rss_mb() - before}))


def test_time(benchmark):
    nets, x = networks(), images()
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    results: dict[str, list[float]] = {}

    def timed(name: str) -> None:
        start = time.perf_counter()
        results[name] = METHODS[name](*nets, x)
        times[name].append(time.perf_counter() - start)

    def references() -> None:
        timed("keeping, corrcoef")
        timed("keeping, standardised")

    threads_before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        with threadpool_limits(THREADS):
            # References run as set-up, so that the methods alternate and a busy machine hits all of them alike.
            benchmark.pedantic(timed, args=("streaming",), setup=references, rounds=ROUNDS)
    finally:
        torch.set_num_threads(threads_before)
    ratios = {name: min(times[name]) / min(times["streaming"]) for name in METHODS if name != "streaming"}
    benchmark.extra_info.update({"times_s": times, "time_ratios": ratios})
    print(f"\nbest of {ROUNDS} in seconds: { {name: round(min(t), 2) for name, t in times.items()} }; ratios: {ratios}")
    for name in ratios:
        np.testing.assert_allclose(results[name], results["streaming"], atol=1e-5)
    assert ratios["keeping, corrcoef"] >= MIN_SPEEDUP


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_peak_memory(benchmark):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    memory = {}

    def measure_all() -> None:
        for name in METHODS:
            command = [sys.executable, __file__, name]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            memory[name] = json.loads(done.stdout)

    benchmark.pedantic(measure_all, rounds=1)
    ratios = {
        name: memory[name]["beyond_data_mb"] / memory["streaming"]["beyond_data_mb"]
        for name in METHODS
        if name != "streaming"
    }
    benchmark.extra_info.update({"memory_mb": memory, "memory_ratios": ratios})
    print(f"\nmemory: {memory}; ratios beyond the data: {ratios}")
    assert min(ratios.values()) >= MIN_MEMORY_RATIO


if __name__ == "__main__":
    measure_memory(sys.argv[1])
