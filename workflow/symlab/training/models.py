"""The artifact of a training job: effective states of a block of replicas at some epochs, with their F and D."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symlab.artifacts import read_tensors, write_tensors
from symlab.networks import NETWORKS, build
from symlab.schemes.fixed_parts import FixedParts, State, weight_shapes
from symlab.settings import choose
from symlab.training.objective import Replica

if TYPE_CHECKING:
    from symlab.training.replicas import TrainedBlock


@dataclass(frozen=True)
class Pair:
    """Two replicas of one mask seed whose networks are compared; positions index the block's replica axis."""

    mask_seed: int
    pair: int
    A: int
    B: int

    @property
    def key(self) -> str:
        """Name of the pair in artifacts, e.g. ``0.3``: mask seed 0, seeds 6 and 7."""
        return f"{self.mask_seed}.{self.pair}"


@dataclass(frozen=True)
class Models:
    """A training artifact read back."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]

    @property
    def replicas(self) -> list[Replica]:
        """The block's replicas in the order of the tensors' leading axis."""
        return [Replica(*replica) for replica in self.header["replicas"]]

    @property
    def epochs(self) -> list[int]:
        """Snapshot epochs, ascending; the last one is the end of training."""
        return self.header["epochs"]

    def module(self) -> nn.Module:
        """A module of the networks' shape, in evaluation mode; its own parameters mean nothing."""
        network = choose(NETWORKS, self.header["network"])
        return build(network, self.header["n_inputs"], self.header["n_outputs"]).eval()

    def state(self, epoch: int, position: int) -> State:
        """Effective state of one replica; of one trained in float64 in float32, in which samples are."""
        prefix = f"{epoch}/"
        return {
            name.removeprefix(prefix): tensor[position].float() if tensor.is_floating_point() else tensor[position]
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }

    def fixed(self, mask_seed: int) -> FixedParts:
        """F and D of every weight matrix; None where F = 0 or D = 1."""
        return {
            weight: (self.tensors.get(f"F/{mask_seed}/{weight}"), self.tensors.get(f"D/{mask_seed}/{weight}"))
            for weight in weight_shapes(self.module())
        }

    def pairs(self) -> list[Pair]:
        """Consecutive seeds (2p, 2p + 1) of one mask seed form pair p."""
        position = {replica: index for index, replica in enumerate(self.replicas)}
        return [
            Pair(replica.mask_seed, replica.seed // 2, index, position[Replica(replica.mask_seed, replica.seed + 1)])
            for replica, index in position.items()
            if replica.seed % 2 == 0
        ]


def save_models(path: str | Path, block: TrainedBlock, header: dict[str, Any]) -> None:
    """Write a trained block; ``header`` holds at least ``network`` (a spec), ``n_inputs`` and ``n_outputs``."""
    tensors = {f"{epoch}/{name}": tensor for epoch, state in block.snapshots.items() for name, tensor in state.items()}
    for mask_seed, parts in block.fixed.items():
        for weight, (F, D) in parts.items():
            tensors |= {
                f"{part}/{mask_seed}/{weight}": tensor for part, tensor in (("F", F), ("D", D)) if tensor is not None
            }
    described = {
        **header,
        "replicas": [[r.mask_seed, r.seed] for r in block.replicas],
        "epochs": sorted(block.snapshots),
    }
    write_tensors(path, {name: tensor.numpy() for name, tensor in tensors.items()}, "models", described)


def open_models(path: str | Path) -> Models:
    """Read what ``save_models`` wrote.

    Raises:
        ArtifactError: the file is missing, damaged, or of another kind.
    """
    arrays, header = read_tensors(path, "models")
    return Models({name: torch.from_numpy(array) for name, array in arrays.items()}, header)


def move(state: State, device: str) -> State:
    """The tensors of a state on a device."""
    return {name: tensor.to(device) for name, tensor in state.items()}
