"""What a measure or an experiment is given besides its settings: names for its generators, a device, a log, its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symlab.artifacts import Tensors
    from symlab.data.dataset import Dataset
    from symlab.symmetries.symmetry_spec import SymmetrySpec


@dataclass(frozen=True)
class Job:
    """The surroundings of one call; a test makes its own."""

    study: str
    variant: str = ""
    device: str = "cpu"
    report: Callable[[str], None] = lambda line: None
    """Appends a line to the job's log."""
    inputs: dict[str, tuple[Tensors, dict[str, Any]]] = field(default_factory=dict)
    """Tensors and header of the files that the measure needs, by output: ``job.inputs["moments.safetensors"]``."""
    symmetries: SymmetrySpec | None = None
    datasets: dict[str, Dataset] = field(default_factory=dict)
    """The study's data sets by name, in its order, for an experiment that asks for them."""
    folder: Path | None = None
    """Where an experiment keeps the points that it has finished; None keeps none."""
    code: dict[str, str] = field(default_factory=dict)
    """Digests of the modules behind the job: what was kept by other code is not used."""
    checkpoint_minutes: float = 10.0
