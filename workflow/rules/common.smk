"""What the rules share: the validated config, paths, and the functions that give jobs their inputs and digests of code."""

import os
import hashlib
import json
import re
from functools import partial
from pathlib import Path

import symlab
from symlab.device import gpu_is_likely
from symlab.errors import UserError
from symlab.pipeline import files
from symlab.pipeline.config import parse_config
from symlab.pipeline.digest import code_of, digest_of_figure_code, digest_of_files
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, MEASURES, paper_of
from symlab.pipeline.summary import announce, summarise

# Where this workflow is a module of another one, symlab is installed beside that one's packages.
CLONE = Path(workflow.basedir, "workflow/symlab").resolve()
if CLONE.exists() and Path(symlab.__file__).parent != CLONE:
    raise SystemExit(
        f"Error: this Snakefile is in {workflow.basedir}, but symlab is imported from {symlab.__path__[0]}; run "
        "pip install -e . here, or use this folder's own environment (make .venv/.installed)."
    )

try:
    PROJECT = parse_config(config, f"Config {', '.join(map(os.path.relpath, workflow.configfiles))}")
except UserError as error:
    # A sentence without the places in this file that lead to it.
    raise SystemExit(f"Error: {error}") from None

# The only keys that scripts read from the config itself: where things are and how, not what, is computed.
config["device"] = PROJECT.device
config["data_dir"] = PROJECT.data_dir
config["checkpoint_minutes"] = PROJECT.checkpoint_minutes

# Of the config what says where and how, not what, is computed.
HOW = ("device", "data_dir", "checkpoint_minutes", "points_per_job")
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
    chunk=r"\d+-of-\d+",
    shape=one_of(shape for study in STUDIES.values() for shape in study.shapes()),


def log_of(rule, *wildcards):
    return f"{RESULTS}/logs/{'/'.join([rule, *wildcards])}.log"


def benchmark_of(rule, *wildcards):
    return f"{RESULTS}/benchmarks/{'/'.join([rule, *wildcards])}.tsv"


def retried(amount):
    """A resource that grows by ``amount`` at each try."""
    return lambda wildcards, attempt: amount * attempt


def variant_of(wildcards):
    return STUDIES[wildcards.study].variants[wildcards.variant]


def shape_of(wildcards):
    """A variant with networks of that shape."""
    return STUDIES[wildcards.study].shapes()[wildcards.shape]


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


def code_of_training(wildcards):
    """The engine, the network and the scheme that the variant has, and the files that its scheme reads."""
    variant = variant_of(wildcards)
    scheme = variant.scheme
    code = code_of("scripts.train", variant.network.module, scheme.draw, scheme.parametrise)
    return code | {file: digest_of_files([Path(file)]) for file in scheme.files()}


def code_of_points(experiment, wildcards):
    """What computes a point and what its settings choose by name; points that other code has computed are not used."""
    grids = STUDIES[wildcards.study].grids(experiment)
    return code_of(experiment.compute, *(module for grid in grids for module in grid.modules()))


def inputs_of(measure, wildcards):
    """Data, models, and the outputs of other measures that it needs with these settings."""
    settings = STUDIES[wildcards.study].settings[measure.key]
    needed = [*measure.needs, *(output for output, key in measure.needs_if.items() if getattr(settings, key))]
    given = {
        "data": data_of_variant(wildcards),
        "models": files.part(RESULTS, wildcards.study, wildcards.variant, "models.safetensors", wildcards.block),
        "needed": [
            files.part(RESULTS, wildcards.study, wildcards.variant, output, wildcards.block) for output in needed
        ],
    }
    if measure.symmetries:
        given["symmetries"] = files.symmetries(RESULTS, wildcards.study, variant_of(wildcards).shape)
    return given


def settings_of(measure, wildcards):
    return spec_of(STUDIES[wildcards.study].settings[measure.key])


def parts_of(study):
    """The parts of each table that is put together, by its name."""
    return {
        table: [
            files.part(RESULTS, study.name, variant, table, block)
            for variant in study.variants
            for block in study.blocks()
        ]
        for table in study.joined_tables()
    }


def digest_of_points(experiment, wildcards):
    """Of which points there are: how settings list them is in no digest of code."""
    points = STUDIES[wildcards.study].points(experiment)
    return hashlib.sha256(json.dumps(points).encode()).hexdigest()[:8]


def chunks_of(experiment, wildcards):
    """What the jobs leave that share the experiment's points between them; nothing where one job computes all."""
    points = len(STUDIES[wildcards.study].points(experiment))
    jobs = -(-points // (PROJECT.points_per_job or max(points, 1)))
    chunks = range(jobs) if jobs > 1 else []
    return [files.chunk(RESULTS, wildcards.study, experiment.key, f"{chunk}-of-{jobs}") for chunk in chunks]


def experiments_of(study):
    """What the study's experiments give, by its name."""
    return {
        output: files.experiment(RESULTS, study.name, output)
        for experiment in study.experiments()
        for output in experiment.outputs
    }


def made_tables(study):
    """Tables of the study that its tables job writes."""
    return [*study.joined_tables(), *(table.name for table in study.derived_tables())]


def in_report(study, figure):
    path = files.figure(RESULTS, study, figure)
    caption = Path(files.figure(RESULTS, study, figure, ".rst")).absolute()
    return report(path, category=study, subcategory="figures", caption=str(caption))


def cards_drawn():
    """The modules of their cards."""
    return {figure.module.rpartition(".")[0] for paper in papers_drawn() for figure in paper.figures}


def checkpoints_of(study):
    """(what a job has kept, an output of it) for each training job of a study."""
    for variant in study.variants:
        for block in study.blocks():
            kept = files.checkpoints(RESULTS, study.name, variant, block)
            yield kept, files.part(RESULTS, study.name, variant, "models.safetensors", block)


def papers_drawn():
    """The papers of which a study draws a figure."""
    drawn = {paper_of(figure).slug: paper_of(figure) for study in STUDIES.values() for figure in study.figures}
    return list(drawn.values())
