"""The permutation symmetries of a study's networks, traced once for all jobs that need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from symlab.artifacts import read_header
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.stored_forward import NotStorable, store
from symlab.symmetries.trace import trace


def trace_networks(
    networks: Sequence[dict[str, Any]], datasets: Sequence[str | Path], report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The stored symmetries of every network (by its spec) at the inputs of every data set that it can read.

    A network whose forward pass cannot be stored is left out, and traced again by each job that needs it.
    """
    found: list[dict[str, Any]] = []
    shapes = list(dict.fromkeys(_shape(path) for path in datasets))
    for spec in networks:
        for n_inputs, n_outputs in shapes:
            module = build(choose(NETWORKS, spec), n_inputs, n_outputs)
            traced = trace(module, torch.zeros(2, n_inputs))
            for sentence in traced.spec.unsupported:
                report(sentence)
            try:
                stored = store(traced)
            except NotStorable as reason:
                report(f"{spec['name']} is traced by each job: {reason}")
                continue
            found.append({"network": spec, "n_inputs": n_inputs, "n_outputs": n_outputs, "stored": stored})
    return found


def _shape(path: str | Path) -> tuple[int, int]:
    header = read_header(path, "dataset")
    return header["n_inputs"], header["n_classes"]
