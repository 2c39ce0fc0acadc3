"""What measures, tables and experiments find at toy sizes is what golden/*.txt hold: every column of every table.

As tests/kernel/cli/test_golden.py: it knows no answer, it notices that one is not what it was. Where they shall be
others:

    python -m tests.papers.test_golden --store [STUDY ...]
    git diff tests/papers/golden
"""

import re
import sys
import tempfile
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from symlab.artifacts import write_table
from symlab.data import load
from symlab.measures import is_table
from symlab.measures.job import Job
from symlab.pipeline.config import parse_config
from symlab.pipeline.outputs import join_parts, read_output, with_study, write_outputs
from symlab.pipeline.registry import EXPERIMENTS, MEASURES, TABLES
from symlab.study.points import run_experiment
from symlab.symmetries.stored_forward import store
from symlab.symmetries.trace import trace
from symlab.training.models import open_models, save_models
from symlab.training.variant import train_variant

from ..kernel.golden import differences

GOLDEN, PROMPT = Path(__file__).parent / "golden", "$ "
PROJECT = parse_config(yaml.safe_load((GOLDEN / "toys.yaml").read_text()))
# Seconds, and the best of few random starts, where others are nearly as good.
OF_THE_MACHINE = {("history.csv", "time_s"), ("mirror_step_times.csv", "seconds")}
OF_THE_MACHINE |= {("critical_penalty.csv", column) for column in ("predicted", "born", "dies")}
# Of swaps in networks that have hardly been trained, and of what is near a threshold: rounding, magnified.
MAGNIFIED = {"swap_cost", "cost", "bound", "cost_share", "cheapest", "chord", "on", "share", "accuracy"}
MAGNIFIED |= {"val_accuracy", "error_share", "curvature", "change", "off", "scaled_excess", "exponent"}
MAGNIFIED |= {"second_1", "second_2"}


def told(name, table):
    """A line for each column: its words, or its numbers as the logarithm of the sum of their sizes, and a sum that
    depends on their order over it."""
    yield f"== {name}, {len(table)} rows"
    for column in table:
        values = table[column].infer_objects()
        line = f"{column}, {values.isna().sum()} undefined" if values.isna().any() else column
        if not pd.api.types.is_numeric_dtype(values):
            yield f"{line} {values.astype(str).value_counts(sort=False).to_dict()}"
        elif (name, column) in OF_THE_MACHINE:
            yield line
        else:
            numbers = values.to_numpy(dtype=float)
            finite, order = np.isfinite(numbers), np.cos(np.arange(1, len(numbers) + 1))
            size, ordered = np.abs(numbers[finite]).sum(), numbers[finite] @ order[finite]
            sums = f"{np.log10(size):.4f} {ordered / size:.4f}" if size else "zero"
            yield f"{line}, {np.isinf(numbers).sum()} infinite {sums}" if np.isinf(numbers).any() else f"{line} {sums}"


def measured(study, folder):
    """The tables of a study's networks, each trained, measured and written as its jobs do."""
    (data,) = [load(PROJECT.datasets[name], None) for name in study.datasets()]
    parts, have = {"history.csv": []}, {}
    for variant in study.variants:
        block, header = train_variant(study.training_spec(variant, 0), data, "cpu", lambda line: None)
        save_models(folder / variant / "models.safetensors", block, header)
        models = open_models(folder / variant / "models.safetensors")
        symmetries = store(trace(models.module(), torch.zeros(2, data.n_inputs)))
        files = {"history.csv": folder / variant / "history/0.csv"}
        write_table(files["history.csv"], block.history)
        inputs = {}
        for measure in study.measures():
            job = Job(study.name, variant, "0", inputs=inputs, symmetries=symmetries)
            found = resolve_name(measure.function)(models, data, study.settings[measure.key], job)
            paths = {each: folder / variant / Path(each).stem / f"0{Path(each).suffix}" for each in found}
            write_outputs(paths, found, {})
            files |= paths
            inputs |= {each: read_output(path) for each, path in paths.items() if each.endswith(".safetensors")}
        for each, path in files.items():
            parts.setdefault(each, []).append(path)
    columns = {name: variant.columns() for name, variant in study.variants.items()}
    for name in study.joined_tables():
        have[name] = join_parts(study.name, parts[name], study.variants, columns)
    for table in study.derived_tables():
        given = {each: have[each] for each in (*table.inputs, *table.if_present) if each in have}
        have[table.name] = with_study(resolve_name(table.function)(given, Job(study.name)), study.name)
    return have


def transcript(name, folder):
    study = PROJECT.studies[name]
    data = {each: load(PROJECT.datasets[each], None) for each in study.datasets()}
    lines = []
    for experiment in study.experiments():
        job = Job(name, datasets=data if experiment.datasets else {})
        made = run_experiment(experiment, study.settings[experiment.key], job)
        lines += [f"{PROMPT}{experiment.key}", *(line for each in made.items() for line in told(*each))]
    if study.variants:
        lines += [f"{PROMPT}networks", *(line for each in measured(study, folder).items() for line in told(*each))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("study", PROJECT.studies)
def test_tables_hold_what_they_did(study, tmp_path):
    here, there = transcript(study, tmp_path), (GOLDEN / f"{study}.txt").read_text()
    # Networks are trained in single precision.
    near = 0.03 if PROJECT.studies[study].variants else 1e-3
    beyond, far = (list(differences(here, there, PROMPT, rtol=0, atol=atol)) for atol in (near, 0.1))
    found = [line for line in beyond if line in far or re.search(r"'([a-z_0-9]+)", line)[1] not in MAGNIFIED]
    assert not found, "\n".join([f"{len(found)} lines of {study} are not what they were:", *found[:5]])


def test_every_measure_table_and_experiment_is_among_them():
    made = {table for study in PROJECT.studies.values() for table in study.tables()}
    for maker in (*MEASURES.values(), *EXPERIMENTS.values()):
        assert made.issuperset(filter(is_table, maker.outputs)), maker
    assert made.issuperset(TABLES)


if __name__ == "__main__" and sys.argv[1:2] == ["--store"]:
    for name in sys.argv[2:] or PROJECT.studies:
        with tempfile.TemporaryDirectory() as temporary:
            (GOLDEN / f"{name}.txt").write_text(transcript(name, Path(temporary)))
