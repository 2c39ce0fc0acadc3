"""Measures and experiments that may run on a GPU, and the library's functions, on the pretended one and on the CPU."""

import functools
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from torch import nn

from symlab import align, merge
from symlab.data import load
from symlab.measures.job import Job
from symlab.pipeline.config import parse_config
from symlab.pipeline.registry import EXPERIMENTS, MEASURES
from symlab.study.points import run_experiment
from symlab.symmetries.stored_forward import store
from symlab.symmetries.trace import trace
from symlab.training.models import open_models, save_models
from symlab.training.variant import train_variant

pytestmark = pytest.mark.slow

STUDIES = {"chain": "w", "convolutions": "syre"}
"""Of the toys those with all that takes chains of linear maps, and with REPAIR: a variant of each."""
# The toys' experiments train three times as many networks, for minutes.
SMALL = {"per_class": 4, "steps": 8, "effort": 4, "seeds": 2, "width": 12}
EXPERIMENTS_OF = {
    "runs": [
        {"network": "rn1", "L": [2, 3], **SMALL},
        {"network": "rn2", "L": [3], **SMALL, "pre_norm": True, "loss": "squared_error"},
        {"network": "t12", "L": [2], "patch": 4, "reference": 1, **SMALL},
    ],
    "critical_penalty": {"L": [2], "last_penalty": [0.005], "halvings": 1, **SMALL},
}
TOYS = yaml.safe_load((Path(__file__).parents[1] / "papers/golden/toys.yaml").read_text())
TOYS["studies"]["experiments"] = {"dataset": "digits", "neural_collapse": EXPERIMENTS_OF}
PROJECT = parse_config(TOYS)


@functools.cache
def digits():
    return load(PROJECT.datasets["digits"], None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A study's networks, what its measures need of each other, and stored symmetries, all made on the CPU."""

    @functools.cache
    def networks(study):
        path = tmp_path_factory.mktemp(study) / "models.safetensors"
        spec = PROJECT.studies[study].training_spec(STUDIES[study], 0)
        block, header = train_variant(spec, digits(), "cpu", lambda line: None)
        save_models(path, block, header)
        models = open_models(path)
        symmetries = store(trace(models.module(), torch.zeros(2, digits().n_inputs)))
        inputs = {}
        for name in ("moments", "match"):
            made = measured(models, name, Job(study, STUDIES[study], "0", inputs=inputs, symmetries=symmetries))
            inputs |= {output: made[output] for output in made if output.endswith(".safetensors")}
        return models, inputs, symmetries

    return networks


def measured(models, name, job):
    """What a measure finds."""
    settings = PROJECT.studies[job.study].settings[MEASURES[name].key]
    return resolve_name(MEASURES[name].function)(models, digits(), settings, job)


def assert_equal_but_for_rounding(found, expected):
    assert found.keys() == expected.keys()
    for name, here in found.items():
        there = expected[name]
        if isinstance(here, pd.DataFrame):
            pd.testing.assert_frame_equal(here, there, rtol=1e-3, atol=1e-4, obj=name)
            continue
        (here, header), (there, header_there) = here, there
        assert header == header_there and here.keys() == there.keys()
        for key, array in here.items():
            np.testing.assert_allclose(array, there[key], rtol=1e-3, atol=1e-4, err_msg=key)


MEASURED = [(study, measure.name) for study in STUDIES for measure in PROJECT.studies[study].measures() if measure.gpu]


@pytest.mark.parametrize(("study", "name"), MEASURED)
def test_a_measure_finds_on_a_gpu_what_it_finds_on_the_cpu(device, trained, study, name):
    models, inputs, symmetries = trained(study)
    found, expected = (
        measured(models, name, Job(study, STUDIES[study], "0", where, inputs=inputs, symmetries=symmetries))
        for where in (device, "cpu")
    )
    assert_equal_but_for_rounding(found, expected)


def test_every_measure_that_may_run_on_a_gpu_is_among_them():
    assert {name for name, measure in MEASURES.items() if measure.gpu} <= {name for _, name in MEASURED}


@pytest.mark.parametrize("key", [key for key, experiment in EXPERIMENTS.items() if experiment.gpu])
def test_an_experiment_finds_on_a_gpu_what_it_finds_on_the_cpu(device, tmp_path, key):
    settings = PROJECT.studies["experiments"].settings[key]
    found, expected = (
        run_experiment(
            EXPERIMENTS[key],
            settings,
            Job("experiments", device=where, datasets={"digits": digits()}, folder=tmp_path / where),
        )
        for where in (device, "cpu")
    )
    assert_equal_but_for_rounding(found, expected)


class Network(nn.Module):
    """A convolution, batch norms and linear maps."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6)
        self.second, self.readout = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.readout(torch.relu(self.second(torch.relu(self.norm(self.first(x))).mean((2, 3)))))


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(0)
    return Network().eval(), [Network().state_dict() for _ in range(3)], torch.randn(64, 1, 6, 6)


def moved(state, device):
    return {name: tensor.to(device) for name, tensor in state.items()}


@pytest.mark.parametrize("group", ["signed", "full"])
def test_signs_and_maps_give_what_they_give_on_the_cpu(device, networks, group):
    _, states, x = networks
    there = Network().eval().to(device), [moved(state, device) for state in states], x.to(device)
    found, expected = (align(m, *s[:2], data, group=group) for m, s, data in (there, networks))
    for name, tensor in found.permuted.items():
        assert tensor.device.type == device
        torch.testing.assert_close(tensor.cpu(), expected.permuted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["activation", "weight"])
def test_align_and_merge_give_what_they_give_on_the_cpu(device, networks, method):
    _, states, x = networks
    there = Network().eval().to(device), [moved(state, device) for state in states], x.to(device)
    found, expected = (align(m, *s[:2], data, method) for m, s, data in (there, networks))
    for group, pi in expected.permutations.items():
        assert np.array_equal(found.permutations[group], pi)
    for name, tensor in found.permuted.items():
        assert tensor.device.type == device and torch.equal(tensor.cpu(), expected.permuted[name])
    for repair in (False, True):
        found, expected = (merge(m, s, data, method, repair=repair).state for m, s, data in (there, networks))
        for name, tensor in found.items():
            assert tensor.device.type == device
            torch.testing.assert_close(tensor.cpu(), expected[name], rtol=1e-4, atol=1e-5)
