"""Artifacts survive a round trip and refuse everything that is not what it should be."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import parquet
from safetensors.numpy import save_file

from symlab import __version__
from symlab.artifacts import (
    ArtifactError,
    atomic,
    content_digest,
    read_header,
    read_table,
    read_tensors,
    write_table,
    write_tensors,
)

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7, dtype=np.int64), "c": np.zeros((0, 4))}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "folder" / "models.safetensors"
    write_tensors(path, TENSORS, "models", {"study": "digits", "epochs": [0, 5]})
    return path


def test_round_trip(path):
    tensors, header = read_tensors(path, "models")
    assert header["study"] == "digits" and header["epochs"] == [0, 5] and header["kind"] == "models"
    assert header["content_sha256"] == content_digest(TENSORS)
    assert tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype and tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name], array)
    assert read_header(path, "models") == header
    assert [p.name for p in path.parent.iterdir()] == ["models.safetensors"]
    (other := path.with_name("other")).touch()
    assert path.stat().st_mode == other.stat().st_mode


@given(array=hnp.arrays(st.sampled_from([np.float32, np.int64, np.uint8]), hnp.array_shapes(max_dims=3, min_side=0)))
def test_any_array_survives(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("any") / "x.safetensors"
    write_tensors(path, {"x": array}, "models", {})
    np.testing.assert_array_equal(read_tensors(path, "models")[0]["x"], array)


def test_a_missing_file_says_how_to_make_it(tmp_path):
    with pytest.raises(ArtifactError, match=r"missing\.safetensors does not exist.*give the same command again"):
        read_tensors(tmp_path / "missing.safetensors", "models")


def test_another_kind_is_refused(path):
    with pytest.raises(ArtifactError, match="is a 'models' artifact where 'dataset' is needed"):
        read_header(path, "dataset")


@pytest.mark.parametrize("kept", [0, 5, 40, -1])
def test_a_truncated_file_is_refused(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ArtifactError, match="truncated or not a safetensors file"):
        read_tensors(path, "models")


def test_a_flipped_bit_is_noticed(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="digest does not match"):
        read_tensors(path, "models")


@pytest.mark.parametrize("metadata", [None, {"other": "1"}, {"symlab": "not json"}])
def test_a_foreign_file_is_refused(tmp_path, metadata):
    save_file({"a": np.zeros(3)}, tmp_path / "foreign.safetensors", metadata=metadata)
    with pytest.raises(ArtifactError, match="not written by symlab"):
        read_tensors(tmp_path / "foreign.safetensors", "models")


def test_a_pickle_is_refused_unread(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    (tmp_path / "x.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ArtifactError):
        read_tensors(tmp_path / "x.safetensors", "models")
    assert not (tmp_path / "exploded").exists()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail_half_way():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_parquet_table_describes_itself_and_an_altered_one_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, pd.DataFrame({"x": np.arange(1000.0)}))
    assert json.loads(parquet.read_schema(path).metadata[b"symlab"]) == {"symlab": __version__, "kind": "table"}
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"t\.parquet is not a readable table"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path, suffix):
    table = pd.DataFrame({"study": ["a", "b"], "nu": [0.1, float("nan")], "n": [1, 2], "inf": [np.inf, -np.inf]})
    write_table(tmp_path / f"t{suffix}", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / f"t{suffix}"), table)
    with pytest.raises(ArtifactError, match="does not exist"):
        read_table(tmp_path / f"other{suffix}")
    (tmp_path / f"t{suffix}").write_bytes(b"" if suffix == ".csv" else b"PAR1 no")
    with pytest.raises(ArtifactError, match="not a readable table"):
        read_table(tmp_path / f"t{suffix}")


def test_header_is_plain_json(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    assert json.loads(header["__metadata__"]["symlab"])["study"] == "digits"


def test_names_that_look_like_numbers_stay_names_where_they_are_said_to_be_text(tmp_path):
    table = pd.DataFrame({"point": ["1.1", "1.10"], "objective": [0.5, 0.25]})
    write_table(tmp_path / "t.csv", table)
    assert list(read_table(tmp_path / "t.csv", {"point"})["point"]) == ["1.1", "1.10"]
    assert list(read_table(tmp_path / "t.csv", {"point", "none"})["objective"]) == [0.5, 0.25]
