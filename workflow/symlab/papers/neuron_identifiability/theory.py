"""The measure of the theorems on single layers: bounds and what they bound, for the networks at the end of training."""

from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.identifiability.gram import gram_deviations
from symlab.identifiability.recording import hidden_layers, linear_maps, representation_covariances
from symlab.identifiability.subspace import coherence, covariance_of, principal_subspace
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.bounds import (
    bernstein_moments,
    gram_deviation_bound,
    layer_scheme,
    squared_moments,
)
from symlab.papers.neuron_identifiability.network_gaps import gap_table
from symlab.papers.neuron_identifiability.sensitivity import sensitivity_table
from symlab.papers.neuron_identifiability.settings import Theory
from symlab.papers.neuron_identifiability.tail_energy import second_moment, tail_energy_table
from symlab.schemes import SCHEMES, Scheme
from symlab.schemes.fixed_parts import sample_fixed_parts
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


def gram_deviation_table(
    D: Float[Tensor, "m d"] | None,
    U: Float[Tensor, "d k"],
    m: int,
    scheme: Scheme,
    delta: float,
    independent: bool,
    *seed: str | int,
) -> pd.DataFrame:
    """Deviations |S_i - mu_D I|_op of a layer's m neurons, with its own masks and with masks drawn anew.

    Thm. 4.4 is about masks drawn independently of the subspace. The subspace of the data is independent of a network's
    own masks, which were drawn without the data. That of a deeper layer's inputs is not: it comes from training this
    layer and the ones before. Fresh masks from the same scheme fulfil the assumption in every layer; so do those of
    ``w_asymmetric``, whose entries are not independent, with the constants of ``bernstein_moments``, which are used for
    the bound, while the columns sigma_D2 and b_D are the moments of an entry.

    Args:
        D: the network's own masks; None stands for D = 1.
        U: an orthonormal basis of the layer's input subspace.
        m: the layer's neurons.
        scheme: with this layer's count (``layer_scheme``).
        delta: the probability with which the bound may fail, for one neuron and for all.
        independent: whether U is independent of D, that is, whether this is the first layer.
        seed: names the draw of the fresh masks.

    Returns:
        Two rows, ``masks`` own and fresh: moments of d^2, the largest deviation, ``bound`` for one neuron
        and ``bound_all`` for all, ``share_above`` of the neurons above the first, ``assumption`` where one fails.
    """
    d, k = U.shape
    nu = coherence(U)
    moments = squared_moments(scheme, d)
    proxies = bernstein_moments(scheme, d)
    bound = gram_deviation_bound(proxies, nu, k, delta)
    [(_, fresh)] = sample_fixed_parts(scheme, {"weight": (m, d)}, *seed, "fresh masks").values()
    rows = []
    for masks, diagonals in (("own", D), ("fresh", fresh)):
        deviations = gram_deviations(diagonals, U, moments.mu_D, m).numpy()
        # Without randomness there is nothing that U could depend on.
        depends = masks == "own" and not independent and moments.sigma_D2 > 0
        rows.append(
            {"masks": masks, "k_subspace": k, "nu": nu, **moments._asdict()}
            | {"deviation_max": float(deviations.max())}
            | {"delta": delta, "bound": bound, "bound_all": gram_deviation_bound(proxies, nu, k, delta / m)}
            | {"share_above": float((deviations > bound).mean()), "assumption": "U depends on D" if depends else ""}
        )
    return pd.DataFrame(rows)
