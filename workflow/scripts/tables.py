"""Write a study's tables: put together from the variants' blocks, or made from other tables."""

from pathlib import Path
from pkgutil import resolve_name

from symlab.pipeline.job import run
from symlab.artifacts import write_table
from symlab.measures.job import Job
from symlab.pipeline.outputs import join_parts, read_output, with_study
from symlab.pipeline.registry import TABLES
from symlab.words import counted


def main(snakemake, report):
    params = snakemake.params
    job = Job(params.study, report=report)
    paths = {Path(path).name: path for path in snakemake.output}
    have = {name: read_output(path) for name, path in params.experiments.items()}
    for name, parts in params.parts.items():
        have[name] = join_parts(params.study, parts, params.of_part, params.variants)
        write_table(paths[name], have[name])
    for name in params.derived:
        table = TABLES[name]
        inputs = {each: have[each] for each in (*table.inputs, *table.if_present) if each in have}
        have[name] = with_study(resolve_name(table.function)(inputs, job), params.study)
        write_table(paths[name], have[name])
    report(", ".join(f"{name}: {counted(len(have[name]), 'rows')}" for name in paths))


run(main, snakemake)
