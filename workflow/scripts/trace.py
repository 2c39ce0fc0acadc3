"""Trace the permutation symmetries of a network once, for all jobs that need them."""

import json

from symlab.pipeline.job import run
from symlab.artifacts import write_text
from symlab.measures.symmetries import trace_network


def main(snakemake, report):
    found = trace_network(snakemake.params.network, snakemake.input.data, report)
    write_text(snakemake.output[0], json.dumps(found))


run(main, snakemake)
