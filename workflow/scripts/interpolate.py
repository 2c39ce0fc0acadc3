"""Loss, accuracy and chord deviation on the line from A to B, and to the permuted B, for each pair of a block."""

import numpy as np
import pandas as pd
import torch

from symlab.alignment.permute import permute
from symlab.artifacts import read_tensors, write_table
from symlab.connectivity.path import curve
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.job import run
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.training.models import open_models


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    path = snakemake.params.path
    models = open_models(snakemake.input.models)
    dataset = open_dataset(snakemake.input.data)
    splits = {
        name: tuple(torch.from_numpy(array).to(device) for array in dataset.split(name))
        for name in {"train", *path["splits"]}
    }
    module, epoch = models.module().to(device), models.epochs[-1]
    permutations, spec, methods = {}, None, []
    if path["aligned"]:
        permutations, header = read_tensors(snakemake.input.permutations, "permutations")
        spec, methods = SymmetrySpec.from_json(header["symmetries"]), header["methods"]
    lambdas = np.linspace(0, 1, path["lambdas"]).tolist()
    tables = []
    for pair in models.pairs():
        A, B = (_on(device, models.state(epoch, position)) for position in (pair.A, pair.B))
        ends = {"none": B}
        for method in methods:
            prefix = f"{method}/{epoch}/{pair.key}/"
            ends[method] = permute(B, spec, {group: permutations[prefix + group] for group in spec.groups})
        for matching, end in ends.items():
            for split in path["splits"]:
                x, y = (tensor[: path["samples"]] for tensor in splits[split])
                statistics_x = splits["train"][0][: path["samples"]]
                table = curve(
                    module, A, end, lambdas, x, y, dataset.task, statistics_x=statistics_x, repair=path["repair"]
                )
                of_path = {"aligned": matching != "none", "matching": matching, "split": split}
                tables.append(table.assign(mask_seed=pair.mask_seed, pair=pair.pair, **of_path))
        report(f"pair {pair.key}: {len(ends)} path(s) of {len(lambdas)} points")
    columns = ["mask_seed", "pair", "aligned", "matching", "split", "lambda", "loss", "accuracy", "chord"]
    write_table(snakemake.output.curves, pd.concat(tables, ignore_index=True)[columns])


def _on(device, state):
    return {name: tensor.to(device) for name, tensor in state.items()}


run(main, snakemake)
