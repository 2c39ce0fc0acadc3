"""Regressors on tasks: steps against torch's optimizers, and planted dead parameters."""

import numpy as np
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Plasticity
from symlab.papers.mirror_symmetry.small.plasticity import (
    BIAS,
    DECAY,
    HADAMARD,
    KEPT,
    NOISE,
    SGD,
    SKIP,
    SYRE,
    VANILLA,
    Learner,
    learn_tasks,
)

SMALL = Plasticity(tasks=3, steps=40, d=6, n=12, batch=4, noise=[1e-4, 1e-2], sgd_lr=[0.05], seeds=2)


def place_of(learner, name):
    return list(learner.variants["variant"]).index(name)


@pytest.mark.parametrize("name", [VANILLA, SKIP, HADAMARD, KEPT, BIAS, DECAY, SYRE, NOISE, SGD])
def test_steps_are_those_of_torch(name):
    """Two tasks of ten steps, with a new optimizer for the second but for the variant that keeps its own."""
    learner = Learner(SMALL, "study")
    place, seed = place_of(learner, name), 1
    u, w, v = (
        torch.tensor(each).requires_grad_(bool(has))
        for each, has in zip(learner.values[:, seed, place], learner.has[:, 0, place, 0], strict=True)
    )
    bu, bw, _ = (torch.tensor(each) for each in learner.bias[:, seed, place])
    owned = [each for each in (u, w, v) if each.requires_grad]
    decay = 2e-3 if name in (DECAY, SYRE) else 0.0
    rng = np.random.default_rng(0)
    for task in range(2):
        learner.adam.restart(learner.fresh)
        if task == 0 or name != KEPT:
            optimizer = (
                torch.optim.SGD(owned, lr=0.05)
                if name == SGD
                else torch.optim.Adam(owned, lr=0.01, betas=(0.0, 0.999), eps=1e-8, weight_decay=decay)
            )
        for _ in range(10):
            x, y, z = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 4)), rng.normal(size=(3, 2, 1, 6))
            optimizer.zero_grad()
            theta = (u + bu) * (w + bw) + v
            (torch.tensor(x[seed]) @ theta - torch.tensor(y[seed])).square().mean().backward()
            if name == NOISE:
                for each, drawn in zip((u, w), z[:2, seed, 0], strict=True):
                    each.grad += 1e-2 * torch.tensor(drawn)
            optimizer.step()
            learner.step(x, y, z)
    for mine, theirs in zip(learner.values[:, seed, place], (u, w, v), strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_variants_start_from_the_same_weights_and_a_skip_from_the_product_alone():
    learner = Learner(SMALL, "study")
    start = {name: learner.values[:, :, place_of(learner, name)] for name in (HADAMARD, BIAS, SKIP, VANILLA)}
    np.testing.assert_array_equal(start[HADAMARD], start[SKIP])
    np.testing.assert_array_equal(start[HADAMARD], start[BIAS])
    assert not start[VANILLA][:2].any() and start[VANILLA][2].all()


def test_planted_zeros_are_counted_as_dead_and_stay_so(monkeypatch):
    """Three coordinates of the Hadamard regressor start at u = w = 0, which neither optimizer leaves."""
    begin = Learner.__init__

    def plant(self, *of):
        begin(self, *of)
        self.values[:2, :, [place_of(self, name) for name in (HADAMARD, SGD, SKIP)], :3] = 0

    monkeypatch.setattr(Learner, "__init__", plant)
    dead = learn_tasks(SMALL, Job("study"))["mirror_dead.csv"]
    of = dead[dead["task"] == 3].set_index(["variant", "seed"]).sort_index()
    for name in (HADAMARD, SGD):
        assert (of.loc[name, ["dead", "kept", "before"]] == 6).all(axis=None)
        assert (of.loc[name, "parameters"] == 12).all()
    assert (of.loc[SKIP, ["dead", "parameters"]] == [6, 18]).all(axis=None)
    assert (of.loc[VANILLA, ["dead", "parameters"]] == [0, 6]).all(axis=None)
    assert (of.loc[HADAMARD, "dead"] == 6).all() and (of.loc[BIAS, "dead"] == 0).all()


def test_a_seed_does_not_depend_on_how_many_there_are():
    one, two = (
        learn_tasks(SMALL.model_copy(update={"seeds": n}), Job("study"))["mirror_plasticity.csv"] for n in (1, 2)
    )
    two = two[two["seed"] == 0]
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-9)
