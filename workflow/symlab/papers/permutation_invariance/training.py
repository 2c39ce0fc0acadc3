"""Students trained from many seeds by the replica engine: gradient descent on the population loss, or online SGD."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from symlab.artifacts import ArtifactError, read_tensors, write_tensors
from symlab.papers.permutation_invariance.grid import STEPS_PER_EPOCH, Point
from symlab.papers.permutation_invariance.kernel import batch_loss_and_gradient, loss_and_gradient
from symlab.papers.permutation_invariance.student import Student
from symlab.training.population import STEPS, Population
from symlab.training.replicas import Replica, train_block
from symlab.training.resume import Checkpoints

# In units of the loss of the student without neurons: whatever grows beyond it never came back.
DIVERGED = 1e6

Trained = dict[str, Tensor]


def train_students(
    point: Point,
    seeds: Sequence[int],
    grid: dict[str, Any],
    key: tuple[str, str],
    checkpoints: Checkpoints | None = None,
) -> Trained:
    """Train one student a seed from W ~ N(0, init_std^2) until its population loss is below ``stop_below``.

    Args:
        seeds: of the students; a student depends on its own alone.
        grid: ``steps`` (at most that many, rounded up to epochs), ``stop_below`` and ``batch`` (inputs of each step of
            online SGD; None for gradient descent on the population loss, without momentum).
        key: (study, role), which the generators are derived from, with the point.

    Returns:
        ``W`` [r, m, d] (float64), and ``steps`` [r] that were taken. A run that diverged keeps its last weights.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
    """
    without_neurons = torch.zeros(1, 1, point.d, dtype=torch.float64)
    loss = partial(loss_and_gradient, M=point.M)
    problem = Population(
        loss,
        steps=STEPS_PER_EPOCH,
        stop_below=grid["stop_below"],
        stop_above=DIVERGED * float(loss(without_neurons)[0]),
        draw=partial(on_sphere, grid["batch"], point.d) if grid["batch"] else None,
        loss_and_gradient_on=partial(batch_loss_and_gradient, M=point.M) if grid["batch"] else None,
    )
    epochs = -(-grid["steps"] // STEPS_PER_EPOCH)
    recipe = {
        "optimizer": "sgd",
        "lr": point.lr,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "decay_bias": True,
        "epochs": epochs,
        "batch_size": STEPS_PER_EPOCH,
        "schedule": {"name": "constant"},
        "augment": None,
        "precision": "float32",
    }
    block = train_block(
        partial(Student, point.d, point.m),
        problem,
        [Replica(0, seed) for seed in seeds],
        {"name": "standard"},
        {"name": "normal", "std": point.init_std},
        recipe,
        [epochs],
        (key[0], f"{key[1]}/{point.name}"),
        checkpoints=checkpoints,
    )
    state = block.snapshots[epochs]
    return {"W": state["linear.weight"], "steps": state[STEPS]}


def on_sphere(b: int, d: int, steps: int, generator: torch.Generator) -> Float64[Tensor, "s b d"]:
    """Inputs drawn uniformly from the unit sphere of R^d."""
    x = torch.randn(steps, b, d, dtype=torch.float64, generator=generator)
    return x / x.norm(dim=-1, keepdim=True)


def kept_or_made(
    folder: Path, name: str, same: dict[str, Any], make: Callable[[Checkpoints], Trained], minutes: float, report: Any
) -> Trained:
    """What an earlier, killed run of the job has made of this point, or what ``make`` makes now, which is then kept.

    Args:
        folder: the job's folder for checkpoints.
        same: says what is trained, by which code; anything kept for something else is made anew.
        minutes: between two checkpoints within the point.
    """
    path = folder / f"{name}.safetensors"
    key = json.loads(json.dumps(same))
    if path.exists():
        try:
            arrays, header = read_tensors(path, "checkpoint")
        except ArtifactError as error:
            report(f"{name} is trained anew: {error}")
        else:
            if header["key"] == key:
                return {name: torch.from_numpy(array) for name, array in arrays.items()}
    with Checkpoints(folder / f"{name}_unfinished.safetensors", same, minutes, report) as checkpoints:
        trained = make(checkpoints)
    write_tensors(path, {name: tensor.numpy() for name, tensor in trained.items()}, "checkpoint", {"key": key})
    return trained
