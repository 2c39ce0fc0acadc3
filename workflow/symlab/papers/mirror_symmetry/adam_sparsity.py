"""The regression of products under Adam: how sparse its coefficients get, and at which error."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import AdamSparsity
from symlab.papers.mirror_symmetry.sparsity import BLOCK, THRESHOLDS, Samples, draw_samples
from symlab.seeds import numpy_rng

EPSILON = 1e-8


def train_with_adam(settings: AdamSparsity, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Adam as PyTorch has it, at every rate and beta1 on the same samples, one a step.

    Returns:
        ``mirror_adam.csv``: a row a beta1 and rate at the end, with ``d`` and ``sigma``: ``excess`` |theta -
        1/d|^2 and the shares of |theta| < 10^-k (``below_k``).
    """
    d = settings.d
    beta1, lr = (part.ravel() for part in np.meshgrid(sorted(settings.beta1), sorted(settings.lr), indexing="ij"))
    rows = []
    start = numpy_rng(job.study, "adam", "start", seed).normal(0, d**-0.5, (2, 1, d))
    stream = numpy_rng(job.study, "adam", "samples", seed)
    run = Adam(np.repeat(start, len(lr), axis=1), lr, beta1, settings.beta2)
    for _ in range(settings.steps // BLOCK):
        run.step(draw_samples([stream], BLOCK, 1, d, settings.sigma))
    theta = run.weights[0] * run.weights[1]
    for place, values in enumerate(theta):
        row = {"d": d, "sigma": settings.sigma, "beta1": beta1[place], "lr": lr[place], "seed": seed}
        row |= {"excess": np.sum((values - 1 / d) ** 2)}
        rows.append(row | {f"below_{k}": np.mean(np.abs(values) < 10.0**-k) for k in THRESHOLDS})
    return {"mirror_adam.csv": pd.DataFrame(rows)}


class Adam:
    """Weights [2, runs, d], u and w, with Adam's means of gradients and of their squares."""

    def __init__(self, weights: np.ndarray, lr: np.ndarray, beta1: np.ndarray, beta2: float) -> None:
        self.weights, self.lr, self.beta2 = weights, lr[:, None], beta2
        self.beta1 = beta1[:, None]
        self.mean, self.square, self.steps = np.zeros_like(weights), np.zeros_like(weights), 0

    def step(self, samples: Samples) -> None:
        """A step of (sum(u w x) - y)^2 for each of one seed's samples."""
        rest, room = np.empty_like(self.weights), np.empty_like(self.weights)
        for x, y in zip(samples.x[:, 0, 0], samples.y[:, 0, 0], strict=True):
            self.steps += 1
            slope = 2 * ((self.weights[0] * self.weights[1]) @ x - y)
            np.multiply(slope[:, None] * x, self.weights[::-1], out=rest)
            np.multiply(rest, rest, out=room)
            room -= self.square
            room *= 1 - self.beta2
            self.square += room
            rest -= self.mean
            rest *= 1 - self.beta1
            self.mean += rest
            np.sqrt(self.square, out=room)
            room /= np.sqrt(1 - self.beta2**self.steps)
            room += EPSILON
            np.divide(self.mean, room, out=rest)
            rest *= self.lr / (1 - self.beta1**self.steps)
            self.weights -= rest
