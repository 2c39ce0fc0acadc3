"""Experiments of papers: what is stacked against one after the other, and against plain torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from symlab.networks import TorchDefault
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.mirror_symmetry.online.product_sgd import draw_samples, step_products
from symlab.papers.mirror_symmetry.settings import Sparsity
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.trained_runs import penalties_by_path
from symlab.papers.permutation_invariance.minima import uniform_minima
from symlab.papers.permutation_invariance.population_loss import loss_and_gradient
from symlab.papers.permutation_invariance.settings import Widths
from symlab.papers.permutation_invariance.student_barriers import barriers, minima_barriers, permuted
from symlab.papers.permutation_invariance.student_points import Point
from symlab.papers.permutation_invariance.student_training import train_students
from symlab.papers.permutation_invariance.type_matching import match_by_type
from symlab.papers.saddle_to_saddle.first_escape import descent_run
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

if TYPE_CHECKING:
    from run import Ways


def permutation_students() -> Ways:
    """40 students of 12 neurons for 1,000 steps."""
    point, grid = Point(6, 8, 12, 8 / 12, 1 / 96), Widths(M=6, d=8, m=12, runs=40, steps=1000)

    def plain() -> None:
        for _ in range(grid.runs):
            W = point.init_std * torch.randn(point.m, point.d, dtype=torch.float64)
            for _ in range(grid.steps):
                loss, gradient = loss_and_gradient(W, point.M)
                if loss < grid.stop_below:
                    break
                W = W - point.lr * gradient

    return {"stacked": lambda: train_students(point, range(grid.runs), grid, ("b", "s")), "one by one": plain}


def permutation_barriers() -> Ways:
    """Ten pairs of minima, M = 100, m = 300: rows of a type merged, or all."""
    lambdas = np.arange(11) / 10
    first, second = (uniform_minima(100, 100, 300, 10, np.random.default_rng(end)) for end in (0, 1))
    pi = match_by_type(first.types, first.values, second.types, second.values)
    return {
        "merged": lambda: minima_barriers(first, second, pi, lambdas),
        "all rows": lambda: barriers(first.dense(), permuted(second.dense(), pi), first.M, lambdas),
    }


def saddle_descents() -> Ways:
    """300 steps of six networks of depth 6 and width 100, batches of 32."""
    depth, width, seeds, batch = 6, 100, 6, 32
    x, y = torch.randn(3200, 784), torch.randint(10, (3200,))
    grid = Descents(L=[depth], width=width, seeds=seeds, batch_size=batch, steps=100)
    run = descent_run(grid, x, y, 10, ("b", "s"), depth, 0.01, "relu")
    run = replace(run, recipe=run.recipe.model_copy(update={"epochs": 3}))

    def plain() -> None:
        for _ in range(seeds):
            sizes = [784, *[width] * (depth - 1), 10]
            layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(sizes)]
            net = nn.Sequential(*[each for layer in layers for each in (layer, nn.ReLU())][:-1])
            for layer in layers:
                nn.init.normal_(layer.weight, std=0.01)
            for step in range(300):
                rows = torch.arange(batch) + batch * (step % 100)
                net.zero_grad()
                nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
                with torch.no_grad():
                    norm = torch.sqrt(sum(p.square().sum() for p in net.parameters()))
                    for p in net.parameters():
                        p -= 10 / norm ** (depth - 2) * p.grad

    return {"stacked": lambda: train_block(run, [Replica(0, seed) for seed in range(seeds)]), "loop": plain}


def mirror_online() -> Ways:
    """A hundred steps of products at 16 rates and 3 seeds."""
    settings, seeds, steps = Sparsity(), 3, 100
    rates = np.array(sorted(settings.lr))
    start = np.random.default_rng(0).normal(0, settings.d**-0.5, (2, seeds, settings.d))
    samples = draw_samples([np.random.default_rng(seed) for seed in range(seeds)], steps, 1, settings.d, 2.0)

    def together() -> None:
        u, w = (np.repeat(part[:, None], len(rates), axis=1) for part in start)
        step_products(u, w, rates, samples)

    def plain() -> None:
        for lr in rates:
            for seed in range(seeds):
                weights = [torch.tensor(part[seed], requires_grad=True) for part in start]
                optimizer = torch.optim.SGD(weights, lr=float(lr))
                x, y = torch.from_numpy(samples.x[:, seed, 0]), torch.from_numpy(samples.y[:, seed, 0])
                for inputs, label in zip(x, y, strict=True):
                    optimizer.zero_grad()
                    (((weights[0] * weights[1]) @ inputs - label) ** 2).backward()
                    optimizer.step()

    return {"stacked": together, "loop": plain}


def collapse_depth_2() -> Ways:
    """60 full-batch steps of four residual networks on 300 samples."""
    return _collapse(2)


def collapse_depth_13() -> Ways:
    """The same, 13 layers deep."""
    return _collapse(13)


def _collapse(depth: int) -> Ways:
    x, y, penalty, steps = torch.randn(300, 64), torch.arange(300) % 10, 0.005, 60

    def make() -> LayerNormResNet:
        return LayerNormResNet(64, 10, 64, depth)

    recipe = Recipe(optimizer="adam", lr=0.005, weight_decay=0, penalties=penalties_by_path(make(), penalty, penalty),
                    epochs=steps, batch_size=None)  # fmt: skip

    def engine(kind: type[TrainingData]) -> None:
        samples = kind(x, y, x[:0], y[:0], "classification")
        run = Run(make, samples, Standard(name="standard"), TorchDefault(name="torch"), recipe, [], ("b", "v"))
        train_block(run, [Replica(0, seed) for seed in range(4)])

    def plain() -> None:
        for _ in range(4):
            network = make()
            optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
            named = network.named_parameters()
            penalised: list[Tensor] = [p for name, p in named if "weight" in name and not name.startswith("embedding")]
            for _ in range(steps):
                loss = nn.functional.cross_entropy(network(x), y)
                loss = loss + penalty / 2 * sum(p.square().sum() for p in penalised)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return {
        "room's stack": partial(engine, ResNetData),
        "kernel's engine": partial(engine, TrainingData),
        "loop": plain,
    }
