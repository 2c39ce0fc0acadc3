"""Training: the engine against plain modules with torch.optim, and against nothing but its matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symlab.data import Coherence
from symlab.data.coherence import load
from symlab.networks import MLP, Lecun, Network, ResNet20, build
from symlab.papers.neuron_identifiability.coherence import student_run
from symlab.papers.neuron_identifiability.settings import CoherenceStudents
from symlab.products import fast_products
from symlab.schemes import Scheme, Standard, WAsymmetric
from symlab.training import stack_size
from symlab.training.augmentation import Augmentation
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

if TYPE_CHECKING:
    from run import Ways

SIZES, BATCH, STEPS = [784, 512, 512, 512, 10], 64, 200
WIDE = MLP(name="mlp", widths=SIZES[1:-1])
W_ASYMMETRIC = WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=[64, 64, 64, 256])
STANDARD = Standard(name="standard")
MNIST_SCHEMES = {"W-asymmetric": W_ASYMMETRIC, "standard": STANDARD}


def mnist_mlp_w_asymmetric() -> Ways:
    """An epoch of 12,800 images."""
    return _mlp(W_ASYMMETRIC)


def mnist_mlp_standard() -> Ways:
    """The same without fixed weights."""
    return _mlp(STANDARD)


def _mlp(scheme: Scheme) -> Ways:
    data = _samples(BATCH * STEPS, SIZES[0])
    return {
        "engine": _engine(WIDE, data, scheme, batch_size=BATCH),
        "engine, bf16": _engine(WIDE, data, scheme, batch_size=BATCH, precision="bf16"),
        "loop": lambda: _loop(masked_mlp() if scheme is W_ASYMMETRIC else build(WIDE, 784, 10), data, BATCH),
        "products": partial(_products, SIZES, BATCH, STEPS),
    }


def small_mlps() -> Ways:
    """Ten MLPs of the digits' size, stacked or one by one."""
    data, small = _samples(1437, 64), MLP(name="mlp", widths=[128, 128, 128])
    train = _engine(small, data, W_ASYMMETRIC.model_copy(update={"n_fixed": 8}), range(10), batch_size=64, epochs=4)

    def below(parameters: int) -> None:
        limit, stack_size.STACK_BELOW_PARAMETERS = stack_size.STACK_BELOW_PARAMETERS, parameters
        train()
        stack_size.STACK_BELOW_PARAMETERS = limit

    return {"stacked": lambda: below(10**9), "one by one": lambda: below(0)}


def resnet20() -> Ways:
    """Four augmented batches of 128 images."""
    data, padding = _samples(512, 3072, image=(3, 32, 32), black=(-2.0, -2.0, -2.0)), {"flip": True, "crop": 4}
    network = ResNet20(name="resnet20")
    engine = partial(_engine, network, data, STANDARD, batch_size=128, augment=padding)
    augmentation = Augmentation((3, 32, 32), (-2.0, -2.0, -2.0), **padding, device=torch.device("cpu"))
    loop = partial(_loop, data=data, batch=128, augmentation=augmentation)
    return {
        "engine": engine(),
        "engine, bf16": engine(precision="bf16"),
        "loop": lambda: loop(build(network, 3072, 10)),
    }


def coherence_students() -> Ways:
    """Twenty students of 200 steps: gradients by hand, by autograd, and the products alone."""
    settings = CoherenceStudents(embedding=["exact_copy"], t=[3])
    dataset = load(Coherence(source="coherence", embedding="exact_copy", t=3), None)
    by_hand = student_run(settings, dataset, ("s", "v"))
    tensors = [torch.from_numpy(array) for name in ("train", "val") for array in dataset.split(name)]
    by_autograd = replace(by_hand, objective=TrainingData(*tensors, task="regression"))
    steps = 20 * settings.epochs * settings.n_train // settings.batch_size
    return {
        "by hand": lambda: train_block(by_hand, [Replica(0, seed) for seed in range(20)]),
        "autograd": lambda: train_block(by_autograd, [Replica(0, seed) for seed in range(20)]),
        "products": partial(_products, [settings.d, settings.width], settings.batch_size, steps),
    }


def _samples(n: int, inputs: int, **image: Any) -> TrainingData:
    x, y = torch.randn(n, inputs), torch.arange(n) % 10
    return TrainingData(x, y, x[:0], y[:0], "classification", **image)


def _engine(
    network: Network, data: TrainingData, scheme: Scheme, seeds: range = range(1), **recipe: Any
) -> Callable[[], Any]:
    settings = Recipe(**{"epochs": 1} | recipe)
    sizes = data.x_train.shape[1], 10
    run = Run(
        lambda: build(network, *sizes), data, scheme, Lecun(name="lecun"), settings, [settings.epochs], ("s", "v")
    )
    return lambda: train_block(run, [Replica(0, seed) for seed in seeds])


def _loop(model: nn.Module, data: TrainingData, batch: int, augmentation: Augmentation | None = None) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for rows in torch.randperm(len(data.x_train)).split(batch):
        x = data.x_train[rows]
        if augmentation is not None:
            x = augmentation(x, augmentation.draw(len(rows), 0))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), data.y_train[rows]).backward()
        optimizer.step()


@fast_products()
def _products(sizes: list[int], batch: int, steps: int) -> None:
    layers = [
        (torch.randn(batch, fan_in), torch.randn(fan_out, fan_in), torch.randn(batch, fan_out))
        for fan_in, fan_out in pairwise(sizes)
    ]
    for _ in range(steps):
        for layer, (x, W, g) in enumerate(layers):
            torch.mm(x, W.T)
            torch.mm(g.T, x)
            if layer:
                torch.mm(g, W)


def masked_mlp() -> nn.Module:
    """The MNIST MLP with fixed weights as the main paper's code has it."""
    layers: list[nn.Module] = []
    for fan_in, fan_out, n_fixed in zip(SIZES, SIZES[1:], [64, 64, 64, 256], strict=False):
        layers += [_MaskedLinear(fan_in, fan_out, n_fixed)]
        layers += [nn.LayerNorm(fan_out), nn.GELU()] if fan_out != SIZES[-1] else []
    return nn.Sequential(*layers)


class _MaskedLinear(nn.Module):
    """W_eff = mask * W + (1 - mask) * fixed, rebuilt in every forward pass, as the paper's code does it."""

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
