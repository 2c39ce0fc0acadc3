"""Match the neurons of each pair, verify that the permuted network is the same function, and record the objectives."""

import pandas as pd
import torch

from symlab.alignment.matching import match, objectives
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.symmetry_spec import symmetry_spec
from symlab.artifacts import read_tensors, write_table, write_tensors
from symlab.data.dataset import open_dataset
from symlab.job import run
from symlab.seeds import numpy_rng
from symlab.training.models import open_models

CHECKED_SAMPLES = 256


def main(snakemake, report):
    torch.set_num_threads(snakemake.threads)
    study, variant = snakemake.wildcards.study, snakemake.wildcards.variant
    models = open_models(snakemake.input.models)
    correlations, _ = read_tensors(snakemake.input.moments, "moments")
    x, _ = open_dataset(snakemake.input.data).split("train")
    batch = torch.from_numpy(x[:CHECKED_SAMPLES])
    module = models.module()
    spec = symmetry_spec(module)
    rows, permutations = [], {}
    for epoch in models.epochs:
        for pair in models.pairs():
            found = {}
            for group in spec.sizes:
                S = correlations[f"{epoch}/{pair.key}/{group}"]
                rng = numpy_rng(study, variant, "random permutations", epoch, pair.mask_seed, pair.pair, group)
                found[group] = match(S)
                rows += [
                    {"mask_seed": pair.mask_seed, "pair": pair.pair, "epoch": epoch, "point": group}
                    | {"permutation": permutation, "objective": objective}
                    for permutation, objective in objectives(S, snakemake.params.n_random, rng).items()
                ]
            state = models.state(epoch, pair.B)
            check_alignment(module, state, permute(state, spec, found), batch)
            permutations |= {f"{epoch}/{pair.key}/{group}": pi.astype("int64") for group, pi in found.items()}
    report(f"{len(permutations)} permutations found; every permuted network computes the function it was made from")
    write_tensors(snakemake.output.permutations, permutations, "permutations", {"study": study, "variant": variant})
    write_table(snakemake.output.matching, pd.DataFrame(rows))


run(main, snakemake)
