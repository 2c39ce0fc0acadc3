"""What the rules share: the validated config, paths, and the functions that give jobs their inputs and digests of code."""

import re
from functools import partial
from pathlib import Path

import symlab
from symlab.device import gpu_is_likely
from symlab.errors import UserError
from symlab.pipeline import files
from symlab.pipeline.config import parse_config
from symlab.pipeline.digest import code_of, digest_of_files
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, MEASURES, paper_of
from symlab.training.settings import UPDATES

if not Path(symlab.__file__).is_relative_to(Path(workflow.basedir, "workflow").resolve()):
    raise WorkflowError(
        f"This Snakefile is in {workflow.basedir}, but symlab is imported from {symlab.__path__[0]}; run "
        "pip install -e . here, or use this folder's own environment (make .venv/.installed)."
    )

try:
    PROJECT = parse_config(config)
except UserError as error:
    raise WorkflowError(str(error)) from None

# The only keys that scripts read from the config itself: where things are and how, not what, is computed.
config["device"] = PROJECT.device
config["data_dir"] = PROJECT.data_dir
config["checkpoint_minutes"] = PROJECT.checkpoint_minutes

RESULTS = PROJECT.results
STUDIES = PROJECT.studies
GPU = int(gpu_is_likely(PROJECT.device))
ENVIRONMENT = "../../envs/environment.yaml"


def one_of(names):
    """A regular expression that matches exactly the given names."""
    return "|".join(sorted({re.escape(name) for name in names})) or "(?!)"


wildcard_constraints:
    study=one_of(STUDIES),
    variant=one_of(name for study in STUDIES.values() for name in study.variants),
    dataset=one_of(PROJECT.datasets),
    block=r"\d+",


def log_of(rule, *wildcards):
    return "/".join([RESULTS, "logs", rule, *wildcards]) + ".log"


def benchmark_of(rule, *wildcards):
    return "/".join([RESULTS, "benchmarks", rule, *wildcards]) + ".tsv"


def retried(amount):
    """A resource that grows by ``amount`` at each try."""
    return lambda wildcards, attempt: amount * attempt


def variant_of(wildcards):
    return STUDIES[wildcards.study].variants[wildcards.variant]


def data_of_variant(wildcards):
    return files.dataset(RESULTS, variant_of(wildcards).dataset)


def data_of_study(study):
    return [files.dataset(RESULTS, name) for name in STUDIES[study].datasets()]


def spec_of(settings):
    """The spec of settings, or of each of a list of them."""
    return [each.spec() for each in settings] if isinstance(settings, list) else settings.spec()


def figures_of(study):
    return [files.figure(RESULTS, study, figure) for figure in STUDIES[study].figures]


def tables_of(study):
    return [files.table(RESULTS, study, table) for table in STUDIES[study].tables()]
