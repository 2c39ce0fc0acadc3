"""What every paper asks of the tables of a study."""

import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.study.tables import chance, last_epoch, need, need_several, one_matching


def test_a_table_is_needed_with_rows():
    with pytest.raises(UserError, match="needs a"):
        need({"a.csv": pd.DataFrame()}, "a.csv")


def test_a_column_needs_several_values():
    table = pd.DataFrame({"k": [1, 1, 2, float("nan")]})
    need_several(table, "k", "studies.s.ridge.beta")
    with pytest.raises(UserError, match=r"three values of k or more, so change studies\.s\.ridge\.beta"):
        need_several(table, "k", "studies.s.ridge.beta", 3)


def test_each_variant_has_its_own_last_epoch():
    table = pd.DataFrame({"variant": ["a", "a", "b", "b"], "epoch": [1, 5, 1, 2]})
    assert last_epoch(table).to_numpy().tolist() == [["a", 5], ["b", 2]]


def test_of_several_matchings_the_first_that_is_listed_counts():
    paths = pd.DataFrame(
        {
            "aligned": [False, True, True, False, True],
            "matching": ["none", "weight", "activation", "none", "weight"],
            "pair": range(5),
        }
    )
    assert one_matching(paths)["pair"].tolist() == [0, 1, 3, 4]
    without = paths.drop(columns="matching")
    assert one_matching(without) is without


def test_a_guess_is_right_as_often_as_there_are_classes():
    assert chance(pd.DataFrame({"classes": [4.0, 4.0]})) == 0.25
    assert chance(pd.DataFrame({"classes": [float("nan")]})) is None and chance(pd.DataFrame({"k": [2]})) is None
