"""What every paper asks of the tables of a study."""

import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.study.tables import last_epoch, need


def test_a_table_is_needed_with_rows():
    with pytest.raises(UserError, match="needs a"):
        need({"a.csv": pd.DataFrame()}, "a.csv")


def test_each_variant_has_its_own_last_epoch():
    table = pd.DataFrame({"variant": ["a", "a", "b", "b"], "epoch": [1, 5, 1, 2]})
    assert last_epoch(table).to_numpy().tolist() == [["a", 5], ["b", 2]]
