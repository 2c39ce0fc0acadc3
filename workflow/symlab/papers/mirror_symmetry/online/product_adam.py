"""The regression of products under Adam: how sparse its coefficients get, and at which error."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.adam import Adam
from symlab.papers.mirror_symmetry.online.product_sgd import BLOCK, THRESHOLDS, Samples, draw_samples
from symlab.papers.mirror_symmetry.settings import AdamSparsity
from symlab.seeds import numpy_rng


def train_with_adam(settings: AdamSparsity, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Adam as PyTorch has it, at every rate and beta1 on the same samples, one a step."""
    d = settings.d
    beta1, lr = (part.ravel() for part in np.meshgrid(sorted(settings.beta1), sorted(settings.lr), indexing="ij"))
    rows = []
    start = numpy_rng(job.study, "adam", "start", seed).normal(0, d**-0.5, (2, 1, d))
    stream = numpy_rng(job.study, "adam", "samples", seed)
    weights = np.repeat(start, len(lr), axis=1)
    adam = Adam(weights, beta1, settings.beta2)
    for _ in range(settings.steps // BLOCK):
        step_with_adam(weights, adam, lr, draw_samples([stream], BLOCK, 1, d, settings.sigma))
    for place, values in enumerate(weights[0] * weights[1]):
        row = {"d": d, "sigma": settings.sigma, "beta1": beta1[place], "lr": lr[place], "seed": seed}
        row |= {"excess": np.sum((values - 1 / d) ** 2)}
        rows.append(row | {f"below_{k}": np.mean(np.abs(values) < 10.0**-k) for k in THRESHOLDS})
    return {"mirror_adam.csv": pd.DataFrame(rows)}


def step_with_adam(
    weights: Float[np.ndarray, "2 runs d"], adam: Adam, lr: Float[np.ndarray, " runs"], samples: Samples
) -> None:
    """A step of (sum(u w x) - y)^2 in place for each of one seed's samples."""
    for x, y in zip(samples.x[:, 0, 0], samples.y[:, 0, 0], strict=True):
        slope = 2 * ((weights[0] * weights[1]) @ x - y)
        gradient = (slope[:, None] * x) * weights[::-1]
        adam.direct(gradient)
        weights -= lr[:, None] * gradient
