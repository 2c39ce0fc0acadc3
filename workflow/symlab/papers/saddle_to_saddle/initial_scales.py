"""How fast descents of the full loss come to those of the localized loss as the initial weights shrink."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pandas as pd
import torch
import torch.nn.functional as functional
from torch import Tensor

from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.localized_loss import localized_gradient, run_layers, squared_norm
from symlab.papers.saddle_to_saddle.settings import InitialScales
from symlab.seeds import torch_generator


def shrink_initial_weights(
    settings: InitialScales, job: Job, dataset: str, L: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Angles between the directions of both descents at equal s, for initial weights alpha times the same draw.

    Full batch, float64, theta <- theta - rate |theta|^(2-L) gradient. The descent of L0 does not depend on alpha.

    Returns:
        ``initial_scales.csv``: a row an alpha and s, with data set, depth and seed: the ``angle`` in radians, and the
        full ``loss`` over that of outputs 0.
    """
    data = job.datasets[dataset]
    x, y = pooled_samples(data, settings.pool, settings.samples)
    X = x.double().T
    target = functional.one_hot(y, data.n_outputs).double().T
    G = (1 / data.n_outputs - target) / len(y)

    def of_loss(W: list[Tensor]) -> list[Tensor]:
        slope = (run_layers(W, X)[0][-1].softmax(dim=0) - target) / X.shape[1]
        return localized_gradient(W, X, slope)

    def of_localized(W: list[Tensor]) -> list[Tensor]:
        return localized_gradient(W, X, G)

    sizes = [X.shape[0], *[settings.width] * (L - 1), data.n_outputs]
    drawn = torch_generator(job.study, "initial scales", dataset, L, seed)
    first = [
        settings.std * torch.randn(out, into, generator=drawn, dtype=torch.float64) for into, out in pairwise(sizes)
    ]
    reference = _directions([1e-3 * W_l for W_l in first], of_localized, settings)
    rows = []
    for alpha in settings.alpha:
        found = _directions([alpha * W_l for W_l in first], of_loss, settings)
        for step, (there, W) in found.items():
            # Of small angles the chord resolves what the cosine does not.
            chord = float((there - reference[step][0]).norm())
            angle = 2 * math.asin(min(chord / 2, 1))
            at = {"dataset": dataset, "L": L, "seed": seed, "alpha": alpha, "s": settings.rate * step}
            logs = run_layers(W, X)[0][-1].log_softmax(dim=0)
            loss = -float((logs * target).sum()) / len(y) / math.log(data.n_outputs)
            rows.append({**at, "angle": angle, "loss": loss})
    return {"initial_scales.csv": pd.DataFrame(rows)}


def _directions(
    W: list[Tensor], gradient: Callable[[list[Tensor]], list[Tensor]], settings: InitialScales
) -> dict[int, tuple[Tensor, list[Tensor]]]:
    """The unit vector of all weights, and the weights, at each step that is compared."""
    found = {}
    for step in range(1, max(settings.steps) + 1):
        rate = settings.rate * float(squared_norm(W)) ** ((2 - len(W)) / 2)
        W = [W_l - rate * g for W_l, g in zip(W, gradient(W), strict=True)]
        if step in settings.steps:
            theta = torch.cat([W_l.flatten() for W_l in W])
            found[step] = theta / theta.norm(), W
    return found
