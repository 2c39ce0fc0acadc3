"""Which rows of paths and of pairs of neurons figures and claims are about, and the order of recording points."""

import numpy as np
import pandas as pd
import pytest

from symlab.papers.neuron_identifiability.objectives import break_text, name_point, sort_points
from symlab.papers.neuron_identifiability.rows import consecutive, first_block, one_path, signed_sqrt
from symlab.papers.neuron_identifiability.swap_panels import robust_limit
from symlab.papers.neuron_identifiability.theorems import assumptions_hold
from symlab.plotting.settings import Style
from symlab.study.tables import one_matching


def test_pairs_of_neurons():
    i, j = np.triu_indices(200, 1)
    pairs = pd.DataFrame({"i": i, "j": j})
    disjoint = pairs[consecutive(pairs)]
    assert disjoint.to_numpy().ravel().tolist() == list(range(200))
    assert first_block(pairs).sum() == 128 * 127 / 2


def test_colours_reach_to_the_costs_of_two_neurons():
    assert robust_limit([np.array([[0, 2.0], [2, 0]]), np.array([[0, np.inf], [np.inf, 0]])]) == 2


def test_the_signed_root_keeps_signs_and_infinities():
    for values in ([-4.0, 0.0, 9.0, np.inf], pd.Series([-4.0, 0.0, 9.0, np.inf])):
        np.testing.assert_array_equal(signed_sqrt(values), [-2, 0, 3, np.inf])


def test_an_assumption_fails_where_a_phrase_says_so():
    table = pd.DataFrame({"assumption": ["", np.nan, None, " ", "rho = 2 > 1"]})
    assert list(assumptions_hold(table)) == [True, True, True, True, False]
    # A table without a failure is read back as empty numbers.
    assert assumptions_hold(pd.DataFrame({"assumption": [np.nan, np.nan]})).all()


def test_an_aligned_path_is_that_of_the_first_matching():
    table = pd.DataFrame(
        {"aligned": [False, True, True], "matching": ["none", "weight", "activation"], "split": "test"}
    )
    assert list(one_matching(table)["matching"]) == ["none", "weight"]
    assert list(one_path(table, "test", True)["matching"]) == ["weight"] and one_path(table, "train", True).empty
    assert one_matching(table.drop(columns="matching")).equals(table.drop(columns="matching"))


def test_points_come_in_the_order_of_the_network_and_foreign_ones_as_they_are():
    assert sort_points(["hidden10", "hidden2", "hidden1", "hidden2"]) == ["hidden1", "hidden2", "hidden10"]
    blocks = sort_points(["inner1.1", "stream1", "inner1.10", "inner1.2", "inner2.1", "stream2", "stream1"])
    assert blocks == ["stream1", "inner1.1", "inner1.2", "inner1.10", "stream2", "inner2.1"]
    assert sort_points(["stem", "hidden2", "blocks.0", "stem"]) == ["stem", "hidden2", "blocks.0"]
    named = {"hidden2": "after layer 2", "stream10": "BG 10 residual stream", "inner1.12": "layer 1.12 inner"}
    named |= {"stream": "residual stream", "mlp3": "MLP 3 inner", "a$b": r"a\$b"}
    assert {point: name_point(point) for point in named} == named


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("features.0", 1.7, ["features.0"]),
        ("blocks.0.attention.query:1", 1.7, ["blocks.0.attention.", "query:1"]),
        ("layer 1.1 inner", 1.1, ["layer 1.1", "inner"]),
        ("x" * 20, 1.0, ["x" * 12, "x" * 8]),
        ("_", 1.7, ["_"]),
        ("", 1.7, [""]),
    ],
)
def test_names_are_broken_at_their_joints(text, width, lines):
    assert break_text(text, width, Style()).split("\n") == lines
