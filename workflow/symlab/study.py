"""What a config asks for, once it is validated and its sweeps are expanded: a project, its studies, their variants."""

from __future__ import annotations

from dataclasses import dataclass
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
    """Variants trained over the same seeds, the analyses done on them, and the figures drawn from those."""

    name: str
    variants: dict[str, Variant]
    seeds: int
    mask_seeds: int
    seeds_per_job: int
    snapshots: tuple[int, ...]
    matching: Config | None
    interpolation: Config | None
    identification: Config | None
    centre_gaps: Config | None
    ridge: Config | None
    theory: Config | None
    figures: tuple[str, ...]

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
