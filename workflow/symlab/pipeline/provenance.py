"""Where a report comes from: versions of the software and the commit of the workflow."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from symlab import __version__

ROOT = Path(__file__).parents[3]
PACKAGES = ("snakemake", "torch", "numpy", "scipy", "pandas", "scikit-learn", "pyarrow", "safetensors", "matplotlib")


def versions() -> dict[str, str]:
    """Versions of symlab, Python and the packages that compute, and what multiplies matrices on this processor."""
    # Imports torch, which takes as long as all else that a report needs.
    from symlab.products import products_by

    found = {"symlab": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found | {"float32 products on the CPU:": products_by()}


def machine() -> str:
    """What the page was made on: how many cores of which processor, and the system."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)", path.read_text(), re.MULTILINE) if path.exists() else None
    return f"{os.cpu_count()} cores ({found[1].strip() if found else platform.machine()}), {platform.system()}"


def commit(folder: Path = ROOT) -> str:
    """A sentence: the Git commit of the workflow in ``folder``, and how many files differ from it."""
    top, head, status = (
        _ask_git(folder, *question)
        for question in (("rev-parse", "--show-toplevel"), ("rev-parse", "HEAD"), ("status", "--porcelain"))
    )
    # A copy within somebody's own repository has a commit that says nothing about it.
    if top is None or head is None or status is None or Path(top) != folder.resolve():
        return "Not known: the workflow's folder is no Git checkout with a commit."
    changed = len(status.splitlines())
    return f"{head}; {changed or 'no'} {'file differs' if changed < 2 else 'files differ'} from it."


def _ask_git(folder: Path, *question: str) -> str | None:
    """What Git answers; None if it is not here, refuses or hangs."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *question]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
