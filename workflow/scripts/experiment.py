"""Compute what is missing of an experiment's points and make its tables, or compute one job's share of the points."""

from pathlib import Path

from symlab.pipeline.job import device_of, run
from symlab.artifacts import read_header
from symlab.data.dataset import open_dataset
from symlab.measures import is_table
from symlab.measures.job import Job
from symlab.pipeline.outputs import with_study, write_outputs
from symlab.pipeline.registry import EXPERIMENTS, settings_of_spec
from symlab.study.points import run_experiment


def main(snakemake, report):
    experiment, spec = EXPERIMENTS[snakemake.params.experiment], snakemake.params.settings
    study = snakemake.wildcards.study
    job = Job(
        study,
        device=device_of(experiment, snakemake),
        report=report,
        folder=Path(snakemake.params.points),
        code=snakemake.params.code,
        checkpoint_minutes=snakemake.config["checkpoint_minutes"],
        datasets={Path(path).stem: open_dataset(path) for path in snakemake.input.data},
        contents={Path(path).stem: read_header(path, "dataset")["content_sha256"] for path in snakemake.input.data},
    )
    settings, chunk = settings_of_spec(experiment.key, spec), snakemake.wildcards.get("chunk")
    if chunk is not None:
        place, jobs = map(int, chunk.split("-of-"))
        run_experiment(experiment, settings, job, (place, jobs))
        return
    found = run_experiment(experiment, settings, job)
    outputs = {name: with_study(found[name], study) if is_table(name) else found[name] for name in experiment.outputs}
    write_outputs(dict(zip(experiment.outputs, snakemake.output, strict=True)), outputs, {"study": study, "spec": spec})


run(main, snakemake)
