"""Write the config of this run."""

import json

import yaml

from symlab.artifacts import write_text
from symlab.job import run


def main(snakemake, report):
    # Through JSON: what Snakemake holds are its own subclasses of dict, which YAML would write as Python objects.
    write_text(snakemake.output[0], yaml.safe_dump(json.loads(json.dumps(snakemake.params.config)), sort_keys=False))


run(main, snakemake)
