"""The students of a grid, trained point by point.

Free of torch until there is a student to train: a role may ask for uniform samples alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symlab.papers.permutation_invariance.settings import Grid
from symlab.papers.permutation_invariance.student_points import Point

if TYPE_CHECKING:
    from symlab.artifacts import Tensors
    from symlab.measures.job import Job


def train_point(grid: Grid, job: Job, **point: Any) -> Tensors:
    """What ``train_students`` gives of one size, learning rate and scale of first weights."""
    from symlab.papers.permutation_invariance.student_training import train_students

    key = (job.study, grid.role)
    trained = train_students(Point(**point), range(grid.runs), grid, key, job.checkpoints)
    return {name: tensor.numpy() for name, tensor in trained.items()}
