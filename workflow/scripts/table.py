"""Join the parts of one table over variants and blocks, and say on every row which variant it is about."""

import pandas as pd

from symlab.artifacts import read_table, write_table
from symlab.job import run


def main(snakemake, report):
    variants = snakemake.params.variants
    of_part = snakemake.params.of_part
    parts = [read_table(path).assign(variant=name) for path, name in zip(snakemake.input.parts, of_part, strict=True)]
    described = pd.DataFrame(
        [{"study": snakemake.wildcards.study, "variant": name} | variants[name] for name in variants]
    )
    table = described.merge(pd.concat(parts, ignore_index=True), on="variant", validate="one_to_many")
    report(f"{len(table)} rows from {len(parts)} parts")
    write_table(snakemake.output.table, table)


run(main, snakemake)
