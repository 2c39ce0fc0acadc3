"""Chord deviation of each hidden layer on the path between the networks of a pair, against its bounds."""

import numpy as np
import pandas as pd
import torch

from symlab.artifacts import write_table
from symlab.connectivity.chord import chord_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.identifiability.recording import hidden_layers, layer_inputs
from symlab.job import run
from symlab.training.models import open_models

SCALES = np.logspace(0, -4, 9).tolist()


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    settings = snakemake.params.settings
    models = open_models(snakemake.input.models)
    x = torch.from_numpy(open_dataset(snakemake.input.data).split("train")[0][: settings["samples"]]).to(device)
    module, epoch = models.module().to(device), models.epochs[-1]
    tables = []
    for pair in models.pairs()[: settings["models"] // 2]:
        A, B = (
            {name: tensor.to(device) for name, tensor in models.state(epoch, position).items()}
            for position in (pair.A, pair.B)
        )
        inputs_A, inputs_B = (layer_inputs(module, state, x) for state in (A, B))
        for layer, name in hidden_layers(module).items():
            F, _ = models.fixed(pair.mask_seed)[f"{name}.weight"]
            # A layer reads different inputs in the two networks; both count.
            X = torch.cat([inputs_A[name], inputs_B[name]]).double().cpu()
            W_A, W_B = (state[f"{name}.weight"].cpu() for state in (A, B))
            table = chord_table(F, W_A, W_B, X.T @ X / len(X), X, SCALES)
            tables.append(table.assign(mask_seed=pair.mask_seed, pair=pair.pair, layer=layer))
        report(f"pair {pair.key}: {layer} layers at {len(SCALES)} scales of the trainable parts")
    write_table(snakemake.output.chord_deviation, pd.concat(tables, ignore_index=True))


run(main, snakemake)
