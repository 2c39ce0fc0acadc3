"""Correlate the activations of each pair's networks over the training data, all layers and snapshots in one pass."""

import torch

from symlab.alignment.moments import record_pair_moments
from symlab.alignment.symmetry_spec import symmetry_spec
from symlab.artifacts import write_tensors
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.job import run
from symlab.training.models import open_models

BATCH = 1024


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    models = open_models(snakemake.input.models)
    x, _ = open_dataset(snakemake.input.data).split("train")
    module = models.module().to(device)
    keys = {(epoch, pair.key): (epoch, pair) for epoch in models.epochs for pair in models.pairs()}
    report(f"{len(keys)} pairs and snapshots over {len(x)} samples on {device}")
    moments = record_pair_moments(
        module,
        {key: _on(device, models.state(epoch, pair.A)) for key, (epoch, pair) in keys.items()},
        {key: _on(device, models.state(epoch, pair.B)) for key, (epoch, pair) in keys.items()},
        symmetry_spec(module).points,
        (batch.to(device) for batch in torch.from_numpy(x).split(BATCH)),
    )
    correlations = {
        f"{epoch}/{pair}/{group}": found.correlation().astype("float32")
        for (epoch, pair), groups in moments.items()
        for group, found in groups.items()
    }
    header = {"study": snakemake.wildcards.study, "variant": snakemake.wildcards.variant, "samples": len(x)}
    write_tensors(snakemake.output.moments, correlations, "moments", header)


def _on(device, state):
    return {name: tensor.to(device) for name, tensor in state.items()}


run(main, snakemake)
