"""Outputs are written by the names that a line registers, and tables are put together with what their variants are."""

import numpy as np
import pandas as pd
import pytest

from symlab.artifacts import read_header, write_table
from symlab.errors import UserError
from symlab.pipeline.outputs import join_parts, read_output, with_study, write_outputs

HEADER = {"study": "s", "variant": "v", "spec": {"k": 2}}


def test_tables_and_tensors_come_back_as_they_were_given(tmp_path):
    table = pd.DataFrame({"pair": [0, 1], "x": [0.5, np.nan]})
    paths = {
        name: f"{tmp_path}/v/{name.partition('.')[0]}/0.{name.partition('.')[2]}"
        for name in ("matching.csv", "swap_costs.parquet", "moments.safetensors", "permutations.safetensors")
    }
    outputs = {
        "matching.csv": table,
        "swap_costs.parquet": table,
        "moments.safetensors": {"a": np.arange(3)},
        "permutations.safetensors": ({"p": np.eye(2)}, {"epochs": [4]}),
    }
    write_outputs(paths, outputs, HEADER)
    for name in ("matching.csv", "swap_costs.parquet"):
        pd.testing.assert_frame_equal(read_output(paths[name]), table)
    tensors, header = read_output(paths["permutations.safetensors"])
    np.testing.assert_array_equal(tensors["p"], np.eye(2))
    assert header["epochs"] == [4] and header["spec"] == {"k": 2} and header["variant"] == "v"
    assert read_header(paths["moments.safetensors"], "moments")["study"] == "s"


def test_parts_get_the_columns_of_their_variants(tmp_path):
    for name, values in {"a0": [1, 2], "a1": [3], "b0": [4]}.items():
        write_table(tmp_path / f"{name}.csv", pd.DataFrame({"x": values}))
    variants = {"a": {"family": "a", "sigma_F": None}, "b": {"family": "b", "sigma_F": 1}}
    parts = [tmp_path / f"{name}.csv" for name in ("a0", "a1", "b0")]
    table = join_parts("s", parts, ["a", "a", "b"], variants)
    assert list(table) == ["study", "variant", "family", "sigma_F", "x"]
    assert table["x"].tolist() == [1, 2, 3, 4] and table["variant"].tolist() == ["a", "a", "a", "b"]
    assert table["sigma_F"].isna().tolist() == [True, True, True, False] and set(table["study"]) == {"s"}


def test_a_column_that_describes_variants_is_refused_in_a_part(tmp_path):
    write_table(tmp_path / "a.csv", pd.DataFrame({"norm": [1.0]}))
    with pytest.raises(UserError, match="norm"):
        join_parts("s", [tmp_path / "a.csv"], ["a"], {"a": {"norm": "none"}})


def test_the_study_comes_first_once():
    assert list(with_study(pd.DataFrame({"x": [1]}), "s")) == ["study", "x"]
    assert list(with_study(pd.DataFrame({"x": [1], "study": ["s"]}), "s")) == ["x", "study"]


def test_names_of_layers_that_look_like_numbers_stay_names_in_parts_and_in_tables(tmp_path):
    paths = [tmp_path / "s" / where for where in ("a/matching/0.csv", "tables/matching.csv", "a/subspaces/0.csv")]
    for path in paths:
        write_table(path, pd.DataFrame({"point": ["1.1", "1.10"]}))
        assert list(read_output(path)["point"]) == ["1.1", "1.10"]
    assert list(join_parts("s", paths[:1], ["a"], {"a": {"norm": "none"}})["point"]) == ["1.1", "1.10"]
