"""What is measured while networks train: functions of their states, at epochs, at steps or at an event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica, Stack

COLUMNS = ("probe", "mask_seed", "seed", "epoch", "step", "loss", "quantity", "value")


@dataclass(frozen=True)
class Moment:
    """A moment between two steps: how many were taken, whether the last one ended an epoch (0: before any step)."""

    step: int
    epoch: int
    ends_epoch: bool


class When(Protocol):
    """Decides at which moments a probe measures which replicas."""

    def due(self, now: Moment, loss: Float[Tensor, " r"]) -> bool | Bool[Tensor, " r"]:
        """Whether it is time, for all replicas or for each; ``loss`` is that before the last step, at first NaN."""


@dataclass(frozen=True)
class AtEpochs:
    """At the ends of these epochs; 0 is before the first step."""

    epochs: Collection[int]

    def due(self, now: Moment, loss: Float[Tensor, " r"]) -> bool:
        return now.ends_epoch and now.epoch in self.epochs


@dataclass(frozen=True)
class AtSteps:
    """After these numbers of steps; 0 is before the first."""

    steps: Collection[int]

    def due(self, now: Moment, loss: Float[Tensor, " r"]) -> bool:
        return now.step in self.steps


@dataclass(frozen=True)
class OnceWhere:
    """For each replica once, the first time that ``condition`` of the losses holds."""

    condition: Callable[[Float[Tensor, " r"]], Bool[Tensor, " r"]]

    def due(self, now: Moment, loss: Float[Tensor, " r"]) -> Bool[Tensor, " r"]:
        return self.condition(loss)


def log_spaced(last: int, per_decade: int) -> frozenset[int]:
    """0, 1, ... ``last``: so many numbers of steps for each factor of ten, fewer where they would not be whole."""
    powers = np.arange(0, per_decade * np.log10(max(last, 1)) + 1e-9)
    return frozenset({0, last, *np.round(10 ** (powers / per_decade)).astype(int).tolist()})


@dataclass(frozen=True)
class Probe:
    """A measurement.

    name: tells its rows from those of other probes.
    measure: of the effective state of all replicas (leading axis, on the CPU), values [r] by the quantity's name.
    when: ``AtEpochs``, ``AtSteps`` or ``OnceWhere``.
    """

    name: str
    measure: Callable[[State], dict[str, Tensor]]
    when: When


def measure_due(
    probes: Sequence[Probe],
    stack: Stack,
    members: Sequence[Replica],
    now: Moment,
    loss: Float[Tensor, " r"],
    rows: list[dict[str, Any]],
) -> None:
    """Append to ``rows`` (columns ``COLUMNS``) what is due.

    Args:
        members: of the stack; a stack may hold copies of them beyond.
        rows: of the block so far, which also say which events have been.
    """
    state: State | None = None
    for probe in probes:
        due = probe.when.due(now, loss)
        if due is False:
            continue
        chosen = list(range(len(members)))
        if isinstance(due, Tensor):
            seen = {(row["mask_seed"], row["seed"]) for row in rows if row["probe"] == probe.name}
            yes = due.tolist()
            chosen = [r for r in chosen if yes[r] and (members[r].mask_seed, members[r].seed) not in seen]
        if not chosen:
            continue
        state = stack.state() if state is None else state
        measured = {name: values.detach().cpu().tolist() for name, values in probe.measure(state).items()}
        told = loss.detach().cpu().tolist()
        for r in chosen:
            of_replica = (probe.name, members[r].mask_seed, members[r].seed, now.epoch, now.step, told[r])
            rows += [dict(zip(COLUMNS, (*of_replica, name, each[r]), strict=True)) for name, each in measured.items()]


def before_training(R: int, device: torch.device) -> tuple[Moment, Float[Tensor, " r"]]:
    """The moment before the first step, which has no loss."""
    return Moment(0, 0, True), torch.full((R,), torch.nan, device=device)
