"""An experiment's points are computed once: not those that are there, but those of other settings or other code."""

import signal
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from symlab.measures.job import Job
from symlab.study import points
from symlab.study.experiment import Experiment, PointSettings
from symlab.study.points import join_grids, run_experiment

COMPUTED = []


class Settings(PointSettings):
    by: ClassVar = {"k": "k", "seed": "seeds"}
    k: list[int]
    seeds: int = 2
    factor: float = 1.0
    shown: int = 1


def compute(settings, job, k, seed):
    COMPUTED.append((k, seed))
    rows = {"k": k, "seed": seed, "name": ["ä", "b"], "x": [settings.factor * k, np.nan], "even": [k % 2 == 0, False]}
    return {"rows.csv": pd.DataFrame(rows), "once.csv": pd.DataFrame({"k": [k]})} if seed == 0 else {
        "rows.csv": pd.DataFrame(rows)
    }  # fmt: skip


def on_data(settings, job, dataset, k, seed):
    return compute(settings, job, k, seed)


def nothing(results, settings, job):
    return {}


def arrays(settings, job, k, seed):
    return {"z": np.arange(3.0) + k, "a": np.array(seed)}


def collect(results, settings, job):
    return {"sums": [(each.grid, each.point["k"], [*each.found], float(each.found["z"].sum())) for each in results]}


EXPERIMENT = Experiment(
    "e", Settings, f"{__name__}:compute", ("rows.csv", "once.csv"), f"{points.__name__}:join_grids", unused=("shown",)
)


