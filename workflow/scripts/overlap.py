"""The overlap of two random splits of m neurons over M types, exact, by its limits and by draws."""

import pandas as pd

from symlab.artifacts import write_table
from symlab.job import run
from symlab.papers.permutation_invariance.measures import overlap_table


def main(snakemake, report):
    settings, study = snakemake.params.settings, snakemake.wildcards.study
    tables = []
    for M in settings["M"]:
        tables.append(overlap_table(M, settings["up_to"], settings["draws"], (study, "overlap")))
        report(f"M = {M}: {len(tables[-1])} widths")
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "study", study)
    write_table(snakemake.output.table, table)


run(main, snakemake)
