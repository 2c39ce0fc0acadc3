"""Checkpoints of a training job: it may be killed at any moment and goes on, on the same CPU, with the same bits."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from symlab.artifacts import ArtifactError, read_tensors, write_tensors
from symlab.device import is_accelerator
from symlab.errors import Interrupted
from symlab.products import products_by
from symlab.schemes.fixed_parts import State

# SIGTERM is what SLURM and Snakemake send before they kill, SIGINT what Ctrl-C sends to every job of a terminal.
STOPPING = (signal.SIGTERM, signal.SIGINT)
# Lists of rows that a checkpoint holds.
TABLES = ("history", "polished")


@dataclass
class Progress:
    """How far a block's training has come, between two steps; with the stack's tensors all that is needed to go on.

    size: replicas a stack; start: index of the first replica of the stack in training.
    epoch: counted from 1; batch: batches of it that were trained on; seconds: spent on them.
    loss, hits: sums over these batches for each replica of the stack, on the training device; None before a stack.
    snapshots: kept states of finished stacks and of this one, in the order of the replicas.
    history: rows of the finished epochs of all stacks; polished: where L-BFGS ended.
    """

    size: int
    epochs: tuple[int, ...]
    start: int = 0
    epoch: int = 1
    batch: int = 0
    seconds: float = 0.0
    loss: Float64[Tensor, " r"] | None = None
    hits: Int64[Tensor, " r"] | None = None
    snapshots: dict[int, list[State]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    polished: list[dict[str, Any]] = field(default_factory=list)
    polishes: bool = False
    """Whether the stack's epochs are over and L-BFGS has begun."""

    def __post_init__(self) -> None:
        self.snapshots = {epoch: self.snapshots.get(epoch, []) for epoch in sorted(self.epochs)}

    def next_epoch(self) -> None:
        """The epoch is over."""
        assert self.loss is not None and self.hits is not None
        self.epoch, self.batch, self.seconds = self.epoch + 1, 0, 0.0
        self.loss.zero_()
        self.hits.zero_()

    def next_stack(self) -> None:
        """The stack is trained."""
        self.start, self.epoch, self.batch, self.seconds = self.start + self.size, 1, 0, 0.0
        self.loss = self.hits = None


class Checkpoints:
    """Where a training job keeps its progress, and when it is time to: every few minutes, and when it is told to stop.

    Within ``with``, SIGTERM and SIGINT end training after the step in progress, once a checkpoint is written.

    Args:
        path: the checkpoint's file, outside the job's outputs, which Snakemake removes when a job fails.
        key: says what is trained, by which code; a checkpoint of another key is not used.
        minutes: between two checkpoints.
        report: receives a line for each checkpoint written or found.
    """

    def __init__(self, path: Path, key: dict[str, Any], minutes: float, report: Callable[[str], None]):
        self.path, self.seconds, self.report = path, 60 * minutes, report
        # As it is read back: JSON knows no tuples.
        self.key = json.loads(json.dumps(key))
        self.due = time.monotonic() + self.seconds
        self.stopped_by: signal.Signals | None = None
        self.previous: list[dict[int, Any]] = []

    def beside(self, part: str) -> "Checkpoints":
        """Those of another training of the same job, in a file of their own."""
        path = self.path.with_stem(f"{self.path.stem}_{part}")
        return Checkpoints(path, self.key, self.seconds / 60, self.report)

    def __enter__(self) -> "Checkpoints":
        self.previous.append({number: signal.signal(number, self._stop) for number in STOPPING})
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.previous.pop().items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = signal.Signals(number)

    def load(self, device: torch.device) -> tuple[Progress, State] | None:
        """Progress and the stack's tensors where training was left; None if it begins.

        A checkpoint that is damaged or of something else is reported and left aside.
        """
        if not self.path.exists():
            return None
        try:
            arrays, header = read_tensors(self.path, "checkpoint")
        except ArtifactError as error:
            self.report(f"training begins anew, its checkpoint cannot be used: {error}")
            return None
        if header.get("key") != self.key:
            self.report(f"training begins anew, {self.path} is a checkpoint of other settings or another version")
            return None
        progress, live = _unpacked(arrays, header, device)
        self.report(f"going on at replica {progress.start}, epoch {progress.epoch}, batch {progress.batch}")
        return progress, live

    def after_step(self, progress: Progress, seconds: float, live: Callable[[], State], last: bool) -> None:
        """Write a checkpoint if it is time to, and after the last step if training was long enough to have one.

        The file stays when training ends: it is of use until Snakemake has accepted the job's outputs.

        Args:
            seconds: spent on this epoch so far.
            live: gives the stack's tensors.
            last: whether no step of the block is left.

        Raises:
            Interrupted: a signal asked to stop, and the checkpoint is written.
            ArtifactError: a signal asked to stop, and it cannot be written.
        """
        long_enough = last and self.path.exists()
        if self.stopped_by is None and time.monotonic() < self.due and not long_enough:
            return
        progress.seconds = seconds
        arrays, header = _packed(progress, live())
        self.due = time.monotonic() + self.seconds
        try:
            write_tensors(self.path, arrays, "checkpoint", {**header, "key": self.key})
        except ArtifactError as error:
            if self.stopped_by is not None:
                raise
            self.report(f"no checkpoint, training goes on: {error}")
            return
        place = f"replica {progress.start}, epoch {progress.epoch}, batch {progress.batch}"
        self.report(f"checkpoint at {place}")
        if self.stopped_by is not None:
            raise Interrupted(self.stopped_by, f"Training was stopped at {place}; the next run goes on there.")


