"""Experiments of papers: what is stacked against one after the other, and against plain torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from symlab.data import Digits
from symlab.data.digits import load
from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.mirror_symmetry.convex.sparse_networks import Trained, constraint_of
from symlab.papers.mirror_symmetry.online.product_sgd import draw_samples, step_sgd
from symlab.papers.mirror_symmetry.settings import (
    BLOCKS,
    ENTRIES,
    FACTORS,
    PROXIMAL,
    PRUNED,
    RANK,
    SparseNetworks,
    Sparsity,
)
from symlab.papers.neural_collapse.trained_runs import Descent, objectives
from symlab.papers.permutation_invariance.minima import uniform_minima
from symlab.papers.permutation_invariance.pairs import barriers, match_by_type, minima_barriers, permuted
from symlab.papers.permutation_invariance.population_loss import loss_and_gradient
from symlab.papers.permutation_invariance.settings import Widths
from symlab.papers.permutation_invariance.student_points import Point
from symlab.papers.permutation_invariance.student_training import train_students
from symlab.papers.saddle_to_saddle.descents import descend_from_origin
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.training import stack_size
from symlab.training.on_samples import TrainingData
from symlab.training.settings import Recipe

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
    """A network of depth 6 and width 32 from weights of 0.0001 to a drop of the loss of 1 % on 400 digits."""
    job = Job("b", datasets={"digits": load(Digits(source="digits"), None)})
    settings = Descents(drops=[1e-2], gradients=100_000)

    def leave(rule: str) -> None:
        descend_from_origin(settings, job, "digits", 6, 1e-4, "relu", rule, 0.03, 0)

    return {"along the flow": partial(leave, "flow"), "SGD at the paper's rate": partial(leave, "sgd")}


def mirror_online() -> Ways:
    """A hundred steps of products at 16 rates and 3 seeds."""
    settings, seeds, steps = Sparsity(), 3, 100
    rates = np.array(sorted(settings.lr))
    start = np.random.default_rng(0).normal(0, settings.d**-0.5, (2, seeds, settings.d))
    samples = draw_samples([np.random.default_rng(seed) for seed in range(seeds)], steps, 1, settings.d, 2.0)

    def together() -> None:
        u, w = (np.repeat(part[:, None], len(rates), axis=1) for part in start)
        step_sgd([u, w], rates, samples)

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


def mirror_sparse() -> Ways:
    """200 steps of seven networks of which parts are to vanish, by factors, proximal SGD and pruning."""
    settings = SparseNetworks(steps=200)
    x, y = map(torch.from_numpy, load(Digits(source="digits"), None).split("train"))

    def steps(method: str, structure: str) -> None:
        drawn = torch.Generator().manual_seed(0)
        constraint = constraint_of(structure, settings.width, x.shape[1])
        shapes = [constraint.shape, *(shape for shape, _ in constraint.rest(10))]
        start, *rest = (0.1 * torch.randn(shape, generator=drawn) for shape in shapes)
        trained = Trained(method, constraint, start[None], settings.strengths, settings.lr, rest)
        for _ in range(settings.steps):
            rows = torch.randint(len(x), (settings.batch,), generator=drawn)
            trained.learn(x[rows], y[rows])

    both = itertools.product((FACTORS, PROXIMAL, PRUNED), (ENTRIES, BLOCKS, RANK))
    return {f"{method}, {structure}": partial(steps, method, structure) for method, structure in both}


def collapse_depth_2() -> Ways:
    """A residual network on 300 digits: 300 steps of Adam and 300 of L-BFGS, or 3000 of Adam; prints the losses."""
    return _collapse(2)


def collapse_depth_8() -> Ways:
    """The same, 8 layers deep."""
    return _collapse(8)


def full_batches() -> Ways:
    """20 iterations of L-BFGS on six networks, in a stack or one by one: of residual ones and of transformers."""
    x, y = pooled_samples(load(Digits(source="digits"), None), per_class=30)
    data = TrainingData(x, y, x[:0], y[:0], "classification")
    kinds = {"RN1": partial(LayerNormResNet, 64, 10, 64, 5), "T11": partial(CausalTransformer, 64, 10, 64, 3, patch=4)}

    def minimise(build: Callable[[], nn.Module], limit: int, single: float) -> None:
        descent = Descent(build, data, (0.005, 0.005), ("b", "v"), 1, 20, 0.005, 6, single=single)
        before, stack_size.LARGEST_FULL_BATCH = stack_size.LARGEST_FULL_BATCH, limit
        descent.run(Job("b"))
        stack_size.LARGEST_FULL_BATCH = before

    return {
        f"{name}, {how}, {precision}": partial(minimise, build, limit, single)
        for name, build in kinds.items()
        for how, limit in (("stacked", 10**9), ("one by one", 0))
        for precision, single in (("float64", 0.0), ("float32", 1.0))
    }


def _collapse(depth: int) -> Ways:
    x, y = pooled_samples(load(Digits(source="digits"), None), per_class=30)

    def build() -> LayerNormResNet:
        return LayerNormResNet(64, 10, 64, depth)

    data = TrainingData(x, y, x[:0], y[:0], "classification")
    descent = Descent(build, data, (0.005, 0.005), ("b", "v"), 300, 300, 0.005, 2)
    recipe = descent.recipe().model_copy(update={"epochs": 3000, "polish": None})

    def ends(of: Recipe) -> None:
        state, _ = descent.run(Job("b"), of)
        print("losses {:.5f}, {:.5f}".format(*objectives(descent, state)))

    return {"Adam, L-BFGS": partial(ends, descent.recipe()), "Adam": partial(ends, recipe)}
