"""Online SGD of all rates and seeds at once against a plain torch loop over runs, and the time of Figure 3 left."""

import time
from statistics import median

import numpy as np
import torch

from symlab.papers.mirror_symmetry.settings import Sparsity
from symlab.papers.mirror_symmetry.sparsity import draw_samples, step_plain, step_products

SETTINGS = Sparsity()
RATES = np.array(sorted(SETTINGS.lr))
SEEDS, STEPS, PLAIN_STEPS = 3, 1000, 200


def test_all_runs_at_once():
    """Products and plain coefficients at 16 rates and 3 seeds: seconds a step of all of them, and of one run alone."""
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    start = generator.normal(0, SETTINGS.d**-0.5, (2, SEEDS, SETTINGS.d))
    samples = draw_samples([np.random.default_rng(seed) for seed in range(SEEDS)], STEPS, 1, SETTINGS.d, 2.0)
    few = type(samples)(samples.x[:PLAIN_STEPS], samples.y[:PLAIN_STEPS])
    u, w = many(start)
    step_products(u, w, RATES, few)
    alone = by_plain_torch(start[0, 1], start[1, 1], RATES[5], few, 1)
    worst = np.abs(alone - u[1, 5] * w[1, 5]).max()
    ratios, together = [], []
    for _ in range(3):
        u, w = many(start)
        began = time.perf_counter()
        step_products(u, w, RATES, samples)
        step_plain(u, RATES, samples)
        together.append((time.perf_counter() - began) / STEPS)
        began = time.perf_counter()
        by_plain_torch(start[0, 1], start[1, 1], RATES[5], few, 1)
        by_plain_torch(start[0, 1], None, RATES[5], few, 1)
        one = (time.perf_counter() - began) / PLAIN_STEPS
        ratios.append(len(RATES) * SEEDS * one / together[-1])
    print(f"\n{1e6 * median(together):.0f} µs a step of 48 runs of both models, ", end="")
    print(f"{median(ratios):.0f} times as fast as a loop over runs; largest difference {worst:.1e}")
    assert median(ratios) >= 50
    assert worst < 1e-13


def many(start):
    return tuple(np.repeat(part[:, None], len(RATES), axis=1) for part in start)


def by_plain_torch(u, w, lr, samples, seed):
    """One run as research code writes it, with autograd: products if there is a w; the coefficients that it ends at."""
    weights = [torch.tensor(part, requires_grad=True) for part in (u, w) if part is not None]
    optimizer = torch.optim.SGD(weights, lr=float(lr))
    x, y = torch.from_numpy(samples.x[:, seed, 0]), torch.from_numpy(samples.y[:, seed, 0])
    for inputs, label in zip(x, y, strict=True):
        theta = weights[0] * weights[1] if len(weights) > 1 else weights[0]
        loss = (theta @ inputs - label) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.stack(weights).prod(0).detach().numpy()
