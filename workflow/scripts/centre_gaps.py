"""gamma_out of randomly drawn centres against the layer's width, on the true subspaces of synthetic data sets."""

import pandas as pd
import torch

from symlab.artifacts import write_table
from symlab.data.dataset import open_dataset
from symlab.errors import UserError
from symlab.identifiability.centres import centre_gap_table
from symlab.job import run


def main(snakemake, report):
    torch.set_num_threads(snakemake.threads)
    spec = snakemake.params.spec
    tables = []
    for name, path in zip(snakemake.params.datasets, snakemake.input.data, strict=True):
        extras = open_dataset(path).extras
        if "U" not in extras:
            raise UserError(
                f"centre_gaps needs synthetic data with a known subspace, which {name} is not; set it to null."
            )
        U = torch.from_numpy(extras["U"]).double()
        for fraction in spec["fixed_fraction"]:
            seed = (snakemake.wildcards.study, "centres", name)
            table = centre_gap_table(U, spec["widths"], spec["draws"], spec["sigma_F"], fraction, seed)
            tables.append(table.assign(dataset=name))
        report(f"{name}: k = {U.shape[1]}")
    write_table(snakemake.output.table, pd.concat(tables, ignore_index=True))


run(main, snakemake)
