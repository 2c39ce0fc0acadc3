"""Run an experiment of a study by a function that a card names, resumable point by point."""

from pathlib import Path
from pkgutil import resolve_name

from symlab.data.dataset import open_dataset
from symlab.measures.job import Job
from symlab.pipeline.job import device_of, run
from symlab.pipeline.outputs import with_study, write_outputs
from symlab.pipeline.registry import EXPERIMENTS, is_table, settings_of_spec


def main(snakemake, report):
    experiment, spec = EXPERIMENTS[snakemake.params.experiment], snakemake.params.settings
    study = snakemake.wildcards.study
    job = Job(
        study,
        device=device_of(experiment, snakemake),
        report=report,
        folder=Path(snakemake.params.checkpoints),
        code=snakemake.params.code,
        checkpoint_minutes=snakemake.config["checkpoint_minutes"],
        datasets={Path(path).stem: open_dataset(path) for path in snakemake.input.data},
    )
    found = resolve_name(experiment.function)(settings_of_spec(experiment.key, spec), job)
    outputs = {name: with_study(found[name], study) if is_table(name) else found[name] for name in experiment.outputs}
    write_outputs(dict(zip(experiment.outputs, snakemake.output, strict=True)), outputs, {"study": study, "spec": spec})


run(main, snakemake)
