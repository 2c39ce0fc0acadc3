"""A batch of a network's inputs, one or several, and the tensors in what a network returns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """Several inputs of a network as one batch, which is cut by rows as a tensor is."""

    parts: tuple[Shaped[Tensor, "n ..."], ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> "Inputs":
        return Inputs(tuple(part[rows] for part in self.parts))

    def split(self, rows: int) -> tuple["Inputs", ...]:
        """Batches of so many rows, the last one of what is left."""
        return tuple(map(Inputs, zip(*(part.split(rows) for part in self.parts), strict=True)))

    def tensor_split(self, sections: int) -> tuple["Inputs", ...]:
        """So many parts of nearly equal numbers of rows."""
        return tuple(map(Inputs, zip(*(part.tensor_split(sections) for part in self.parts), strict=True)))

    def numel(self) -> int:
        """Entries of all inputs together."""
        return sum(part.numel() for part in self.parts)

    def to(self, device: torch.device | str) -> "Inputs":
        """The same on a device."""
        return Inputs(tuple(part.to(device) for part in self.parts))

    @property
    def device(self) -> torch.device:
        """Where the inputs lie."""
        return self.parts[0].device


def parts_of(x: Tensor | Inputs | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The inputs that a network is called with."""
    if isinstance(x, Inputs):
        return x.parts
    return x if isinstance(x, tuple) else (x,)


def in_precision(x: Tensor | Inputs, dtype: torch.dtype) -> Tensor | Inputs:
    """Inputs with their real numbers in a precision."""
    if isinstance(x, Inputs):
        return Inputs(tuple(part.to(dtype) if part.is_floating_point() else part for part in x.parts))
    return x.to(dtype) if x.is_floating_point() else x


def leaves(output: Any) -> list[Tensor]:
    """All tensors in what a network returned: a tensor, or tuples, lists, dicts and dataclasses of them."""
    return list(_leaves(output))


def _leaves(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _leaves(value)
    elif isinstance(output, tuple | list):
        for value in output:
            yield from _leaves(value)
    elif is_dataclass(output):
        for field in fields(output):
            yield from _leaves(getattr(output, field.name))


def prediction(output: Any) -> Tensor:
    """The tensor of a network's output that targets are compared with: it alone, its ``logits``, or else its first.

    Raises:
        ValueError: there is no tensor in it.
    """
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    tensors = leaves(output if logits is None else logits)
    if not tensors:
        raise ValueError(f"a {type(output).__name__} holds no tensor")
    return tensors[0]
