"""Networks minimised to collapse with the kernel's loop: Adam, then L-BFGS; deeper ones from shallower."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from symlab.artifacts import Tensors
from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples
from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.papers.neural_collapse.growth import grow, pad
from symlab.papers.neural_collapse.networks import WithoutBranches, build_network, penalties_by_path
from symlab.papers.neural_collapse.objectives import Margins, Tokens
from symlab.papers.neural_collapse.settings import OnSamples, Runs
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Constant, Cosine, Polish, Recipe
from symlab.training.stacks import TrainingData

CALM = 1e-3
"""Tolerance of networks whose loss is told."""
TASKS = {"cross_entropy": "classification", "squared_error": "one_hot", "margins": "margins"}
TESTED = 1000
"""Samples of the test part, at most."""
BATCH, MOMENTUM = 32, 0.9
"""Of the controls by minibatches."""
SHARES = (1 / 2, 1 / 8, 1 / 32, 1 / 128, 1 / 512)
"""What the second of two blocks has of the branch that they were: tried of each network when it grows."""
FIRST = 2
"""Times the effort of deeper ones that the first depth of grown networks has: theirs is the longest way."""
RIDGE = 1e-3
"""Share of the mean variance that is added to each variance before inputs are divided by their roots."""
TINY = 1e-30


@dataclass(frozen=True)
class Descent:
    """How networks are trained: what is descended, by which networks, for how long, from where.

    build: makes a network; penalties: of its hidden weights and of its last layer.
    tolerance: it ends where the gradient's norm is at most so many times the loss.
    """

    build: Callable[[], nn.Module]
    data: TrainingData
    penalties: tuple[float, float]
    key: tuple[str, str]
    steps: int
    iterations: int
    lr: float
    seeds: int
    start: State | None = None
    tolerance: float = CALM

    def recipe(self) -> Recipe:
        """Adam on all samples with a cosine to 0, then L-BFGS."""
        return Recipe(
            optimizer="adam",
            lr=self.lr,
            weight_decay=0,
            penalties=penalties_by_path(self.build(), *self.penalties),
            epochs=self.steps,
            batch_size=None,
            schedule=Cosine(name="cosine"),
            precision="float32" if self.steps else "float64",
            polish=Polish(iterations=self.iterations, gradient=self.tolerance),
        )

    def run(self, job: Job, recipe: Recipe | None = None, checkpoints: bool = False) -> tuple[State, Tensors]:
        """States [seeds, ...] at the end, in float64, and where they are: ``objective``, ``gradient`` over it, costs.

        Args:
            recipe: another than ``recipe()``.
            checkpoints: whether the job's are this run's.
        """
        recipe = recipe or self.recipe()
        members = [Replica(0, seed) for seed in range(self.seeds)]
        scheme, init = Standard(name="standard"), TorchDefault(name="torch")
        run = Run(self.build, self.data, scheme, init, recipe, [recipe.epochs], self.key, job.device, start=self.start)
        block = train_block(
            run, members, _every(job, max(recipe.epochs // 5, 1)), job.checkpoints if checkpoints else None
        )
        state = {name: tensor.double() for name, tensor in block.snapshots[recipe.epochs].items()}
        ended = block.polished.sort_values("seed").drop(columns=["mask_seed", "seed"])
        return state, {name: values.to_numpy(float) for name, values in ended.items()}


def _every(job: Job, epochs: int) -> Any:
    """Passes on one in so many of the lines of training: with full batches every step is an epoch."""
    told = count()
    return lambda line: job.report(line) if next(told) % epochs == 0 else None


@dataclass(frozen=True)
class Samples:
    """Inputs and labels of a grid, and others to test on."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int


def samples_of(grid: OnSamples, dataset: Dataset) -> Samples:
    """The first of each class, tested on the data set's test part; of texts by token, all tokens but the last."""
    if isinstance(grid, Runs) and grid.every_token:
        x, _ = pooled_samples(dataset, samples=grid.per_class)
        x_test = torch.from_numpy(dataset.split("test")[0])[: grid.per_class]
        words = int(dataset.x_train.max()) + 1
        return Samples(x[:, :-1], x[:, 1:].long(), x_test[:, :-1], x_test[:, 1:].long(), words)
    x, y = pooled_samples(dataset, grid.pool, per_class=grid.per_class, scaled=False)
    x_test, y_test = pooled_samples(dataset, grid.pool, samples=TESTED, split="test", scaled=False)
    if isinstance(grid, Runs) and grid.optimizer != "lbfgs":  # as in practice
        mean, std = (x.mean(), x.std()) if grid.pool > 1 else (0, 1)
        x, x_test = (x - mean) / std, (x_test - mean) / std
    elif dataset.image is not None:
        patch = grid.patch if isinstance(grid, Runs) else None
        x, x_test = whiten(x, x_test, None if patch is None else (dataset.image[0], patch))
    return Samples(x, y, x_test, y_test, dataset.n_classes)


