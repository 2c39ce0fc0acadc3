"""Grids as experiments: their tables, and what a killed run has finished is used again."""

from importlib import import_module

import pandas as pd
import pytest

from symlab.measures.job import Job
from symlab.papers.permutation_invariance.settings import Overlap, Ratios, Widths
from symlab.pipeline.digest import code_of

GRIDS = [
    Widths(M=2, d=3, m=[2, 3], runs=2, steps=250, uniform_pairs=3),
    Widths(M=2, d=3, m=3, runs=2, steps=250, batch=4),
]


@pytest.fixture(scope="module")
def trained(experiment):
    return experiment("teacher_student.widths", GRIDS)


def test_what_decides_the_students_counts_as_their_code_and_what_measures_them_does_not():
    code = {name.rpartition("/")[2] for name in code_of("symlab.papers.permutation_invariance.student_training")}
    assert {"student_points", "student_training", "population_loss"} <= code
    assert not {"student_tables", "pairs", "minima"} & code


def test_tables_hold_a_row_for_every_run_and_pair(trained):
    runs, barriers = trained["widths_runs.csv"], trained["widths_barriers.csv"]
    assert runs["source"].value_counts().to_dict() == {"gd": 4, "sgd": 2, "uniform": 12}
    assert barriers["source"].value_counts().to_dict() == {"gd": 2, "sgd": 1, "uniform": 6}
    assert barriers.loc[barriers["source"] == "uniform", "permuted_hungarian"].isna().all()
    losses = runs.query("m == 3").groupby("source")["loss"].first()
    assert losses["gd"] != losses["sgd"]


def test_finished_points_are_used_again_when_a_grid_grows(trained, tmp_path, monkeypatch, experiment):
    job = Job("study", folder=tmp_path, code={"symlab.a": "1"})
    experiment("teacher_student.widths", GRIDS, job)
    training = import_module("symlab.papers.permutation_invariance.student_training")
    points, train = [], training.train_students

    def counted(point, *args):
        points.append(point.m)
        return train(point, *args)

    monkeypatch.setattr(training, "train_students", counted)
    wider = [Widths(M=2, d=3, m=[2, 3, 4], runs=2, steps=250, uniform_pairs=8), GRIDS[1]]
    found = experiment("teacher_student.widths", wider, job)["widths_runs.csv"].query("source != 'uniform'")
    before = trained["widths_runs.csv"].query("source != 'uniform'")
    assert points == [4]
    pd.testing.assert_frame_equal(found[found["m"] < 4].reset_index(drop=True), before.reset_index(drop=True))


def test_experiments_without_training_give_their_tables_at_once(experiment):
    (ratios,) = experiment(
        "teacher_student.ratios", [Ratios(M=2, d=3, ratio=[1, 2], uniform_pairs=3)], Job("study")
    ).values()
    assert len(ratios) == 6 and (ratios.loc[ratios["m"] == 2, "permuted"].abs() < 1e-12).all()
    (overlap,) = experiment("teacher_student.overlap", Overlap(M=[2, 3], up_to=2, draws=100), Job("study")).values()
    assert overlap[["M", "m"]].to_numpy().tolist() == [[2, 2], [2, 3], [2, 4], [3, 3], [3, 4], [3, 5], [3, 6]]
