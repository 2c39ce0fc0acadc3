"""The permutation symmetries of a network, traced once for all jobs that need them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from symlab.artifacts import read_header
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.stored_forward import NotStorable, store
from symlab.symmetries.trace import trace


def trace_network(spec: dict[str, Any], dataset: str | Path, report: Callable[[str], None]) -> dict[str, Any] | None:
    """The stored symmetries of a network (by its spec) at the inputs of a data set.

    None where its forward pass cannot be stored: each job that needs them traces it again.
    """
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
