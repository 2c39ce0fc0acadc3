"""Losses, sparsity and types of the students of one role, and of uniform samples of the minima beside them."""

import pandas as pd

from symlab.artifacts import write_table
from symlab.job import run
from symlab.papers.permutation_invariance.measures import open_students, runs_of_trained, runs_of_uniform


def main(snakemake, report):
    study, role = snakemake.wildcards
    tables = []
    for students in open_students(snakemake.input.students):
        tables.append(runs_of_trained(students))
        report(f"{students.point.name}: {len(tables[-1])} runs")
    tables += [runs_of_uniform(grid, study, role) for grid in snakemake.params.grids]
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "study", study)
    write_table(snakemake.output.table, table)


run(main, snakemake)
