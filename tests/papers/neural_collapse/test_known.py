"""Least losses of several runs: which of them is told, and that kept gaps are over the kept ones."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from symlab.artifacts import read_table, write_table
from symlab.papers.neural_collapse.evidence import INPUTS, SETTING
from symlab.papers.neural_collapse.known import ELSEWHERE, lower_known, main
from symlab.papers.neural_collapse.run_tables import gaps_over

KEPT = Path(__file__).parents[3] / "results" / "reference"
OPTIMA = sorted(KEPT.glob("*/*/tables/collapse_optima.parquet"))
KEY = dict.fromkeys(SETTING, "x") | {"penalty": 0.005, "width": 64, "N": 300}


def optima(least, network="rn1", by="grown"):
    return pd.DataFrame([{**KEY, "network": network, "L": L, "least": loss, "by": by} for L, loss in least.items()])


def test_the_lower_loss_is_told_and_none_rises_with_depth():
    own = pd.concat([optima({2: 3.0, 3: 2.0, 5: 1.9}), optima({2: 5.0}, "rn2")], ignore_index=True)
    others = [optima({2: 4.0, 3: 1.5, 8: 1.0}), optima({2: 3.5, 3: 1.7})]
    found = lower_known(own, others)
    assert found["least"].tolist() == [3.0, 1.5, 1.5, 5.0]
    assert found["by"].tolist() == ["grown", ELSEWHERE, "depth before", "grown"]
    pd.testing.assert_frame_equal(lower_known(own, [own]), own)
    # Depths that another run alone has bound deeper ones too.
    found = lower_known(optima({3: 2.0, 8: 1.9}), [optima({2: 1.5, 5: 1.4})])
    assert (found["least"].tolist(), set(found["by"])) == ([1.5, 1.4], {"depth before"})


def test_gaps_of_a_run_are_written_anew(tmp_path, monkeypatch, capsys):
    for name, least, total in (
        ("a", {2: 3.0, 3: 2.0}, [3.3, 2.2]),
        ("b", {2: 1.5, 3: 1.5}, [2.0, 2.0]),
        ("c", {3: 1.4}, [2.0]),
    ):
        folder = tmp_path / name / "study" / "tables"
        folder.mkdir(parents=True)
        write_table(folder / "collapse_optima.parquet", optima(least))
        runs = optima(least).drop(columns=["least", "by"]).assign(total=total, gap=math.nan)
        write_table(folder / "collapse_runs.parquet", runs)
    monkeypatch.setattr(sys, "argv", ["known", *(str(tmp_path / name) for name in ("a", "b", "none", "c"))])
    main()
    assert "study: 2 of 2 least losses are known from elsewhere." in capsys.readouterr().out
    gaps = read_table(tmp_path / "a" / "study" / "tables" / "collapse_runs.parquet")["gap"]
    assert gaps.tolist() == pytest.approx([3.3 / 1.5 - 1, 2.2 / 1.4 - 1])


def test_studies_of_a_run_that_share_a_setting_have_one_reference(tmp_path, monkeypatch):
    for study, least, total in (("a", {2: 3.0, 3: 2.0}, [3.3, 2.2]), ("b", {2: 2.5, 5: 1.9}, [2.5, 1.9])):
        folder = tmp_path / study / "tables"
        folder.mkdir(parents=True)
        write_table(folder / "collapse_optima.csv", optima(least))
        write_table(folder / "collapse_runs.csv", optima(least).drop(columns=["least", "by"]).assign(total=total))
    monkeypatch.setattr(sys, "argv", ["known", str(tmp_path)])
    main()
    found = {study: read_table(tmp_path / study / "tables" / "collapse_runs.csv")["gap"].tolist() for study in "ab"}
    assert found["a"] == pytest.approx([3.3 / 2.5 - 1, 0.1]) and found["b"] == pytest.approx([0, 0])


@pytest.mark.parametrize(
    "path", sorted(KEPT.glob("*/*/tables/collapse_optima.parquet")), ids=lambda path: path.parts[-3]
)
def test_kept_gaps_are_over_the_kept_least_losses_and_none_is_below(path):
    runs = read_table(path.with_stem("collapse_runs"))
    found = gaps_over(runs, read_table(path))["gap"]
    np.testing.assert_allclose(runs["gap"], found, rtol=0, atol=1e-12)
    assert (runs.loc[runs["optimizer"] == "lbfgs", "gap"] >= -1e-12).all()


@pytest.mark.parametrize("run", sorted({path.parents[2] for path in OPTIMA}), ids=lambda run: run.name)
def test_kept_studies_that_share_a_setting_have_one_reference_of_the_same_inputs(run):
    paths = [path for path in OPTIMA if path.is_relative_to(run)]
    known = pd.concat([read_table(path) for path in paths]).groupby([*SETTING, "L"])["least"]
    assert (known.max() == known.min()).all()
    samples = pd.concat([read_table(path.with_stem("collapse_samples")) for path in paths])
    assert (samples.groupby(INPUTS)["rank"].nunique() == 1).all()
    # What the kept networks read is what the samples' table tells of.
    for path in paths:
        runs, inputs = (read_table(path.with_stem(f"collapse_{name}")) for name in ("runs", "samples"))
        assert len(runs.merge(inputs, on=INPUTS)) == len(runs)
