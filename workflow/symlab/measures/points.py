"""Experiments that go on point by point: what a killed run of a job has finished is not computed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from symlab.artifacts import ArtifactError, Tensors, read_tensors, write_tensors
from symlab.measures.job import Job
from symlab.training.resume import Checkpoints


def keep_point(job: Job, name: str, spec: dict[str, Any], make: Callable[[Checkpoints | None], Tensors]) -> Tensors:
    """What an earlier, killed run of the job has made of a point, or what ``make`` makes now, which is then kept.

    Args:
        job: whose ``folder`` holds a file for each point, and one for the point in progress; None keeps nothing.
        name: of the point, which no other point of the job has.
        spec: all that decides the point's arrays but the job's code; what was kept for another spec, or by other code,
            is made anew.
        make: gives the point's arrays; called with checkpoints to go on from within the point, None if nothing is kept.

    Raises:
        Interrupted: a signal asked to stop, and the point's checkpoint was written.
        ArtifactError: what was made cannot be written.
    """
    if job.folder is None:
        return make(None)
    path = job.folder / f"{name}.safetensors"
    key = json.loads(json.dumps({"spec": spec, "code": job.code, "torch": torch.__version__}))
    if path.exists():
        try:
            arrays, header = read_tensors(path, "checkpoint")
        except ArtifactError as error:
            job.report(f"{name} is made anew: {error}")
        else:
            if header["key"] == key:
                # Files hold tensors by name; tables take their columns in the order in which they were made.
                return {name: arrays[name] for name in header["names"]}
    unfinished = job.folder / f"{name}_unfinished.safetensors"
    with Checkpoints(unfinished, key, job.checkpoint_minutes, job.report) as checkpoints:
        arrays = make(checkpoints)
    write_tensors(path, arrays, "checkpoint", {"key": key, "names": list(arrays)})
    return arrays
