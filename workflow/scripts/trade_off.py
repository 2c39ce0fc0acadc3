"""Accuracy against identifiability: one row a pair."""

from symlab.alignment.trade_off import trade_off
from symlab.artifacts import read_table, write_table
from symlab.job import run


def main(snakemake, report):
    table = trade_off(read_table(snakemake.input.matching), read_table(snakemake.input.history))
    report(f"{len(table)} pairs")
    write_table(snakemake.output.trade_off, table)


run(main, snakemake)
