"""What becomes of each neuron: whether it keeps its place in another training, and what its swaps cost."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.identifiability.neuron_table import neuron_table
from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.identifiability.recording import hidden_layers, representation_covariances
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.settings import NeuronPlaces
from symlab.training.models import Models, move
from symlab.words import counted

BATCH = 1024


def measure_places(models: Models, data: Dataset, settings: NeuronPlaces, job: Job) -> dict[str, Any]:
    """A row a neuron of every hidden layer of the first network of each pair, at the end of training.

    Costs are means over the two networks, each on the input subspace of its own layer; the matching is the study's
    first. Networks whose nonlinearity mixes neurons (sigma) have no costs of single neurons: no rows.
    """
    correlations, _ = job.inputs["moments.safetensors"]
    permutations, header = job.inputs["permutations.safetensors"]
    batches = torch.from_numpy(data.split("train")[0]).split(BATCH)
    of_input = principal_subspace(covariance_of(batches).covariance(), settings.explained_variance).U.cpu()
    module, epoch = models.module().to(job.device), models.epochs[-1]
    elementwise = models.header["network"].get("activation") != "sigma"
    nothing = np.zeros((0, 0))
    tables = [neuron_table(nothing, nothing, np.zeros(0, dtype=int)).assign(mask_seed=0, pair=0, layer=0)]
    for pair in models.pairs() if elementwise else []:
        of_pair: dict[int, list[Tensor]] = {}
        for position in (pair.A, pair.B):
            state = move(models.state(epoch, position), job.device)
            found = representation_covariances(module, state, (batch.to(job.device) for batch in batches))
            for layer, name in hidden_layers(module).items():
                covariance = found[f"hidden{layer - 1}"].covariance() if layer > 1 else None
                U = of_input if covariance is None else principal_subspace(covariance, settings.explained_variance).U
                F, D = models.fixed(pair.mask_seed)[f"{name}.weight"]
                costs = swap_costs(realization_costs(state[f"{name}.weight"].cpu(), F, D, U.cpu()))
                of_pair.setdefault(layer, []).append(costs)
        for layer, (at_A, at_B) in of_pair.items():
            place = f"{epoch}/{pair.key}/hidden{layer}"
            partner = permutations[f"{header['methods'][0]}/{place}"]
            table = neuron_table(((at_A + at_B) / 2).numpy(), correlations[place], partner)
            tables.append(table.assign(mask_seed=pair.mask_seed, pair=pair.pair, layer=layer))
        job.report(f"pair {pair.key}: {counted(len(of_pair), 'layers')}")
    return {"neuron_places.parquet": pd.concat(tables, ignore_index=True)}
