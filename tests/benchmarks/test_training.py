"""Training: the engine against usual research code, for MNIST MLPs, ResNet20, and both on a GPU.

Four W-asymmetric MNIST MLPs on the CPU:

``pytest tests/benchmarks/test_training.py -s`` on a machine with two free cores. Each round runs all three in turn,
so that the ratios hold when the machine's speed drifts; medians over rounds are reported.

- engine: as the workflow runs it on two cores, two jobs of one thread with two replicas each, side by side;
- loop: one module a seed, one seed after the other, torch's default threads, a DataLoader with a transform for each
  sample, W_eff rebuilt from its mask in every forward pass;
- products: nothing but the matrix products of forward and backward pass, in two processes of one thread side by side.

ResNet20 and the GPU: the loops are plain modules with torch.optim.AdamW, one after the other, data on the device and
batched augmentation, as in the engine.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from symlab.data import Coherence
from symlab.data.coherence import load
from symlab.networks import MLP, Lecun, Network, ResNet20, build
from symlab.papers.neuron_identifiability.coherence import student_run
from symlab.papers.neuron_identifiability.settings import CoherenceStudents
from symlab.schemes import Standard, WAsymmetric
from symlab.training import stack_size
from symlab.training.augmentation import Augmentation
from symlab.training.objective import Replica
from symlab.training.precision import arithmetic
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

IMAGES, BATCH, SIZES, N_FIXED = 54_016, 64, [784, 512, 512, 512, 10], [64, 64, 64, 256]
WIDE = MLP(name="mlp", widths=SIZES[1:-1])
REPLICAS, JOBS, ROUNDS = 4, 2, 3
SCHEME = WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=N_FIXED)
LECUN = Lecun(name="lecun")
RECIPE: dict[str, Any] = {"epochs": 1, "batch_size": BATCH}


def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 784), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (IMAGES,), generator=generator)


def engine_work(seeds: list[int]) -> Any:
    pixels, labels = images()
    x = (pixels.float() / 255 - 0.13) / 0.31
    data = TrainingData(x, labels, x[:0], labels[:0], "classification")
    run = Run(lambda: build(WIDE, SIZES[0], SIZES[-1]), data, SCHEME, LECUN, Recipe(**RECIPE), [1], ("s", "v"))
    return lambda: train_block(run, [Replica(0, seed) for seed in seeds])


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


SMALL = MLP(name="mlp", widths=[128, 128, 128])


def small(stacked: bool) -> float:
    """Seconds to train ten digits-size MLPs for four epochs on one thread."""
    x, y = torch.randn(1437, 64, generator=torch.Generator().manual_seed(0)), torch.arange(1437) % 10
    data = TrainingData(x, y, x[:0], y[:0], "classification")
    scheme, recipe = SCHEME.model_copy(update={"n_fixed": 8}), Recipe(**RECIPE | {"epochs": 4})
    run = Run(lambda: build(SMALL, 64, 10), data, scheme, LECUN, recipe, [4], ("s", "v"))
    limit, stack_size.STACK_BELOW_PARAMETERS = stack_size.STACK_BELOW_PARAMETERS, 10**9 if stacked else 0
    began = time.perf_counter()
    train_block(run, [Replica(0, s) for s in range(10)])
    stack_size.STACK_BELOW_PARAMETERS = limit
    return time.perf_counter() - began


def test_stacking_small_networks(benchmark: Any) -> None:
    """Why small networks train together on a CPU: ``STACK_BELOW_PARAMETERS``."""
    torch.set_num_threads(1)
    small(True), small(False)
    ratio = benchmark.pedantic(lambda: statistics.median(small(False) / small(True) for _ in range(ROUNDS)), rounds=1)
    torch.set_num_threads(2)
    benchmark.extra_info["one_by_one_over_together"] = ratio
    print(f"\none by one over together, 64-128-128-128-10: {ratio:.2f}")


STUDENTS = CoherenceStudents(embedding=["exact_copy"], t=[3])


def student_products() -> float:
    """CPU milliseconds of the products of one training: 200 steps of 512 samples, 20 inputs, 128 neurons."""
    samples, d, m = STUDENTS.batch_size, STUDENTS.d, STUDENTS.width
    x, W, gradient = torch.randn(samples, d), torch.randn(m, d), torch.randn(samples, m)
    began = time.process_time()
    for _ in range(STUDENTS.epochs * STUDENTS.n_train // samples):
        torch.mm(x, W.T)
        torch.mm(gradient.T, x)
    return 1000 * (time.process_time() - began)


def test_coherence_students_against_their_products(benchmark: Any) -> None:
    """CPU milliseconds of a student among twenty on one thread, by hand and by autograd, and of its bare products."""
    torch.set_num_threads(1)
    dataset = load(Coherence(source="coherence", embedding="exact_copy", t=3), None)
    by_hand = student_run(STUDENTS, dataset, ("s", "v"))
    tensors = [torch.from_numpy(array) for name in ("train", "val") for array in dataset.split(name)]
    by_autograd = replace(by_hand, objective=TrainingData(*tensors, task="regression"))

    def milliseconds(run: Run) -> float:
        began = time.process_time()
        train_block(run, [Replica(0, seed) for seed in range(20)])
        return 1000 * (time.process_time() - began) / 20

    def measure() -> dict[str, float]:
        rounds = [
            (milliseconds(by_hand), milliseconds(by_autograd), statistics.mean(student_products() for _ in range(20)))
            for _ in range(ROUNDS + 2)
        ]
        hand, autograd, products = (statistics.median(column) for column in zip(*rounds, strict=True))
        return {
            "hand_ms": hand,
            "autograd_ms": autograd,
            "products_ms": products,
            "hand_over_products": statistics.median(h / p for h, _, p in rounds),
            "autograd_over_products": statistics.median(a / p for _, a, p in rounds),
        }

    milliseconds(by_hand)
    figures = benchmark.pedantic(measure, rounds=1)
    torch.set_num_threads(2)
    benchmark.extra_info.update(figures)
    print("\n" + "\n".join(f"{name}: {value:.2f}" for name, value in figures.items()))


RESNET_BATCH, PADDING = 128, {"flip": True, "crop": 4}
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def colour_images(n: int) -> TrainingData:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(n, 3 * 32 * 32, generator=generator), torch.arange(n) % 10
    return TrainingData(x, y, x[:0], y[:0], "classification", image=(3, 32, 32), black=(-2.0, -2.0, -2.0))


def seconds_per_epoch(network: Network, data: TrainingData, R: int, device: str, **changes: Any) -> float:
    """The engine's seconds of the last epoch, divided by the number of replicas trained together."""
    recipe, scheme = Recipe(**RECIPE | changes), Standard(name="standard")
    shape = (data.x_train.shape[1], 10)
    run = Run(lambda: build(network, *shape), data, scheme, LECUN, recipe, [recipe.epochs], ("s", "v"), device)
    block = train_block(run, [Replica(0, seed) for seed in range(R)], print)
    return block.history.query("epoch == epoch.max()")["time_s"].mean()


