"""From a config to validated, expanded studies; nothing else in symlab reads the config.

The Snakefile imports this module on every start, so it imports neither torch nor pandas.
"""

import copy
import difflib
import itertools
import os
import re
from collections.abc import Mapping
from functools import reduce
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, create_model

from symlab.data import SOURCES, Source
from symlab.errors import UserError
from symlab.networks import INITS, NETWORKS
from symlab.pipeline.checking import check, check_one_of
from symlab.pipeline.fitting import check_study, check_variant
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, MEASURES
from symlab.pipeline.studies import Chosen, Project, Study, Variant
from symlab.plotting.settings import Style
from symlab.schemes import SCHEMES
from symlab.settings import Amount, Positive, Settings
from symlab.training.settings import Recipe

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]
Block = dict[str, Any]
SWEEP = ("sweep",)
"""What may stand beside the keys of a data set or a variant, and is taken out as they are expanded."""


class Top(Settings):
    """The whole config."""

    results: str = Field("results", min_length=1, description="Folder that everything is written to.")
    data_dir: str | None = Field(
        None,
        description="Folder looked in first for downloaded data sets; null means the environment variable SYMLAB_DATA, "
        "then a download.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where networks are trained; auto takes a CUDA GPU if there is one."
    )
    checkpoint_minutes: Amount = Field(
        10,
        description="Minutes of training between two checkpoints, from which a killed job goes on, on the same CPU "
        "with the same bits.",
    )
    points_per_job: Positive | None = Field(
        None,
        description="Points of an experiment that one job computes, so that several cores or nodes are used; "
        "null for all in one job.",
    )
    style: Style = Field(Style(), description="Look of the figures.")
    datasets: dict[Name, Block] = Field({}, description="Data sets by name; `sweep` makes one for each combination.")
    studies: dict[Name, Block] = Field(min_length=1, description="Studies by name.")


class Trained(Settings):
    """The keys of a study that trains networks; it needs `dataset`, `network`, `recipe`, `seeds` and `variants`."""

    dataset: str | list[str] = Field(
        description="Name (or list of names) of a data set; every variant is trained on each, and on each member of a "
        "swept one."
    )
    network: Block = Field(description="The network's name and keys; a variant may change some.")
    init: Block = Field({"name": "lecun"}, description="Initial values of the weights.")
    recipe: Block = Field(description="How the networks are trained; a variant may change some keys.")
    seeds: Annotated[int, Field(ge=2, multiple_of=2)] = Field(
        description="Networks trained for each variant and mask seed; consecutive seeds form the pairs."
    )
    mask_seeds: Positive = Field(1, description="Draws of F and D; pairs are formed within a draw.")
    seeds_per_job: Annotated[int, Field(ge=2, multiple_of=2)] = Field(
        4, description="Seeds that one training job handles."
    )
    snapshots: list[Annotated[int, Field(ge=0)]] = Field(
        [], description="Epochs whose networks are kept and matched besides the last one; 0 is the initialisation."
    )
    variants: dict[Name, Block] = Field(min_length=1, description="Network families by name.")


class VariantKeys(Settings):
    """The keys of a variant; `sweep` makes one variant for each combination of the swept values."""

    scheme: Block = Field(
        description="How the weights come about: F and D of W_eff = F + D * W, by name. Weights of nn.Linear and "
        "nn.Conv2d have them; other parameters have none."
    )
    network: Block = Field({}, description="Keys of the study's network that this variant changes.")
    init: Block | None = Field(None, description="Instead of the study's init.")
    recipe: Block = Field({}, description="Keys of the study's recipe that this variant changes.")


def parse_config(config: Mapping[str, Any], file: str = "Config") -> Project:
    """Validate a config and expand it; ``file`` is what errors call it.

    Raises:
        UserError: the first thing that is wrong: the file, the dotted key, the value and what is allowed.
    """
    try:
        return _project(config)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _project(config: Mapping[str, Any]) -> Project:
    # Snakemake hands over its own mappings; a deep copy keeps the caller's config as it was.
    top = check(Top, copy.deepcopy(dict(config)), "")
    families = {name: _expand_dataset(name, block) for name, block in top.datasets.items()}
    datasets: dict[str, Source] = {}
    for name, members in families.items():
        for member, source in members.items():
            _refuse_twice(member, datasets, f"datasets.{name}")
            datasets[member] = source
    return Project(
        # Snakemake knows files by the letters of their paths: ./results and results are two folders to it.
        results=os.path.normpath(top.results),
        data_dir=top.data_dir,
        device=top.device,
        checkpoint_minutes=top.checkpoint_minutes,
        points_per_job=top.points_per_job,
        style=top.style,
        datasets=datasets,
        studies={name: _study(name, block, families, datasets) for name, block in top.studies.items()},
    )


