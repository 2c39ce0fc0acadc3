"""One product u w beside its mirrors: SGD collapses between two critical rates, or at none (Theorem 5)."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Edges
from symlab.seeds import numpy_rng


def collapse_one_product(settings: Edges, job: Job, batch: int) -> dict[str, pd.DataFrame]:
    """SGD of (u w x - y)^2, y = slope x + sigma eps, from next to u = w = 0; the share that ends nearer to it."""
    rows = []
    rates = np.array(sorted(settings.lr))
    share = _descend(settings, rates, batch, numpy_rng(job.study, "edges", "runs", batch))
    stream = numpy_rng(job.study, "edges", "law", batch)
    _, products = draw_means(stream, settings.draws, batch, settings.slope, settings.sigma)
    for lr, found in zip(rates, share, strict=True):
        logs = [np.log(np.abs(1 + sign * 2 * lr * products)) for sign in (1, -1)]
        larger = max(logs, key=np.mean)
        row = {"batch": batch, "lr": lr, "share": found, "runs": settings.runs, "steps": settings.steps}
        row |= {"growth": larger.mean(), "deviation": larger.std(), "error": larger.std() / settings.draws**0.5}
        second = 2 * lr * settings.slope - 2 * lr**2 * strength_of(batch, settings.slope, settings.sigma)
        rows.append({**row, "second_order": second})
    return {"mirror_edges.csv": pd.DataFrame(rows)}


def strength_of(batch: int, slope: float, sigma: float) -> float:
    """E[h^2] / 4 for h = -2 mean(y x) over a batch."""
    return slope**2 + (sigma**2 + 2 * slope**2) / batch


def draw_means(
    stream: np.random.Generator, count: int, batch: int, slope: float, sigma: float
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, " count"]]:
    """Means of x^2 and of y x over batches, drawn from their joint law: given the first, the second is normal."""
    squares = stream.chisquare(batch, count) / batch
    noise = np.sqrt(squares / batch) * stream.standard_normal(count)
    return squares, slope * squares + sigma * noise


def _descend(settings: Edges, rates: np.ndarray, batch: int, stream: np.random.Generator) -> np.ndarray:
    u, w = (np.repeat(stream.normal(0, settings.start, (1, settings.runs)), len(rates), axis=0) for _ in range(2))
    start = np.abs(u) + np.abs(w)
    # A run that diverges ends as infinite or undefined, and neither is near 0.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for _ in range(settings.steps):
            squares, products = draw_means(stream, settings.runs, batch, settings.slope, settings.sigma)
            g = 2 * rates[:, None] * (u * w * squares - products)
            u, w = u - g * w, w - g * u
        return np.mean(np.abs(u) + np.abs(w) < start, axis=1)
