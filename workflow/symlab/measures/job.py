"""What a measure or an experiment is given besides its settings: names for its generators, a device, a log, its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from symlab.artifacts import Tensors
    from symlab.symmetries.trace import Traced


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
    symmetries: dict[str, Any] | None = None
    """The network's stored symmetries, if the study's file has them."""
    folder: Path | None = None
    """Where an experiment keeps the points that it has finished; None keeps none."""
    code: dict[str, str] = field(default_factory=dict)
    """Digests of the modules behind the job: what was kept by other code is not used."""
    checkpoint_minutes: float = 10.0

    def traced(self, module: nn.Module, example: Tensor) -> Traced:
        """The network with its symmetries: read from the study's file, or traced here where there is none."""
        from symlab.symmetries.trace import trace

        return trace(module, example)
