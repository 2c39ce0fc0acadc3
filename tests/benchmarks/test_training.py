"""Training four W-asymmetric MNIST MLPs: the engine against usual research code and bare matrix products.

``pytest tests/benchmarks/test_training.py -s`` on a machine with two free cores. Each round runs all three in turn,
so that the ratios hold when the machine's speed drifts; medians over rounds are reported.

- engine: as the workflow runs it on two cores, two jobs of one thread with two replicas each, side by side;
- loop: one module a seed, one seed after the other, torch's default threads, a DataLoader with a transform for each
  sample, W_eff rebuilt from its mask in every forward pass;
- products: nothing but the matrix products of forward and backward pass, in two processes of one thread side by side.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from symlab.networks import build
from symlab.training import replicas as engine
from symlab.training.replicas import Replica, train_block
from symlab.training.stacks import TrainingData

IMAGES, BATCH, SIZES, N_FIXED = 54_016, 64, [784, 512, 512, 512, 10], [64, 64, 64, 256]
REPLICAS, JOBS, ROUNDS = 4, 2, 3
SCHEME = {"name": "w_asymmetric", "sigma_F": 1.0, "n_fixed": N_FIXED}
RECIPE = {
    "optimizer": "adamw",
    "lr": 1e-3,
    "weight_decay": 0.01,
    "momentum": 0.9,
    "decay_bias": True,
    "epochs": 1,
    "batch_size": BATCH,
    "schedule": {"name": "constant"},
}


def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 784), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (IMAGES,), generator=generator)


def engine_work(seeds: list[int]) -> Any:
    pixels, labels = images()
    x = (pixels.float() / 255 - 0.13) / 0.31
    data = TrainingData(x, labels, x[:0], labels[:0], "classification")
    network = {"name": "mlp", "widths": SIZES[1:-1]}
    replicas = [Replica(0, seed) for seed in seeds]
    return lambda: train_block(
        lambda: build(network, SIZES[0], SIZES[-1]), data, replicas, SCHEME, {"name": "lecun"}, RECIPE, [1], ("s", "v")
    )


def products_work(seeds: list[int]) -> Any:
    shapes = list(pairwise(SIZES))
    inputs = [torch.randn(BATCH, fan_in) for fan_in, _ in shapes]
    weights = [torch.randn(fan_out, fan_in) for fan_in, fan_out in shapes]
    gradients = [torch.randn(BATCH, fan_out) for _, fan_out in shapes]
    results = [torch.empty_like(weight) for weight in weights]

    def work() -> None:
        for _ in range(len(seeds) * IMAGES // BATCH):
            for layer, (x, W, g, dW) in enumerate(zip(inputs, weights, gradients, results, strict=True)):
                torch.mm(x, W.T)
                torch.mm(g.T, x, out=dW)
                if layer:
                    torch.mm(g, W)

    return work


def job(prepare: Any, seeds: list[int], ready: Any, seconds: Any) -> None:
    torch.set_num_threads(1)
    work = prepare(seeds)
    ready.wait()
    began = time.perf_counter()
    work()
    seconds.put(time.perf_counter() - began)


def side_by_side(prepare: Any) -> float:
    """Seconds until both jobs are done; starting processes and importing torch is not counted."""
    context = multiprocessing.get_context("spawn")
    ready, seconds = context.Barrier(JOBS), context.Queue()
    shares = [list(range(REPLICAS))[share::JOBS] for share in range(JOBS)]
    processes = [context.Process(target=job, args=(prepare, share, ready, seconds)) for share in shares]
    for process in processes:
        process.start()
    slowest = max(seconds.get() for _ in processes)
    for process in processes:
        process.join()
    return slowest


class Images(Dataset):
    """Samples normalised one at a time, as torchvision's transforms do."""

    def __init__(self) -> None:
        self.pixels, self.labels = images()

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.pixels[index].to(torch.float32).div(255)
        return image.sub(0.13).div(0.31), int(self.labels[index])


