"""Trace the permutation symmetries of a study's networks once, for all jobs that need them."""

import json

from symlab.artifacts import write_text
from symlab.measures.symmetries import trace_networks
from symlab.pipeline.job import run


def main(snakemake, report):
    found = trace_networks(snakemake.params.networks, snakemake.input.data, report)
    write_text(snakemake.output[0], json.dumps(found))


run(main, snakemake)