def _refuse_twice(name: str, taken: Mapping[str, Any], where: str) -> None:
    if name in taken:
        raise UserError(f"{where} expands to the name {name!r}, which is taken already; rename one of the two.")


def _expand_dataset(family: str, block: Block) -> dict[str, Source]:
    where = f"datasets.{family}"
    members: dict[str, Source] = {}
    for name, member in _sweep(family, block, where):
        _refuse_twice(name, members, where)
        members[name] = check_one_of(SOURCES, member, where, "source", also=SWEEP)
    return members


def _sweep(name: str, block: Block, where: str) -> list[tuple[str, Block]]:
    """(name, block without sweep) for each combination; names get ``_<key><value>`` for each swept key."""
    block = dict(block)
    sweep = block.pop("sweep", {})
    if not isinstance(sweep, dict) or not all(isinstance(values, list) and values for values in sweep.values()):
        raise UserError(f"{where}.sweep maps keys to lists of values, such as {{scheme.sigma_F: [0, 1]}}.")
    members = []
    for values in itertools.product(*sweep.values()):
        member = copy.deepcopy(block)
        for key, value in zip(sweep, values, strict=True):
            _assign(member, key, value, f"{where}.sweep")
        suffix = "".join(_suffix(key, value, where) for key, value in zip(sweep, values, strict=True))
        members.append((name + suffix, member))
    return members


def _suffix(key: str, value: Any, where: str) -> str:
    shown = "-".join(map(str, value)) if isinstance(value, list) else value
    text = str(value) if isinstance(value, str) else f"{key.rpartition('.')[2]}{shown}"
    if not re.fullmatch(r"[A-Za-z0-9_.+-]{1,40}", text):
        raise UserError(
            f"{where}.sweep.{key} lists {value!r}, which cannot be part of a folder's name; sweep over "
            "numbers, lists of them, or plain words."
        )
    return f"_{text}"


def _assign(target: Block, dotted: str, value: Any, where: str) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise UserError(f"{where} names {dotted!r}, but {parent!r} holds no keys.")
    target[last] = value


def _study(name: str, block: Block, families: Mapping[str, dict[str, Source]], datasets: dict[str, Source]) -> Study:
    where = f"studies.{name}"
    settings = _settings(block, where)
    figures, stand_in = _figures(block.get("figures", []), where), block.get("stand_in")
    rest = {key: value for key, value in block.items() if key in Trained.model_fields}
    if rest.keys() <= {"dataset"}:
        # Experiments alone, perhaps on data.
        members = _members(rest.get("dataset", []), families, datasets, where)
        study = Study(name, figures, settings, data=tuple(member for member, _ in members), stand_in=stand_in)
    else:
        keys = check(Trained, rest, where)
        study = Study(
            name,
            figures,
            settings,
            _variants(keys, families, datasets, where),
            keys.seeds,
            keys.mask_seeds,
            keys.seeds_per_job,
            tuple(keys.snapshots),
            stand_in=stand_in,
        )
    check_study(study, datasets, where)
    return study


def _figures(figures: Any, where: str) -> tuple[str, ...]:
    if not isinstance(figures, list):
        raise UserError(f"{where}.figures = {figures!r} is not allowed: it is a list, as in [identifiability-4].")
    for figure in figures:
        if figure not in FIGURES:
            nearest = difflib.get_close_matches(str(figure), FIGURES, 1)
            raise UserError(
                f"{where}.figures names {figure!r}, which no paper's card has; "
                f"{f'the nearest known figure is {nearest[0]}, of' if nearest else 'known figures are'} "
                f"{', '.join(FIGURES)}."
            )
    return tuple(dict.fromkeys(figures))


