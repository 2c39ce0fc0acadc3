"""Rank of two linear layers with weight decay, against the convex problem that they solve (Fig. 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.names import LABELS
from symlab.papers.mirror_symmetry.proximal import nuclear_minimum
from symlab.papers.mirror_symmetry.settings import Factorization
from symlab.seeds import torch_generator

ZERO = 1e-6
"""Singular values below this count as zero while they still fall."""
RELATIVE = 1e-3
"""Those below this share of the largest one do not count to the rank that is reached."""


def factor_with_decay(settings: Factorization, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Full-batch gradient descent on W U for every gamma and kind of labels, in double precision.

    The loss is (1/n) sum |W U x - y|^2 + gamma (|W|^2 + |U|^2), x ~ N(0, I).

    Returns:
        ``mirror_factors.csv``: a row a moment (1/8, 1/4, 1/2 and all of the steps), ``labels``, ``gamma`` and ``seed``
        with ``zero_rank``, the singular values of W U above 1e-6, ``rank``, those above 1e-3 of the largest,
        ``convex``, the rank of the nuclear-norm minimiser, ``gap``, the largest difference from its singular values in
        units of its largest (NaN where it is 0) and ``excess`` of the loss over its; ``above``, the singular values of
        A S above gamma, and ``above_band``, those above gamma - ln(1e6) / (4 lr step).
    """
    problems = [_draw(settings, job, labels, seed) for labels in LABELS]
    gamma = torch.tensor(settings.gammas, dtype=torch.float64).repeat(len(LABELS))
    A, S, W, U = (torch.stack(each).repeat_interleave(len(settings.gammas), 0) for each in zip(*problems, strict=True))
    convex = nuclear_minimum(A, S, gamma)
    best, least = torch.linalg.svdvals(convex), _objective(convex, A, S) + 2 * gamma * _nuclear(convex)
    critical = torch.linalg.svdvals(A @ S)
    index = [(labels, seed, value) for labels in LABELS for value in settings.gammas]
    moments = {settings.steps // part for part in (8, 4, 2, 1)}
    tables = []
    for step in range(1, settings.steps + 1):
        pull = 2 * (W @ U - A) @ S
        decay = 1 - 2 * settings.lr * gamma[:, None, None]
        W, U = decay * W - settings.lr * pull @ U.mT, decay * U - settings.lr * W.mT @ pull
        if step not in moments:
            continue
        sigma = torch.linalg.svdvals(W @ U)
        band = np.log(1 / ZERO) / (4 * settings.lr * step)
        loss = _objective(W @ U, A, S) + gamma * (W.square().sum((1, 2)) + U.square().sum((1, 2)))
        columns = {
            "zero_rank": (sigma > ZERO).sum(1),
            "rank": ((sigma > RELATIVE * sigma[:, :1]) & (sigma > ZERO)).sum(1),
            "convex": (best > ZERO).sum(1),
            "gap": torch.where(best[:, 0] > 0, (sigma - best).abs().amax(1) / best[:, 0], torch.nan),
            "excess": loss - least,
            "above": (critical > gamma[:, None]).sum(1),
            "above_band": (critical > gamma[:, None] - band).sum(1),
        }
        tables.append(
            pd.DataFrame(index, columns=["labels", "seed", "gamma"]).assign(
                step=step, lr=settings.lr, d=settings.d, **{name: values.numpy() for name, values in columns.items()}
            )
        )
    return {"mirror_factors.csv": pd.concat(tables, ignore_index=True)}


def _draw(settings: Factorization, job: Job, labels: str, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A, S = X X^T / n and the starts of W and U; both kinds of labels share X and the starts."""
    drawn = torch_generator(job.study, "factors", seed)
    d, n = settings.d, settings.n
    X, A, W, U = (torch.randn(*size, generator=drawn, dtype=torch.float64) for size in ((d, n), *[(d, d)] * 3))
    target = A / d**0.5 if labels == "y = Ax" else torch.eye(d, dtype=torch.float64)
    return target, X @ X.T / n, W / d**0.5, U / d**0.5


def _objective(M: Float[Tensor, "n d d"], A: Float[Tensor, "n d d"], S: Float[Tensor, "n d d"]) -> Float[Tensor, " n"]:
    return ((M - A) @ S * (M - A)).sum((1, 2))


def _nuclear(M: Float[Tensor, "n d d"]) -> Float[Tensor, " n"]:
    return torch.linalg.svdvals(M).sum(1)
