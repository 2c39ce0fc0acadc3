"""The tiny preset gives the tables and claims that tests/workflow/golden holds.

Those of the first two papers are from before the workflow was rearranged (57ee178), those of others from the day that
their rooms were built. Nothing that is rearranged may change them: they are equal bit for bit on processors like the
one that they were made with, and to a relative 1e-3 on others.
"""

from pathlib import Path

import pandas as pd
import pytest

from symlab.artifacts import read_header, read_table
from symlab.device import processor

GOLDEN = Path(__file__).parent / "golden"
TABLES = sorted(path.relative_to(GOLDEN) for path in GOLDEN.glob("*/*") if path.suffix in (".csv", ".parquet"))
MADE_WITH = "AuthenticAMD AVX512"


ROUNDED_ALIKE = processor() == MADE_WITH
# What other kernels' rounding may come to after some epochs of training.
ROUNDING = {"rtol": 1e-3, "atol": 1e-6}


@pytest.mark.parametrize("name", TABLES, ids=str)
def test_tables_are_as_they_were(finished_run, name):
    there = read_table(GOLDEN / name).drop(columns="time_s", errors="ignore")
    here = read_table(finished_run.results / name.parent / "tables" / name.name)
    # Whole numbers may be written as such or not (sigma_F: 0 or 0.0).
    pd.testing.assert_frame_equal(
        here[list(there)],
        there,
        check_dtype=False,
        check_exact=ROUNDED_ALIKE,
        **({} if ROUNDED_ALIKE else ROUNDING),
        obj=str(name),
    )


def test_claims_are_as_they_were(finished_run):
    key = ["claim", "study", "case"]
    claims = read_table(finished_run.results / "claims.csv")
    here, there = (
        table.set_index(key)[["value", "verdict", "n"]].sort_index()
        for table in (claims[claims["verdict"] != "not run"], read_table(GOLDEN / "claims.csv"))
    )
    pd.testing.assert_frame_equal(here, there, **({"rtol": 1e-9} if ROUNDED_ALIKE else ROUNDING))


def test_a_run_gives_figures_and_a_report(finished_run):
    for name in ("digits/figures/identifiability-4", "students/figures/permutation-2"):
        for suffix in (".svg", ".pdf"):
            assert (finished_run.results / f"{name}{suffix}").stat().st_size > 5000
    report = (finished_run.results / "report.html").read_text()
    assert "identifiability-3a" in report and "permutation-1" in report


def test_artifacts_say_what_they_are_made_of(finished_run):
    header = read_header(finished_run.results / "digits/w_sigma_F1/models/0.safetensors", "models")
    assert header["study"] == "digits" and header["variant"] == "w_sigma_F1" and header["epochs"] == [0, 1, 4]
    assert header["recipe"] == {"epochs": 4}
    data = read_header(finished_run.results / "data/digits.safetensors", "dataset")
    assert header["data_sha256"] == data["content_sha256"]
