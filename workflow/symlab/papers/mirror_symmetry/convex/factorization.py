"""Rank of two linear layers with weight decay, against the convex problem that they solve (Fig. 8)."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.proximal import at_moments
from symlab.papers.mirror_symmetry.convex.solvers import NuclearNorm, steps_of_factors
from symlab.papers.mirror_symmetry.settings import LABELS, Factorization
from symlab.seeds import torch_generator

ZERO = 1e-6
"""Singular values below this count as zero while they still fall."""
RELATIVE = 1e-3
"""Those below this share of the largest one do not count to the rank that is reached."""
CONVEX_STEPS = 200
"""Of FISTA to the convex minimum, whose singular values are then known to rounding."""


def factor_with_decay(settings: Factorization, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Full-batch gradient descent on W U for every gamma and kind of labels, in double precision.

    The loss is (1/n) sum |W U x - y|^2 + gamma (|W|^2 + |U|^2), x ~ N(0, I).
    """
    gamma = torch.tensor(settings.gammas, dtype=torch.float64).repeat(len(LABELS))
    problem, A = pose(settings, job, seed, gamma)
    best = torch.linalg.svdvals(problem.minimum(CONVEX_STEPS))
    critical = torch.linalg.svdvals(A @ problem.S)
    index = [(labels, seed, value) for labels in LABELS for value in settings.gammas]
    moments = {settings.steps // part for part in (8, 4, 2, 1)}
    tables = []
    for step, theta in at_moments(steps_of_factors(problem, problem.begin(""), settings.lr), moments):
        sigma = torch.linalg.svdvals(theta)
        band = np.log(1 / ZERO) / (4 * settings.lr * step)
        columns = {
            "zero_rank": (sigma > ZERO).sum(1),
            "rank": ((sigma > RELATIVE * sigma[:, :1]) & (sigma > ZERO)).sum(1),
            "convex": (best > ZERO).sum(1),
            "above": (critical > gamma[:, None]).sum(1),
            "above_band": (critical > gamma[:, None] - band).sum(1),
        }
        counts = {name: values.numpy() for name, values in columns.items()}
        rows = pd.DataFrame(index, columns=["labels", "seed", "gamma"])
        tables.append(rows.assign(step=step, lr=settings.lr, d=settings.d, **counts))
    return {"mirror_factors.csv": pd.concat(tables, ignore_index=True)}


def pose(settings: Factorization, job: Job, seed: int, gamma: Tensor) -> tuple[NuclearNorm, Tensor]:
    """The problem of theta = (W U)^T for all labels and gammas, and the targets A; labels share X and the starts."""
    drawn = torch_generator(job.study, "factors", seed)
    d, n, times = settings.d, settings.n, len(settings.gammas)
    X, A, W, U = (torch.randn(*size, generator=drawn, dtype=torch.float64) for size in ((d, n), *[(d, d)] * 3))
    targets = torch.stack([A / d**0.5, torch.eye(d, dtype=torch.float64)]).repeat_interleave(times, 0)
    S = (X @ X.T / n).expand(len(targets), -1, -1)
    start = torch.stack([U.T, W.T]) / d**0.5
    return NuclearNorm(S, S @ targets.mT, gamma, start.expand(len(targets), -1, -1, -1)), targets
