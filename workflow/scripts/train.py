"""Train one block of a variant's replicas and write their snapshots and history."""

from pathlib import Path

import torch

from symlab.artifacts import read_header, write_table
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.job import run
from symlab.networks import build
from symlab.training.augmentation import black_values
from symlab.training.models import save_models
from symlab.training.replicas import Replica, train_block
from symlab.training.resume import Checkpoints, training_key
from symlab.training.stacks import TrainingData


def main(snakemake, report):
    spec = snakemake.params.spec
    key = (snakemake.wildcards.study, snakemake.wildcards.variant)
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    dataset = open_dataset(snakemake.input.data)
    arrays = [torch.from_numpy(array) for name in ("train", "val") for array in dataset.split(name)]
    replicas = [Replica(*replica) for replica in spec["replicas"]]
    report(f"training {len(replicas)} replicas on {device}, torch {torch.__version__}")

    def make():
        return build(spec["network"], dataset.n_inputs, dataset.n_outputs)

    black = () if dataset.image is None else black_values(dataset.mean, dataset.std, dataset.image[0])
    data = TrainingData(*arrays, task=dataset.task, image=dataset.image, black=black)
    recipe, epochs = spec["recipe"], spec["epochs"]
    header = {name: spec[name] for name in ("network", "init", "scheme", "recipe")} | {
        "study": key[0],
        "variant": key[1],
        "n_inputs": dataset.n_inputs,
        "n_outputs": dataset.n_outputs,
        "data_sha256": read_header(snakemake.input.data, "dataset")["content_sha256"],
    }
    same = training_key(spec, header["data_sha256"], snakemake.params.library, device, snakemake.threads)
    minutes = snakemake.config["checkpoint_minutes"]
    with Checkpoints(Path(snakemake.params.checkpoint), same, minutes, report) as checkpoints:
        block = train_block(
            make, data, replicas, spec["scheme"], spec["init"], recipe, epochs, key, device, report, checkpoints
        )
        save_models(snakemake.output.models, block, header)
        write_table(snakemake.output.history, block.history)


run(main, snakemake)
