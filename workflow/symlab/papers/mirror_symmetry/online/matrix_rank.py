"""Online SGD of a product of two matrices, its residual form and one with a linear skip: ranks (Fig. 3 mid).

The rank is predicted without a fit: near W = U = 0 every hidden neuron's weights (w, u) are multiplied each step by
I + 2 lr [[0, y x^T], [x y^T, 0]], and the product has a direction for each positive Lyapunov exponent of these.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import RESIDUAL, SKIP, VANILLA, OnlineRank
from symlab.seeds import numpy_rng

BLOCK = 1000
QR_EVERY = 20
RELATIVE = 1e-3
"""Singular values above this share of the largest count to the rank."""
DIVERGED = 1000.0
"""Multiple of E|y|^2 above which a run's loss is that of one that diverged."""
Matrices = Float[np.ndarray, "runs d d"]


def train_factors(settings: OnlineRank, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """W U x, (I + W)(I + U) x and (W U + V) x for y = mu x + (1 - mu) eps, eps_i ~ N(0, 2 / i)."""
    lr, mu = (part.ravel() for part in np.meshgrid(sorted(settings.lr), sorted(settings.mu), indexing="ij"))
    ranks = [rows for model in (VANILLA, RESIDUAL, SKIP) for rows in _train(settings, model, lr, mu, seed, job)]
    found = {"mirror_rank.csv": pd.concat(ranks, ignore_index=True)}
    # Exponents belong to the samples' law, not to a seed.
    if seed == 0:
        stream = _stream(job, settings.d, "exponents")
        found["mirror_rank_exponents.csv"] = lyapunov_exponents(lr, mu, settings.d, settings.exponent_steps, stream)
    return found


def _stream(job: Job, d: int, what: str, seed: int = 0) -> np.random.Generator:
    return numpy_rng(job.study, "online rank", f"{d} inputs", what, seed)


def _train(
    settings: OnlineRank, model: str, lr: np.ndarray, mu: np.ndarray, seed: int, job: Job
) -> Iterator[pd.DataFrame]:
    d, runs = settings.d, len(lr)
    start, samples = _stream(job, d, "start", seed), _stream(job, d, "samples", seed)
    W, U = (np.repeat(start.normal(0, d**-0.5, (1, d, d)), runs, axis=0) for _ in range(2))
    if model == RESIDUAL:
        # The residual form is the plain one in other coordinates, W' = I + W and U' = I + U.
        W, U = np.eye(d) + 0.1 * W, np.eye(d) + 0.1 * U
    # Single precision, in which a step of 200 inputs takes 0.6 of the time: ranks are counted at a thousandth.
    W, U = W.astype(np.float32), U.astype(np.float32)
    V = np.zeros_like(W) if model == SKIP else None
    limit = DIVERGED * (mu**2 * d + (1 - mu) ** 2 * 2 * np.sum(1 / np.arange(1, d + 1)))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(settings.steps // BLOCK):
            drawn = (each.astype(np.float32) for each in (lr, *draw_copies(samples, BLOCK, mu, d)))
            loss = step_factors(W, U, V, *drawn)
        diverged = ~(loss <= limit)
        matrices = {"map": W @ U if V is None else W @ U + V}
        if model == RESIDUAL:
            matrices["WU"] = (W - np.eye(d)) @ (U - np.eye(d))
    for matrix, values in matrices.items():
        sigma = np.linalg.svd(np.where(diverged[:, None, None], 0, values), compute_uv=False)
        ranks = np.where(diverged, np.nan, np.sum(sigma > RELATIVE * sigma[:, :1], axis=1))
        at = {"d": d, "model": model, "matrix": matrix, "lr": lr, "mu": mu, "seed": seed}
        yield pd.DataFrame({**at, "step": settings.steps, "diverged": diverged, "rank_3": ranks})


def draw_copies(
    stream: np.random.Generator, steps: int, mu: Float[np.ndarray, " runs"], d: int
) -> tuple[Float[np.ndarray, "steps d"], Float[np.ndarray, "steps runs d"]]:
    """The next samples x ~ N(0, I), y = mu x + (1 - mu) eps, eps_i ~ N(0, 2 / i), for all mu from the same draws."""
    x = stream.standard_normal((steps, d))
    noise = stream.standard_normal((steps, d)) * np.sqrt(2 / np.arange(1, d + 1))
    return x, mu[:, None] * x[:, None] + (1 - mu[:, None]) * noise[:, None]


def step_factors(
    W: Matrices,
    U: Matrices,
    V: Matrices | None,
    lr: Float[np.ndarray, " runs"],
    x: Float[np.ndarray, "steps d"],
    y: Float[np.ndarray, "steps runs d"],
) -> Float[np.ndarray, " runs"]:
    """SGD of |W U x + V x - y|^2 in place, a step for each sample; the mean loss."""
    # numpy is the faster in products with a vector, torch in adding an outer product; both see the same memory.
    weights = [None if each is None else torch.from_numpy(each) for each in (W, U, V)]
    rate = -2 * lr[:, None, None]
    total = np.zeros(len(lr))
    W_T = W.swapaxes(1, 2)
    for inputs, labels in zip(x[:, :, None], y[..., None], strict=True):
        hidden = U @ inputs
        error = W @ hidden
        if V is not None:
            error += V @ inputs
        error -= labels
        total += np.sum(error**2, axis=(1, 2))
        error *= rate
        changes = error, W_T @ error, error
        for each, change, read in zip(weights, changes, (hidden, inputs[None], inputs[None]), strict=True):
            if each is not None:
                each.addcmul_(torch.from_numpy(change), torch.from_numpy(read).transpose(1, 2))
    return total / len(x)


def lyapunov_exponents(
    lr: Float[np.ndarray, " runs"], mu: Float[np.ndarray, " runs"], d: int, steps: int, stream: np.random.Generator
) -> pd.DataFrame:
    """A row each of the 2 d Lyapunov exponents a step of prod_t (I + 2 lr [[0, y x^T], [x y^T, 0]]), largest first."""
    runs = len(lr)
    top, low = (np.repeat(half[None], runs, axis=0) for half in np.split(np.eye(2 * d), 2))
    grown = np.zeros((runs, 2 * d))
    for _ in range(steps // BLOCK):
        x, y = draw_copies(stream, BLOCK, mu, d)
        for first in range(0, BLOCK, QR_EVERY):
            _multiply(top, low, 2 * lr, x[first : first + QR_EVERY], y[first : first + QR_EVERY])
            Q, R = np.linalg.qr(np.concatenate([top, low], axis=1))
            grown += np.log(np.abs(np.diagonal(R, axis1=1, axis2=2)))
            top, low = (np.ascontiguousarray(half) for half in np.split(Q, 2, axis=1))
    exponents = -np.sort(-grown / steps, axis=1)
    at = {"d": d, "lr": np.repeat(lr, 2 * d), "mu": np.repeat(mu, 2 * d)}
    return pd.DataFrame({**at, "exponent": exponents.ravel()})


def _multiply(top: np.ndarray, low: np.ndarray, rate: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """The rows for w and for u times the matrices of some steps, in place."""
    halves = torch.from_numpy(top), torch.from_numpy(low)
    for inputs, labels in zip(x, y, strict=True):
        from_low = rate[:, None, None] * (inputs[None, None] @ low)
        from_top = rate[:, None, None] * (labels[:, None] @ top)
        halves[0].addcmul_(torch.from_numpy(labels[..., None]), torch.from_numpy(from_low))
        halves[1].addcmul_(torch.from_numpy(inputs[None, :, None]), torch.from_numpy(from_top))
