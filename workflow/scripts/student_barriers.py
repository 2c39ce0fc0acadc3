"""Barriers between pairs of trained students of one role, and between uniform samples of the minima beside them."""

import pandas as pd

from symlab.artifacts import write_table
from symlab.job import run
from symlab.papers.permutation_invariance.measures import barriers_of_trained, barriers_of_uniform, open_students


def main(snakemake, report):
    study, role = snakemake.wildcards
    grids = snakemake.params.grids
    tables = []
    for path, grid in zip(snakemake.input.students, [grid for grid in grids if grid["runs"]], strict=True):
        for students in open_students([path]):
            tables.append(barriers_of_trained(students, grid["lambdas"]))
            report(f"{students.point.name}: {len(tables[-1])} pairs")
    for number, grid in enumerate(grids):
        tables.append(barriers_of_uniform(grid, study, role))
        report(f"grid {number}: {len(tables[-1])} pairs of uniform samples")
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "study", study)
    write_table(snakemake.output.table, table)


run(main, snakemake)