def training_key(spec: dict[str, Any], data: str, code: str, device: str, threads: int) -> dict[str, Any]:
    """All that a training job's numbers depend on; only a checkpoint of an equal key is used.

    On one machine they then agree bit for bit. A checkpoint may be taken to another CPU, whose libraries round
    otherwise: from there on the numbers agree to rounding and what training makes of it.

    Args:
        spec: what the config says of the job.
        data, code: digests of the data set and of the modules behind the job.
    """
    where = torch.get_device_module(device).get_device_name(device) if is_accelerator(device) else device
    return {
        "spec": spec,
        "data": data,
        "code": code,
        "torch": torch.__version__,
        "device": where,
        "threads": threads,
        "products": products_by(),
    }


def restore(live: State, saved: State) -> None:
    """Put saved values into a stack's tensors, whatever their layout in memory."""
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(saved[name])


def _packed(progress: Progress, live: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    assert progress.loss is not None and progress.hits is not None
    tensors = {"loss": progress.loss, "hits": progress.hits} | {f"live/{name}": live[name] for name in live}
    for epoch, parts in progress.snapshots.items():
        if parts:
            tensors |= {f"snapshots/{epoch}/{name}": torch.cat([part[name] for part in parts]) for name in parts[0]}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    columns: dict[str, list[str]] = {}
    for table in TABLES:
        rows = getattr(progress, table)
        columns[table] = list(rows[0]) if rows else []
        arrays |= {f"{table}/{column}": np.array([row[column] for row in rows]) for column in columns[table]}
    names = ("size", "epochs", "start", "epoch", "batch", "seconds", "polishes")
    return arrays, {name: getattr(progress, name) for name in names} | {"columns": columns}


def _rows(arrays: dict[str, np.ndarray], table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    values = {column: arrays[f"{table}/{column}"].tolist() for column in columns}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _unpacked(arrays: dict[str, np.ndarray], header: dict[str, Any], device: torch.device) -> tuple[Progress, State]:
    found = {name: torch.from_numpy(array) for name, array in arrays.items() if name.partition("/")[0] not in TABLES}
    progress = Progress(
        **{name: header[name] for name in ("size", "start", "epoch", "batch", "seconds", "polishes")},
        epochs=tuple(header["epochs"]),
        loss=found["loss"].to(device),
        hits=found["hits"].to(device),
        history=_rows(arrays, "history", header["columns"]["history"]),
        polished=_rows(arrays, "polished", header["columns"]["polished"]),
    )
    for epoch in progress.epochs:
        if state := _below(found, f"snapshots/{epoch}/"):
            progress.snapshots[epoch].append(state)
    return progress, _below(found, "live/")


def _below(tensors: State, prefix: str) -> State:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
