"""Random generators derived from names, so that a seed means the same in every process and on every machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stable_seed(*parts: str | int) -> int:
    """A 63-bit seed from the SHA-256 of the parts, e.g. ``stable_seed("digits", "standard", "init", 3)``.

    Python's own string hash is salted per process and would make every run a different experiment.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_rng(*parts: str | int) -> np.random.Generator:
    """A numpy generator seeded by ``stable_seed(*parts)``."""
    return np.random.default_rng(stable_seed(*parts))


def torch_generator(*parts: str | int) -> torch.Generator:
    """A CPU torch generator seeded by ``stable_seed(*parts)``; drawing on the CPU makes devices agree."""
    import torch

    return torch.Generator().manual_seed(stable_seed(*parts))
