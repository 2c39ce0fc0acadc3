"""Students trained from many seeds by the replica engine: gradient descent on the population loss, or online SGD."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.networks import Normal
from symlab.papers.permutation_invariance.population import STEPS, Population
from symlab.papers.permutation_invariance.population_loss import batch_loss_and_gradient, loss_and_gradient
from symlab.papers.permutation_invariance.settings import Grid
from symlab.papers.permutation_invariance.student_points import STEPS_PER_EPOCH, Point
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints
from symlab.training.settings import Recipe

# In units of the loss of the student without neurons: whatever grows beyond it never came back.
DIVERGED = 1e6


class Student(nn.Module):
    """f_W(x) = sum_i relu(w_i . x), in float64; the rows of ``linear.weight`` [m, d] are its neurons (Section 2)."""

    def __init__(self, d: int, m: int):
        super().__init__()
        self.linear = nn.Linear(d, m, bias=False, dtype=torch.float64)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        return torch.relu(self.linear(x)).sum(dim=-1, keepdim=True)


def train_point(grid: Grid, job: Job, **point: Any) -> Tensors:
    """What ``train_students`` gives of one size, learning rate and scale of first weights of a grid."""
    trained = train_students(Point(**point), range(grid.runs), grid, (job.study, grid.role), job.checkpoints)
    return {name: tensor.numpy() for name, tensor in trained.items()}


def train_students(
    point: Point, seeds: Sequence[int], grid: Grid, key: tuple[str, str], checkpoints: Checkpoints | None = None
) -> dict[str, Tensor]:
    """Train one student a seed from W ~ N(0, init_std^2) until its population loss is below ``grid.stop_below``.

    Args:
        seeds: of the students; a student depends on its own alone.
        grid: its ``steps``, ``stop_below`` and ``batch`` (gradient descent has no momentum).
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
        stop_below=grid.stop_below,
        stop_above=DIVERGED * float(loss(without_neurons)[0]),
        draw=partial(on_sphere, grid.batch, point.d) if grid.batch else None,
        loss_and_gradient_on=partial(batch_loss_and_gradient, M=point.M) if grid.batch else None,
    )
    epochs = -(-grid.steps // STEPS_PER_EPOCH)
    run = Run(
        build=partial(Student, point.d, point.m),
        objective=problem,
        scheme=Standard(name="standard"),
        init=Normal(name="normal", std=point.init_std),
        recipe=Recipe(
            optimizer="sgd", lr=point.lr, momentum=0.0, weight_decay=0.0, epochs=epochs, batch_size=STEPS_PER_EPOCH
        ),
        snapshots=[epochs],
        key=(key[0], f"{key[1]}/{point.name}"),
    )
    block = train_block(run, [Replica(0, seed) for seed in seeds], checkpoints=checkpoints)
    state = block.snapshots[epochs]
    return {"W": state["linear.weight"], "steps": state[STEPS]}


def on_sphere(b: int, d: int, steps: int, generator: torch.Generator) -> Float64[Tensor, "s b d"]:
    """Inputs drawn uniformly from the unit sphere of R^d."""
    x = torch.randn(steps, b, d, dtype=torch.float64, generator=generator)
    return x / x.norm(dim=-1, keepdim=True)
