"""What figures call networks by how they were trained, and their budget of decay, worked out by hand."""

from types import SimpleNamespace

import pytest

from symlab.papers.mirror_symmetry.deep.trained_with import trained_with

PLAIN, PRODUCTS = {"name": "standard"}, {"name": "hadamard"}
SGD = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "epochs": 2, "batch_size": 10}


@pytest.mark.parametrize(
    ("scheme", "changes", "kind", "decay", "budget"),
    [
        # 25 samples are three batches: six steps of 0.1, decay 0.01, and momentum makes a step ten times as long.
        (PLAIN, {}, "plain", 0.01, 0.06),
        (PRODUCTS, {}, "products", 0.01, 0.06),
        (PRODUCTS, {"decay_bias": False}, "products, weights alone decayed", 0.01, 0.06),
        (PLAIN, {"weight_decay": 0, "l1": 0.02}, "proximal SGD", 0.02, 0.0),
    ],
)
def test_networks_are_told_apart_by_how_they_were_trained(scheme, changes, kind, decay, budget):
    header = {"recipe": SGD | changes, "scheme": scheme}
    told = trained_with(SimpleNamespace(header=header), samples=25)
    assert told == {"trained_as": kind, "weight_decay": decay, "budget": pytest.approx(budget)}
