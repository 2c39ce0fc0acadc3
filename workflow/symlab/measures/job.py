"""What a measure or an experiment is given besides its settings: names for generators, a device, a log, its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symlab.artifacts import Tensors
    from symlab.data.dataset import Dataset
    from symlab.training.resume import Checkpoints


@dataclass(frozen=True)
class Job:
    """The surroundings of one call; a test makes its own."""

    study: str
    variant: str = ""
    block: str = ""
    """Which block of the variant's seeds, of a measure."""
    device: str = "cpu"
    report: Callable[[str], None] = lambda line: None
    """Appends a line to the job's log."""
    inputs: dict[str, tuple[Tensors, dict[str, Any]]] = field(default_factory=dict)
    """Tensors and header of the files that the measure needs, by output: ``job.inputs["moments.safetensors"]``."""
    symmetries: dict[str, Any] | None = None
    """The networks' stored symmetries (``measures.symmetries``), of a measure that traces; None if there are none."""
    datasets: dict[str, Dataset] = field(default_factory=dict)
    """The study's data sets by name, of an experiment that asks for them."""
    contents: dict[str, str] = field(default_factory=dict)
    """Digests of what these data sets hold, by name: points of other content are not used."""
    folder: Path | None = None
    """Where an experiment keeps its points; None keeps none."""
    code: dict[str, str] = field(default_factory=dict)
    """Digests of the modules behind the job: what was kept by other code is not used."""
    checkpoint_minutes: float = 10.0
    checkpoints: Checkpoints | None = None
    """Of an experiment's point that trains: where it keeps its progress."""
