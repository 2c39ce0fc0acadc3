"""Input subspaces of every layer at all snapshots, and swap costs of the hidden neurons at the end of training."""

import pandas as pd
import torch

from symlab.artifacts import write_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.identifiability.recording import hidden_layers, representation_covariances
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.job import run
from symlab.training.models import open_models

BATCH = 1024


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    settings = snakemake.params.settings
    models = open_models(snakemake.input.models)
    batches = torch.from_numpy(open_dataset(snakemake.input.data).split("train")[0]).split(BATCH)
    of_input = covariance_of(batches)
    input_subspace = principal_subspace(of_input.covariance(), settings["explained_variance"])
    module = models.module().to(device)
    subspaces, costs = [], []
    for position, replica in list(enumerate(models.replicas))[: settings["models"]]:
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed}
        for epoch in models.epochs:
            state = {name: tensor.to(device) for name, tensor in models.state(epoch, position).items()}
            found = representation_covariances(module, state, (batch.to(device) for batch in batches))
            spaces = {"input": input_subspace} | {
                point: principal_subspace(c.covariance(), settings["explained_variance"]) for point, c in found.items()
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
            i, j = torch.triu_indices(*Delta.shape, offset=1)
            pairs = {"layer": layer, "i": i.numpy(), "j": j.numpy(), "swap_cost": Delta[i, j].numpy()}
            costs.append(pd.DataFrame(which | pairs).astype({"i": "int32", "j": "int32"}))
        report(f"mask {replica.mask_seed} seed {replica.seed}: {len(models.epochs)} snapshots, {layer} layers")
    write_table(snakemake.output.subspaces, pd.DataFrame(subspaces))
    write_table(snakemake.output.swap_costs, pd.concat(costs, ignore_index=True))


run(main, snakemake)
