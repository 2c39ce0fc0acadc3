"""Rank correlation between the two estimators of swap costs, for each network, layer and beta."""

from symlab.artifacts import read_table, write_table
from symlab.identifiability.estimators import estimators
from symlab.job import run


def main(snakemake, report):
    table = estimators(read_table(snakemake.input.swap_costs), read_table(snakemake.input.ridge_swap_costs))
    report(f"{len(table)} comparisons, {int(table['spearman'].isna().sum())} without a correlation")
    write_table(snakemake.output.estimators, table)


run(main, snakemake)
