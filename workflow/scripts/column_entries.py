"""How trained students split the weight of one teacher neuron among theirs."""

import pandas as pd

from symlab.artifacts import write_table
from symlab.job import run
from symlab.papers.permutation_invariance.measures import column_entries, open_students


def main(snakemake, report):
    table = pd.concat([column_entries(students) for students in open_students(snakemake.input.students)])
    table.insert(0, "study", snakemake.wildcards.study)
    report(f"{len(table)} rows")
    write_table(snakemake.output.table, table)


run(main, snakemake)
