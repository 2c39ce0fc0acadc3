"""Experiments as points: each is computed once and kept as soon as it is finished; tables are made from all of them.

A run that was killed goes on with the first point that is missing, and one more value in a list of the settings
computes its own points alone.
"""

import glob
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pandas as pd
import torch

from symlab.artifacts import ArtifactError, Tensors, read_tensors, write_tensors
from symlab.measures.job import Job
from symlab.products import products_by
from symlab.study.experiment import Experiment, Point, PointSettings
from symlab.training.resume import Checkpoints

Found = Tensors | Mapping[str, pd.DataFrame]
"""What is computed of a point: arrays by name, or rows of the tables of these names."""


@dataclass(frozen=True)
class Result:
    """A point with the tensors or rows that were computed there."""

    grid: int
    """Place of its settings in the list under the key."""
    settings: Any
    point: Point
    found: Any


def run_experiment(
    experiment: Experiment, settings: Any, job: Job, chunk: tuple[int, int] | None = None
) -> dict[str, Any]:
    """The tables of an experiment, from points that are kept and those that are computed now.

    Args:
        settings: what stands under the experiment's key, a list where that holds one.
        chunk: (i, n) computes of each n chains of points (a point that follows none is its own) the i-th and makes no
            tables; None computes all that is missing.

    Raises:
        Interrupted: a signal asked to stop; what is finished is kept.
        ArtifactError: what was found cannot be written.
    """
    compute = resolve_name(experiment.compute)
    grids = settings if isinstance(settings, list) else [settings]
    listed = [(grid, point) for grid, each in enumerate(grids) for point in each.points(tuple(job.datasets))]
    first, every = chunk or (0, 1)
    chains: dict[str, int] = {}
    found: dict[str, Any] = {}
    results = []
    for number, (grid, point) in enumerate(listed, 1):
        root = json.dumps([grid, _root(grids[grid], point)])
        if chains.setdefault(root, len(chains)) % every != first:
            continue
        spec = spec_of_point(experiment, grids[grid], point, job)
        chained = type(grids[grid]).follows is not PointSettings.follows
        before = {"before": found.get(json.dumps([grid, grids[grid].follows(point)]))} if chained else {}
        made, result = keep_point(job, point, spec, partial(compute, grids[grid], **before))
        found[json.dumps([grid, point])] = result
        results.append(Result(grid, grids[grid], point, result))
        if made:
            job.report(f"point {number} of {len(listed)}: {_told(point)}")
    if chunk is not None:
        return {}
    return resolve_name(experiment.tables)(results, grids, job) if experiment.tables else join_rows(results)


def spec_of_point(experiment: Experiment, settings: PointSettings, point: Point, job: Job) -> dict[str, Any]:
    """All but the code that a point's result depends on; not the lists of other points, so that these may grow."""
    common = {key: value for key, value in settings.common().items() if key not in experiment.unused}
    data = {"data": job.contents.get(point["dataset"])} if "dataset" in point else {}
    earlier = settings.follows(point)
    before = {} if earlier is None else {"before": spec_of_point(experiment, settings, earlier, job)}
    return {"study": job.study, **point, **data, **before, "settings": common}


def _root(settings: PointSettings, point: Point) -> Point:
    """The first point of a point's chain, which is listed before it."""
    while (earlier := settings.follows(point)) is not None:
        point = earlier
    return point


def join_rows(results: Sequence[Result]) -> dict[str, pd.DataFrame]:
    """The rows of all points, by table."""
    names = dict.fromkeys(name for result in results for name in result.found)
    return {
        name: pd.concat([each.found[name] for each in results if name in each.found], ignore_index=True)
        for name in names
    }


def join_grids(results: Sequence[Result], settings: Sequence[PointSettings], job: Job) -> dict[str, pd.DataFrame]:
    """The rows of all points, by table, with the place of their settings in the list as the column ``grid``."""
    numbered = [
        replace(each, found={name: rows.assign(grid=each.grid) for name, rows in each.found.items()})
        for each in results
    ]
    return join_rows(numbered)


def keep_point(job: Job, point: Point, spec: dict[str, Any], make: Callable[..., Found]) -> tuple[bool, Found]:
    """Whether a point was made now, and what an earlier run has found there or ``make`` finds now, which is then kept.

    Args:
        job: whose ``folder`` holds a file for each point, and one for the point in progress; None keeps nothing.
        spec: all that decides what is found but the job's code; what was found by other code is found anew.
        make: given the job, with checkpoints to go on from within the point unless nothing is kept, and the point.

    Raises:
        Interrupted: a signal asked to stop, and the point's checkpoint was written.
        ArtifactError: what was found cannot be written.
    """
    if job.folder is None:
        return True, make(job, **point)
    key = json.loads(json.dumps({"spec": spec, "code": job.code, "torch": torch.__version__}))
    path = job.folder / f"{_file_name(point, spec)}.safetensors"
    unfinished = path.with_stem(f"{path.stem}_unfinished")
    if path.exists():
        try:
            arrays, header = read_tensors(path, "point")
        except ArtifactError as error:
            job.report(f"{_told(point)} is computed anew: {error}")
        else:
            if header["key"] == key:
                _remove(unfinished)
                return False, _unpacked(arrays, header["columns"])
    # Within a point, unlike between points, bits depend on these too.
    within = {**key, "device": job.device, "products": products_by()}
    checkpoints = Checkpoints(unfinished, within, job.checkpoint_minutes, job.report)
    found = make(replace(job, checkpoints=checkpoints), **point)
    arrays, columns = _packed(found)
    write_tensors(path, arrays, "point", {"key": key, "columns": columns})
    _remove(unfinished)
    return True, found


def _remove(checkpoint: Path) -> None:
    """A point's checkpoint and those beside it."""
    for each in checkpoint.parent.glob(f"{glob.escape(checkpoint.stem)}*{checkpoint.suffix}"):
        each.unlink()


def _told(point: Point) -> str:
    return ", ".join(f"{key} = {value}" for key, value in point.items()) or "the only one"


def _file_name(point: Point, spec: dict[str, Any]) -> str:
    """Readable, and another for each spec, since several settings may list the same point."""
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    readable = "_".join(str(value).replace("/", "-").replace(" ", "-") for value in point.values())
    return "_".join(filter(None, [readable[:80], digest]))


Columns = list[tuple[str, list[tuple[str, list[str] | None]] | None]]
"""In order, each array's name; each table's with its columns, and for those of text all texts."""


def _packed(found: Found) -> tuple[Tensors, Columns]:
    arrays: Tensors = {}
    columns: Columns = []
    for name, value in found.items():
        if not isinstance(value, pd.DataFrame):
            arrays[name] = value
            columns.append((name, None))
            continue
        of_table: list[tuple[str, list[str] | None]] = []
        for column, values in value.items():
            texts = sorted(set(values)) if pd.api.types.is_string_dtype(values) else None
            of_table.append((str(column), texts))
            kept = values.to_numpy() if texts is None else np.array([texts.index(each) for each in values])
            arrays[f"{name}/{column}"] = np.ascontiguousarray(kept)
        columns.append((name, of_table))
    return arrays, columns


def _unpacked(arrays: Tensors, columns: Columns) -> Found:
    found: dict[str, Any] = {}
    for name, of_table in columns:
        if of_table is None:
            found[name] = arrays[name]
            continue
        values = {
            column: arrays[f"{name}/{column}"] if texts is None else [texts[at] for at in arrays[f"{name}/{column}"]]
            for column, texts in of_table
        }
        found[name] = pd.DataFrame(values)
    return found
