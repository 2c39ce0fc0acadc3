"""Where a report comes from: software, commit, machine, computing times. Read when the report is written."""

from __future__ import annotations

import csv
import os
import platform
import shutil
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from symlab import __version__
from symlab.lineage import student_files
from symlab.study import Project

ROOT = Path(__file__).parents[3]
PACKAGES = ("snakemake", "torch", "numpy", "scipy", "pandas", "scikit-learn", "pyarrow", "safetensors", "matplotlib")
CHANGES_NAMED = 5


@dataclass(frozen=True)
class RuleTimes:
    """Time and memory of a rule's jobs; memory is None where all jobs were too short for it to be measured."""

    rule: str
    jobs: int
    total_s: float
    longest_s: float
    memory_mb: float | None


@dataclass(frozen=True)
class Times:
    """When the first of a run's jobs started and the last ended, and what each rule took."""

    started: datetime
    ended: datetime
    rules: list[RuleTimes]

    @property
    def jobs(self) -> int:
        return sum(rule.jobs for rule in self.rules)

    @property
    def total_s(self) -> float:
        return sum(rule.total_s for rule in self.rules)


def versions() -> dict[str, str]:
    """Versions of symlab, Python and the packages that compute."""
    found = {"symlab": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit(folder: Path = ROOT) -> str:
    """A sentence: the Git commit of the workflow in ``folder`` and whether files differ from it."""
    if shutil.which("git") is None:
        return "Not known: Git is not installed here."
    top = _output(["git", "-C", str(folder), "rev-parse", "--show-toplevel"])
    # A copy within somebody's own repository has a commit that says nothing about it.
    if top is None or Path(top) != folder.resolve():
        return "Not known: the workflow's folder is no Git checkout (or Git refuses to read it)."
    head = _output(["git", "-C", str(folder), "rev-parse", "HEAD"])
    status = _output(["git", "-C", str(folder), "--no-optional-locks", "status", "--porcelain"])
    if head is None or status is None:
        return "Not known: the workflow's Git repository has no commit yet."
    changed = [line.split(maxsplit=1)[1] for line in status.splitlines()]
    if not changed:
        return f"{head}; no file differs from it."
    named = ", ".join(changed[:CHANGES_NAMED]) + (" and others" if len(changed) > CHANGES_NAMED else "")
    return f"{head}, and {len(changed)} changed or new {'file' if len(changed) == 1 else 'files'}: {named}."


def machine() -> dict[str, str]:
    """Processor, cores, memory, GPU and operating system of the machine that this runs on; no name, no address."""
    logical = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    return {
        "Processor": _processor(),
        "Cores": f"{logical} logical" + (f", {usable} usable by the job" if usable != logical else ""),
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "GPU": _gpus(),
        "System": _system(),
    }


def times(benchmarks: Path, project: Project) -> Times | None:
    """Times of the jobs that the config asks for, from Snakemake's benchmark files; None if there are none.

    A file is written when its job ends, so its date is the end; jobs of variants, blocks or studies that have left the
    config do not count, nor does the report itself.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[float]] = defaultdict(list)
    started, ended = float("inf"), float("-inf")
    for path in sorted(benchmarks.rglob("*.tsv")):
        rule, *names = path.relative_to(benchmarks).with_name(path.name.removesuffix(".tsv")).parts
        if rule == "report" or not _is_asked_for(rule, names, project):
            continue
        end = path.stat().st_mtime
        with path.open() as file:
            for row in csv.DictReader(file, delimiter="\t"):
                seconds[rule].append(float(row["s"]))
                memory[rule] += _number(row["max_rss"])
                started, ended = min(started, end - float(row["s"])), max(ended, end)
    if not seconds:
        return None
    rules = [
        RuleTimes(rule, len(each), sum(each), max(each), max(memory[rule], default=None))
        for rule, each in seconds.items()
    ]
    rules.sort(key=lambda rule: (-rule.total_s, rule.rule))
    return Times(_moment(started), _moment(ended), rules)


def now() -> datetime:
    """This moment in the machine's time zone."""
    return datetime.now().astimezone()


def _is_asked_for(rule: str, names: list[str], project: Project) -> bool:
    if not names:
        return True
    if rule == "data":
        return names[0] in project.datasets
    study = project.studies.get(names[0])
    if study is None:
        return False
    if rule == "students":
        return f"{names[2]}.safetensors" in student_files(study, names[1])
    return len(names) < 3 or (names[1] in study.variants and names[2] in map(str, study.blocks()))


def _number(text: str) -> list[float]:
    """The value of a benchmark's cell; nothing where Snakemake had no time to measure ("NA" or "-")."""
    try:
        return [float(text)]
    except ValueError:
        return []


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp).astimezone()


def _output(command: list[str]) -> str | None:
    """What a program prints; None if it fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.rstrip("\n")
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return _output(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()


def _gpus() -> str:
    if shutil.which("nvidia-smi") is None:
        return "none"
    names = _output(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    counts = Counter(names.splitlines() if names else [])
    return "; ".join(f"{count} x {name}" for name, count in counts.items()) or "none that answers"


def _system() -> str:
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        distribution = platform.platform(terse=True)
    return f"{distribution}, {platform.system()} {platform.release()} on {platform.machine()}"
