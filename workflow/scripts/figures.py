"""Draw a study's figures from its tables."""

from pathlib import Path

from symlab.artifacts import read_table
from symlab.pipeline.drawing import draw_figures
from symlab.pipeline.job import run
from symlab.plotting.settings import Style


def main(snakemake, report):
    tables = {Path(path).name: read_table(path) for path in snakemake.input}
    folder = Path(snakemake.output.png[0]).parent
    draw_figures(snakemake.params.figures, tables, Style.from_spec(snakemake.params.style), folder, report)


run(main, snakemake)
