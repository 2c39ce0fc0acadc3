"""The measure of swap costs by ridge regression, on the networks at the end of training."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.identifiability.recording import hidden_layers, layer_inputs
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.neuron_functions import layer_functions
from symlab.papers.neuron_identifiability.ridge import ridge_swap_costs
from symlab.papers.neuron_identifiability.settings import Ridge
from symlab.training.models import Models, move


def measure_ridge_costs(models: Models, data: Dataset, settings: Ridge, job: Job) -> dict[str, Any]:
    """Swap costs of every hidden layer's neurons at every beta.

    ``reported`` marks the rows of the beta that figures and claims are about: only there are all pairs of the first
    neurons swapped.
    """
    x = torch.from_numpy(data.split("train")[0][: settings.samples]).to(job.device)
    module = models.module().to(job.device)
    swaps = []
    for position, replica in list(enumerate(models.replicas))[: settings.models]:
        state = move(models.state(models.epochs[-1], position), job.device)
        inputs = layer_inputs(module, state, x)
        for layer, name in hidden_layers(module).items():
            functions = layer_functions(module, state, name, *models.fixed(replica.mask_seed)[f"{name}.weight"])
            for beta in settings.beta:
                reported = beta == settings.reported
                which = {"mask_seed": replica.mask_seed, "seed": replica.seed, "layer": layer, "beta": beta}
                which |= {"reported": reported}
                pairs = choose_pairs(len(functions.W_eff), settings.block if reported else 0)
                Delta = ridge_swap_costs(functions, inputs[name], pairs, beta)
                i, j = pairs.numpy().astype("int32").T
                swaps.append(pd.DataFrame(which | {"i": i, "j": j, "swap_cost": Delta.cpu().numpy()}))
                job.report(
                    f"mask {replica.mask_seed} seed {replica.seed} layer {layer} beta {beta}: {len(pairs)} swaps"
                )
    return {"ridge_swap_costs.parquet": pd.concat(swaps, ignore_index=True)}


def choose_pairs(m: int, block: int) -> Int[Tensor, "p 2"]:
    """The disjoint consecutive pairs of m neurons and all pairs of the first ``block``, sorted, each once."""
    i = np.arange(0, m - 1, 2)
    consecutive = np.stack([i, i + 1])
    pairs = np.concatenate([consecutive, np.stack(np.triu_indices(min(block, m), 1))], axis=1)
    return torch.from_numpy(np.unique(pairs, axis=1).T.copy())