def loop_seconds_per_epoch(
    network: Network, data: TrainingData, batch_size: int, device: str, augment: dict | None = None
) -> float:
    """A plain module's seconds for its second epoch; for its first on a CPU, where nothing warms up."""
    target = torch.device(device)
    x_train, y_train = data.x_train.to(target), data.y_train.to(target)
    n = len(x_train)
    augmentation = Augmentation(data.image, data.black, **augment, device=target) if augment and data.image else None
    model = build(network, data.x_train.shape[1], 10).to(target)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for epoch in range(2 if device == "cuda" else 1):
        began = time.perf_counter()
        for rows in torch.randperm(n).to(target).split(batch_size):
            x, y = x_train[rows], y_train[rows]
            if augmentation is not None:
                x = augmentation(x, augmentation.draw(len(rows), epoch).to(target))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
    return time.perf_counter() - began


def test_resnet20_on_one_thread(benchmark: Any) -> None:
    """ms per image of ResNet20 (width 1), forward pass, gradients and AdamW: plain loop, float32 and bf16 engine."""
    data, network = colour_images(4 * RESNET_BATCH), ResNet20(name="resnet20")
    options = {"batch_size": RESNET_BATCH, "augment": PADDING}
    torch.set_num_threads(1)

    def measure() -> dict[str, float]:
        rounds = [
            (
                loop_seconds_per_epoch(network, data, RESNET_BATCH, "cpu", PADDING),
                seconds_per_epoch(network, data, 1, "cpu", **options),
                seconds_per_epoch(network, data, 1, "cpu", precision="bf16", **options),
            )
            for _ in range(5)
        ]
        names = ("loop_ms_per_image", "engine_ms_per_image", "bf16_engine_ms_per_image")
        figures = {
            name: statistics.median(1000 * taken[i] / len(data.x_train) for taken in rounds)
            for i, name in enumerate(names)
        }
        figures["loop_over_engine"] = statistics.median(loop_s / float32 for loop_s, float32, _ in rounds)
        figures["loop_over_bf16_engine"] = statistics.median(loop_s / bf16 for loop_s, _, bf16 in rounds)
        return figures

    loop_seconds_per_epoch(network, data, RESNET_BATCH, "cpu", PADDING)
    figures = benchmark.pedantic(measure, rounds=1)
    torch.set_num_threads(2)
    benchmark.extra_info.update(figures)
    print("\n" + "\n".join(f"{name}: {value:.3f}" for name, value in figures.items()))


