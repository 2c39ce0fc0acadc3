"""Grids as experiments: tensors in, tables out, and what a killed run has finished is used again."""

from importlib import import_module

import numpy as np
import pytest

from symlab.measures.job import Job
from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE
from symlab.papers.permutation_invariance.settings import Overlap, Ratios, Widths
from symlab.pipeline.digest import code_of

GRIDS = [
    Widths(M=2, d=3, m=[2, 3], runs=2, steps=250, uniform_pairs=3),
    Widths(M=2, d=3, m=3, runs=2, steps=250, batch=4),
]


def resolve(target):
    module, function = target.split(":")
    return getattr(import_module(module), function)


@pytest.fixture(scope="module")
def trained(experiment):
    return experiment("teacher_student.widths", GRIDS)


def test_tables_are_made_of_what_experiments_give():
    made = {output for each in PERMUTATION_INVARIANCE.experiments for output in each.outputs}
    assert {name for table in PERMUTATION_INVARIANCE.tables for name in table.inputs} <= made


def test_what_decides_the_students_counts_as_their_code_and_what_measures_them_does_not():
    code = {name.rpartition("/")[2] for name in code_of("symlab.papers.permutation_invariance.student_training")}
    assert {"student_points", "student_training", "population_loss"} <= code
    assert not {"student_tables", "student_barriers", "type_matching", "minima"} & code


def test_students_of_all_grids_are_one_file(trained):
    ((tensors, header),) = trained.values()
    assert list(trained) == ["widths.safetensors"]
    assert [(point["grid"], point["source"], point["m"]) for point in header["points"]] == [
        (0, "gd", 2),
        (0, "gd", 3),
        (1, "sgd", 3),
    ]
    assert tensors["sgd/M2_d3_m3_lr1_std0.111111/W"].shape == (2, 3, 3)
    assert not np.array_equal(tensors["sgd/M2_d3_m3_lr1_std0.111111/W"], tensors["gd/M2_d3_m3_lr1_std0.111111/W"])


def test_tables_hold_a_row_for_every_run_and_pair(trained):
    of_card = {table.name: table for table in PERMUTATION_INVARIANCE.tables}
    made = {
        kind: resolve(of_card[f"widths_{kind}.csv"].function)(trained, GRIDS, Job("study"))
        for kind in ("runs", "barriers")
    }
    assert made["runs"]["source"].value_counts().to_dict() == {"gd": 4, "sgd": 2, "uniform": 12}
    assert made["barriers"]["source"].value_counts().to_dict() == {"gd": 2, "sgd": 1, "uniform": 6}
    assert made["barriers"].loc[made["barriers"]["source"] == "uniform", "permuted_hungarian"].isna().all()


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
    ((tensors, _),) = experiment("teacher_student.widths", wider, job).values()
    assert points == [4]
    ((before, _),) = trained.values()
    assert all(np.array_equal(tensors[name], before[name]) for name in before)


def test_experiments_without_training_give_their_tables_at_once(experiment):
    (ratios,) = experiment(
        "teacher_student.ratios", [Ratios(M=2, d=3, ratio=[1, 2], uniform_pairs=3)], Job("study")
    ).values()
    assert len(ratios) == 6 and (ratios.loc[ratios["m"] == 2, "permuted"].abs() < 1e-12).all()
    (overlap,) = experiment("teacher_student.overlap", Overlap(M=[2, 3], up_to=2, draws=100), Job("study")).values()
    assert overlap[["M", "m"]].to_numpy().tolist() == [[2, 2], [2, 3], [2, 4], [3, 3], [3, 4], [3, 5], [3, 6]]