def whiten(
    x: Float[Tensor, "n i"], x_test: Float[Tensor, "m i"], patch: tuple[int, int] | None = None
) -> tuple[Float[Tensor, "n i"], Float[Tensor, "m i"]]:
    """Images whose pixels, or those of all patches, have mean 0 and nearly the identity as their covariance in ``x``.

    The first layer is linear, with a bias and without a penalty: it undoes the map, so no optimum changes. L-BFGS
    comes there in half the iterations.

    Args:
        patch: channels and side of the parts that the first layer reads; None where it reads all at once.

    Raises:
        UserError: patches do not fill the images.
    """
    channels, side = patch or (1, 1)
    count, left = divmod(math.isqrt(x.shape[1] // channels), side)
    if patch is not None and (left or channels * (side * count) ** 2 != x.shape[1]):
        raise UserError(f"patch = {side} does not cut the images, of {x.shape[1]} inputs, into equal squares.")

    def cut(images: Tensor) -> Tensor:
        if patch is None:
            return images.double()
        parts = images.double().unflatten(1, (channels, count, side, count, side))
        return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(0, 2)

    def joined(parts: Tensor) -> Tensor:
        if patch is None:
            return parts.float()
        images = parts.unflatten(0, (-1, count, count)).unflatten(3, (channels, side, side))
        return images.permute(0, 3, 1, 4, 2, 5).flatten(1).float()

    mean, covariance = cut(x).mean(0), torch.cov(cut(x).T)
    variances, axes = torch.linalg.eigh(covariance)
    # Where all images are equal they stay so, at 0.
    to_one = axes * (variances + RIDGE * variances.mean()).clamp(min=TINY).rsqrt() @ axes.T
    return joined((cut(x) - mean) @ to_one), joined((cut(x_test) - mean) @ to_one)


def objective_on(grid: Runs, samples: Samples) -> TrainingData:
    """What a grid's networks descend."""
    kind = Tokens if grid.every_token else Margins if grid.loss == "margins" else TrainingData
    task = "tokens" if grid.every_token else TASKS[grid.loss]
    return kind(samples.x, samples.y, samples.x[:0], samples.y[:0], task)


def minimise_depth(
    grid: Runs, job: Job, dataset: str, L: int, after: int, before: Mapping[str, Any] | None = None
) -> Tensors:
    """Networks of one depth, from random weights or grown from those of the depth before, and the reference.

    Returns:
        ``state/<parameter>`` [seeds + 1, ...] in float64, the last of them the reference's: the best network minimised
        further, or the reference of the depth before with blocks of zeros. Likewise ``objective`` (loss and
        penalties), ``gradient`` (its norm over it) and ``work`` (gradients times depth since random weights); the
        objective ``without`` branches of residual networks, which every one of them contains.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
        UserError: samples or patches do not fit the data set.
    """
    samples = samples_of(grid, job.datasets[dataset])
    blocks = L if grid.transformer else L - 1

    def build() -> nn.Module:
        return build_network(grid, job.datasets[dataset], samples.x.shape[1], samples.classes, L)

    name = "_".join(map(str, (dataset, grid.network, grid.pre_norm, grid.loss, grid.by_depth, L)))
    earlier = {} if before is None else {n: torch.from_numpy(a) for n, a in _states(before).items()}
    steps = 0 if earlier else grid.steps
    first = grid.grown and after == 0
    iterations = max((FIRST if first else 1) * grid.effort // L, 1)
    key = (job.study, name)
    lineages = Descent(
        build, objective_on(grid, samples), grid.penalties(L), key, steps, iterations, grid.lr, grid.seeds
    )
    if earlier:
        start = grown_well(lineages, {n: t[: grid.seeds] for n, t in earlier.items()}, blocks)
        lineages = replace(lineages, start=start)
    if grid.optimizer != "lbfgs":
        return _controls(grid, job, lineages)
    state, found = lineages.run(job, checkpoints=True)
    work = L * (steps + found["evaluations"]) + (0 if before is None else before["work"][: grid.seeds])
    if grid.reference:
        padded = pad({n: t[grid.seeds :] for n, t in earlier.items()}, blocks) if earlier else None
        best, more = _reference(grid, job, lineages, state, found, padded)
        state = {n: torch.cat([state[n], best[n]]) for n in state}
        work = np.append(work, work.max() + L * more["evaluations"])
        found = {n: np.append(found[n], more[n]) for n in found}
    same = before is not None and grid.by_depth != "uniform"
    bare = before["without"] if same else np.array([_without_branches(grid, job, lineages, samples)])  # type: ignore[index]
    kept = {f"state/{n}": t.numpy() for n, t in state.items()}
    return {**kept, "objective": found["objective"], "gradient": found["gradient"], "work": work, "without": bare}


def _states(found: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What was kept of networks, by parameter."""
    return {name.removeprefix("state/"): array for name, array in found.items() if name.startswith("state/")}


def _reference(
    grid: Runs, job: Job, descent: Descent, state: State, found: Tensors, padded: State | None
) -> tuple[State, Tensors]:
    """The best of these networks, or the one of the depth before with blocks of zeros, minimised further."""
    seed = int(np.argmin(found["objective"]))
    best = {name: tensor[seed : seed + 1] for name, tensor in state.items()}
    if padded is not None and objectives(descent, padded)[0] < found["objective"][seed]:
        best = padded
    longer = replace(descent, start=best, steps=0, seeds=1, iterations=int(grid.reference * descent.iterations))
    return longer.run(job)


def grown_well(descent: Descent, state: State, blocks: int) -> State:
    """Of each network the deeper one, of splits into unequal and equal shares, that starts well.

    That is the one of the largest share whose objective is no higher than with blocks of zeros, or the one of the
    least: the larger the share, the farther the new block is from zeros, where it would stay.
    """
    ways = [grow(state, blocks, share) for share in SHARES]
    found, zeros = np.array([objectives(descent, way) for way in ways]), objectives(descent, grow(state, blocks, 0))
    best = np.where((found <= zeros).any(axis=0), np.argmax(found <= zeros, axis=0), np.argmin(found, axis=0))
    return {name: torch.stack([ways[way][name][seed] for seed, way in enumerate(best)]) for name in ways[0]}


@torch.no_grad()
def objectives(descent: Descent, state: State) -> Float[np.ndarray, " seeds"]:
    """Loss and penalties of each network of a state [seeds, ...]."""
    network, data, (hidden, last) = descent.build().double(), descent.data.widened(), descent.penalties
    found = []
    for values in zip(*state.values(), strict=True):
        one = {name: tensor.double() for name, tensor in zip(state, values, strict=True)}
        fit = data.losses(functional_call(network, one, (data.x_train,)), data.y_train)
        blocks = sum(t.square().sum() for n, t in one.items() if n.startswith("blocks.") and "bias" not in n)
        found.append(float(fit + (hidden * blocks + last * one["readout.weight"].square().sum()) / 2))
    return np.array(found)


def _without_branches(grid: Runs, job: Job, descent: Descent, samples: Samples) -> float:
    """The least objective that is found with hidden weights of 0 and free biases; NaN for transformers."""
    if grid.transformer or grid.pre_norm:
        return np.nan

    def build() -> nn.Module:
        layers = int(grid.network[2])
        return WithoutBranches(samples.x.shape[1], samples.classes, grid.width, layers, grid.has_bias)

    key = (job.study, f"{descent.key[1]}_without")
    bare = replace(descent, build=build, key=key, steps=grid.steps, iterations=grid.effort // 4, start=None, seeds=1)
    return float(bare.run(job)[1]["objective"][0])


def _controls(grid: Runs, job: Job, descent: Descent) -> Tensors:
    """The same networks by minibatches, as they are trained in practice."""
    adamw = grid.optimizer == "adamw"
    recipe = Recipe(
        optimizer="adamw" if adamw else "sgd",
        lr=grid.lr,
        momentum=MOMENTUM,
        weight_decay=grid.penalty if adamw else 0,
        penalties={} if adamw else penalties_by_path(descent.build(), *descent.penalties),
        epochs=grid.steps,
        batch_size=BATCH,
        schedule=Cosine(name="cosine") if adamw else Constant(name="constant"),
    )
    state, _ = descent.run(job, recipe, checkpoints=True)
    nan = np.full(grid.seeds, np.nan)
    kept = {f"state/{name}": tensor.numpy() for name, tensor in state.items()}
    return {**kept, "objective": objectives(descent, state), "gradient": nan, "work": nan, "without": nan[:1]}
