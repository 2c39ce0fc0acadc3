"""Maximum and midpoint barriers of every curve, and their bound by the outputs' chord deviation."""

from symlab.artifacts import read_table, write_table
from symlab.connectivity.barrier import barriers
from symlab.connectivity.loss_bound import loss_bounds
from symlab.job import run


def main(snakemake, report):
    curves = read_table(snakemake.input.curves)
    by = [column for column in curves.columns if column not in ("lambda", "loss", "accuracy", "chord")]
    table = barriers(curves, by)
    report(f"{len(table)} barriers")
    write_table(snakemake.output.barriers, table)
    write_table(snakemake.output.loss_bounds, loss_bounds(curves, by))


run(main, snakemake)
