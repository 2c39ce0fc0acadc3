"""Paths, wildcards and the functions that give each job its inputs and the config keys it reads."""

import re
from pathlib import Path

from snakemake.logging import logger
from symlab.analyses import ANALYSIS_OF, PARTS, ROLE_OF
from symlab.artifacts import remove
from symlab.claims import tables_of_claims
from symlab.config import parse_config
from symlab.config_files import check_files
from symlab.device import gpu_is_likely
from symlab.errors import UserError
from symlab.figures import FIGURES
from symlab.figures.needs import check_figures
from symlab.hooks import Jobs, hold_results, outcome
from symlab.job import expose_library
from symlab.library import library
from symlab.lineage import Lineage, library_of_source, library_of_training, student_files, students_spec, training_spec

try:
    check_files(workflow.configfiles)
    PROJECT = parse_config(config)
    check_figures(PROJECT)
except UserError as error:
    raise WorkflowError(str(error)) from None

# The only keys that scripts read from the config itself: where things are and how, not what, is computed.
config["device"] = PROJECT.device
config["data_dir"] = PROJECT.data_dir
config["checkpoint_minutes"] = PROJECT.checkpoint_minutes

expose_library(LIBRARY_PATH)

LINEAGE = Lineage(PROJECT)
RESULTS = PROJECT.results
GPU = int(gpu_is_likely(PROJECT.device))


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
    role=one_of(ROLE_OF.values()),


def data_path(dataset):
    return f"{RESULTS}/data/{dataset}.safetensors"


def data_of_variant(wildcards):
    return data_path(PROJECT.studies[wildcards.study].variants[wildcards.variant].dataset)


def data_of_study(wildcards):
    return [data_path(name) for name in PROJECT.studies[wildcards.study].datasets()]


def spec_of_training(wildcards):
    return training_spec(PROJECT.studies[wildcards.study], wildcards.variant, int(wildcards.block))


def origins(wildcards, input, output):
    """For each input and output what it is to be made from; jobs refuse inputs that are made from something else."""
    return {path: LINEAGE.origin(path) for path in map(str, (*input, *output))}


def checkpoint_of(models):
    """Where the training job that writes ``models`` keeps its checkpoint."""
    study, variant, _, block = Path(models).parts[-4:]
    return f"{RESULTS}/checkpoints/{study}/{variant}/{block}"


def checkpoints_of_students(students):
    """The folder in which the job that trains ``students`` keeps those it has finished."""
    study, _, role, block = Path(students).parts[-4:]
    return f"{RESULTS}/checkpoints/{study}/{role}/{Path(block).stem}"


def forget_checkpoints(outputs):
    for path in map(Path, outputs):
        parts = path.relative_to(RESULTS).parts if path.is_relative_to(RESULTS) else ()
        if len(parts) == 4 and parts[2] == "models":
            remove(checkpoint_of(path))
        elif len(parts) == 4 and parts[1] == "students":
            for kept in Path(checkpoints_of_students(path)).glob("*.safetensors"):
                remove(kept)


def scheme_of_variant(wildcards):
    return PROJECT.studies[wildcards.study].variants[wildcards.variant].scheme


def code_of(script):
    """A params function: digests of code take a second in all, so each is taken only where a job needs it."""
    return lambda wildcards: library(script)


def code_of_source(wildcards):
    return library_of_source(PROJECT, wildcards.dataset)


def code_of_training(wildcards):
    return library_of_training(PROJECT.studies[wildcards.study], wildcards.variant)


def library_of_figure(wildcards):
    return library("figure.py", FIGURES[wildcards.figure].draw)


def analysis(name):
    """A params function for the settings of one analysis of the job's study."""
    return lambda wildcards: PROJECT.studies[wildcards.study].analysis(name)


def spec_of_students(wildcards):
    return students_spec(PROJECT.studies[wildcards.study], wildcards.role, int(wildcards.block))


def students_of_role(wildcards, role=None):
    role = role or wildcards.role
    files = student_files(PROJECT.studies[wildcards.study], role)
    return [f"{RESULTS}/{wildcards.study}/students/{role}/{name}" for name in files]


def grids_of_role(wildcards):
    return PROJECT.studies[wildcards.study].analysis(f"teacher_student.{wildcards.role}")


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
    trained = ["history.csv"] if study.variants else []
    return trained + [table for table, key in ANALYSIS_OF.items() if study.analysis(key)]


def table_paths(study, names):
    """Paths of some tables of a study, whose config was checked to give them."""
    return [f"{RESULTS}/{study}/tables/{name}" for name in names]


def figure_tables(wildcards):
    """The tables that a figure needs, and those it also shows if the study has them."""
    spec = FIGURES[wildcards.figure]
    also = [table for table in spec.optional if table in tables_of_study(wildcards.study)]
    return table_paths(wildcards.study, (*spec.tables, *also))


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
    return {name: {"figures": list(study.figures), "scale": study.scale()} for name, study in PROJECT.studies.items()}
