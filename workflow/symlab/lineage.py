"""What each file of a run is made from: which settings, by which code, out of which other files.

Snakemake knows this of the files it made; a file that was put under a right name from elsewhere it takes as it is. So
every output's record (``symlab.records``) says its origin, and every job compares its inputs' with the config.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from symlab.analyses import ANALYSIS_OF, DERIVED, PARTS, ROLE_OF
from symlab.data import SOURCES
from symlab.library import library as library_now
from symlab.networks import NETWORKS, SCHEMES
from symlab.records import Origin
from symlab.study import Project, Study

# The code does not change while a run is planned.
library = cache(library_now)

SCRIPTS = {
    "matching": "match.py",
    "curves": "interpolate.py",
    "subspaces": "identify.py",
    "swap_costs": "identify.py",
    "ridge_swap_costs": "ridge.py",
    "ridge_costs": "ridge.py",
    "gram_deviation": "theory.py",
    "sensitivity": "theory.py",
    "network_gaps": "theory.py",
    "chord_deviation": "chords.py",
}
STUDENT_SCRIPTS = {
    "runs.csv": "student_runs.py",
    "barriers.csv": "student_barriers.py",
    "entries.csv": "column_entries.py",
}


def training_spec(study: Study, variant: str, block: int) -> dict[str, Any]:
    """All that decides what a training job computes; grows with neither the number of seeds nor that of variants."""
    of_variant = study.variants[variant]
    return {
        # Random generators are derived from the names.
        "study": study.name,
        "variant": variant,
        "network": of_variant.network,
        "init": of_variant.init,
        "scheme": of_variant.scheme,
        "recipe": of_variant.recipe,
        "epochs": study.epochs(variant),
        "replicas": study.replicas(block),
    }


def students_spec(study: Study, role: str, block: int) -> dict[str, Any]:
    """All that decides what a job that trains one grid of students computes."""
    grid = study.analysis(f"teacher_student.{role}")[block]
    keys = ("M", "d", "m", "ratio", "lr", "c", "init_std", "runs", "steps", "stop_below", "batch")
    return {"study": study.name, "role": role} | {key: grid[key] for key in keys if key in grid}


def student_files(study: Study, role: str) -> list[str]:
    """Names of the files of trained students that a role has: one for each grid with runs."""
    grids = study.analysis(f"teacher_student.{role}") or []
    return [f"{block}.safetensors" for block, grid in enumerate(grids) if grid["runs"]]


def library_of_source(project: Project, dataset: str) -> str:
    """The code behind a data set: its source is named in a registry, not imported by the script."""
    return library("prepare_data.py", SOURCES[project.datasets[dataset]["source"]].__module__)


def library_of_training(study: Study, variant: str) -> str:
    """The code behind a training job: the engine, the variant's network and its scheme."""
    of_variant = study.variants[variant]
    return library("train.py", NETWORKS[of_variant.network["name"]], SCHEMES[of_variant.scheme["name"]])


class Lineage:
    """Origins of a project's data sets, of what its studies train and measure, and of their tables."""

    def __init__(self, project: Project):
        self.project = project
        self.root = PurePosixPath(project.results)
        self.origin = cache(self._origin)

    def _origin(self, path: str) -> Origin | None:
        """Origin of a file by its path; None of those that no other job reads, such as figures."""
        if not PurePosixPath(path).is_relative_to(self.root):
            return None
        parts = PurePosixPath(path).relative_to(self.root).parts
        if len(parts) == 2 and parts[0] == "data":
            dataset = PurePosixPath(path).stem
            return _origin(self.project.datasets[dataset], [], library_of_source(self.project, dataset))
        if len(parts) == 4 and parts[1] == "students":
            return self._of_students(self.project.studies[parts[0]], parts[2], int(parts[3].partition(".")[0]))
        if len(parts) == 3 and parts[1] == "tables":
            return self._of_table(self.project.studies[parts[0]], parts[2])
        if len(parts) == 4 and parts[0] in self.project.studies:
            study, variant, folder, block = parts
            return self._of_part(self.project.studies[study], variant, folder, block.partition(".")[0])
        return None

    def _known(self, path: PurePosixPath) -> Origin:
        origin = self.origin(str(path))
        assert origin is not None, path
        return origin

    def _of_part(self, study: Study, variant: str, folder: str, block: str) -> Origin:
        base = self.root / study.name / variant
        if folder in ("models", "history"):
            data = self._known(self.root / "data" / f"{study.variants[variant].dataset}.safetensors")
            code = library_of_training(study, variant)
            return _origin(training_spec(study, variant, int(block)), [data], code)
        models = self._known(base / "models" / f"{block}.safetensors")
        if folder == "moments":
            return _origin(None, [models], library("moments.py"))
        moments, permutations = (base / name / f"{block}.safetensors" for name in ("moments", "permutations"))
        if folder in ("matching", "permutations"):
            return _origin(study.matching, [self._known(moments)], library("match.py"))
        inputs = [models]
        if folder == "curves" and study.interpolation and study.interpolation["aligned"]:
            inputs.append(self._known(permutations))
        return _origin(study.analysis(ANALYSIS_OF[_table_of(folder)]), inputs, library(SCRIPTS[folder]))

    def _of_students(self, study: Study, role: str, block: int) -> Origin:
        return _origin(students_spec(study, role, block), [], library("students.py"))

    def _of_table(self, study: Study, table: str) -> Origin:
        folder = self.root / study.name
        if table == "overlap.csv":
            return _origin(study.analysis(ANALYSIS_OF[table]), [], library("overlap.py"))
        if table in ROLE_OF:
            role = ROLE_OF[table]
            students = [self._known(folder / "students" / role / name) for name in student_files(study, role)]
            script = STUDENT_SCRIPTS[table.removeprefix(f"{role}_")]
            return _origin(study.analysis(ANALYSIS_OF[table]), students, library(script))
        if table in DERIVED:
            script, tables = DERIVED[table]
            return _origin(None, [self._known(folder / "tables" / name) for name in tables], library(script))
        if table == "centre_gaps.csv":
            data = [self._known(self.root / "data" / f"{name}.safetensors") for name in study.datasets()]
            return _origin(study.centre_gaps, data, library("centre_gaps.py"))
        parts = [
            self._known(folder / variant / PARTS[table] / f"{block}.{table.rpartition('.')[2]}")
            for variant in study.variants
            for block in study.blocks()
        ]
        descriptions = {name: variant.description for name, variant in study.variants.items()}
        return _origin(descriptions, parts, library("table.py"))


def _table_of(folder: str) -> str:
    return next(table for table, parts in PARTS.items() if parts == folder)


def _origin(settings: Any, inputs: list[Origin], code: str) -> Origin:
    return {
        "settings": _digest([settings, [origin["settings"] for origin in inputs]]),
        "code": _digest([code, [origin["code"] for origin in inputs]]),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
