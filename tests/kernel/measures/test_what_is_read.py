"""Of every measure that is registered: which splits of the data and which snapshots its outputs depend on.

What is not stated may be anything: statistics of batch norm from test inputs, costs of the wrong epoch, a table of
training accuracy would all show here. A new measure says here what it reads.
"""

from collections import defaultdict
from pkgutil import resolve_name
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from symlab.measures.job import Job
from symlab.pipeline.registry import MEASURES
from symlab.symmetries.stored_forward import store
from symlab.symmetries.trace import trace
from symlab.training.models import Models

from .conftest import EPOCHS

FIRST, LAST = EPOCHS
SETTINGS = {
    "match": {"method": ["weight", "activation"], "n_random": 2},
    "interpolate": {"lambdas": 3, "splits": ["test", "train"]},
    "identify": {"explained_variance": 0.8},
    "theory": {"permutations": 2},
    "chords": {"samples": 60},
    "ridge": {"samples": 60, "beta": [0.1], "reported": 0.1, "block": 3},
    "mirror": {"steps": 5},
}
READS = {
    "moments": ({"train"}, {FIRST, LAST}),
    "match": ({"train"}, {FIRST, LAST}),
    # On test inputs the networks are evaluated; their statistics are those of training inputs.
    "interpolate": ({"train", "test"}, {LAST}),
    "identify": ({"train"}, {FIRST, LAST}),
    "theory": ({"train"}, {LAST}),
    "chords": ({"train"}, {LAST}),
    "ridge": ({"train"}, {LAST}),
    "places": ({"train"}, {LAST}),
    "mirror": ({"train"}, {LAST}),
    # Curvatures, of networks without fixed parts alone, are of training inputs.
    "homogeneity": ({"test"}, {FIRST, LAST}),
    "magnitudes": ({"test"}, {FIRST, LAST}),
}


def run(name, models, splits, symmetries, made):
    """A measure's outputs, given those of the measures that it needs; ``made`` holds what these networks have given."""
    measure = MEASURES[name]
    if name not in made:
        makers = {output: each.name for each in MEASURES.values() for output in each.outputs}
        needed = [*measure.needs, *measure.needs_if]
        inputs = {output: run(makers[output], models, splits, symmetries, made)[output] for output in needed}
        settings = measure.settings(**SETTINGS.get(name, {}))
        data = SimpleNamespace(split=splits.__getitem__, task="classification")
        job = Job("study", "variant", "0", inputs=inputs, symmetries=symmetries)
        made[name] = resolve_name(measure.function)(models, data, settings, job)
    return made[name]


def numbers(outputs):
    """All numbers of tables and tensors, in order."""
    found = []
    for output in outputs.values():
        arrays = output.select_dtypes("number").to_dict("series") if isinstance(output, pd.DataFrame) else output[0]
        found += [np.asarray(arrays[name], dtype=float).ravel() for name in sorted(arrays)]
    return found


def same(outputs, others):
    pairs = list(zip(numbers(outputs), numbers(others), strict=True))
    return all(len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True) for a, b in pairs)


def test_every_measure_says_what_it_reads():
    assert sorted(READS) == sorted(MEASURES), "Say in READS of which splits and snapshots a new measure's outputs are."


@pytest.fixture(scope="module")
def outputs(models, splits):
    """What a measure gives; with all numbers of a split, or of a snapshot, changed."""
    made = defaultdict(dict)
    symmetries = store(trace(models.module(), torch.zeros(2, 4)))

    def given(name, split=None, epoch=None):
        bent, changed = dict(splits), models
        if split is not None:
            x, y = splits[split]
            bent[split] = x * np.array([0.3, 2, 1, 1], dtype="float32") + 1, np.roll(y, 1)
        if epoch is not None:
            generator = np.random.default_rng(0)
            tensors = {
                key: tensor * float(generator.uniform(0.5, 1.5)) if key.startswith(f"{epoch}/linears") else tensor
                for key, tensor in models.tensors.items()
            }
            changed = Models(tensors, models.header)
        return run(name, changed, bent, symmetries, made[split, epoch])

    return given


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_reads_the_splits_that_it_states(name, split, outputs):
    assert same(outputs(name), outputs(name, split=split)) == (split not in READS[name][0])


@pytest.mark.parametrize("epoch", [FIRST, LAST])
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_reads_the_snapshots_that_it_states(name, epoch, outputs):
    assert same(outputs(name), outputs(name, epoch=epoch)) == (epoch not in READS[name][1])
