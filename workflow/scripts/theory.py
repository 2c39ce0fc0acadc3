"""The theorems on one network's layers, bounds and what they bound, for the networks at the end of training."""

import pandas as pd
import torch

from symlab.artifacts import write_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.identifiability.bounds import layer_scheme, squared_moments
from symlab.identifiability.gaps import gap_table
from symlab.identifiability.gram_deviation import gram_deviation_table
from symlab.identifiability.recording import hidden_layers, linear_maps, representation_covariances
from symlab.identifiability.sensitivity import sensitivity_table
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.job import run
from symlab.training.models import open_models

BATCH = 1024


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    settings, scheme = snakemake.params.settings, snakemake.params.scheme
    models = open_models(snakemake.input.models)
    batches = torch.from_numpy(open_dataset(snakemake.input.data).split("train")[0]).to(device).split(BATCH)
    of_input = covariance_of(batches)
    module = models.module().to(device)
    fan_ins = {name: module.get_submodule(name).in_features for name in linear_maps(module)}
    tables = {"gram_deviation": [], "sensitivity": [], "network_gaps": []}
    for position, replica in list(enumerate(models.replicas))[: settings["models"]]:
        state = {name: tensor.to(device) for name, tensor in models.state(models.epochs[-1], position).items()}
        covariances = {"hidden0": of_input} | representation_covariances(module, state, batches)
        for layer, name in hidden_layers(module).items():
            covariance = covariances[f"hidden{layer - 1}"].covariance()
            U = principal_subspace(covariance, settings["explained_variance"]).U.cpu()
            W_eff = state[f"{name}.weight"].cpu()
            F, D = models.fixed(replica.mask_seed)[f"{name}.weight"]
            own, delta, m = layer_scheme(scheme, fan_ins, name), settings["delta"], len(W_eff)
            seed = (*snakemake.wildcards, "theory", replica.mask_seed, replica.seed, layer)
            mu_D = squared_moments(own, len(U)).mu_D
            found = {
                "gram_deviation": gram_deviation_table(D, U, m, own, delta, layer == 1, *seed),
                "sensitivity": sensitivity_table(W_eff, F, D, U, mu_D, settings["permutations"], *seed),
                "network_gaps": gap_table(F, U, m, own, delta, layer == 1),
            }
            for table, rows in found.items():
                tables[table].append(rows.assign(mask_seed=replica.mask_seed, seed=replica.seed, layer=layer))
            report(f"mask {replica.mask_seed} seed {replica.seed} layer {layer}: k = {U.shape[1]}")
    for table, parts in tables.items():
        write_table(snakemake.output[table], pd.concat(parts, ignore_index=True))


run(main, snakemake)
