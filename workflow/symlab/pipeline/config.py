"""From a config to validated, expanded studies; nothing else in symlab reads the config.

The Snakefile imports this module on every start, so it imports neither torch nor pandas.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import re
import reprlib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from symlab.config_checks import check_dataset, check_palette, check_results, check_study, check_variant
from symlab.config_files import check_mapping
from symlab.config_students import complete_students
from symlab.errors import UserError
from symlab.networks import NETWORKS, SCHEMES
from symlab.study import Config, Project, Study, Variant

LARGEST_SWEEP = 10_000
LONGEST_VALUE = 40
SCHEMA_PATH = Path(__file__).parents[1] / "schemas" / "config.schema.yaml"

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80

# The keys that each scheme, network and data source takes besides its name, with defaults; REQUIRED ones must be given.
# A name that is missing here (one you added) takes any key the schema knows.
REQUIRED = object()
SCHEME_KEYS: dict[str, dict[str, Any]] = {
    "standard": {},
    "w_asymmetric": {"sigma_F": REQUIRED},
    "w_asymmetric_heads": {"sigma_F": REQUIRED, "heads": REQUIRED},
    "syre": {"sigma_F": REQUIRED, "epsilon": 0.01},
    "sparse": {"density": REQUIRED},
    "residual": {},
}
INIT_KEYS: dict[str, dict[str, Any]] = {"lecun": {}, "torch": {}, "kaiming": {}, "normal": {"std": REQUIRED}}
SCHEDULE_KEYS: dict[str, dict[str, Any]] = {
    "constant": {},
    "cosine": {"warmup_epochs": 0},
    "warmup": {"warmup_epochs": REQUIRED},
    "exponential": {"gamma": REQUIRED, "growth_epochs": REQUIRED},
}
NETWORK_KEYS: dict[str, dict[str, Any]] = {
    "mlp": {"widths": REQUIRED, "norm": "layernorm", "activation": "gelu"},
    "coherence_student": {"width": 128},
    "resnet20": {"width_multiplier": 1, "norm_groups": 1, "channels": 3},
    "vgg": {"width": REQUIRED, "depth": REQUIRED, "channels": 3},
    "vit": {"patch": 4, "dim": 384, "depth": 8, "heads": 6, "mlp_ratio": 4, "channels": 3},
}
DATASET_KEYS: dict[str, dict[str, Any]] = {
    "digits": {"split": "random"},
    "gmm": {
        "k": REQUIRED,
        "sigma_sep": REQUIRED,
        "d": 128,
        "n_classes": 5,
        "n_train": 50_000,
        "n_val": 5_000,
        "n_test": 10_000,
    },
    "coherence": {"embedding": REQUIRED, "t": REQUIRED, "d": 20, "n_train": 1024, "n_test": 2048},
    "mnist": {"split": "random", "n_samples": None},
    "mnist_coherence": {"split": "random", "target_nu": 0.111, "explained_variance": 0.9},
    "cifar10": {"split": "random", "n_samples": None},
    "cifar10_jpeg": {"split": "random", "n_samples": None},
}
# Schemes that fix a number of weights, given as n_fixed or as fixed_fraction.
COUNTING_SCHEMES = ("w_asymmetric", "w_asymmetric_heads")


def parse_config(config: Config) -> Project:
    """Validate a config and expand it.

    Raises:
        UserError: the first thing that is wrong, with the dotted key, the value and what is allowed.
    """
    # Snakemake hands over ordered dicts and command-line values; a deep copy keeps the caller's config as it was.
    check_mapping(config)
    filled = _validated(copy.deepcopy({key: value for key, value in config.items()}))
    check_results(filled["results"])
    check_palette(filled["style"]["palette"])
    datasets: dict[str, Config] = {}
    for family, spec in filled["datasets"].items():
        for name, dataset in _expand_dataset(family, spec).items():
            _refuse_twice(name, datasets, f"datasets.{family}")
            datasets[name] = dataset
    studies = {name: _study(name, spec, filled["datasets"], datasets) for name, spec in filled["studies"].items()}
    of_project = {key: filled[key] for key in ("data_dir", "device", "checkpoint_minutes", "style")}
    # Snakemake knows files by the letters of their paths: ./results and results are two folders to it.
    of_project["results"] = os.path.normpath(filled["results"])
    return Project(**of_project, datasets=datasets, studies=studies)


def _validated(config: Config) -> Config:
    validator = _validator()
    error = jsonschema.exceptions.best_match(validator.iter_errors(config))
    if error is not None:
        raise UserError(_sentence(error))
    return config


@cache
def _validator() -> Any:
    schema = yaml.safe_load(SCHEMA_PATH.read_text())
    base = jsonschema.Draft202012Validator
    check_properties = base.VALIDATORS["properties"]

    def fill_then_check(validator: Any, properties: Config, instance: Any, schema: Config) -> Any:
        if isinstance(instance, dict):
            for key, subschema in properties.items():
                if "default" in subschema:
                    instance.setdefault(key, copy.deepcopy(subschema["default"]))
        yield from check_properties(validator, properties, instance, schema)

    types = base.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    return jsonschema.validators.extend(base, {"properties": fill_then_check}, type_checker=types)(schema)


def _is_integer(checker: Any, value: Any) -> bool:
    # JSON schema counts 4.0 as an integer, but range(4.0) does not.
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: Any, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _sentence(error: jsonschema.ValidationError) -> str:
    where = ".".join(_plain(part) for part in error.absolute_path) or "the top level"
    instance = _short(error.instance)
    if error.validator == "additionalProperties":
        known = set(error.schema.get("properties", {}))
        unknown = sorted(set(error.instance) - known, key=str)
        return f"Config: unknown key {_short(unknown[0])} at {where}; known keys are {', '.join(sorted(known))}."
    if error.validator == "required":
        return f"Config: {where} lacks a key: {error.message}."
    if error.validator == "multipleOf":
        multiple = error.validator_value
        return f"Config: {where} = {instance} must be a multiple of {multiple}, because seeds form pairs."
    if error.validator == "pattern":
        return (
            f"Config: the name {instance} at {where} may hold only lower-case letters, digits and underscores, "
            "and starts with a letter."
        )
    if error.validator == "type" and isinstance(error.instance, str) and re.fullmatch(r"\d+e[+-]?\d+", error.instance):
        return f"Config: {where} = {error.instance!r} is text in YAML; write the number as {float(error.instance):g}."
    if error.validator == "type" and error.validator_value == "string" and _is_integer(None, error.instance):
        return f"Config: {where} = {error.instance!r} must be text; put it in quotes."
    description = error.schema.get("description", "")
    reason = error.message.replace(repr(error.instance), instance)
    return f"Config: {where} = {instance} is not allowed: {reason}. {description}".strip()


def _short(value: Any) -> str:
    """A value as Python writes it, cut where it is long."""
    return _SHORT.repr(value)


def _plain(key: Any) -> str:
    """A key as it is, unless it holds control characters."""
    return str(key) if str(key).isprintable() else _short(key)


def _refuse_twice(name: str, taken: dict[str, Any], where: str) -> None:
    if name in taken:
        raise UserError(f"Config: {where} expands to the name {name!r}, which is taken already; rename one of the two.")


def _expand_dataset(family: str, spec: Config) -> dict[str, Config]:
    from symlab.data import SOURCES

    source = spec["source"]
    if source not in SOURCES:
        raise UserError(
            f"Config: datasets.{family}.source is {source!r}; known sources are {', '.join(sorted(SOURCES))}."
        )
    where = f"datasets.{family}"
    members: dict[str, Config] = {}
    for name, member, _ in _sweep(family, spec, where):
        _check_block("dataset", member, where)
        _refuse_twice(name, members, where)
        members[name] = _complete(member, DATASET_KEYS, "source", where, common=("seed",))
        check_dataset(members[name], where)
    return members


def _complete(
    spec: Config, keys_of: dict[str, dict[str, Any]], naming: str, where: str, common: tuple[str, ...] = ()
) -> Config:
    """``spec`` with the defaults of its kind; a key of another kind or a missing one is an error."""
    name = spec[naming]
    if name not in keys_of:
        return spec
    keys = keys_of[name]
    for key in spec:
        if key != naming and key not in keys and key not in common:
            allowed = ", ".join((*keys, *common)) or "no keys"
            raise UserError(f"Config: {where}.{key} does not belong to {name}; it takes {allowed}.")
    for key, default in keys.items():
        if default is REQUIRED and key not in spec:
            raise UserError(f"Config: {where} lacks {key}, which {name} needs.")
    return {**{key: default for key, default in keys.items() if default is not REQUIRED}, **spec}


def _sweep(name: str, spec: Config, where: str) -> list[tuple[str, Config, Config]]:
    """(name, spec without sweep, swept values) for each combination; names get ``_<key><value>`` for each swept key."""
    spec = dict(spec)
    sweep = spec.pop("sweep", {})
    if (combinations := math.prod(map(len, sweep.values()))) > LARGEST_SWEEP:
        raise UserError(
            f"Config: {where}.sweep has {combinations} combinations, more than {LARGEST_SWEEP}; list fewer."
        )
    members = []
    for values in itertools.product(*sweep.values()):
        chosen = dict(zip(sweep, values, strict=True))
        member = copy.deepcopy(spec)
        for key, value in chosen.items():
            _assign(member, key, value, f"{where}.sweep")
        suffix = "".join(_suffix(key, value, where) for key, value in chosen.items())
        members.append((name + suffix, member, chosen))
    return members


def _suffix(key: str, value: Any, where: str) -> str:
    shown = "-".join(map(str, value)) if isinstance(value, list) else value
    text = str(value) if isinstance(value, str) else f"{key.rpartition('.')[2]}{shown}"
    if not re.fullmatch(r"[A-Za-z0-9_.+-]+", text):
        raise UserError(
            f"Config: {where}.sweep.{_plain(key)} lists {_short(value)}, which cannot be part of a folder's name; "
            "sweep over numbers, lists of them, or plain words."
        )
    if len(text) > LONGEST_VALUE:
        raise UserError(
            f"Config: {where}.sweep.{_plain(key)} lists a value of {len(text)} letters, too long for a folder's name."
        )
    return f"_{text}"


def _assign(target: Config, dotted: str, value: Any, where: str) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise UserError(f"Config: {where} names {dotted!r}, but {parent!r} holds no keys.")
    target[last] = value


def _study(name: str, spec: Config, families: Config, datasets: dict[str, Config]) -> Study:
    where = f"studies.{name}"
    if "teacher_student" in spec:
        students = complete_students(spec["teacher_student"], f"{where}.teacher_student")
        return Study(name=name, figures=tuple(spec["figures"]), teacher_student=students)
    listed = [spec["dataset"]] if isinstance(spec["dataset"], str) else spec["dataset"]
    members: list[tuple[str, str]] = []
    for entry in listed:
        if entry in families:
            expanded = [member for member, _, _ in _sweep(entry, families[entry], f"datasets.{entry}")]
            members += [(member, member[len(entry) :]) for member in expanded]
        elif entry in datasets:
            members.append((entry, ""))
        else:
            raise UserError(
                f"Config: {where}.dataset names {entry!r}, which is not among datasets ({', '.join(families)})."
            )
    variants: dict[str, Variant] = {}
    for family, variant in spec["variants"].items():
        for expanded_name, member, _ in _sweep(family, variant, f"{where}.variants.{family}"):
            _check_block("variant", member, f"{where}.variants.{family}")
            for dataset, suffix in members:
                # Several separately named data sets need the name in the variant's; members of one sweep their suffix.
                full = expanded_name + (suffix if len(listed) == 1 else f"_{dataset}")
                _refuse_twice(full, variants, f"{where}.variants.{family}")
                variants[full] = _variant(
                    full, family, member, spec, dataset, datasets[dataset], f"{where}.variants.{family}"
                )
    study = Study(
        name=name,
        variants=variants,
        seeds=spec["seeds"],
        mask_seeds=spec["mask_seeds"],
        seeds_per_job=spec["seeds_per_job"],
        snapshots=tuple(spec["snapshots"]),
        matching=_with_methods(spec["matching"]),
        interpolation=spec["interpolation"],
        identification=spec["identification"],
        centre_gaps=spec["centre_gaps"],
        ridge=spec["ridge"],
        theory=spec["theory"],
        figures=tuple(spec["figures"]),
    )
    check_study(study, where)
    return study


def _with_methods(matching: Config | None) -> Config | None:
    if matching is None or isinstance(matching["method"], list):
        return matching
    return {**matching, "method": [matching["method"]]}


def _variant(
    name: str, family: str, spec: Config, study: Config, dataset: str, dataset_spec: Config, where: str
) -> Variant:
    network = {**study["network"], **spec.get("network", {})}
    init: Config = spec["init"] if "init" in spec else study["init"]
    recipe = {**study["recipe"], **spec.get("recipe", {})}
    scheme = spec["scheme"]
    # Sweeps may have put any value anywhere: the expanded blocks are checked against the schema once more.
    for block, value in {"network": network, "init": init, "recipe": recipe, "scheme": scheme}.items():
        _check_block(block, value, f"{where}.{block}")
    scheme = _scheme(scheme, f"{where}.scheme")
    network = _complete(network, NETWORK_KEYS, "name", f"{where}.network")
    if network["name"] not in NETWORKS:
        raise UserError(
            f"Config: {where}: network.name is {network['name']!r}; known networks are {', '.join(sorted(NETWORKS))}."
        )
    init = _complete(init, INIT_KEYS, "name", f"{where}.init")
    recipe["schedule"] = _complete(recipe["schedule"], SCHEDULE_KEYS, "name", f"{where}.recipe.schedule")
    check_variant(network, scheme, recipe, dataset, dataset_spec, where)
    description = {
        "family": family,
        "scheme": scheme["name"],
        "sigma_F": scheme.get("sigma_F"),
        "fixed_fraction": _scalar(scheme.get("fixed_fraction")),
        "activation": network.get("activation"),
        "norm": network.get("norm"),
        **_size(network),
        "dataset": dataset,
        **{key: dataset_spec.get(key) for key in ("source", "k", "embedding", "t", "target_nu")},
    }
    return Variant(name, family, dataset, network, init, scheme, recipe, description)


def _size(network: Config) -> Config:
    """Width (None where hidden layers differ or are not told by one number) and depth in weight layers, if known."""
    if widths := network.get("widths"):
        return {"width": widths[0] if len(set(widths)) == 1 else None, "depth": len(widths) + 1}
    return {"width": network.get("width", network.get("width_multiplier")), "depth": network.get("depth")}


def _scalar(value: Any) -> Any:
    if isinstance(value, dict):
        return next(iter(value.values()))
    return value[0] if isinstance(value, list) else value


def _scheme(scheme: Config, where: str) -> Config:
    name = scheme["name"]
    if name not in SCHEMES:
        raise UserError(f"Config: {where}.name is {name!r}; known schemes are {', '.join(sorted(SCHEMES))}.")
    if name not in COUNTING_SCHEMES:
        return _complete(scheme, SCHEME_KEYS, "name", where)
    given = [key for key in ("n_fixed", "fixed_fraction") if key in scheme]
    if len(given) != 1:
        raise UserError(f"Config: {where} needs exactly one of n_fixed and fixed_fraction, but has {len(given)}.")
    return _complete(scheme, SCHEME_KEYS, "name", where, common=(given[0],))


def _check_block(block: str, value: Config, where: str) -> None:
    validator = _validator()
    subschema = {"$ref": f"#/$defs/{block}", "$defs": validator.schema["$defs"]}
    error = jsonschema.exceptions.best_match(validator.evolve(schema=subschema).iter_errors(value))
    if error is not None:
        sentence = _sentence(error)
        raise UserError(f"{sentence.rstrip('.')} (in {where}).")
