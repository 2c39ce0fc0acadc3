"""A copy of the project in a temporary folder, where Snakemake is called as a user would, and runs that tests share."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import torch.fx
import yaml
from filelock import FileLock
from hypothesis import settings
from safetensors import safe_open

from symlab.artifacts import read_header, read_table

from .warm import STARTER, Starter

ROOT = Path(__file__).parents[1]
TINY = Path("workflow/presets/tiny.yaml")
SMOKE = Path("workflow/presets/smoke.yaml")
# A variant of the tiny preset, of which training can be made to take long enough to be disturbed.
VARIANT = "digits/w_sigma_F1"
# pytest's handler makes torch write its trace log, which takes a sixth of the time of tests that trace.
logging.getLogger("torch.__trace").propagate = False
# Nor are lines of source that each operation of a graph comes from looked up, nor what torch keeps of operations that
# it has met, which is dearer than to compute it anew for networks of few layers: together another seventh.
torch.fx.config.do_not_emit_stack_traces = True
os.environ["TORCH_FAKE_TENSOR_DISPATCH_CACHE"] = "0"
# The same few examples in every run, however long one takes.
settings.register_profile("tests", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("tests")
# Nor does Python look for garbage among what imports make, which takes a second of each process.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # Searches among what tests make were a thirtieth of the contract's time.
    gc.set_threshold(50_000, 50, 50)


def wait_for(found: Callable[[], Any], seconds: float = 180) -> None:
    """Until something is found."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"nothing of this kind in {seconds} seconds"
        time.sleep(0.02)


