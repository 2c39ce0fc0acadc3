"""Finished runs give today what they gave: real tables have teachers, depths and gaps that small stories lack.

What their figures hold is written down in kept.json, anew by ``python -m tests.papers.test_kept --store``; their
claims anew by ``python -m symlab.pipeline.rejudge``. Both find changes, not errors, and of rows whose tables are not
kept none but those of bounds and words.
"""

import functools
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from symlab.artifacts import read_table
from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline.docs import REFERENCE
from symlab.pipeline.outputs import read_output
from symlab.pipeline.rejudge import rejudge, table_of
from symlab.plotting.style import apply_style
from symlab.study import claim
from symlab.study.card import drawings_of

from .pictures import STYLE, held_by

STORED = Path(__file__).with_name("kept.json")
HELD = json.loads(STORED.read_text())
RUNS = sorted(path.parent.name for path in REFERENCE.glob("*/claims.csv"))
TEXTS = ["claim", "study", "case", "key", "threshold", "owner", "origin", "kind", "unit", "n", "detail"]


@functools.cache
def tables_of(run):
    """By study what a kept run has of its tables."""
    tables = {}
    for path in sorted((REFERENCE / run).glob("*/tables/*")):
        tables.setdefault(path.parts[-3], {})[table_of(path)] = read_output(path)
    return tables


def assert_as_kept(run, texts, numbers):
    kept = read_table(REFERENCE / run / "claims.csv")
    found = rejudge(kept, tables_of(run))
    told = f"Judge {run} again (symlab.pipeline.rejudge), and say in CHANGELOG.md what has changed and why."
    said, before = (rows[texts].astype(object).fillna("").astype(str) for rows in (found, kept))
    pd.testing.assert_frame_equal(said, before, obj=told)
    pd.testing.assert_frame_equal(found[numbers], kept[numbers], check_dtype=False, rtol=1e-6, atol=1e-12, obj=told)


@pytest.mark.parametrize("run", RUNS)
def test_claims_measure_in_a_kept_run_what_they_did(run, monkeypatch):
    # Most of what judging takes.
    monkeypatch.setattr(claim, "bootstrap_error", lambda *samples, **settings: None)
    assert_as_kept(run, TEXTS, ["value"])


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_claims_decide_in_a_kept_run_as_they_did(run):
    assert_as_kept(run, [*TEXTS, "verdict", "why"], ["value", "error", "low", "high"])


def drawings():
    """(run, study, figure) of what kept tables can draw, with what it holds."""
    figures = [figure for paper in PAPERS for figure in paper.figures]
    for run in RUNS:
        rows = read_table(REFERENCE / run / "claims.csv")
        for study, tables in tables_of(run).items():
            judged = set(rows.loc[(rows["study"] == study) & (rows["verdict"] != "not run"), "figure"])
            for figure in figures:
                if figure.id in judged:
                    try:
                        yield f"{run}/{study}/{figure.id}", held(figure, tables)
                    except UserError as error:
                        print(f"{run}/{study}/{figure.id}: {error}")


def held(figure, tables):
    with apply_style(STYLE):
        drawn = drawings_of(figure.module)[figure.id].draw(tables, STYLE)
    plt.close("all")
    return held_by(drawn)


@pytest.mark.parametrize("name", HELD)
def test_a_figure_of_a_kept_run_holds_what_it_did(name):
    run, study, number = name.split("/")
    (figure,) = (figure for paper in PAPERS for figure in paper.figures if figure.id == number)
    now, told = held(figure, tables_of(run)[study]), "Look at the picture, and write down what it holds: see above."
    assert now[:2] == HELD[name][:2], told
    assert now[2] == pytest.approx(HELD[name][2], abs=2e-3), told


if __name__ == "__main__":
    assert sys.argv[1:] == ["--store"]
    lines = [f"{json.dumps(name)}: {json.dumps(holds)}" for name, holds in drawings()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
