"""The permutation symmetries of a network, traced once for all jobs that need them.

Tracing imports torch.export, which takes seconds, so it is imported by the functions that trace.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symlab.artifacts import read_header
from symlab.measures.job import Job
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.stored_forward import NotStorable, StoredForward, restore, store

if TYPE_CHECKING:
    from symlab.symmetries.trace import Traced
    from symlab.training.models import Models


def trace_network(spec: dict[str, Any], dataset: str | Path, report: Callable[[str], None]) -> dict[str, Any] | None:
    """The stored symmetries of a network (by its spec) at the inputs of a data set.

    None where its forward pass cannot be stored: each job that needs them traces it again.
    """
    from symlab.symmetries.trace import trace

    header = read_header(dataset, "dataset")
    n_inputs = header["n_inputs"]
    traced = trace(build(choose(NETWORKS, spec), n_inputs, header["n_classes"]), torch.zeros(2, n_inputs))
    for sentence in traced.spec.unsupported:
        report(sentence)
    try:
        return store(traced)
    except NotStorable as reason:
        report(f"{spec['name']} is traced by each job: {reason}")
        return None


def symmetries_of(models: Models, x: Tensor, job: Job) -> Traced | StoredForward:
    """The networks' forward pass and symmetries: read back where a job before has stored them, else traced at x[:2]."""
    if job.symmetries is not None:
        return restore(job.symmetries)
    from symlab.symmetries.trace import trace

    return trace(models.module().to(x.device), x[:2])
