"""Maximum and midpoint barriers of every curve."""

from symlab.artifacts import read_table, write_table
from symlab.connectivity.barrier import barriers
from symlab.job import run


def main(snakemake, report):
    curves = read_table(snakemake.input.curves)
    by = [column for column in curves.columns if column not in ("lambda", "loss", "accuracy")]
    table = barriers(curves, by)
    report(f"{len(table)} barriers")
    write_table(snakemake.output.barriers, table)


run(main, snakemake)
