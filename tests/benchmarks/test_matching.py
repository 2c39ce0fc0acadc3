"""Matching one pair of networks on all data, in time and peak memory.

- MNIST-size MLPs: streaming moments against keeping all activations;
- ResNet20 on CIFAR-size images: matching against the two networks' forward passes alone.

Run with: pytest tests/benchmarks/test_matching.py -s, on a machine whose cores are free: two threads that wait for a
busy core are slower than one, and the ratio then says nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symlab.alignment.forward import outputs
from symlab.alignment.matching import match, match_all, objective
from symlab.alignment.moments import record_pair_moments
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.trace import Traced, trace

N_IMAGES, THREADS, ROUNDS = 54_000, 2, 3
MIN_SPEEDUP, MIN_MEMORY_RATIO = 3.0, 5.0
N_COLOUR_IMAGES, COLOUR_INPUTS, COLOUR_BATCH, COLOUR_ROUNDS = 2_000, 3 * 32 * 32, 32, 5
MAX_RATIO_TO_FORWARD, MAX_MEMORY_GROWTH_MB = 1.3, 20.0


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    config = choose(NETWORKS, {"name": "mlp", "widths": [512, 512, 512]})
    return build(config, 784, 10).eval(), build(config, 784, 10).eval()


def images() -> Tensor:
    return torch.randn(N_IMAGES, 784, generator=torch.Generator().manual_seed(1))


def streaming(net_a: nn.Module, net_b: nn.Module, x: Tensor) -> list[float]:
    """The objective of each layer, as symlab computes it."""
    states = ({"pair": net.state_dict()} for net in (net_a, net_b))
    moments = record_pair_moments(trace(net_a, x[:2]), *states, x.split(1024))
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


def resnets() -> tuple[Traced, nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    torch.manual_seed(0)
    nets = [build(choose(NETWORKS, {"name": "resnet20"}), COLOUR_INPUTS, 10).eval() for _ in range(2)]
    return trace(nets[0], torch.zeros(2, COLOUR_INPUTS)), nets[0], nets[0].state_dict(), nets[1].state_dict()


def colour_batches(n: int) -> Iterator[Tensor]:
    """Random images, made batch by batch, so that memory does not hold them all."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(0, n, COLOUR_BATCH):
        yield torch.randn(COLOUR_BATCH, COLOUR_INPUTS, generator=generator)


def match_resnets(traced: Traced, A: dict[str, Tensor], B: dict[str, Tensor], batches: Iterable[Tensor]) -> None:
    moments = record_pair_moments(traced, {0: A}, {0: B}, batches)[0]
    match_all({group: of_group.correlation() for group, of_group in moments.items()}, traced.spec.groups)


def test_resnet_time(benchmark):
    """Full matching over nothing but the forward passes, median of rounds in which both run in turn."""
    traced, net, A, B = resnets()
    batches = list(colour_batches(N_COLOUR_IMAGES))
    forward_s: list[float] = []
    matching_s: list[float] = []

    def forward() -> None:
        start = time.perf_counter()
        for x in batches:
            outputs(net, A, x)
            outputs(net, B, x)
        forward_s.append(time.perf_counter() - start)

    def matching() -> None:
        start = time.perf_counter()
        match_resnets(traced, A, B, batches)
        matching_s.append(time.perf_counter() - start)

    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            benchmark.pedantic(matching, setup=forward, rounds=COLOUR_ROUNDS, warmup_rounds=1)
    finally:
        torch.set_num_threads(threads_before)
    rounds = list(zip(forward_s, matching_s, strict=True))[1:]
    ratio = statistics.median(after / before for before, after in rounds)
    benchmark.extra_info.update({"forward_s": forward_s, "matching_s": matching_s, "ratio": ratio})
    print(f"\nforward {statistics.median(b for b, _ in rounds):.2f} s, matching / forward {ratio:.2f}; rounds {rounds}")
    assert ratio <= MAX_RATIO_TO_FORWARD


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_resnet_memory_does_not_grow_with_the_data(benchmark):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    peak_mb = {}

    def measure_all() -> None:
        for n in (N_COLOUR_IMAGES, 2 * N_COLOUR_IMAGES):
            command = [sys.executable, __file__, "resnets", str(n)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            peak_mb[n] = json.loads(done.stdout)["peak_mb"]

    benchmark.pedantic(measure_all, rounds=1)
    benchmark.extra_info["peak_mb"] = peak_mb
    print(f"\npeak memory by number of images, MB: {peak_mb}")
    assert peak_mb[2 * N_COLOUR_IMAGES] - peak_mb[N_COLOUR_IMAGES] < MAX_MEMORY_GROWTH_MB


def measure_resnet_memory(n: int) -> None:
    torch.set_num_threads(1)
    traced, _, A, B = resnets()
    match_resnets(traced, A, B, colour_batches(n))
    print(json.dumps({"peak_mb": peak_rss_mb()}))


if __name__ == "__main__":
    if sys.argv[1] == "resnets":
        measure_resnet_memory(int(sys.argv[2]))
    else:
        measure_memory(sys.argv[1])