def _model_of_studies() -> type[Settings]:
    """All keys that a study may have: of training, of the measures and experiments that are registered, figures."""
    keys: dict[str, Any] = {name: (Any, None) for name in (*Trained.model_fields, "figures")}
    keys["stand_in"] = (Annotated[str, StringConstraints(min_length=1)] | None, None)
    keys |= {measure.key: (measure.settings | None, None) for measure in MEASURES.values()}
    groups: dict[str, dict[str, Any]] = {}
    for key, experiment in EXPERIMENTS.items():
        group, _, member = key.partition(".")
        kind: Any = experiment.settings
        if experiment.several:
            kind = Annotated[list[kind], BeforeValidator(lambda given: given if isinstance(given, list) else [given])]
        groups.setdefault(group, {})[member] = (kind | None, None)
    for group, members in groups.items():
        keys[group] = members.get("") or (create_model(group, __base__=Settings, **members) | None, None)
    return create_model("StudyKeys", __base__=Settings, **keys)


STUDY = _model_of_studies()


def _settings(block: Block, where: str) -> dict[str, Chosen]:
    """The settings of the measures and experiments that a study asks for."""
    keys = check(STUDY, block, where)
    found: dict[str, Chosen] = {}
    for key in dict.fromkeys([*(measure.key for measure in MEASURES.values()), *EXPERIMENTS]):
        chosen = reduce(lambda above, name: above and getattr(above, name), key.split("."), keys)
        if chosen is None:
            continue
        found[key] = chosen
        grids = chosen if isinstance(chosen, list) else [chosen]
        for number, grid in enumerate(grids if key in EXPERIMENTS else []):
            if (misfit := grid.misfit(*grids[:number])) is not None:
                place = f"{where}.{key}.{number}" if len(grids) > 1 else f"{where}.{key}"
                raise UserError(f"{place} is not allowed: {misfit}.")
    return found


def _members(
    dataset: str | list[str], families: Mapping[str, dict[str, Source]], datasets: dict[str, Source], where: str
) -> list[tuple[str, str]]:
    """The data sets that a study's ``dataset`` names, each with what tells it from the others of its family."""
    members: list[tuple[str, str]] = []
    for entry in [dataset] if isinstance(dataset, str) else dataset:
        if entry in families:
            members += [(member, member.removeprefix(entry)) for member in families[entry]]
        elif entry in datasets:
            members.append((entry, ""))
        else:
            raise UserError(f"{where}.dataset names {entry!r}, which is not among datasets ({', '.join(families)}).")
    return members


def _variants(
    keys: Trained, families: Mapping[str, dict[str, Source]], datasets: dict[str, Source], where: str
) -> dict[str, Variant]:
    members = _members(keys.dataset, families, datasets, where)
    variants: dict[str, Variant] = {}
    for family, block in keys.variants.items():
        here = f"{where}.variants.{family}"
        for swept, member in _sweep(family, block, here):
            of_variant = check(VariantKeys, member, here, also=SWEEP)
            for dataset, suffix in members:
                # Several separately named data sets need the name in the variant's; members of one sweep their suffix.
                full = swept + (suffix if isinstance(keys.dataset, str) or len(keys.dataset) == 1 else f"_{dataset}")
                _refuse_twice(full, variants, here)
                variants[full] = _variant(full, family, of_variant, keys, dataset, datasets[dataset], here, where)
    return variants


def _variant(
    name: str, family: str, block: VariantKeys, study: Trained, dataset: str, source: Source, where: str, above: str
) -> Variant:
    """``where`` is the variant in the config, ``above`` its study."""
    variant = Variant(
        name=name,
        family=family,
        dataset=dataset,
        source=source,
        network=check_one_of(
            NETWORKS,
            {**study.network, **block.network},
            f"{above}.network",
            elsewhere=dict.fromkeys(block.network, f"{where}.network"),
        ),
        init=check_one_of(INITS, block.init or study.init, f"{where if block.init else above}.init"),
        scheme=check_one_of(SCHEMES, block.scheme, f"{where}.scheme"),
        recipe=check(
            Recipe,
            {**study.recipe, **block.recipe},
            f"{above}.recipe",
            elsewhere=dict.fromkeys(block.recipe, f"{where}.recipe"),
        ),
    )
    check_variant(variant, where)
    return variant
