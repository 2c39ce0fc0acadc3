"""Which device a job computes on."""

from __future__ import annotations

import platform
import re
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


def processor() -> str:
    """The maker of this machine's processor and the vector instructions that torch uses, as 'GenuineIntel AVX512'.

    Both decide how sums are rounded: torch's libraries choose their kernels by them.
    """
    import torch

    cpuinfo = Path("/proc/cpuinfo")
    maker = re.search(r"^vendor_id\s*: (\w+)", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    return f"{maker[1] if maker else platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
