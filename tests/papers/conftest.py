"""What tests of several papers' rooms share."""

import pytest

from symlab.measures.job import Job
from symlab.pipeline.registry import EXPERIMENTS
from symlab.study.points import run_experiment

from .stories import draw_few, room


@pytest.fixture(scope="session")
def experiment():
    """Runs the experiment of a key: its tables."""
    return lambda key, settings, job=None: run_experiment(EXPERIMENTS[key], settings, job or Job("study"))


@pytest.fixture
def roughly(paper, monkeypatch):
    """What takes long, smaller."""
    draw_few(40, monkeypatch)
    for module, name, value in getattr(room(paper), "ROUGHLY", ()):
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def few_resamples(monkeypatch):
    """Errors by the bootstrap are known to a tenth, for tests of verdicts that do not hang on them."""
    draw_few(40, monkeypatch)
