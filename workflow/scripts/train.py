"""Train one block of a variant's replicas and write their snapshots and history."""

import torch

from symlab.artifacts import read_header, write_table
from symlab.data import open_dataset
from symlab.device import resolve_device
from symlab.job import run
from symlab.networks import build
from symlab.training.models import save_models
from symlab.training.replicas import Replica, TrainingData, train_block


def main(snakemake, report):
    spec = snakemake.params.spec
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    dataset = open_dataset(snakemake.input.data)
    arrays = [torch.from_numpy(array) for name in ("train", "val") for array in dataset.split(name)]
    data = TrainingData(*arrays, task=dataset.task)
    report(
        f"training {len(spec['replicas'])} replicas on {device}, torch {torch.__version__}, {snakemake.threads} threads"
    )
    block = train_block(
        lambda: build(spec["network"], dataset.n_inputs, dataset.n_outputs),
        data,
        [Replica(*replica) for replica in spec["replicas"]],
        spec["scheme"],
        spec["init"],
        spec["recipe"],
        spec["epochs"],
        (snakemake.wildcards.study, snakemake.wildcards.variant),
        device,
        report,
    )
    header = {
        "study": snakemake.wildcards.study,
        "variant": snakemake.wildcards.variant,
        "n_inputs": dataset.n_inputs,
        "n_outputs": dataset.n_outputs,
        "data_sha256": read_header(snakemake.input.data, "dataset")["content_sha256"],
        **{key: spec[key] for key in ("network", "init", "scheme", "recipe")},
    }
    save_models(snakemake.output.models, block, header)
    write_table(snakemake.output.history, block.history)


run(main, snakemake)
