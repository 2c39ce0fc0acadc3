"""What a config asks for, once its sweeps are expanded: a project, its studies, their variants, and what these give."""

import hashlib
import inspect
import json
from dataclasses import dataclass, field
from typing import Any

from symlab.data import Source
from symlab.measures import Measure, Table, is_table
from symlab.networks import Network
from symlab.pipeline.registry import EXPERIMENTS, MEASURES, TABLES
from symlab.plotting.settings import Style
from symlab.schemes import Scheme
from symlab.settings import Settings
from symlab.study.experiment import Experiment, Point, PointSettings
from symlab.training.settings import Recipe
from symlab.words import counted

Chosen = Settings | list[Settings]
"""What stands under a key that switches a measure or an experiment on."""


@dataclass(frozen=True)
class Variant:
    """One network family on one data set: everything that decides what a training job does, but the seeds."""

    name: str
    family: str
    dataset: str
    source: Source
    network: Network
    init: Settings
    scheme: Scheme
    recipe: Recipe

    @property
    def shape(self) -> str:
        """A name for its network at its data set's inputs, which other variants may share: ``mlp-1f0c93ab``."""
        told = json.dumps([self.network.spec(), self.dataset], sort_keys=True)
        return f"{self.network.name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def columns(self) -> dict[str, Any]:
        """What identifies the variant on every row of every table."""
        return {
            "family": self.family,
            **self.scheme.columns(),
            **self.network.columns(),
            "dataset": self.dataset,
            **self.source.columns(),
        }


@dataclass(frozen=True)
class Study:
    """Variants trained over the same seeds, or experiments, what is measured of them, and the figures drawn."""

    name: str
    figures: tuple[str, ...] = ()
    settings: dict[str, Chosen] = field(default_factory=dict)
    """Of the measures and experiments that are switched on, by their keys."""
    variants: dict[str, Variant] = field(default_factory=dict)
    seeds: int = 0
    mask_seeds: int = 1
    seeds_per_job: int = 1
    snapshots: tuple[int, ...] = ()
    data: tuple[str, ...] = ()
    """Names of the data sets of a study of experiments alone."""
    stand_in: str | None = None
    """In what its networks or data are others than those of which the paper makes its statements; None: in nothing."""

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
        last = self.variants[variant].recipe.epochs
        return sorted({epoch for epoch in self.snapshots if epoch < last} | {last})

    def training_spec(self, variant: str, block: int) -> dict[str, Any]:
        """All that decides what a training job computes; grows with neither the number of seeds nor of variants."""
        of_variant = self.variants[variant]
        return {
            # Random generators are derived from the names.
            "study": self.name,
            "variant": variant,
            "network": of_variant.network.spec(),
            "init": of_variant.init.spec(),
            "scheme": of_variant.scheme.spec(),
            "recipe": of_variant.recipe.spec(),
            "epochs": self.epochs(variant),
            "replicas": self.replicas(block),
        }

    def datasets(self) -> list[str]:
        """Names of the data sets used, in order."""
        return list(dict.fromkeys([*self.data, *(variant.dataset for variant in self.variants.values())]))

    def shapes(self) -> dict[str, Variant]:
        """For each shape of the study's networks one of the variants that have it."""
        return {variant.shape: variant for variant in self.variants.values()}

    def measures(self) -> list[Measure]:
        """The measures that are switched on."""
        return [measure for measure in MEASURES.values() if measure.key in self.settings and self.variants]

    def experiments(self) -> list[Experiment]:
        """The experiments that are switched on."""
        return [experiment for key, experiment in EXPERIMENTS.items() if key in self.settings]

    def grids(self, experiment: Experiment) -> list[PointSettings]:
        """The settings of an experiment that is switched on, of which it may have several."""
        chosen = self.settings[experiment.key]
        return [each for each in (chosen if isinstance(chosen, list) else [chosen]) if isinstance(each, PointSettings)]

    def points(self, experiment: Experiment) -> list[Point]:
        """The points of an experiment that is switched on.

        Raises:
            UserError: its settings name a data set that the study has not.
        """
        names = self.datasets() if experiment.datasets else []
        return [point for each in self.grids(experiment) for point in each.points(names)]

    def joined_tables(self) -> list[str]:
        """Tables that are put together from those of the variants' blocks."""
        measured = [output for measure in self.measures() for output in measure.outputs if is_table(output)]
        return (["history.csv"] if self.variants else []) + measured

    def derived_tables(self) -> list[Table]:
        """Tables made from others, each after those that it is made from."""
        have = {*self.joined_tables(), *(output for each in self.experiments() for output in each.outputs)}
        found: list[Table] = []
        for table in TABLES.values():
            if have.issuperset(table.inputs):
                found.append(table)
                have.add(table.name)
        return found

    def tables(self) -> list[str]:
        """Names of all tables that the study gives."""
        of_experiments = [output for each in self.experiments() for output in each.outputs if is_table(output)]
        return [*self.joined_tables(), *of_experiments, *(table.name for table in self.derived_tables())]

    def scale(self) -> str:
        """At which scale the study runs, as a phrase; experiments that count the same give one range."""
        counts: dict[str, list[int]] = {}
        for experiment in self.experiments():
            for each in self.grids(experiment):
                for what, number in each.scale().items():
                    counts.setdefault(what, []).append(number)
        ranges = [
            f"{' to '.join(f'{n:,}' for n in sorted({min(found), max(found)}))} {what}"
            for what, found in counts.items()
        ]
        told = "; ".join(filter(None, [self._scale_of_training() if self.variants else "", ", ".join(ranges)]))
        return f"{told}, a stand-in ({self.stand_in})" if self.stand_in else told

    def about(self) -> str:
        """What the study trains on what, in one line; nothing where it trains no variants."""
        sources = dict.fromkeys(f"{inspect.getdoc(type(each.source))}".rstrip(".") for each in self.variants.values())
        networks = dict.fromkeys(each.network.about() for each in self.variants.values())
        if not self.variants:
            return f"data {', '.join(self.data)}" if self.data else ""
        return f"{'; '.join(sources)}; {', '.join(networks)}"

    def _scale_of_training(self) -> str:
        pairs, epochs = self.seeds // 2, max(variant.recipe.epochs for variant in self.variants.values())
        masks = f" for each of {self.mask_seeds} masks" if self.mask_seeds > 1 else ""
        return f"{counted(pairs, 'pairs')} a variant{masks}, {epochs} epochs"


@dataclass(frozen=True)
class Project:
    """A whole config after validation: data sets and studies with all sweeps expanded."""

    results: str
    data_dir: str | None
    device: str
    checkpoint_minutes: float
    points_per_job: int | None
    style: Style
    datasets: dict[str, Source]
    studies: dict[str, Study]
