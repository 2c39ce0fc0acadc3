"""Draw those of a study's figures that were drawn from other tables, code or style, or not at all."""

import hashlib
import json
import shutil
from pathlib import Path

from symlab.pipeline.job import run
from symlab.errors import UserError
from symlab.pipeline.digest import digest_of_files
from symlab.pipeline.drawing import draw_figures
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
    faults = draw_figures(params.study, made_from, tables, Style.from_spec(params.style), folder, report)
    # Snakemake removes the outputs of a job that fails, so figures beside a fault are kept elsewhere, for looking at.
    with_errors = folder.with_name("figures_with_errors")
    shutil.rmtree(with_errors, ignore_errors=True)
    if faults:
        shutil.copytree(folder, with_errors)
        raise UserError(f"{faults} Where is in {snakemake.log[0]}; the others are in {with_errors}.")


run(main, snakemake)
