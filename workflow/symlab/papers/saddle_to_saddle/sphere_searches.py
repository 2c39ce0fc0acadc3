"""What descents on the sphere of weights find from random starts: on polygons, on a data set, near rank one."""

import pandas as pd
import torch

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.chain import origin_of
from symlab.papers.saddle_to_saddle.localized_loss import bound_near_rank_one, layer_ratios
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.polygon import best_rank_one_speed, polygon
from symlab.papers.saddle_to_saddle.settings import STILL_BELOW, DataSpeeds, NearRankOne, Polygons
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
        moving = (found.slope > STILL_BELOW) & (found.speeds <= limit + MARGIN)
        if moving.double().mean() <= UNDECIDED:
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


def search_data_speeds(settings: DataSpeeds, job: Job, dataset: str, L: int, width: int) -> dict[str, pd.DataFrame]:
    """Descend from random starts on the sphere of a data set, at depth 2 with one neuron or at another depth.

    One neuron at depth 2 reaches what every network of depth 2 does, and with it a lower limit for every depth: a row
    of neurons is no faster than its most useful one, which deeper networks hand on (Proposition 3.2).
    """
    origin = origin_of(job.datasets[dataset], settings.pool, settings.samples)
    sizes = [len(origin.X), *[width] * (L - 1), len(origin.target)]
    start = random_directions(settings.runs, sizes, torch_generator("data speeds", job.study, dataset, *sizes))
    speeds = descend(start, origin.X, origin.G, settings.steps).speeds.numpy()
    at = {"dataset": dataset, "L": L, "width": width}
    return {"data_speeds.csv": pd.DataFrame({**at, "run": range(len(speeds)), "speed": speeds})}


def perturb_rank_one(settings: NearRankOne, job: Job, noise: float, seed: int) -> dict[str, pd.DataFrame]:
    """Ratios of the fastest of all runs on u v^T + E, u, v >= 0, for a norm of E in units of that of u v^T.

    Returns:
        ``near_rank_one.csv``: a row: ``noise``, ``seed``, ``speed``, A_l, B_l, D_l, and Proposition 3.3's ``bound`` on
        all of them (infinite where it says nothing).
    """
    drawn = torch_generator(job.study, "near rank one", seed)
    u, v, E, G = (
        torch.randn(*shape, generator=drawn, dtype=torch.float64)
        for shape in ((settings.d, 1), (1, settings.n), (settings.d, settings.n), (settings.outputs, settings.n))
    )
    plain = u.abs() @ v.abs()
    plain, E = plain / plain.norm(), E / E.norm()
    sizes = [settings.d, *[settings.width] * (settings.L - 1), settings.outputs]
    start = random_directions(settings.runs, sizes, drawn)
    X = plain + noise * E
    found = descend(start, X, G, settings.steps)
    best = int(found.speeds.argmax())
    ratios = layer_ratios([W_l[best] for W_l in found.W], X)
    speed = float(found.speeds[best])
    row = {"noise": noise, "seed": seed, "speed": speed, "bound": bound_near_rank_one(noise, G, speed)}
    for letter, values in ratios.items():
        first = 0 if letter == "B" else 1
        row |= {f"{letter}_{first + place}": float(value) for place, value in enumerate(values)}
    return {"near_rank_one.csv": pd.DataFrame([row])}
