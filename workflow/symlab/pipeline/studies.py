"""What a config asks for, once it is validated and its sweeps are expanded: a project, its studies, their variants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """One network family on one data set: everything that decides what a training job does, but the seeds."""

    name: str
    family: str
    dataset: str
    network: Config
    init: Config
    scheme: Config
    recipe: Config
    description: Config
    """Columns that identify the variant in every table (scheme, sigma_F, fixed_fraction, data set and its keys)."""


@dataclass(frozen=True)
class Study:
    """Variants trained over the same seeds, the analyses done on them, and the figures drawn from those.

    A study of students and their teacher has no variants: ``teacher_student`` says what it trains.
    """

    name: str
    figures: tuple[str, ...]
    variants: dict[str, Variant] = field(default_factory=dict)
    seeds: int = 0
    mask_seeds: int = 1
    seeds_per_job: int = 2
    snapshots: tuple[int, ...] = ()
    matching: Config | None = None
    interpolation: Config | None = None
    identification: Config | None = None
    centre_gaps: Config | None = None
    ridge: Config | None = None
    theory: Config | None = None
    teacher_student: Config | None = None

    def analysis(self, key: str) -> Any:
        """The settings of an analysis by its key, such as ``matching`` or ``teacher_student.widths``; None if off."""
        block: Any = getattr(self, key.partition(".")[0])
        inner = key.partition(".")[2]
        return block[inner] if block and inner else block

    def blocks(self) -> list[int]:
        """Indices of the training jobs of each variant."""
        return list(range(-(-self.seeds // self.seeds_per_job)))

    def replicas(self, block: int) -> list[list[int]]:
        """[mask seed, seed] of each replica of a block; depends on the block and, in the last one, on ``seeds``."""
        first = block * self.seeds_per_job
        seeds = range(first, min(first + self.seeds_per_job, self.seeds))
        return [[mask_seed, seed] for mask_seed in range(self.mask_seeds) for seed in seeds]

    def epochs(self, variant: str) -> list[int]:
        """Snapshot epochs of a variant, the last epoch included."""
        last = self.variants[variant].recipe["epochs"]
        return sorted({epoch for epoch in self.snapshots if epoch < last} | {last})

    def scale(self) -> str:
        """At which scale the study runs, as a phrase."""
        if self.teacher_student:
            grids = [
                grid for role in self.teacher_student if role != "overlap" for grid in self.teacher_student[role] or []
            ]
            runs, pairs = (sorted({grid[key] for grid in grids} - {0}) for key in ("runs", "uniform_pairs"))
            drawn = [self.teacher_student["overlap"]["draws"]] if self.teacher_student["overlap"] else []
            parts = [_range(runs, "students"), _range(pairs, "uniform pairs"), _range(drawn, "draws of the overlap")]
            return ", ".join(filter(None, parts)) + " at each point"
        masks = f" x {self.mask_seeds} masks" if self.mask_seeds > 1 else ""
        return (
            f"{self.seeds} seeds{masks}, {max(variant.recipe['epochs'] for variant in self.variants.values())} epochs"
        )

    def datasets(self) -> list[str]:
        """Names of the data sets used, in order."""
        return list(dict.fromkeys(variant.dataset for variant in self.variants.values()))


@dataclass(frozen=True)
class Project:
    """A whole config after validation: data sets and studies with all sweeps expanded and all defaults filled."""

    results: str
    data_dir: str | None
    device: str
    checkpoint_minutes: float
    style: Config
    datasets: dict[str, Config]
    studies: dict[str, Study]


def _range(values: list[int], what: str) -> str:
    if not values:
        return ""
    return f"{values[0]} {what}" if len(values) == 1 else f"{values[0]} to {values[-1]} {what}"
