"""Tables of networks trained to collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from symlab.artifacts import Tensors
from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.papers.neural_collapse.collapse import linear_floor
from symlab.papers.neural_collapse.settings import Runs
from symlab.study.points import Result


def tabulate_runs(results: Sequence[Result], grids: Sequence[Runs], job: Job) -> dict[str, pd.DataFrame]:
    """Rows of all networks and moments, of their layers, and of the samples that they were trained on.

    Returns:
        ``collapse_course.csv``: a row a network and moment: what it is (``dataset``, ``network``, ``pre_norm``,
        ``loss``, ``by_depth``, ``hidden_penalty`` and ``last_penalty``, L, width, classes, seed), ``step``, its
        ``accuracy``, the loss as ``fit``, ``hidden`` and ``last`` (penalties), ``gradient`` (norm of the objective's)
        and the metrics of ``collapse_metrics``.
        ``collapse_layers.csv``: NC1 of X_1 .. X_L at the end, a row a layer.
        ``collapse_samples.csv``: a row a data set and reduction: N; ``inputs`` and ``rank`` of what the first layer
        reads (with a constant) where the output is taken, which of transformers is the last patch, of texts as many as
        there are words; NC1 of the best linear map of it (``linear_floor``) and the share of ``blank`` last patches.
    """
    courses, layers, samples = [], [], {}
    for each in results:
        grid, dataset = each.settings, job.datasets[each.point["dataset"]]
        key = _describe(grid, dataset, each.point)
        reduction = {"dataset": each.point["dataset"], "pool": grid.pool, "per_class": grid.per_class}
        sampled = {**reduction, "patch": grid.patch or 0, "tokens": dataset.image is None and grid.transformer}
        if tuple(sampled.values()) not in samples:
            x, y = pooled_samples(dataset, grid.pool, per_class=grid.per_class)
            samples[tuple(sampled.values())] = sampled | _describe_samples(grid, dataset, x, y)
        courses.append(_course(each.found, key | {"N": samples[tuple(sampled.values())]["N"]}))
        layers.append(_layers(each.found, key))
    return {
        "collapse_course.csv": pd.concat(courses, ignore_index=True),
        "collapse_layers.csv": pd.concat(layers, ignore_index=True),
        "collapse_samples.csv": pd.DataFrame(list(samples.values())),
    }


def _describe_samples(grid: Runs, dataset: Dataset, x: Tensor, y: Tensor) -> dict[str, Any]:
    if grid.transformer and dataset.image is None:
        words = int(dataset.x_train.max()) + 1
        return {"N": len(y), "inputs": words, "rank": words, "linear_floor": math.nan, "blank": 0.0}
    if grid.transformer and grid.patch is not None:
        channels = dataset.image[0] if dataset.image else 1
        side = math.isqrt(x.shape[1] // channels)
        x = x.unflatten(1, (channels, side, side))[:, :, -grid.patch :, -grid.patch :].flatten(1)
    rank, floor = linear_floor(x, y, dataset.n_classes)
    blank = float((x == x.min()).all(dim=1).double().mean()) if grid.transformer else 0.0
    return {"N": len(y), "inputs": x.shape[1], "rank": rank, "linear_floor": floor, "blank": blank}


def _describe(grid: Runs, dataset: Dataset, point: dict[str, Any]) -> dict[str, Any]:
    by_depth = grid.by_depth if grid.hidden_penalty is None else "swept"
    named = {"network": grid.network, "pre_norm": grid.pre_norm, "loss": grid.loss, "by_depth": by_depth}
    penalties = {name: point[name] for name in ("hidden_penalty", "last_penalty")}
    sizes = {"width": grid.width, "classes": dataset.n_classes, "L": point["L"]}
    return {"dataset": point["dataset"], **named, **penalties, **sizes}


def _course(point: Tensors, key: dict[str, Any]) -> pd.DataFrame:
    names = [name for name in point if name != "steps" and not name.startswith("layer")]
    moment, seed = (index.ravel() for index in np.indices(point["NC1"].shape))
    columns = {name: point[name].ravel() for name in names}
    return pd.DataFrame({**key, "seed": seed, "step": point["steps"][moment], **columns})


def _layers(point: Tensors, key: dict[str, Any]) -> pd.DataFrame:
    tables = []
    for name, values in point.items():
        if name.startswith("layer"):
            layer = int(name.partition("/")[0].removeprefix("layer"))
            seeds = np.arange(values.shape[1])
            tables.append(pd.DataFrame({**key, "layer": layer, "seed": seeds, "NC1": values[-1]}))
    return pd.concat(tables, ignore_index=True).sort_values(["layer", "seed"], ignore_index=True)
