"""The measure of the theorems on single layers: bounds and what they bound, for the networks at the end of training."""

from typing import Any

import pandas as pd
import torch

from symlab.data.dataset import Dataset
from symlab.identifiability.recording import hidden_layers, linear_maps, representation_covariances
from symlab.identifiability.subspace import covariance_of, principal_subspace
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.bounds import layer_scheme, squared_moments
from symlab.papers.neuron_identifiability.gram_deviation import gram_deviation_table
from symlab.papers.neuron_identifiability.network_gaps import gap_table
from symlab.papers.neuron_identifiability.sensitivity import sensitivity_table
from symlab.papers.neuron_identifiability.settings import Theory
from symlab.papers.neuron_identifiability.tail_energy import second_moment, tail_energy_table
from symlab.schemes import SCHEMES
from symlab.settings import choose
from symlab.training.models import Models, move

BATCH = 1024


def measure_theorems(models: Models, data: Dataset, settings: Theory, job: Job) -> dict[str, Any]:
    """Of every hidden layer: Gram deviations (Thm. 4.4), costs of permutations (4.5, 4.7), gaps (4.6, 4.8), tail energy
    (E.2, E.6)."""
    batches = torch.from_numpy(data.split("train")[0]).to(job.device).split(BATCH)
    of_input = covariance_of(batches)
    module = models.module().to(job.device)
    scheme = choose(SCHEMES, models.header["scheme"])
    fan_ins = {name: module.get_parameter(f"{name}.weight").shape[1] for name in linear_maps(module)}
    names = ("gram_deviation.csv", "sensitivity.csv", "network_gaps.csv", "tail_energy.csv")
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in names}
    for position, replica in list(enumerate(models.replicas))[: settings.models]:
        state = move(models.state(models.epochs[-1], position), job.device)
        covariances = {"hidden0": of_input} | representation_covariances(module, state, batches)
        for layer, name in hidden_layers(module).items():
            inputs = covariances[f"hidden{layer - 1}"]
            U = principal_subspace(inputs.covariance(), settings.explained_variance).U.cpu()
            W_eff = state[f"{name}.weight"].cpu()
            F, D = models.fixed(replica.mask_seed)[f"{name}.weight"]
            own, m = layer_scheme(scheme, fan_ins, name), len(W_eff)
            seed = (job.study, job.variant, job.block, "theory", replica.mask_seed, replica.seed, layer)
            mu_D = squared_moments(own, len(U)).mu_D
            found = {
                "gram_deviation.csv": gram_deviation_table(D, U, m, own, settings.delta, layer == 1, *seed),
                "sensitivity.csv": sensitivity_table(W_eff, F, D, U, mu_D, settings.permutations, *seed),
                "network_gaps.csv": gap_table(F, U, m, own, settings.delta, layer == 1),
                "tail_energy.csv": tail_energy_table(
                    W_eff, F, D, U, second_moment(inputs).cpu(), settings.beta, settings.realizers
                ),
            }
            for table, rows in found.items():
                tables[table].append(rows.assign(mask_seed=replica.mask_seed, seed=replica.seed, layer=layer))
            job.report(f"mask {replica.mask_seed} seed {replica.seed} layer {layer}: k = {U.shape[1]}")
    return {table: pd.concat(parts, ignore_index=True) for table, parts in tables.items()}
