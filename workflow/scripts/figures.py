"""Draw a study's figures from its tables."""

from pathlib import Path

from symlab.pipeline.drawing import draw_figures
from symlab.pipeline.job import run
from symlab.pipeline.outputs import read_output
from symlab.plotting.settings import Style


def main(snakemake, report):
    tables = {Path(path).name: read_output(path) for path in snakemake.input}
    params, folder = snakemake.params, Path(snakemake.output.svg[0]).parent
    draw_figures(params.study, params.figures, tables, Style.from_spec(params.style), folder, report)


run(main, snakemake)
