"""Which device a job computes on."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from symlab.errors import UserError

if TYPE_CHECKING:
    import torch


def is_accelerator(device: torch.device | str) -> bool:
    """Whether it is anything but the CPU: a GPU, or what tests put in its place.

    What a GPU's own functions do (streams, graphs, memory), ``torch.get_device_module(device)`` does: never torch.cuda.
    """
    import torch

    return torch.device(device).type != "cpu"


def resolve_device(configured: str, threads: int) -> str:
    """``cuda`` or ``cpu`` for the config's ``device``, with torch held to the job's threads.

    A GPU is held to float32: torch lets convolutions round to TF32's 10 bits unless told otherwise, and only training
    has a setting for it (``recipe.precision``).

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
    if not available or configured == "cpu":
        return "cpu"
    torch.backends.cudnn.allow_tf32 = False
    return "cuda"


def gpu_is_likely(configured: str) -> bool:
    """Whether jobs should ask the scheduler for a GPU; looks for the driver because importing torch takes seconds."""
    return configured == "cuda" or (configured == "auto" and Path("/dev/nvidiactl").exists())


@cache
def processor() -> str:
    """The maker of this machine's processor and the vector instructions that torch uses, as 'GenuineIntel AVX512'."""
    import torch

    return f"{_cpuinfo('vendor_id') or platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


@cache
def processor_family() -> int | None:
    """The maker's number of the processor's family, as 25 for AMD's Zen 3 and 4; None where Linux does not tell."""
    family = _cpuinfo("cpu family")
    return int(family) if family else None


def _cpuinfo(field: str) -> str | None:
    path = Path("/proc/cpuinfo")
    found = re.search(rf"^{field}\s*: (\w+)", path.read_text(), re.MULTILINE) if path.exists() else None
    return found[1] if found else None
