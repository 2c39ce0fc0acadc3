"""The polygon experiment: descents from random starts."""

import torch

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.optimal_speed import Runs, descend, random_directions
from symlab.papers.saddle_to_saddle.polygon import best_rank_one_speed, polygon
from symlab.papers.saddle_to_saddle.settings import STILL_BELOW, Polygons
from symlab.seeds import torch_generator

MARGIN = 1e-3
"""How far above the best speed of one neuron a run counts as a success."""
UNDECIDED = 0.05


def search_polygon(grid: Polygons, job: Job, N: int, L: int, width: int) -> Tensors:
    """Descend from random starts on the sphere of weights.

    Returns:
        Of each run ``steps``, ``speed``, mean projected gradient ``slope`` and ``second_l``, the second singular value
        of W_l over the first; ``curves`` [runs, moments], the speeds at the steps ``recorded``; ``fastest_l``, the
        weights of the fastest run.
    """
    X, G = polygon(N)
    sizes = [2, *[width] * (L - 1), 1]
    start = random_directions(grid.runs, sizes, torch_generator("polygon", job.study, N, L, width))
    steps, found = grid.steps, descend(start, X, G, grid.steps)
    limit = best_rank_one_speed(N)
    for _ in range(grid.doublings):
        if _undecided(found, limit).double().mean() <= UNDECIDED:
            break
        steps *= 2
        found = descend(start, X, G, steps)
    singular = [torch.linalg.svdvals(W_l) for W_l in found.W]
    second = [values[:, 1] / values[:, 0] if values.shape[1] > 1 else torch.zeros(len(values)) for values in singular]
    numbers = {"steps": torch.full((grid.runs,), steps), "speed": found.speeds, "slope": found.slope}
    numbers |= {f"second_{place + 1}": ratio for place, ratio in enumerate(second)}
    fastest = int(found.speeds.argmax())
    kept = {f"fastest_{place + 1}": W_l[fastest] for place, W_l in enumerate(found.W)}
    arrays = {**numbers, **kept, "curves": found.curves, "recorded": torch.tensor(found.recorded)}
    return {name: values.contiguous().numpy() for name, values in arrays.items()}


def _undecided(found: Runs, limit: float) -> torch.Tensor:
    return (found.slope > STILL_BELOW) & (found.speeds <= limit + MARGIN)
