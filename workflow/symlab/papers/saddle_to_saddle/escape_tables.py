"""Tables of descents from near the origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.study.points import Result


def tabulate_escapes(results: Sequence[Result], grids: Sequence[Descents], job: Job) -> dict[str, pd.DataFrame]:
    """Rows of all networks and moments.

    Returns:
        ``escape_course.csv``: a row a network and moment: ``dataset``, L, width, std, activation, seed, ``step``, ``s``
        (the sum of rate times |theta|^(L-2)), full ``loss``, ``norm``, ``gradient`` (norm of the loss's), and, along
        the weights' direction, ``speed``, ``residual``, which is 0 along an escape direction, ``lost_output`` of the
        speed budget and by how much its terms miss.
        What a network measures after its weights have gone to infinity is missing.
        ``escape_layers.csv``: a row a layer besides: singular values ``s1`` .. ``s10`` of W_l, ``second_change`` (the
        second over the first of dW_l), ``A``, ``A_change`` (A_l of dW_l = W_l - W_l(0)), ``B`` of Z_l^s and ``D``,
        and the terms of the speed budget, ``lost_norms``, ``lost_rank``, ``lost_cut`` and ``lost_alignment``. What
        belongs to relu is missing of linear networks.
    """
    keys = [{**each.point, "width": each.settings.width} for each in results]
    keys = [{name: key[name] for name in ("dataset", "L", "width", "std", "activation")} for key in keys]
    courses = [_course(each.found, key, each.settings.lr) for each, key in zip(results, keys, strict=True)]
    layers = [_layers(each.found, key) for each, key in zip(results, keys, strict=True)]
    return {
        "escape_course.csv": pd.concat(courses, ignore_index=True),
        "escape_layers.csv": pd.concat(layers, ignore_index=True),
    }


def _course(point: Tensors, key: dict[str, Any], lr: float) -> pd.DataFrame:
    names = ("loss", "norm", "gradient", "speed", "residual", "lost_output", "budget_missed")
    moment, seed = (index.ravel() for index in np.indices(point["loss"].shape))
    steps = point["steps"][moment]
    measured = {name: point[name].ravel() for name in names}
    return pd.DataFrame({**key, "seed": seed, "step": steps, "s": lr * steps, **measured})


def _layers(point: Tensors, key: dict[str, Any]) -> pd.DataFrame:
    moment, seed = (index.ravel() for index in np.indices(point["loss"].shape))
    tables = []
    for layer in range(key["L"] + 1):
        of_layer = {
            name.partition("/")[2]: values.ravel()
            for name, values in point.items()
            if name.startswith(f"layer{layer}/")
        }
        tables.append(pd.DataFrame({**key, "seed": seed, "step": point["steps"][moment], "layer": layer, **of_layer}))
    return pd.concat(tables, ignore_index=True)
