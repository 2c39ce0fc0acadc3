"""Lemma 4.2 and the example of one dimension, end to end."""

import math

import pytest

from symlab.papers.neural_collapse.settings import Lemmas

SETTINGS = Lemmas(classes=3, per_class=3, width=8, seeds=1, L=[2, 8], iterations=1000)


@pytest.fixture(scope="module")
def tables(experiment):
    return experiment("neural_collapse.lemmas", SETTINGS)


def test_free_features_end_collapsed_at_the_closed_form(tables):
    free = tables["free_features.csv"]
    assert len(free) == 3 and free["excess"].abs().max() < 1e-4
    assert free[["NC1", "NC2", "NC3"]].max().max() < 1e-2
    assert free["scaled_excess"].abs().max() < 1e-9 and set(free["minima"]) == {1}


def test_one_layer_a_block_gets_cheap_with_depth_and_two_do_not(tables):
    costs = tables["scalar_depth.csv"].groupby(["layers", "L"])["trained"].mean()
    for L in (2, 8):
        step = math.exp(1 / L) - 1
        assert costs[1, L] == pytest.approx(L * step**2, rel=1e-3)
        assert costs[2, L] == pytest.approx(2 * L * step, rel=1e-3)
    assert costs[1, 8] < costs[1, 2] / 3 and costs[2, 8] > 0.75 * costs[2, 2]
