"""Paths, wildcards and the functions that give each job its inputs and the config keys it reads."""

import re
from pathlib import Path

from symlab.claims import tables_of_claims
from symlab.data import SOURCES
from symlab.device import gpu_is_likely
from symlab.errors import UserError
from symlab.figures import FIGURES
from symlab.job import expose_library
from symlab.library import library
from symlab.networks import NETWORKS, SCHEMES
from symlab.study import parse_config

try:
    PROJECT = parse_config(config)
except UserError as error:
    raise WorkflowError(str(error)) from None

# The only keys that scripts read from the config itself: where things are and what computes, not what is computed.
config["device"] = PROJECT.device
config["data_dir"] = PROJECT.data_dir

expose_library(LIBRARY_PATH)

RESULTS = PROJECT.results.rstrip("/")
GPU = int(gpu_is_likely(PROJECT.device))

# Where the parts of each table come from: <study>/<variant>/<folder>/<block>.<suffix>.
PARTS = {
    "history.csv": "history",
    "matching.csv": "matching",
    "curves.csv": "curves",
    "subspaces.csv": "subspaces",
    "swap_costs.parquet": "swap_costs",
    "ridge_swap_costs.parquet": "ridge_swap_costs",
    "ridge_costs.csv": "ridge_costs",
    "gram_deviation.csv": "gram_deviation",
    "sensitivity.csv": "sensitivity",
    "network_gaps.csv": "network_gaps",
    "chord_deviation.csv": "chord_deviation",
}
# Tables of a study that exist only if the analysis of this name is switched on.
ANALYSIS_OF = {
    "matching.csv": "matching",
    "curves.csv": "interpolation",
    "barriers.csv": "interpolation",
    "loss_bounds.csv": "interpolation",
    "trade_off.csv": "matching",
    "subspaces.csv": "identification",
    "swap_costs.parquet": "identification",
    "centre_gaps.csv": "centre_gaps",
    "ridge_swap_costs.parquet": "ridge",
    "ridge_costs.csv": "ridge",
    "estimators.csv": "ridge",
    "gram_deviation.csv": "theory",
    "sensitivity.csv": "theory",
    "network_gaps.csv": "theory",
    "chord_deviation.csv": "theory",
}


def one_of(names):
    """A regular expression that matches exactly the given names."""
    return "|".join(sorted({re.escape(name) for name in names})) or "(?!)"


wildcard_constraints:
    study=one_of(PROJECT.studies),
    variant=one_of(name for study in PROJECT.studies.values() for name in study.variants),
    dataset=one_of(PROJECT.datasets),
    block=r"\d+",
    figure=one_of(FIGURES),
    table=one_of(PARTS),


def data_path(dataset):
    return f"{RESULTS}/data/{dataset}.safetensors"


def data_of_variant(wildcards):
    return data_path(PROJECT.studies[wildcards.study].variants[wildcards.variant].dataset)


def data_of_study(wildcards):
    return [data_path(name) for name in PROJECT.studies[wildcards.study].datasets()]


def training_spec(wildcards):
    """All that decides what a training job computes; grows with neither the number of seeds nor that of variants."""
    study = PROJECT.studies[wildcards.study]
    variant = study.variants[wildcards.variant]
    return {
        "network": variant.network,
        "init": variant.init,
        "scheme": variant.scheme,
        "recipe": variant.recipe,
        "epochs": study.epochs(wildcards.variant),
        "replicas": study.replicas(int(wildcards.block)),
    }


def scheme_of_variant(wildcards):
    return PROJECT.studies[wildcards.study].variants[wildcards.variant].scheme


def library_of_source(wildcards):
    """The code behind a data set: its source is named in a registry, not imported by the script."""
    return library("prepare_data.py", SOURCES[PROJECT.datasets[wildcards.dataset]["source"]].__module__)


