"""The job that measures input subspaces of every layer, and what swapping two hidden neurons costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.identifiability.recording import hidden_layers, representation_covariances
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.measures.job import Job
from symlab.measures.settings import Identification
from symlab.training.models import Models, move

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset

BATCH = 1024


def measure_swap_costs(models: Models, data: Dataset, settings: Identification, job: Job) -> dict[str, Any]:
    """Subspaces at all snapshots (a row a point), and at the end of training the cost of swapping each two neurons."""
    batches = torch.from_numpy(data.split("train")[0]).split(BATCH)
    input_subspace = principal_subspace(covariance_of(batches).covariance(), settings.explained_variance)
    module = models.module().to(job.device)
    subspaces, costs = [], []
    for position, replica in list(enumerate(models.replicas))[: settings.models]:
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed}
        for epoch in models.epochs:
            state = move(models.state(epoch, position), job.device)
            found = representation_covariances(module, state, (batch.to(job.device) for batch in batches))
            spaces = {"input": input_subspace} | {
                point: principal_subspace(c.covariance(), settings.explained_variance) for point, c in found.items()
            }
            subspaces += [
                {**which, "epoch": epoch, "point": point, "d": len(space.U)}
                | {"k_subspace": space.k, "nu": space.nu, "explained": space.explained}
                for point, space in spaces.items()
            ]
        for layer, name in hidden_layers(module).items():
            point = f"hidden{layer - 1}" if layer > 1 else "input"
            F, D = models.fixed(replica.mask_seed)[f"{name}.weight"]
            Delta = swap_costs(realization_costs(state[f"{name}.weight"].cpu(), F, D, spaces[point].U.cpu()))
            i, j = torch.triu_indices(len(Delta), len(Delta), offset=1)
            pairs = {"layer": layer, "i": i.numpy(), "j": j.numpy(), "swap_cost": Delta[i, j].numpy()}
            costs.append(pd.DataFrame(which | pairs).astype({"i": "int32", "j": "int32"}))
        job.report(f"mask {replica.mask_seed} seed {replica.seed}: {len(models.epochs)} snapshots, {layer} layers")
    return {"subspaces.csv": pd.DataFrame(subspaces), "swap_costs.parquet": pd.concat(costs, ignore_index=True)}
