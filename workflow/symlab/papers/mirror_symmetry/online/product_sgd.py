"""A regression with products for coefficients and a plain one: online SGD at all rates and seeds at once, and Adam."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.adam import Adam
from symlab.papers.mirror_symmetry.online.law import critical_rate, growth_rate, simulate_products
from symlab.papers.mirror_symmetry.settings import AdamSparsity, Sparsity
from symlab.seeds import numpy_rng

BLOCK = 1000
"""Steps over which an error is averaged; measurements come after a whole number of blocks."""
PIECE = 100
"""Steps whose samples are drawn at once."""
THRESHOLDS = range(3, 13)
"""Powers of ten below which coefficients are counted."""
DIVERGED = 1000.0
"""Multiple of the labels' variance above which a run's squared error is that of one that diverged."""
SETS = 20
"""Of how many sets of runs one may lie beyond its ``chance`` in one of twenty studies at most (Bonferroni)."""
LATE = 0.1
"""Part of the steps from which on shares are compared with those of single products."""
PRODUCT, PLAIN = "product", "plain"


class Samples(NamedTuple):
    """Samples of a block of steps, the same for all rates of a seed."""

    x: Float[np.ndarray, "steps seeds batch d"]
    y: Float[np.ndarray, "steps seeds batch"]


def train_online(
    settings: Sparsity, job: Job, sigma: float, batch: int | None, rates_of: int
) -> dict[str, pd.DataFrame]:
    """Both models at every rate and seed; in units of the critical rate of batches of ``rates_of`` if asked for."""
    unit = critical_rate(settings.d, sigma, rates_of) if settings.in_critical_rates else 1.0
    rates = unit * np.array(sorted(settings.lr))
    at = {"d": settings.d, "sigma": sigma, "batch": math.inf if batch is None else float(batch)}
    rows = pd.concat(_train(settings, rates, sigma, batch, job), ignore_index=True)
    return {
        "mirror_sparsity.csv": pd.DataFrame(at, index=rows.index).join(rows),
        **predict(at, rates, sorted(set(rows["step"])), settings.seeds, job),
    }


def predict(at: dict[str, float], rates: np.ndarray, steps: list[int], seeds: int, job: Job) -> dict[str, pd.DataFrame]:
    """Shares of single products below all thresholds, what chance makes of them, and medians where mirrors attract."""
    law = int(at["d"]), at["sigma"], at["batch"]
    named = [f"{value:g}" for value in at.values()]
    rows, medians = [], []
    judged: list[np.ndarray] = []
    for lr in rates:
        # Rates share their draws, so that what differs between them is not the draws.
        alone = simulate_products(lr, *law, steps, numpy_rng(job.study, "sparsity", "products alone", *named))
        if (growth := growth_rate(lr, *law)) < 0:
            medians.append(medians_of(alone, law[0], steps).assign(**at, lr=lr))
        for step, theta in zip(steps, alone, strict=True):
            below = {f"alone_{k}": theta < 10.0**-k for k in THRESHOLDS}
            shares = {name: np.mean(each) for name, each in below.items()}
            rows.append({**at, "lr": lr, "step": step, "growth": growth, **shares})
            if step >= LATE * steps[-1]:
                judged.extend(below.values())
    drawn = numpy_rng(job.study, "sparsity", "chance", *named)
    chance = largest_by_chance(np.stack(judged), law[0] * seeds, drawn)
    empty = pd.DataFrame(columns=[*at, "lr", "step", "run", "median_log"], dtype=float)
    return {
        "mirror_sparsity_law.csv": pd.DataFrame(rows).assign(chance=chance),
        "mirror_sparsity_alone.csv": pd.concat(medians, ignore_index=True)[empty.columns] if medians else empty,
    }


def medians_of(products: Float[np.ndarray, "moments products"], d: int, steps: list[int]) -> pd.DataFrame:
    """Medians of ln|u w| over d products each, a row a run and step of the second half."""
    late = np.array(steps) >= steps[-1] / 2
    runs = products.shape[1] // d
    with np.errstate(divide="ignore"):
        medians = np.median(np.log(products[late, : runs * d].reshape(-1, runs, d)), axis=-1)
    at = pd.MultiIndex.from_product([np.array(steps)[late], range(runs)], names=["step", "run"])
    return pd.DataFrame({"median_log": medians.ravel()}, at).reset_index()


def largest_by_chance(
    below: Bool[np.ndarray, "cells products"],
    trained: int,
    generator: np.random.Generator,
    sets: int = SETS,
    runs: int = 2000,
) -> float:
    """The 1 - 0.05/sets quantile over runs of the largest difference over cells of two shares, drawing products anew.

    Args:
        below: whether each simulated product is below a threshold, in each cell (rate, step, threshold).
        trained: of how many products one share is; the other is of as many as were simulated.
    """
    n = below.shape[1]
    weights = [generator.multinomial(size, np.full(n, 1 / n), runs) / size for size in (trained, n)]
    off = below.astype(np.float32) @ (weights[0] - weights[1]).T.astype(np.float32)
    return float(np.quantile(np.abs(off).max(axis=0), 1 - 0.05 / sets))


def moments_of(steps: int, per_decade: int) -> set[int]:
    """After how many steps to measure: whole blocks, evenly spaced in their logarithm, and the end."""
    powers = np.arange(0, math.log10(steps / BLOCK), 1 / per_decade)
    return {BLOCK * round(10**power) for power in powers} | {steps}


def _train(settings: Sparsity, rates: np.ndarray, sigma: float, batch: int | None, job: Job) -> Iterator[pd.DataFrame]:
    d, seeds = settings.d, range(settings.seeds)
    drawn = [numpy_rng(job.study, "sparsity", f"{d} inputs", "start", seed) for seed in seeds]
    start = np.stack([each.normal(0, d**-0.5, (2, d)) for each in drawn], axis=1)
    factors = {PRODUCT: [np.repeat(part[:, None], len(rates), axis=1) for part in start]}
    if settings.plain and batch is not None:
        factors[PLAIN] = [factors[PRODUCT][0].copy()]
    streams = [numpy_rng(job.study, "sparsity", f"{d} inputs", f"batches of {batch}", seed) for seed in seeds]
    moments = moments_of(settings.steps, settings.per_decade)
    limit = DIVERGED * (sigma**2 + 1 / d)
    for step in range(BLOCK, settings.steps + 1, BLOCK):
        # A run that diverges does so to the end; its numbers are marked, not mended.
        with np.errstate(over="ignore", invalid="ignore"):
            if batch is None:
                errors = {PRODUCT: _descend(factors[PRODUCT], rates, sigma)}
            else:
                # By pieces that fit in memory.
                pieces = (draw_samples(streams, PIECE, batch, d, sigma) for _ in range(BLOCK // PIECE))
                taken = [{model: step_sgd(of, rates, samples) for model, of in factors.items()} for samples in pieces]
                errors = {model: np.mean([each[model] for each in taken], axis=0) for model in factors}
            if step in moments:
                for model, mse in errors.items():
                    added = {"model": model, "step": step, "diverged": ~(mse <= limit).ravel()}
                    yield _measure(factors[model], rates).assign(**added)


def _measure(factors: list[np.ndarray], rates: np.ndarray) -> pd.DataFrame:
    """A row a seed and rate."""
    theta = factors[0] * factors[1] if len(factors) > 1 else factors[0]
    with np.errstate(divide="ignore"):
        median = np.median(np.log(np.abs(theta)), axis=-1)
    columns = {"excess": error_of(theta), "median_log": median, **shares_of(theta)}
    at = pd.MultiIndex.from_product([range(len(theta)), rates], names=["seed", "lr"])
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, at).reset_index()


def draw_samples(streams: list[np.random.Generator], steps: int, batch: int, d: int, sigma: float) -> Samples:
    """The next samples of each seed: x ~ N(0, I), y = mean(x) + sigma N(0, 1)."""
    drawn = [stream.standard_normal((steps, batch, d + 1)) for stream in streams]
    all_of = np.stack(drawn, axis=1)
    x = np.ascontiguousarray(all_of[..., :d])
    return Samples(x, x.mean(axis=-1) + sigma * all_of[..., d])


def step_sgd(
    factors: list[Float[np.ndarray, "seeds rates d"]], rates: Float[np.ndarray, " rates"], samples: Samples
) -> Float[np.ndarray, "seeds rates"]:
    """SGD of mean((sum(theta x) - y)^2) in place, theta a factor or the product of two; the mean squared error.

    A step for each of the samples' batches. Apart from training's loop for speed: over 50 times that of a torch loop
    over runs (benchmarks/papers.py). Arrays are kept, since making them would take most of the time.
    """
    theta = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    steps, seeds, batch, _ = samples.x.shape
    residuals, gradient = np.empty((steps, seeds, len(rates), batch)), np.empty_like(theta)
    scaled, scale = np.empty_like(residuals[0]), 2 * rates[:, None] / batch
    for x, y, r in zip(samples.x, samples.y[:, :, None], residuals, strict=True):
        np.matmul(theta, x.swapaxes(1, 2), out=r)
        r -= y
        np.multiply(r, scale, out=scaled)
        # A product of matrices with one column takes twice as long as numpy's broadcasting.
        if batch == 1:
            np.multiply(scaled, x, out=gradient)
        else:
            np.matmul(scaled, x, out=gradient)
        if len(factors) == 1:
            theta -= gradient
            continue
        u, w = factors
        np.multiply(gradient, w, out=theta)
        np.multiply(gradient, u, out=gradient)
        w -= gradient
        u -= theta
        np.multiply(u, w, out=theta)
    return np.mean(residuals**2, axis=(0, -1))


def _descend(factors: list[np.ndarray], rates: np.ndarray, sigma: float) -> Float[np.ndarray, "seeds rates"]:
    """A block of gradient descent on the expected loss sigma^2 + |u w - 1/d|^2 in place; its last value."""
    u, w = factors
    d = u.shape[-1]
    for _ in range(BLOCK):
        gradient = 2 * rates[:, None] * (u * w - 1 / d)
        change = gradient * w
        w -= gradient * u
        u -= change
    return sigma**2 + np.sum((u * w - 1 / d) ** 2, axis=-1)


def train_with_adam(settings: AdamSparsity, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Products under Adam as PyTorch has it, at every rate and beta1 on the same samples, one a step."""
    d = settings.d
    beta1, lr = (part.ravel() for part in np.meshgrid(sorted(settings.beta1), sorted(settings.lr), indexing="ij"))
    start = numpy_rng(job.study, "adam", "start", seed).normal(0, d**-0.5, (2, 1, d))
    stream = numpy_rng(job.study, "adam", "samples", seed)
    weights = np.repeat(start, len(lr), axis=1)
    adam = Adam(weights, beta1, settings.beta2)
    for _ in range(settings.steps // BLOCK):
        step_with_adam(weights, adam, lr, draw_samples([stream], BLOCK, 1, d, settings.sigma))
    theta = weights[0] * weights[1]
    at = {"d": d, "sigma": settings.sigma, "beta1": beta1, "lr": lr, "seed": seed}
    return {"mirror_adam.csv": pd.DataFrame({**at, "excess": error_of(theta), **shares_of(theta)})}


def step_with_adam(
    weights: Float[np.ndarray, "2 runs d"], adam: Adam, lr: Float[np.ndarray, " runs"], samples: Samples
) -> None:
    """A step of (sum(u w x) - y)^2 in place for each of one seed's samples."""
    for x, y in zip(samples.x[:, 0, 0], samples.y[:, 0, 0], strict=True):
        slope = 2 * ((weights[0] * weights[1]) @ x - y)
        gradient = (slope[:, None] * x) * weights[::-1]
        adam.direct(gradient)
        weights -= lr[:, None] * gradient


def error_of(theta: Float[np.ndarray, "*runs d"]) -> Float[np.ndarray, "*runs"]:
    """Squared distance of the coefficients from the true ones, 1/d."""
    return np.sum((theta - 1 / theta.shape[-1]) ** 2, axis=-1)


def shares_of(theta: Float[np.ndarray, "*runs d"]) -> dict[str, Float[np.ndarray, "*runs"]]:
    """Shares of the coefficients below all thresholds."""
    return {f"below_{k}": np.mean(np.abs(theta) < 10.0**-k, axis=-1) for k in THRESHOLDS}
