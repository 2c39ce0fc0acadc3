"""Training on a GPU: the engine's captured steps of a stack against a plain loop, and against the GPU's own limits.

    python benchmarks/gpu.py [NAME ...] [--epochs 5]

prints for each kind of network the wall-clock seconds of a model-epoch (the median over epochs after the first; the
engine's are its own history's, so that capturing and choosing the stack's size count apart, in "all"), and what share
of the GPU's peak its products come to.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from training import MNIST_SCHEMES, WIDE, masked_mlp

from symlab.networks import Lecun, Network, ResNet20, build
from symlab.schemes import Scheme, Standard
from symlab.training.augmentation import Augmentation
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

# Dense, by the data sheets of the H100 and H200 (SXM), in TFLOP/s: the float32 cores, the tensor cores in bfloat16.
PEAKS = {"float32": 67.0, "bf16": 989.0}


@dataclass(frozen=True)
class Work:
    """Networks to train, and a plain module of the same."""

    network: Network
    scheme: Scheme
    networks: int
    n: int
    batch: int
    image: tuple[int, int, int] | None = None
    precision: str = "float32"
    plain: Callable[[], nn.Module] | None = None


def works() -> dict[str, Work]:
    """The papers' own sizes: MLPs of MNIST's 54,000 images, residual networks of a part of CIFAR's."""
    standard, image = Standard(name="standard"), (3, 32, 32)
    mlps = {
        f"16 MNIST MLPs, {name}": Work(WIDE, scheme, 16, 54_000, 64, plain=masked_mlp if name != "standard" else None)
        for name, scheme in MNIST_SCHEMES.items()
    }
    resnets = {
        f"{n} ResNet20 x{wide}, {precision}": Work(
            ResNet20(name="resnet20", width_multiplier=wide), standard, n, samples, 128, image, precision
        )
        for wide, n, samples in [(1, 6, 12_800), (8, 2, 6_400)]
        for precision in ("float32", "bf16")
    }
    return mlps | resnets


def engine(work: Work, data: TrainingData, epochs: int) -> tuple[float, float]:
    """Seconds of a model-epoch and of everything."""
    augment = {"flip": True, "crop": 4} if work.image else None
    recipe = Recipe(epochs=epochs, batch_size=work.batch, precision=work.precision, augment=augment)
    sizes = data.x_train.shape[1], 10
    run = Run(
        lambda: build(work.network, *sizes),
        data,
        work.scheme,
        Lecun(name="lecun"),
        recipe,
        [epochs],
        ("s", "v"),
        "cuda",
    )
    began = time.perf_counter()
    history = train_block(run, [Replica(0, seed) for seed in range(work.networks)], print).history
    return float(history[history.epoch > 1].time_s.median()), time.perf_counter() - began


def loop(work: Work, data: TrainingData, epochs: int) -> float:
    """Seconds of an epoch of one network in a plain loop."""
    network = work.plain() if work.plain else build(work.network, data.x_train.shape[1], 10)
    augmentation = Augmentation(work.image, data.black, True, 4, torch.device("cuda")) if work.image else None
    network.cuda()
    x, y, times = data.x_train.cuda(), data.y_train.cuda(), []
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    for _ in range(epochs):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for rows in torch.randperm(len(x), device="cuda").split(work.batch):
            batch = x[rows]
            if augmentation is not None:
                batch = augmentation(batch, augmentation.draw(len(rows), 0).cuda())
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=work.precision == "bf16"):
                outputs = network(batch)
            nn.functional.cross_entropy(outputs.float(), y[rows]).backward()
            optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return median(times[1:])


def flops_of_a_sample(work: Work, inputs: int) -> float:
    """Of products in a training step."""
    network, x = build(work.network, inputs, 10), torch.randn(2, inputs)
    with FlopCounterMode(display=False) as counter:
        network(x).sum().backward()
    return counter.get_total_flops() / 2


def main() -> None:
    """Time the kinds that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(works()))
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.epochs < 2:
        parser.error("--epochs: at least 2, for the first does not count")
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    for name in arguments.names or works():
        work = works()[name]
        torch.manual_seed(0)
        inputs = 3072 if work.image else 784
        x, y = torch.randn(work.n, inputs), torch.arange(work.n) % 10
        data = TrainingData(x, y, x[:0], y[:0], "classification", image=work.image, black=(-2.0, -2.0, -2.0))
        own, everything = engine(work, data, arguments.epochs)
        plain = loop(work, data, 2)
        share = flops_of_a_sample(work, inputs) * work.n / own / 1e12 / PEAKS[work.precision]
        print(
            f"{name}: {own:.4f} s a model-epoch ({1 / own:.2f} a second; all {everything:.1f} s), plain loop "
            f"{plain:.3f} s ({plain / own:.1f} times), {100 * share:.1f} % of the peak",
            flush=True,
        )


if __name__ == "__main__":
    main()
