"""Draw one figure from tables."""

from pathlib import Path

from symlab.artifacts import read_table
from symlab.figures import draw
from symlab.plotting.style import save
from symlab.job import run


def main(snakemake, report):
    tables = {Path(path).name: read_table(path) for path in snakemake.input.tables}
    style = snakemake.params.style
    figure = draw(snakemake.wildcards.figure, tables, style)
    save(figure, snakemake.output.pdf, snakemake.output.png, style["dpi"])
    report(f"figure {snakemake.wildcards.figure} of study {snakemake.wildcards.study}")


run(main, snakemake)
