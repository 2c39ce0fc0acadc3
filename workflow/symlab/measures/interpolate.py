"""The job that walks the straight line between the networks of each pair, aligned and not."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from symlab.alignment.permute import permute
from symlab.connectivity.path import curve
from symlab.data.dataset import Dataset
from symlab.measures.job import Job
from symlab.measures.rows import rows_at_once
from symlab.measures.settings import Interpolation
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.training.models import Models, move
from symlab.words import counted

COLUMNS = ["mask_seed", "pair", "aligned", "matching", "split", "lambda", "loss", "accuracy", "chord"]


def walk_paths(models: Models, data: Dataset, settings: Interpolation, job: Job) -> dict[str, Any]:
    """Loss, accuracy and chord deviation on the line from A to B, and to the permuted B, for each pair of a block."""
    splits = {
        name: tuple(torch.from_numpy(array).to(job.device) for array in data.split(name))
        for name in {"train", *settings.splits}
    }
    statistics_x = splits["train"][0][: settings.samples]
    module, epoch = models.module().to(job.device), models.epochs[-1]
    permutations, header = job.inputs.get("permutations.safetensors", ({}, {}))
    spec = SymmetrySpec.from_json(header["symmetries"]) if header else None
    lambdas = np.linspace(0, 1, settings.lambdas).tolist()
    tables = []
    for pair in models.pairs():
        A, B = (move(models.state(epoch, position), job.device) for position in (pair.A, pair.B))
        ends = {"none": B}
        if spec is not None:
            for method in header["methods"]:
                prefix = f"{method}/{epoch}/{pair.key}/"
                ends[method] = permute(B, spec, {group: permutations[prefix + group] for group in spec.groups})
        for matching, end in ends.items():
            for split in settings.splits:
                x, y = (tensor[: settings.samples] for tensor in splits[split])
                rows = rows_at_once(models, x, job.device)
                table = curve(module, A, end, lambdas, x, y, data.task, rows, statistics_x, settings.repair)
                of_path = {"aligned": matching != "none", "matching": matching, "split": split}
                tables.append(table.assign(mask_seed=pair.mask_seed, pair=pair.pair, **of_path))
        job.report(f"pair {pair.key}: {counted(len(ends), 'paths')} of {counted(len(lambdas), 'points')}")
    return {"curves.csv": pd.concat(tables, ignore_index=True)[COLUMNS]}
