"""The job that measures input subspaces of every layer, and what swapping two hidden neurons costs."""

from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.identifiability.realization import projected, realization_costs, swap_costs
from symlab.identifiability.recording import hidden_layers, representation_covariances
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.measures.job import Job
from symlab.measures.settings import Identification
from symlab.training.models import Models, move
from symlab.words import counted

BATCH = 1024
SHOWN = 16
"""First neurons of the first layer whose functions are kept, as the plane of the inputs shows them."""


def measure_swap_costs(models: Models, data: Dataset, settings: Identification, job: Job) -> dict[str, Any]:
    """Subspaces at all snapshots (a row a point), and at the end of training the cost of swapping each two neurons.

    ``neurons.csv`` has the functions of the first layer's first neurons on the plane of the inputs' two leading
    principal directions: centre v, the Gram matrix S of what the trainable weights reach, and what was learned, a.
    Networks whose nonlinearity mixes neurons (sigma) have neither costs nor functions of single neurons: no rows.
    """
    batches = torch.from_numpy(data.split("train")[0]).split(BATCH)
    input_subspace = principal_subspace(covariance_of(batches).covariance(), settings.explained_variance)
    module = models.module().to(job.device)
    subspaces, costs, neurons = [], [], []
    elementwise = models.header["network"].get("activation") != "sigma"
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
            W_eff, U = state[f"{name}.weight"].cpu(), spaces[point].U.cpu()
            Delta = swap_costs(realization_costs(W_eff, F, D, U)) if elementwise else W_eff.new_empty(0, 0)
            if layer == 1 and position < 2:
                neurons.append(_on_plane(W_eff[: SHOWN if elementwise else 0], F, D, U[:, :2]).assign(**which))
            i, j = torch.triu_indices(len(Delta), len(Delta), offset=1)
            pairs = {"layer": layer, "i": i.numpy(), "j": j.numpy(), "swap_cost": Delta[i, j].numpy()}
            costs.append(pd.DataFrame(which | pairs).astype({"i": "int32", "j": "int32"}))
        told = f"{counted(len(models.epochs), 'snapshots')}, {counted(layer, 'layers')}"
        job.report(f"mask {replica.mask_seed} seed {replica.seed}: {told}")
    return {
        "subspaces.csv": pd.DataFrame(subspaces),
        "swap_costs.parquet": pd.concat(costs, ignore_index=True),
        "neurons.csv": pd.concat(neurons, ignore_index=True),
    }


def _on_plane(
    W_eff: Float[Tensor, "m d"], F: Float[Tensor, "n d"] | None, D: Float[Tensor, "n d"] | None, U: Float[Tensor, "d 2"]
) -> pd.DataFrame:
    """v, S and a of each neuron in the basis U; a subspace of one direction has a second one of zeros."""
    m, basis = len(W_eff), torch.nn.functional.pad(U.double(), (0, 2 - U.shape[1]))
    A, V = projected(W_eff, None if F is None else F[:m], basis)
    scaled = basis.expand(m, -1, -1) if D is None else D[:m, :, None].double() * basis
    S = scaled.mT @ scaled
    columns = {"v_1": V[:, 0], "v_2": V[:, 1], "a_1": A[:, 0], "a_2": A[:, 1]}
    columns |= {"S_11": S[:, 0, 0], "S_12": S[:, 0, 1], "S_22": S[:, 1, 1]}
    return pd.DataFrame({"neuron": range(m), **{name: values.numpy() for name, values in columns.items()}})
