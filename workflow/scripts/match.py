"""Match the neurons of each pair, verify that the permuted network is the same function, and record the objectives."""

import pandas as pd
import torch

from symlab.alignment.matching import joint, match_all, objective, objectives
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.weight_matching import weight_matching
from symlab.artifacts import read_tensors, write_table, write_tensors
from symlab.data.dataset import open_dataset
from symlab.job import run
from symlab.seeds import numpy_rng
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.training.models import open_models

CHECKED_SAMPLES = 256


def main(snakemake, report):
    torch.set_num_threads(snakemake.threads)
    study, variant = snakemake.wildcards.study, snakemake.wildcards.variant
    settings = snakemake.params.matching
    methods = settings["method"]
    models = open_models(snakemake.input.models)
    correlations, header = read_tensors(snakemake.input.moments, "moments")
    x, _ = open_dataset(snakemake.input.data).split("train")
    batch = torch.from_numpy(x[:CHECKED_SAMPLES])
    module = models.module()
    spec = SymmetrySpec.from_json(header["symmetries"])
    rows, permutations = [], {}
    for epoch in models.epochs:
        for pair in models.pairs():
            prefix = f"{epoch}/{pair.key}/"
            of_pair = {name.removeprefix(prefix): S for name, S in correlations.items() if name.startswith(prefix)}
            rng = numpy_rng(study, variant, "permutations", epoch, pair.mask_seed, pair.pair)
            state_A, state_B = models.state(epoch, pair.A), models.state(epoch, pair.B)
            found = {"activation": match_all(of_pair, spec.groups)}
            values = objectives(of_pair, found["activation"], spec.groups, settings["n_random"], rng)
            if "weight" in methods:
                found["weight"] = weight_matching(spec, state_A, state_B, rng, settings["restarts"]).permutations
                for group, S in of_pair.items():
                    values[group]["weight"] = objective(S, joint(group, found["weight"], spec.groups))
            for method in methods:
                check_alignment(module, state_B, permute(state_B, spec, found[method]), batch)
                permutations |= {f"{method}/{prefix}{group}": pi.astype("int64") for group, pi in found[method].items()}
            rows += [
                {"mask_seed": pair.mask_seed, "pair": pair.pair, "epoch": epoch, "point": group}
                | {"permutation": permutation, "objective": value}
                for group, of_group in values.items()
                for permutation, value in of_group.items()
            ]
    report(f"{len(permutations)} permutations found; every permuted network computes the function it was made from")
    described = {"study": study, "variant": variant, "methods": methods, "symmetries": header["symmetries"]}
    write_tensors(snakemake.output.permutations, permutations, "permutations", described)
    write_table(snakemake.output.matching, pd.DataFrame(rows))


run(main, snakemake)
