"""Students of a teacher: every grid and figure of them, run, changed and stopped as a user would."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from symlab.config import parse_config
from symlab.papers.permutation_invariance.grid import points

from symlab.artifacts import read_header, read_table

CONFIG = Path(__file__).with_name("students.yaml")


@pytest.fixture(scope="module")
def ran(clone, tmp_path_factory):
    project = clone(tmp_path_factory.mktemp("students"))
    shutil.copy(CONFIG, project.folder / CONFIG.name)
    project.config = Path(CONFIG.name)
    result = project.snakemake("all")
    assert "Traceback" not in result.stdout + result.stderr
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return project


def table(project, name):
    return read_table(project.folder / f"students/students/tables/{name}.csv")


def edit(project, change):
    project.edit_config(lambda config: change(config["studies"]["students"]["teacher_student"]))


def test_every_figure_is_drawn_and_every_claim_judged_or_not_run(ran):
    config = yaml.safe_load(CONFIG.read_text())
    for figure in config["studies"]["students"]["figures"]:
        assert (ran.folder / f"students/students/figures/figure_{figure}.png").stat().st_size > 5000
    claims = read_table(ran.folder / "students/claims.csv")
    assert set(claims["paper"]) == {"permutation-invariance"}
    assert {"held", "agrees", "not run at this scale"} & set(claims["verdict"])
    assert not claims["detail"].astype(str).str.contains("could not be evaluated").any()
    report = (ran.folder / "students/report.html").read_text()
    assert 'id="figure-students-permutation-2"' in report and "2503.06001" in report


def test_tables_hold_a_row_for_every_run_and_pair(ran):
    grids = parse_config(yaml.safe_load(CONFIG.read_text())).studies["students"].teacher_student
    for role in ("sparsity", "learning_rates", "doubled_types"):
        (grid,) = grids[role]
        runs = table(ran, f"{role}_runs")
        assert (runs["source"] != "uniform").sum() == len(points(grid)) * grid["runs"], role
    barriers = table(ran, "widths_barriers")
    # Pairs of trained students at 7 and 4 widths; of uniform samples at the 5 and 4 that are not below M.
    assert barriers["source"].value_counts().to_dict() == {"gd": 2 * 11, "uniform": 10 * 9}
    assert (barriers[["direct", "permuted", "permuted_one_sorted", "permuted_unsorted"]] >= 0).all().all()
    assert barriers.loc[barriers["source"] == "uniform", "permuted_hungarian"].isna().all()
    assert set(table(ran, "doubled_types_runs")["source"]) == {"sgd"}
    assert np.isclose(table(ran, "column_entries")["expected"].sum(), 1)


def test_the_artifact_of_students_says_what_was_trained(ran):
    header = read_header(ran.folder / "students/students/students/widths/1.safetensors", "students")
    assert header["grid"]["M"] == [3] and [point["m"] for point in header["points"]] == [3, 4, 6, 8]


def test_a_second_run_has_nothing_to_do_and_a_change_reruns_its_own_grid(ran):
    assert ran.planned("all") == {}
    kept = (ran.folder / ran.config).read_text()
    try:
        edit(ran, lambda block: block["ratios"].update(uniform_pairs=6))
        planned = ran.planned("tables")
        assert planned == {"student_barriers": 1, "tables": 1}
        edit(ran, lambda block: block["widths"][1].update(runs=6))
        planned = ran.planned("tables")
        assert planned["students"] == 1 and planned["student_barriers"] == 2
    finally:
        (ran.folder / ran.config).write_text(kept)


def test_a_wrong_grid_ends_with_a_sentence(ran):
    kept = (ran.folder / ran.config).read_text()
    try:
        edit(ran, lambda block: block["widths"][0].update(d=3))
        result = ran.snakemake("all", "--dry-run")
        said = result.stdout + result.stderr
        assert result.returncode == 1 and "Traceback" not in said
        assert "widths[0].d = 3 is below studies.students.teacher_student.widths[0].M = 4" in said
    finally:
        (ran.folder / ran.config).write_text(kept)
