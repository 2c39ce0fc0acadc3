"""Points of an experiment that an earlier run has made are kept; those of other specs or other code are not."""

from dataclasses import replace

import numpy as np
import pytest

from symlab.measures.job import Job
from symlab.measures.points import keep_point


@pytest.fixture
def made():
    return []


@pytest.fixture
def keep(tmp_path, made):
    def keep(job=None, spec=None):
        def make(checkpoints):
            made.append(checkpoints)
            return {"x": np.arange(3.0) + len(made), "a": np.zeros(1)}

        job = job or Job("study", folder=tmp_path, code={"symlab.a": "1"})
        return keep_point(job, "point", spec or {"runs": 2, "sizes": (1, 2)}, make)

    return keep


def test_a_point_is_made_once(keep, made):
    first, again = keep(), keep()
    assert first["x"].tolist() == again["x"].tolist() == [1, 2, 3]
    assert list(first) == list(again) == ["x", "a"]
    assert len(made) == 1


@pytest.mark.parametrize("other", ["spec", "code"])
def test_a_point_of_another_spec_or_by_other_code_is_made_anew(keep, made, tmp_path, other):
    keep()
    job = Job("study", folder=tmp_path, code={"symlab.a": "2" if other == "code" else "1"})
    keep(job, {"runs": 4, "sizes": (1, 2)} if other == "spec" else None)
    assert len(made) == 2


def test_a_damaged_point_is_made_anew(keep, made, tmp_path):
    keep()
    (tmp_path / "point.safetensors").write_bytes(b"damaged")
    said = []
    keep(replace(Job("study", folder=tmp_path, code={"symlab.a": "1"}), report=said.append))
    assert len(made) == 2
    assert "point is made anew" in said[0]


def test_without_a_folder_nothing_is_kept(keep, made, tmp_path):
    keep(Job("study"))
    assert made == [None]
    assert not list(tmp_path.iterdir())
