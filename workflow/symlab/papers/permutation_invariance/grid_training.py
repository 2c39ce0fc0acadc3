"""The students of all grids of a role, trained as one experiment.

Free of torch until there is a student to train: a role may ask for uniform samples alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from symlab.papers.permutation_invariance.settings import Grid
from symlab.papers.permutation_invariance.student_points import Point

if TYPE_CHECKING:
    from symlab.artifacts import Tensors
    from symlab.measures.job import Job
    from symlab.training.resume import Checkpoints


def train_grids(grids: Sequence[Grid], job: Job) -> dict[str, tuple[Tensors, dict[str, Any]]]:
    """Train the students of all grids of a role, and go on after the points that a killed run has finished.

    Returns:
        ``<role>.safetensors``: ``<source>/<point>/W`` [r, m, d] (float64) and ``<source>/<point>/steps`` [r] of each
        point; its header lists the ``points`` with the number of their grid.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
    """
    tensors: Tensors = {}
    points: list[dict[str, Any]] = []
    for number, grid in enumerate(grids):
        for point in grid.points() if grid.runs else []:
            trained = _trained(grid, point, job)
            tensors |= {f"{grid.source}/{point.label}/{name}": array for name, array in trained.items()}
            points.append({"grid": number, "source": grid.source, **asdict(point)})
            job.report(f"{point.label}: {grid.runs} students, {int(trained['steps'].max())} steps at most")
    return {f"{grids[0].role}.safetensors": (tensors, {"points": points})}


def _trained(grid: Grid, point: Point, job: Job) -> Tensors:
    from symlab.measures.points import keep_point
    from symlab.papers.permutation_invariance.student_training import train_students

    key = (job.study, grid.role)

    def make(checkpoints: Checkpoints | None) -> Tensors:
        trained = train_students(point, range(grid.runs), grid, key, checkpoints)
        return {name: tensor.numpy() for name, tensor in trained.items()}

    # Not the whole grid: what was finished before a point is added is of use after.
    of_runs = {"runs": grid.runs, "steps": grid.steps, "stop_below": grid.stop_below, "batch": grid.batch}
    spec = {"study": job.study, "role": grid.role, **of_runs, **asdict(point)}
    return keep_point(job, f"{grid.source}_{point.label}", spec, make)
