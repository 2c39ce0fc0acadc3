"""Find the network's symmetries and correlate the activations of each pair over the training data in one pass."""

import torch

from symlab.alignment.forward import batch_rows
from symlab.alignment.moments import record_pair_moments
from symlab.artifacts import write_tensors
from symlab.data.dataset import open_dataset
from symlab.device import resolve_device
from symlab.job import run
from symlab.symmetries.trace import trace
from symlab.training.models import open_models


def main(snakemake, report):
    device = resolve_device(snakemake.config["device"], snakemake.threads)
    models = open_models(snakemake.input.models)
    x = torch.from_numpy(open_dataset(snakemake.input.data).split("train")[0])
    traced = trace(models.module().to(device), x[:2].to(device))
    for sentence in traced.spec.unsupported:
        report(sentence)
    keys = {(epoch, pair.key): (epoch, pair) for epoch in models.epochs for pair in models.pairs()}
    report(f"{len(keys)} pairs and snapshots, {len(traced.spec.groups)} groups, {len(x)} samples on {device}")
    moments = record_pair_moments(
        traced,
        {key: _on(device, models.state(epoch, pair.A)) for key, (epoch, pair) in keys.items()},
        {key: _on(device, models.state(epoch, pair.B)) for key, (epoch, pair) in keys.items()},
        (batch.to(device) for batch in x.split(batch_rows(x, device))),
    )
    correlations = {
        f"{epoch}/{pair}/{group}": found.correlation().astype("float32")
        for (epoch, pair), groups in moments.items()
        for group, found in groups.items()
    }
    header = {"study": snakemake.wildcards.study, "variant": snakemake.wildcards.variant, "samples": len(x)}
    write_tensors(snakemake.output.moments, correlations, "moments", header | {"symmetries": traced.spec.to_json()})


def _on(device, state):
    return {name: tensor.to(device) for name, tensor in state.items()}


run(main, snakemake)
