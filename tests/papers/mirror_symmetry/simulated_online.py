"""The same for online SGD: products by their law and one by one, ranks by exponents, what Adam leaves."""

import functools

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.online.law import critical_rate, simulate_products
from symlab.papers.mirror_symmetry.online.product_sgd import THRESHOLDS, largest_by_chance
from symlab.papers.mirror_symmetry.settings import RESIDUAL, SKIP, VANILLA

from . import story_online


def once(simulate):
    """A simulation of a number, kept for the claims that are judged on the same draw."""
    kept = functools.lru_cache(maxsize=16)(lambda draw: simulate(np.random.default_rng(draw)))
    return lambda generator: {name: rows.copy() for name, rows in kept(int(generator.integers(2**31))).items()}


def second_order(generator):
    """Cells in which Eq. 5 is exact."""
    tables = story_online.simulate_edges(generator)
    rows = tables[story_online.EDGES]
    return {story_online.EDGES: rows.assign(second_order=rows["growth"])}


def adam(generator, d=200, seeds=3):
    """Of products that Adam takes below a threshold as many as chance has it where SGD takes nearly all."""
    rows = story_online.adam_tables()["mirror_adam.csv"]
    return {"mirror_adam.csv": rows.assign(below_6=generator.binomial(d, rows["below_6"]) / d)}


@once
def single_products(generator, d=50, sigma=2.0, seeds=12, runs=1000):
    """A regression whose products are single ones, drawn beside those that a run is judged by, from start to end."""
    steps, count = [10_000, 30_000, 100_000], seeds * d
    at = {"d": d, "sigma": sigma, "batch": 1.0}
    rows, law, judged = [], [], []
    for lr in critical_rate(d, sigma, 1) * np.array([0.8, 1.2, 2.0]):
        theta = simulate_products(lr, d, sigma, 1, steps, generator, 2 * count)
        for step, products in zip(steps, theta, strict=True):
            below = np.stack([products < 10.0**-k for k in THRESHOLDS])
            judged.append(below[:, count:])
            law.append({**at, "lr": lr, "step": step})
            law[-1] |= {f"alone_{k}": share for k, share in zip(THRESHOLDS, judged[-1].mean(1), strict=True)}
            for seed, of_seed in enumerate(below[:, :count].reshape(-1, seeds, d).mean(2).T):
                shares = {f"below_{k}": share for k, share in zip(THRESHOLDS, of_seed, strict=True)}
                rows.append({**at, "model": "product", "lr": lr, "step": step, "seed": seed, **shares})
    chance = largest_by_chance(np.concatenate(judged), count, generator, runs=runs)
    products, law = pd.DataFrame(rows), pd.DataFrame(law).assign(chance=chance)
    return {
        story_online.SPARSITY: products.assign(grid=0, diverged=False),
        story_online.LAW: law.assign(grid=0),
    }


@once
def ranks(generator, spacing=2.4, noise=1.0, seeds=6):
    """Directions that grow by their exponents, up to a size or from a thousandth of it on downwards; maps with a skip.

    As in the kept run at 50 inputs logarithms are 2.4 from one direction to the next after all steps, and ranks scatter
    by half a direction from seed to seed, of which three do not always know a tenth of d. All that a skip multiplies
    with is a matrix of noise about a multiple of the identity.
    """
    tables = story_online.rank_tables()
    rows = tables[story_online.RANKS].query("matrix == 'map' and seed == 0")
    rows = pd.concat([rows.assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    positive = (tables[story_online.EXPONENTS].query("exponent > 0")).groupby(["d", "lr", "mu"]).size()

    def grown(row):
        logs = spacing * (positive[row.d, row.lr, row.mu] + 0.5 - np.arange(1, row.d + 1))
        return np.exp(np.minimum(logs + noise * generator.normal(size=row.d), 0))

    def full(row):
        return np.linalg.svd(
            row.mu * np.eye(row.d) + generator.normal(0, row.d**-0.5, (row.d, row.d)), compute_uv=False
        )

    sizes = [{VANILLA: grown, RESIDUAL: grown, SKIP: full}[row.model](row) for row in rows.itertuples()]
    return tables | {story_online.RANKS: rows.assign(rank_3=[float(np.sum(s > 1e-3 * s.max())) for s in sizes])}


def full_rank(generator):
    """The residual form as the paper has it: two factors beside the identity."""
    tables = ranks(generator)
    rows = tables[story_online.RANKS]

    def product(d):
        W, U = generator.normal(0, d**-0.5, (2, d, d))
        sizes = np.linalg.svd((np.eye(d) + W) @ (np.eye(d) + U), compute_uv=False)
        return float(np.sum(sizes > 1e-3 * sizes[0]))

    drawn = [product(row.d) if row.model == RESIDUAL else row.rank_3 for row in rows.itertuples()]
    return tables | {story_online.RANKS: rows.assign(rank_3=drawn)}


SIMULATIONS = {
    "phase-alone": single_products,
    **{f"3b-{name}": ranks for name in ("exponents", "monotone", "skip")},
    "3b-residual": full_rank,
    "edges-second": second_order,
    "adam-sparse": adam,
}
