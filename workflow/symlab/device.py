"""Which device a job computes on."""

from __future__ import annotations

from pathlib import Path

from symlab.errors import UserError


def resolve_device(configured: str, threads: int) -> str:
    """``cuda`` or ``cpu`` for the config's ``device``, with torch held to the job's threads.

    Raises:
        UserError: a GPU is asked for, but torch sees none.
    """
    import torch

    torch.set_num_threads(threads)
    available = torch.cuda.is_available()
    if configured == "cuda" and not available:
        raise UserError(
            "device is cuda, but torch sees no GPU here; set device: auto or cpu, or install torch with CUDA."
        )
    return "cuda" if available and configured != "cpu" else "cpu"


def gpu_is_likely(configured: str) -> bool:
    """Whether jobs should ask the scheduler for a GPU; looks for the driver because importing torch takes seconds."""
    return configured == "cuda" or (configured == "auto" and Path("/dev/nvidiactl").exists())