@dataclass
class Project:
    """A project folder in which snakemake can be called as a user would."""

    folder: Path
    config: Path = TINY
    # Of a process that has imported what Snakemake imports (warm.py), from which it is started.
    starter: Starter | None = None

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", "--configfile", str(self.config)]

    def environment(self, **variables: str) -> dict[str, str]:
        # What of a copy's modules was not compiled here is by its first process, not by each.
        unwanted = ("SYMLAB_DATA", "PYTHONDONTWRITEBYTECODE")
        kept = {key: value for key, value in os.environ.items() if key not in unwanted}
        # Users install symlab into the environment of their clone, and the Snakefile refuses one from elsewhere. Tests
        # share one environment among many copies, whose modules they also edit, so each copy is put before it.
        path = os.pathsep.join([str(self.folder / "workflow"), *variables.pop("PYTHONPATH", "").split(os.pathsep)])
        return kept | {"PYTHONPATH": path.rstrip(os.pathsep)} | variables

    def snakemake(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command, environment = self.command(*arguments), self.environment(**variables)
        if self.starter is not None:
            return self.starter.run(command[3:], self.folder, environment)
        return subprocess.run(command, cwd=self.folder, env=environment, text=True, capture_output=True, timeout=1800)

    def run(self, *arguments: str, **variables: str) -> str:
        """What a Snakemake that has to succeed says."""
        result = self.snakemake(*arguments, **variables)
        said = result.stdout + result.stderr
        assert result.returncode == 0, said[-5000:]
        return said

    def refuse(self, *arguments: str, **variables: str) -> str:
        """What a Snakemake says that has to fail with sentences alone."""
        result = self.snakemake(*arguments, **variables)
        said = result.stdout + result.stderr
        assert result.returncode != 0 and "Traceback" not in said, said[-5000:]
        return said

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Snakemake in the background, in a process group of its own, its output in terminal.log."""
        with (self.folder / "terminal.log").open("w") as terminal:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment(**variables),
                start_new_session=True,
                stdout=terminal,
                stderr=subprocess.STDOUT,
            )

    def plan(self, target: str = "all") -> dict[str, int]:
        """Jobs of each rule that a run would execute now."""
        return self.jobs_of(self.run(target, "--dry-run", "--quiet", "host"))

    @staticmethod
    def jobs_of(said: str) -> dict[str, int]:
        """Jobs of each rule that a Snakemake tells of; grouping rules without a script left out."""
        if "Nothing to be done" in said:
            return {}
        stats = said.split("Job stats:")[-1].split("total")[0]
        counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", stats, flags=re.MULTILINE)}
        return {rule: count for rule, count in counts.items() if rule not in ("all", "tables", "figures")}

    def edit(self, name: str | Path, change: Callable[[str], str]) -> None:
        """Change the text of a file of the copy."""
        path = self.folder / name
        before = path.read_text()
        after = change(before)
        assert after != before, f"nothing changed in {name}"
        path.write_text(after)

    def edit_config(self, change: Callable[[dict[str, Any]], Any]) -> None:
        path = self.folder / self.config
        config = yaml.safe_load(path.read_text())
        change(config)
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    @property
    def results(self) -> Path:
        return self.folder / "results" / self.config.stem

    def find(self, pattern: str) -> list[Path]:
        return sorted(self.results.glob(pattern))

    def assert_same_results(self, other: Project, pattern: str = "**/*") -> None:
        """Every table and tensor file of the other project is here with the same values (times apart)."""
        names = [
            path.relative_to(other.results)
            for path in other.find(pattern)
            if path.suffix in (".csv", ".parquet", ".safetensors") and "checkpoints" not in path.parts
        ]
        assert names
        for name in names:
            here, there = self.results / name, other.results / name
            if name.suffix == ".safetensors":
                kind = json.loads(safe_open(there, framework="numpy").metadata()["symlab"])["kind"]
                assert read_header(here, kind)["content_sha256"] == read_header(there, kind)["content_sha256"], name
            else:
                tables = [read_table(path).drop(columns="time_s", errors="ignore") for path in (here, there)]
                pd.testing.assert_frame_equal(*tables, check_exact=True, obj=str(name))


def copy_project(folder: Path, config: Path = TINY, starter: Starter | None = None) -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Snakefile", "config.yaml", "envs", "profiles", "workflow"):
        source = ROOT / name
        if source.is_dir() and not source.is_symlink():
            # With what Python has compiled, but for what it is writing now: to compile symlab anew takes seconds.
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy(source, folder / name, follow_symlinks=False)
    return Project(folder, config, starter)


def finish(config: Path, factory: pytest.TempPathFactory) -> Project:
    """The project after a whole run of a preset, made once for all processes of the tests."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"finished_{config.stem}"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            # Of its own: what other tests compute anew is compared with what was computed in another order of sets.
            starter = Starter() if config == TINY else None
            result = copy_project(folder, config, starter).snakemake("all")
            if starter is not None:
                starter.close()
            if result.returncode != 0:
                # The other processes shall not take it for finished.
                shutil.rmtree(folder)
                pytest.fail((result.stdout + result.stderr)[-5000:])
    return Project(folder, config)


@pytest.fixture
def starter(request: pytest.FixtureRequest) -> Starter | None:
    """Slow tests start Snakemake as users do."""
    return STARTER if request.node.get_closest_marker("slow") is None else None


@pytest.fixture
def fresh(tmp_path: Path, starter: Starter | None) -> Project:
    """The project as cloned."""
    return copy_project(tmp_path / "fresh", starter=starter)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after a run of the tiny preset; not to be changed (use ``finished``)."""
    return finish(TINY, tmp_path_factory)


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after a run of the smoke preset, for slow tests; not to be changed."""
    return finish(SMOKE, tmp_path_factory)


@pytest.fixture
def finished(finished_run: Project, tmp_path: Path, starter: Starter | None) -> Iterator[Project]:
    """A copy of the finished tiny run with its timestamps and Snakemake's records."""
    shutil.copytree(finished_run.folder, tmp_path / "copy", symlinks=True)
    yield Project(tmp_path / "copy", finished_run.config, starter)
    shutil.rmtree(tmp_path / "copy")


def train_longer(project: Project) -> Project:
    """Training that takes a while and may write checkpoints several times a second."""

    def change(config: dict[str, Any]) -> None:
        config["checkpoint_minutes"] = 0.002
        config["studies"]["digits"]["recipe"]["epochs"] = 100

    project.edit_config(change)
    return project


@dataclass
class Training:
    """A project whose training of one variant takes a while, and what that variant's job writes."""

    project: Project
    models: str = f"results/tiny/{VARIANT}/models/0.safetensors"

    @property
    def log_path(self) -> Path:
        return self.project.results / f"logs/train/{VARIANT}/0.log"

    def log(self) -> str:
        # Snakemake removes the log of a job that it takes up again, which may come between a look and a reading.
        try:
            return self.log_path.read_text()
        except FileNotFoundError:
            return ""

    def checkpoints(self) -> list[Path]:
        return self.project.find("checkpoints/digits/*/0")

    def scripts(self) -> list[psutil.Process]:
        """The processes that train, whoever has started them."""
        own = f"{self.project.folder}/.snakemake/scripts/"
        lines = [(each, " ".join(each.info["cmdline"] or ())) for each in psutil.process_iter(["cmdline"])]
        return [each for each, line in lines if line.startswith(sys.executable) and own in line and "train.py" in line]

    def assert_same(self, other: Training) -> None:
        self.project.assert_same_results(other.project, f"{VARIANT}/[hm]*/*")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Training that nothing has disturbed."""
    training = Training(train_longer(copy_project(tmp_path_factory.mktemp("trained") / "project")))
    training.project.run(training.models)
    return training


@pytest.fixture
def untrained(fresh: Project) -> Training:
    """The same before training."""
    return Training(train_longer(fresh))
