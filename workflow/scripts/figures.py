"""Draw those of a study's figures that were drawn from other tables, code or style, or not at all."""

import hashlib
import json
from pathlib import Path

from symlab.pipeline.digest import digest_of_files
from symlab.pipeline.drawing import draw_figures
from symlab.pipeline.job import run
from symlab.pipeline.outputs import read_output
from symlab.plotting.settings import Style


def main(snakemake, report):
    paths, params = [Path(path) for path in snakemake.input], snakemake.params
    given = [digest_of_files(paths), params.style]
    made_from = {
        figure: hashlib.sha256(json.dumps([*given, code], sort_keys=True).encode()).hexdigest()[:16]
        for figure, code in params.code.items()
    }
    tables = {path.name: read_output(path) for path in paths}
    folder = Path(snakemake.output.svg[0]).parent
    draw_figures(params.study, made_from, tables, Style.from_spec(params.style), folder, report)


run(main, snakemake)
