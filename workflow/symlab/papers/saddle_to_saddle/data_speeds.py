"""Escape speeds that descents on the sphere reach on a data set: of one neuron, and of networks from random starts."""

from __future__ import annotations

import pandas as pd
import torch.nn.functional as functional
from torch import Tensor

from symlab.artifacts import Tensors
from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.measures.points import keep_point
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.settings import DataSpeeds
from symlab.seeds import torch_generator


def search_data_speeds(settings: DataSpeeds, job: Job) -> dict[str, pd.DataFrame]:
    """Descend from random starts on the sphere for each data set, at depth 2 with one neuron and at each depth.

    One neuron at depth 2 reaches what every network of depth 2 does, and with it a lower limit for every depth: a row
    of neurons is no faster than its most useful one, which deeper networks hand on (Proposition 3.2).

    Returns:
        ``data_speeds.csv``: a row a run: ``dataset``, L, width, run and its ``speed``.
    """
    tables = []
    for name, dataset in job.datasets.items():
        x, y = pooled_samples(dataset, settings.pool, settings.samples)
        X, classes = x.double().T, dataset.n_outputs
        G = (1 / classes - functional.one_hot(y, classes).double().T) / len(y)
        for L, width in [(2, 1), *((L, settings.width) for L in settings.L)]:
            sizes = [len(X), *[width] * (L - 1), classes]

            def make(_: object, X: Tensor = X, G: Tensor = G, sizes: list[int] = sizes, name: str = name) -> Tensors:
                drawn = torch_generator("data speeds", job.study, name, *sizes)
                start = random_directions(settings.runs, sizes, drawn)
                return {"speed": descend(start, sizes, X, G, settings.steps).speeds.numpy()}

            key = {"dataset": name, "L": L, "width": width}
            spec = {
                "study": job.study,
                **key,
                "data": dataset.provenance,
                **settings.model_dump(exclude={"L", "width"}),
            }
            speeds = keep_point(job, "_".join(map(str, key.values())), spec, make)["speed"]
            tables.append(pd.DataFrame({**key, "run": range(len(speeds)), "speed": speeds}))
            job.report(f"{name}, L = {L}, width {width}: the fastest run reaches {speeds.max():.4g}")
    return {"data_speeds.csv": pd.concat(tables, ignore_index=True)}
