"""The job that matches the neurons of each pair and records how good the matchings are."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from symlab.alignment.matching import joint, match_all, objective, objectives
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.weight_matching import weight_matching
from symlab.data.dataset import Dataset
from symlab.measures.job import Job
from symlab.measures.settings import Matching
from symlab.seeds import numpy_rng
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.training.models import Models, Pair
from symlab.words import counted

CHECKED_SAMPLES = 256


def match_pairs(models: Models, data: Dataset, settings: Matching, job: Job) -> dict[str, Any]:
    """A permutation of B's neurons for each method, snapshot, pair and group; a row for each objective.

    Every permuted network is checked to compute the function that it was made from.
    """
    correlations, header = job.inputs["moments.safetensors"]
    batch = torch.from_numpy(data.split("train")[0][:CHECKED_SAMPLES])
    module = models.module()
    spec = SymmetrySpec.from_json(header["symmetries"])
    rows: list[dict[str, Any]] = []
    permutations: dict[str, np.ndarray] = {}
    for epoch in models.epochs:
        for pair in models.pairs():
            prefix = f"{epoch}/{pair.key}/"
            of_pair = {name.removeprefix(prefix): S for name, S in correlations.items() if name.startswith(prefix)}
            found, values = _match_pair(models, spec, of_pair, settings, epoch, pair, job)
            state_B = models.state(epoch, pair.B)
            for method in settings.methods:
                check_alignment(module, state_B, permute(state_B, spec, found[method]), batch)
                permutations |= {f"{method}/{prefix}{group}": pi.astype("int64") for group, pi in found[method].items()}
            rows += [
                {"mask_seed": pair.mask_seed, "pair": pair.pair, "epoch": epoch, "point": group}
                | {"permutation": permutation, "objective": value}
                for group, of_group in values.items()
                for permutation, value in of_group.items()
            ]
    told = counted(len(permutations), "permutations")
    job.report(f"{told} found; every permuted network computes the function it was made from")
    described = {"methods": settings.methods, "symmetries": header["symmetries"]}
    return {"permutations.safetensors": (permutations, described), "matching.csv": pd.DataFrame(rows)}


def _match_pair(
    models: Models,
    spec: SymmetrySpec,
    correlations: dict[str, np.ndarray],
    settings: Matching,
    epoch: int,
    pair: Pair,
    job: Job,
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, dict[str, float]]]:
    """Permutations by method and group, and objectives by group and permutation, of one pair at one snapshot."""
    rng = numpy_rng(job.study, job.variant, "permutations", epoch, pair.mask_seed, pair.pair)
    found = {"activation": match_all(correlations, spec.groups)}
    values = objectives(correlations, found["activation"], spec.groups, settings.n_random, rng)
    if "weight" in settings.methods:
        A, B = models.state(epoch, pair.A), models.state(epoch, pair.B)
        found["weight"] = weight_matching(spec, A, B, rng, settings.restarts).permutations
        for group, S in correlations.items():
            values[group]["weight"] = objective(S, joint(group, found["weight"], spec.groups))
    return found, values
