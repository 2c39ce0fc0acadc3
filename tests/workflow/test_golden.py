"""The tiny preset gives the tables that tests/workflow/golden holds, from before the workflow was rearranged.

Tables of trained networks are equal bit for bit on processors with the instructions that they were made with, and to
a relative 1e-3 on others; nothing of what was rearranged may change them.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from symlab.artifacts import read_table

GOLDEN = Path(__file__).parent / "golden"
TABLES = sorted(path.relative_to(GOLDEN) for path in GOLDEN.glob("*/*") if path.suffix in (".csv", ".parquet"))
MADE_WITH = "AVX512"
TINY = Path("workflow/presets/tiny.yaml")


@pytest.fixture(scope="module")
def tiny(clone, tmp_path_factory):
    project = clone(tmp_path_factory.mktemp("tiny"))
    project.config = TINY
    result = project.snakemake("all")
    assert result.returncode == 0, result.stdout + result.stderr
    yield project.folder / "results" / "tiny"
    shutil.rmtree(project.folder)


def assert_equal(here, there, name):
    exact = torch.backends.cpu.get_cpu_capability() == MADE_WITH
    pd.testing.assert_frame_equal(
        here.drop(columns="time_s", errors="ignore")[list(there.drop(columns="time_s", errors="ignore"))],
        there.drop(columns="time_s", errors="ignore"),
        check_exact=exact,
        rtol=1e-3,
        atol=1e-6,
        obj=str(name),
    )


@pytest.mark.parametrize("name", TABLES, ids=str)
def test_tables_are_as_they_were(tiny, name):
    assert_equal(read_table(tiny / name.parent / "tables" / name.name), read_table(GOLDEN / name), name)


def test_claims_are_as_they_were(tiny):
    key = ["claim", "study", "case"]
    here, there = (
        table[table["verdict"] != "not run at this scale"].set_index(key)[["value", "verdict", "n"]].sort_index()
        for table in (read_table(tiny / "claims.csv"), read_table(GOLDEN / "claims.csv"))
    )
    pd.testing.assert_frame_equal(here, there, rtol=1e-9)