class MaskedLinear(nn.Module):
    """W_eff = mask * W + (1 - mask) * fixed, rebuilt in every forward pass."""

    def __init__(self, fan_in: int, fan_out: int, n_fixed: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_out, fan_in) / fan_in**0.5)
        self.bias = nn.Parameter(torch.zeros(fan_out))
        mask = torch.ones(fan_out, fan_in)
        mask.scatter_(1, torch.rand(fan_out, fan_in).argsort(1)[:, :n_fixed], 0.0)
        self.register_buffer("mask", mask)
        self.register_buffer("fixed", torch.randn(fan_out, fan_in))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.mask * self.weight + (1 - self.mask) * self.fixed, self.bias)


def loop() -> float:
    loader = DataLoader(Images(), batch_size=BATCH, shuffle=True)
    began = time.perf_counter()
    for seed in range(REPLICAS):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for fan_in, fan_out, n_fixed in zip(SIZES, SIZES[1:], N_FIXED, strict=False):
            layers += [MaskedLinear(fan_in, fan_out, n_fixed)]
            layers += [nn.LayerNorm(fan_out), nn.GELU()] if fan_out != SIZES[-1] else []
        model = nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        total_loss, correct = 0.0, 0
        for x, y in loader:
            optimizer.zero_grad()
            outputs = model(x)
            loss = nn.functional.cross_entropy(outputs, y)
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
            correct += (outputs.argmax(1) == y).sum().item()
    return time.perf_counter() - began


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Medians over rounds: seconds of each way, and the ratios taken within a round."""
    torch.set_num_threads(2)
    taken = [(side_by_side(engine_work), loop(), side_by_side(products_work)) for _ in range(rounds)]
    steps = REPLICAS * IMAGES / BATCH
    return {
        "engine_ms_per_step": statistics.median(1000 * engine / steps for engine, _, _ in taken),
        "loop_ms_per_step": statistics.median(1000 * loop_s / steps for _, loop_s, _ in taken),
        "products_ms_per_step": statistics.median(1000 * products / steps for _, _, products in taken),
        "loop_over_engine": statistics.median(loop_s / engine for engine, loop_s, _ in taken),
        "engine_over_products": statistics.median(engine / products for engine, _, products in taken),
    }


def test_training_four_replicas(benchmark: Any) -> None:
    """A benchmark, not a test of correctness: it fails only where the engine is no faster than the loop."""
    figures = benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info.update(figures)
    print("\n" + "\n".join(f"{name}: {value:.2f}" for name, value in figures.items()))
    assert figures["loop_over_engine"] > 1


SMALL = {"name": "mlp", "widths": [128, 128, 128]}


def small(stacked: bool) -> float:
    """Seconds to train ten digits-size MLPs for four epochs on one thread."""
    x, y = torch.randn(1437, 64, generator=torch.Generator().manual_seed(0)), torch.arange(1437) % 10
    data = TrainingData(x, y, x[:0], y[:0], "classification")
    limit, engine.STACK_BELOW_PARAMETERS = engine.STACK_BELOW_PARAMETERS, 10**9 if stacked else 0
    began = time.perf_counter()
    train_block(
        lambda: build(SMALL, 64, 10), data, [Replica(0, s) for s in range(10)], SCHEME | {"n_fixed": 8},
        {"name": "lecun"}, RECIPE | {"epochs": 4}, [4], ("s", "v"),
    )  # fmt: skip
    engine.STACK_BELOW_PARAMETERS = limit
    return time.perf_counter() - began


def test_stacking_small_networks(benchmark: Any) -> None:
    """Why small networks train together on a CPU: ``STACK_BELOW_PARAMETERS``."""
    torch.set_num_threads(1)
    small(True), small(False)
    ratio = benchmark.pedantic(lambda: statistics.median(small(False) / small(True) for _ in range(ROUNDS)), rounds=1)
    torch.set_num_threads(2)
    benchmark.extra_info["one_by_one_over_together"] = ratio
    print(f"\none by one over together, 64-128-128-128-10: {ratio:.2f}")


if __name__ == "__main__":
    print(measure())