def library_of_training(wildcards):
    """The code behind a training job: the engine, the variant's network and its scheme."""
    variant = PROJECT.studies[wildcards.study].variants[wildcards.variant]
    return library("train.py", NETWORKS[variant.network["name"]], SCHEMES[variant.scheme["name"]])


def library_of_figure(wildcards):
    return library("figure.py", FIGURES[wildcards.figure].draw)


def analysis(name):
    """A params function for the settings of one analysis of the job's study."""
    return lambda wildcards: getattr(PROJECT.studies[wildcards.study], name)


def permutations_if_aligned(wildcards):
    aligned = PROJECT.studies[wildcards.study].interpolation["aligned"]
    return f"{RESULTS}/{{study}}/{{variant}}/permutations/{{block}}.safetensors" if aligned else []


def parts_of_table(wildcards):
    study = PROJECT.studies[wildcards.study]
    name, suffix = PARTS[wildcards.table], wildcards.table.rpartition(".")[2]
    return [
        f"{RESULTS}/{study.name}/{variant}/{name}/{block}.{suffix}"
        for variant in study.variants
        for block in study.blocks()
    ]


def descriptions(wildcards):
    return {name: variant.description for name, variant in PROJECT.studies[wildcards.study].variants.items()}


def variant_of_part(wildcards):
    study = PROJECT.studies[wildcards.study]
    return [variant for variant in study.variants for _ in study.blocks()]


def tables_of_study(name):
    """Names of the tables that a study's analyses give."""
    study = PROJECT.studies[name]
    return ["history.csv"] + [table for table, key in ANALYSIS_OF.items() if getattr(study, key)]


def table_paths(study, names):
    """Paths of some tables of a study; a table of an analysis that is off is an error that names the key to set."""
    for name in names:
        key = ANALYSIS_OF.get(name)
        if key and not getattr(PROJECT.studies[study], key):
            raise WorkflowError(
                f"Config: studies.{study}.figures asks for a figure of {name}, which needs studies.{study}.{key}; "
                f"add {key}: {{}} or leave the figure out."
            )
    return [f"{RESULTS}/{study}/tables/{name}" for name in names]


def figure_tables(wildcards):
    """The tables that a figure needs, and those it also shows if the study has them."""
    spec = FIGURES[wildcards.figure]
    also = [table for table in spec.optional if table in tables_of_study(wildcards.study)]
    return table_paths(wildcards.study, (*spec.tables, *also))


def caption_of_figure(wildcards):
    """The figure's caption: a report takes one caption file for a rule, but every figure has its own text."""
    return Path(LIBRARY_PATH, "report", "figures", f"{wildcards.figure}.rst").read_text().format(study=wildcards.study)


def figure_paths():
    return [
        f"{RESULTS}/{name}/figures/figure_{figure}.png"
        for name, study in PROJECT.studies.items()
        for figure in study.figures
    ]


def claim_tables(wildcards):
    """The tables that claims about the drawn figures read; a claim whose table no analysis gives is "not run"."""
    return [
        path
        for name, study in PROJECT.studies.items()
        for path in table_paths(
            name, [table for table in tables_of_claims(study.figures) if table in tables_of_study(name)]
        )
    ]


def scales(wildcards):
    """For each study its figures and a phrase that says at which scale it ran."""
    return {
        name: {
            "figures": list(study.figures),
            "scale": f"{study.seeds} seeds"
            + (f" x {study.mask_seeds} masks" if study.mask_seeds > 1 else "")
            + f", {max(variant.recipe['epochs'] for variant in study.variants.values())} epochs",
        }
        for name, study in PROJECT.studies.items()
    }


for name, study in PROJECT.studies.items():
    for figure in study.figures:
        if figure not in FIGURES:
            raise WorkflowError(
                f"Config: studies.{name}.figures names {figure!r}; figures that can be drawn are {', '.join(FIGURES)}."
            )
        # Refused now, before anything is trained, if an analysis that the figure needs is off.
        table_paths(name, FIGURES[figure].tables)