@NEEDS_GPU
def test_mlps_on_a_gpu(benchmark: Any) -> None:
    """Model-epochs per second of 16 MNIST MLPs together against one module at a time, both in TF32."""
    pixels, labels = images()
    x = pixels.float() / 255
    data = TrainingData(x, labels, x[:0], labels[:0], "classification")

    def measure() -> dict[str, float]:
        with arithmetic("tf32", torch.device("cuda")):
            loops = [loop_seconds_per_epoch(WIDE, data, BATCH, "cuda") for _ in range(ROUNDS)]
        engines = [seconds_per_epoch(WIDE, data, 16, "cuda", epochs=2, precision="tf32") for _ in range(ROUNDS)]
        loop_s, engine_s = statistics.median(loops), statistics.median(engines)
        return {
            "loop_model_epochs_per_s": 1 / loop_s,
            "engine_model_epochs_per_s": 1 / engine_s,
            "ratio": loop_s / engine_s,
        }

    figures = benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info.update(figures)
    print("\n" + "\n".join(f"{name}: {value:.2f}" for name, value in figures.items()))


def flop_per_image(network: Network) -> int:
    """Multiplications and additions of convolutions and linear maps in forward and backward pass."""
    model = build(network, 3 * 32 * 32, 10)
    with FlopCounterMode(display=False) as counter:
        model(torch.randn(1, 3 * 32 * 32)).sum().backward()
    return counter.get_total_flops()


@NEEDS_GPU
def test_wide_resnet20_on_a_gpu(benchmark: Any) -> None:
    """TFLOP/s of ResNet20 x8 in bf16, batch 128, augmented."""
    network, data = ResNet20(name="resnet20", width_multiplier=8), colour_images(200 * RESNET_BATCH)
    options = {"epochs": 2, "batch_size": RESNET_BATCH, "augment": PADDING, "precision": "bf16"}
    flop = flop_per_image(network)

    def measure() -> dict[str, float]:
        seconds = statistics.median(seconds_per_epoch(network, data, 4, "cuda", **options) for _ in range(ROUNDS))
        return {
            "GFLOP_per_image": flop / 1e9,
            "images_per_s": len(data.x_train) / seconds,
            "TFLOP_per_s": flop * len(data.x_train) / seconds / 1e12,
        }

    figures = benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info.update(figures)
    print("\n" + "\n".join(f"{name}: {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    print(measure())
