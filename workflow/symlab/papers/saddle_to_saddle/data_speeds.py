"""Escape speeds that descents on the sphere reach on a data set: of one neuron, and of networks from random starts."""

import pandas as pd

from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.chain import origin_of
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.settings import DataSpeeds
from symlab.seeds import torch_generator


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
