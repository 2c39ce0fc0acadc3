"""The job that correlates the activations of each pair of networks over training data in one pass."""

from typing import Any

import torch

from symlab.alignment.moments import record_pair_moments
from symlab.data.dataset import Dataset
from symlab.measures.job import Job
from symlab.measures.rows import rows_at_once
from symlab.measures.settings import Matching
from symlab.measures.symmetries import symmetries_of
from symlab.training.models import Models, move
from symlab.words import counted


def correlate_activations(models: Models, data: Dataset, settings: Matching, job: Job) -> dict[str, Any]:
    """Correlations [d, d] of the neurons of both networks of a pair, by ``<epoch>/<pair>/<group>``, float32."""
    x = torch.from_numpy(data.split("train")[0][: settings.samples])
    traced = symmetries_of(models, x[:2].to(job.device), job)
    keys = {(epoch, pair.key): (epoch, pair) for epoch in models.epochs for pair in models.pairs()}
    job.report(
        f"{counted(len(models.pairs()), 'pairs')} at {counted(len(models.epochs), 'snapshots')}, "
        f"{counted(len(traced.spec.groups), 'groups')}, {counted(len(x), 'samples')} on {job.device}"
    )
    moments = record_pair_moments(
        traced,
        {key: move(models.state(epoch, pair.A), job.device) for key, (epoch, pair) in keys.items()},
        {key: move(models.state(epoch, pair.B), job.device) for key, (epoch, pair) in keys.items()},
        (batch.to(job.device) for batch in x.split(rows_at_once(models, x, job.device))),
    )
    correlations = {
        f"{epoch}/{pair}/{group}": found.correlation().astype("float32")
        for (epoch, pair), groups in moments.items()
        for group, found in groups.items()
    }
    return {"moments.safetensors": (correlations, {"samples": len(x), "symmetries": traced.spec.to_json()})}
