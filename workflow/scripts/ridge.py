"""Swap costs of the hidden neurons by ridge regression, at every beta, on the networks at the end of training."""

import numpy as np
import pandas as pd
import torch

from symlab.artifacts import write_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.identifiability.neuron_functions import layer_functions
from symlab.identifiability.recording import hidden_layers, layer_inputs
from symlab.identifiability.ridge import ridge_swap_costs
from symlab.job import run
from symlab.training.models import open_models


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    settings = snakemake.params.settings
    models = open_models(snakemake.input.models)
    x = torch.from_numpy(open_dataset(snakemake.input.data).split("train")[0][: settings["samples"]]).to(device)
    module = models.module().to(device)
    swaps, summaries = [], []
    for position, replica in list(enumerate(models.replicas))[: settings["models"]]:
        state = {name: tensor.to(device) for name, tensor in models.state(models.epochs[-1], position).items()}
        inputs = layer_inputs(module, state, x)
        for layer, name in hidden_layers(module).items():
            functions = layer_functions(module, state, name, *models.fixed(replica.mask_seed)[f"{name}.weight"])
            for beta in settings["beta"]:
                which = {"mask_seed": replica.mask_seed, "seed": replica.seed, "layer": layer, "beta": beta}
                pairs = _pairs(len(functions.W_eff), settings["block"] if beta == settings["reported"] else 0)
                Delta, costs = ridge_swap_costs(functions, inputs[name], pairs, beta, settings["solver"])
                i, j = pairs.numpy().astype("int32").T
                swaps.append(pd.DataFrame(which | {"i": i, "j": j, "swap_cost": Delta.cpu().numpy()}))
                summaries.append(
                    {**which, "n_costs": len(costs.cost), "cost_median": float(costs.cost.median())}
                    | {"bound_ratio_max": float(torch.where(costs.cost == 0, 0.0, costs.cost / costs.bound).max())}
                    | {"gradient_max": float(costs.gradient.max())}
                )
                report(
                    f"mask {replica.mask_seed} seed {replica.seed} layer {layer} beta {beta}: {len(pairs)} swaps, "
                    f"{len(costs.cost)} costs, at most {int(costs.iterations.max())} iterations"
                )
    write_table(snakemake.output.ridge_swap_costs, pd.concat(swaps, ignore_index=True))
    write_table(snakemake.output.ridge_costs, pd.DataFrame(summaries))


def _pairs(m, block):
    """The disjoint consecutive pairs of m neurons and all pairs of the first ``block``, sorted, each once."""
    i = np.arange(0, m - 1, 2)
    consecutive = np.stack([i, i + 1])
    pairs = np.concatenate([consecutive, np.stack(np.triu_indices(min(block, m), 1))], axis=1)
    return torch.from_numpy(np.unique(pairs, axis=1).T.copy())


run(main, snakemake)
