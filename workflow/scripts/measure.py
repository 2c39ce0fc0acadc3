"""Measure one block of a variant's networks by a function that a registry names."""

import json
from pathlib import Path
from pkgutil import resolve_name

from symlab.pipeline.job import device_of, measure_named, run
from symlab.artifacts import ArtifactError, rebuild
from symlab.data.dataset import open_dataset
from symlab.measures.job import Job
from symlab.pipeline.outputs import read_output, write_outputs
from symlab.products import fast_products
from symlab.training.models import open_models


def main(snakemake, report):
    measure, given = measure_named(snakemake.params.measure), snakemake.input
    study, variant = snakemake.wildcards.study, snakemake.wildcards.variant
    job = Job(
        study,
        variant,
        snakemake.wildcards.block,
        device_of(measure, snakemake),
        report,
        inputs={f"{Path(path).parent.name}.safetensors": read_output(path) for path in given.get("needed", [])},
        symmetries=json.loads(Path(given.symmetries).read_text()) if measure.symmetries else None,
    )
    models = open_models(given.models)
    if (models.header["study"], models.header["variant"]) != (study, variant):
        raise ArtifactError(f"{given.models} holds networks of another variant. {rebuild(given.models)}")
    settings = measure.settings.from_spec(snakemake.params.settings)
    with fast_products():
        outputs = resolve_name(measure.function)(models, open_dataset(given.data), settings, job)
    header = {"study": study, "variant": variant, "spec": snakemake.params.settings}
    write_outputs(dict(zip(measure.outputs, snakemake.output, strict=True)), outputs, header)


run(main, snakemake)
