"""Train one block of a variant's replicas and write their snapshots and history."""

from pathlib import Path

from symlab.pipeline.job import run
from symlab.artifacts import read_header, write_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.training.models import save_models
from symlab.training.resume import Checkpoints, training_key
from symlab.training.variant import train_variant


def main(snakemake, report):
    spec = snakemake.params.spec
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    dataset, header = open_dataset(snakemake.input.data), read_header(snakemake.input.data, "dataset")
    same = training_key(spec, header["content_sha256"], snakemake.params.code, device, snakemake.threads)
    minutes = snakemake.config["checkpoint_minutes"]
    checkpoints = Checkpoints(Path(snakemake.params.checkpoint), same, minutes, report)
    block, described = train_variant(spec, dataset, device, report, checkpoints)
    save_models(snakemake.output.models, block, {**described, "data_sha256": header["content_sha256"]})
    write_table(snakemake.output.history, block.history)


run(main, snakemake)