@pytest.fixture(autouse=True)
def named(monkeypatch):
    """This very module under the name that the experiments give."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[compute.__module__])
    COMPUTED.clear()


@pytest.fixture
def job(tmp_path):
    return Job("study", folder=tmp_path, code={"symlab.a": "1"})


def run(settings, job, **options):
    return run_experiment(EXPERIMENT, settings, job, **options)


def test_points_are_the_product_of_lists_and_of_what_is_counted():
    settings = Settings(k=[5, 3], seeds=2)
    assert settings.points() == [{"k": k, "seed": seed} for k in (5, 3) for seed in (0, 1)]
    assert settings.points(["d"])[0] == {"dataset": "d", "k": 5, "seed": 0}
    assert Settings(k=[5], seeds=3, factor=2.0).common() == {"factor": 2.0}


def test_one_more_value_computes_its_points_alone_and_the_tables_are_those_of_a_run_at_once(job):
    run(Settings(k=[1, 3]), job)
    COMPUTED.clear()
    grown = run(Settings(k=[1, 2, 3], seeds=3), job)
    assert COMPUTED == [(1, 2), (2, 0), (2, 1), (2, 2), (3, 2)]
    at_once = run(Settings(k=[1, 2, 3], seeds=3), Job("study"))
    for name, table in at_once.items():
        pd.testing.assert_frame_equal(grown[name], table)
    assert len(grown["rows.csv"]) == 18 and grown["once.csv"]["k"].tolist() == [1, 2, 3]


def test_a_run_that_was_killed_goes_on_with_the_point_that_is_missing(job, monkeypatch):
    def killed(settings, job, **point):
        if len(COMPUTED) == 2:
            raise KeyboardInterrupt
        return compute(settings, job, **point)

    monkeypatch.setattr(points, "resolve_name", lambda name: killed if name.endswith("compute") else join_grids)
    with pytest.raises(KeyboardInterrupt):
        run(Settings(k=[1, 2]), job)
    monkeypatch.undo()
    found = run(Settings(k=[1, 2]), job)
    assert COMPUTED == [(1, 0), (1, 1), (2, 0), (2, 1)]
    pd.testing.assert_frame_equal(found["rows.csv"], run(Settings(k=[1, 2]), Job("study"))["rows.csv"])


def test_other_settings_code_or_study_compute_anew_and_what_tables_alone_read_does_not(job):
    run(Settings(k=[1], seeds=1), job)
    run(Settings(k=[1], seeds=1, shown=2), job)
    assert len(COMPUTED) == 1
    others = (
        (Settings(k=[1], seeds=1, factor=2.0), job),
        (Settings(k=[1], seeds=1), Job("study", folder=job.folder, code={"symlab.a": "2"})),
        (Settings(k=[1], seeds=1), Job("other", folder=job.folder, code={"symlab.a": "1"})),
    )
    for number, (settings, other) in enumerate(others, 2):
        run(settings, other)
        assert len(COMPUTED) == number


def test_other_data_under_the_same_name_compute_anew(job):
    experiment = replace(EXPERIMENT, compute=f"{__name__}:on_data", tables="", datasets=True)
    for content in ("a", "a", "b"):
        data = replace(job, datasets={"d": None}, contents={"d": content})
        run_experiment(experiment, Settings(k=[1], seeds=1), data)
    assert len(COMPUTED) == 2


def test_a_signal_between_checkpoints_is_not_kept_from_the_job(job, monkeypatch):
    """Only training answers it with a checkpoint: what else computes a point is ended by whatever the job has set."""
    before, during = signal.getsignal(signal.SIGTERM), []
    monkeypatch.setitem(
        globals(), "compute", lambda *of, **point: during.append(signal.getsignal(signal.SIGTERM)) or {}
    )
    run_experiment(replace(EXPERIMENT, tables=f"{__name__}:nothing"), Settings(k=[1], seeds=1), job)
    assert during == [before]


def test_training_within_a_point_goes_on_on_the_device_alone_that_it_began_on(job, monkeypatch):
    keys = []
    monkeypatch.setitem(globals(), "compute", lambda settings, job, **point: keys.append(job.checkpoints.key) or {})
    for number, device in enumerate(("cpu", "cuda", "cpu")):
        given = replace(job, device=device, folder=job.folder / str(number))
        run_experiment(replace(EXPERIMENT, tables=f"{__name__}:nothing"), Settings(k=[1], seeds=1), given)
    assert keys[0] == keys[2] != keys[1]


def test_a_damaged_point_is_computed_anew_and_said(job):
    said = []
    run(Settings(k=[1], seeds=1), job)
    (file,) = job.folder.iterdir()
    file.write_bytes(b"damaged")
    run(Settings(k=[1], seeds=1), Job("study", folder=job.folder, code=job.code, report=said.append))
    assert len(COMPUTED) == 2 and "k = 1, seed = 0 is computed anew" in said[0] and "point 1 of 1" in said[1]


def test_chunks_share_the_points_between_them_and_leave_nothing_to_compute(job):
    settings = Settings(k=[1, 2, 3], seeds=1)
    for place in range(2):
        assert run(settings, job, chunk=(place, 2)) == {}
    assert COMPUTED == [(1, 0), (3, 0), (2, 0)]
    assert run(settings, job)["once.csv"]["k"].tolist() == [1, 2, 3]
    assert len(COMPUTED) == 3


def test_several_settings_have_their_place_and_share_no_points(job):
    found = run([Settings(k=[1], seeds=1), Settings(k=[1], seeds=1, factor=3.0)], job)
    assert found["rows.csv"][["grid", "x"]].dropna().to_numpy().tolist() == [[0, 1.0], [1, 3.0]]
    assert len(list(job.folder.iterdir())) == 2


def test_a_table_without_rows_keeps_its_columns(job):
    empty = {"rows.csv": pd.DataFrame({"kind": ["a"], "x": [1.0]})[:0].assign(unknown=[])}
    made = [points.keep_point(job, {"k": 1}, {}, lambda *_, **__: empty) for _ in range(2)]
    assert [new for new, _ in made] == [True, False]
    assert [*made[1][1]["rows.csv"]] == ["kind", "x", "unknown"] and len(made[1][1]["rows.csv"]) == 0


def test_arrays_keep_their_order_and_shape(job):
    experiment = Experiment("e", Settings, f"{__name__}:arrays", (), f"{__name__}:collect")
    made, kept = (run_experiment(experiment, Settings(k=[1], seeds=1), job) for _ in range(2))
    assert made == kept == {"sums": [(0, 1, ["z", "a"], 6.0)]}


class Chained(Settings):
    """Each k begins with the result of the one before."""

    def follows(self, point):
        earlier = [k for k in self.k if k < point["k"]]
        return point | {"k": earlier[-1]} if earlier else None


def grow(settings, job, k, seed, before):
    COMPUTED.append((k, seed))
    return {"sum": np.array([k + (0 if before is None else before["sum"][0])])}


def gather(results, settings, job):
    return {"sums": [(each.point["k"], each.point["seed"], float(each.found["sum"][0])) for each in results]}


def test_a_point_begins_with_the_one_that_it_follows_and_chains_stay_in_one_job(job):
    experiment = Experiment("e", Chained, f"{__name__}:grow", (), f"{__name__}:gather")
    settings = Chained(k=[1, 2, 4], seeds=2)
    run_experiment(experiment, settings, job, (1, 2))
    assert COMPUTED == [(1, 1), (2, 1), (4, 1)]
    found = run_experiment(experiment, settings, job)
    assert found["sums"] == [(1, 0, 1), (1, 1, 1), (2, 0, 3), (2, 1, 3), (4, 0, 7), (4, 1, 7)]
    assert len(COMPUTED) == 6
    # Another beginning is another end.
    run_experiment(experiment, Chained(k=[2, 4], seeds=1), job)
    assert len(COMPUTED) == 8
