"""The tiny preset gives the tables and claims that tests/workflow/golden holds, but for the rounding of other machines.

Those of the first two papers are from before the workflow was rearranged (57ee178), those of others from the day that
their rooms were built. Nothing that is rearranged may change them. Bits are compared where one machine makes both sides
(test_killed.py, test_faults.py, test_papers.py): in which order torch, MKL and OpenBLAS add on another machine, neither
the maker of its processor nor its vector instructions tell.
"""

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
from safetensors import safe_open

from symlab.artifacts import read_header, read_table

GOLDEN = Path(__file__).parent / "golden"
TABLES = sorted(path.relative_to(GOLDEN) for path in GOLDEN.glob("*/*") if path.suffix in (".csv", ".parquet"))

# Double precision rounds by 1e-16, which solvers and some hundred steps raise by up to ten orders.
DOUBLE = {"rtol": 1e-6, "atol": 1e-9}
# Single precision rounds numbers of about 1 by 1e-7; sums and differences of them (losses, and barriers, which may
# cancel to 0), over a few epochs of training, by a hundred times that.
SINGLE = {"rtol": 1e-5, "atol": 1e-5}
# What raises the rounding of single precision further: costs divide by variances of inputs, which range over three
# orders.
RAISED = {"rtol": 1e-2, "atol": 1e-6}
RAISED_IN = {"digits/swap_costs.parquet"}
# L-BFGS in single precision ends elsewhere than in double by 6e-4 of gradients, 2e-4 of gaps, 3e-5 of metrics, and its
# line search may take a step more or less.
MINIMISED_IN = {"collapse/collapse_runs.csv"}
MINIMISED, WORK = {"rtol": 2e-3, "atol": 1e-5}, {"rtol": 0.05, "atol": 0}
# A bias before a batch norm has a gradient of rounding alone, which Adam divides by its own size: after two epochs such
# biases differ by 1e-2 on another processor, and running means, which follow late, shift what evaluation sees by 1e-3.
BIASES_BEFORE_NORMS = {"rtol": 1e-3, "atol": 1e-3}
# The logits of a sample may be so close that rounding decides, and the fewest samples that an accuracy is of are 100.
ONE_SAMPLE = {"accuracy": {"rtol": 0, "atol": 0.01}, "_pp": {"rtol": 0, "atol": 1}}

# What is left out of what files say of themselves, and how much of it is told.
OF_ROUNDING = ("content_sha256", "data_sha256", "mean", "std", "provenance", "symlab", "symmetries", "columns")
LONGEST = 300


def decided(name, table):
    """Rows that no near tie decides: in networks with such biases rounding decides which permutation weights choose.

    On an Intel Xeon it was another than on an AMD EPYC. By activations, and in networks without norms, it is the same.
    """
    if name.parts[0] != "norms":
        return table
    return table[table["matching" if "matching" in table else "permutation"] != "weight"].reset_index(drop=True)


def tolerance(name, column):
    for part, of_one in ONE_SAMPLE.items():
        if column.endswith(part):
            return of_one
    if str(name) in MINIMISED_IN:
        return WORK if column == "work" else MINIMISED
    if str(name) in RAISED_IN:
        return RAISED
    if name.parts[0] == "norms":
        return BIASES_BEFORE_NORMS
    return SINGLE if name.parts[0] in ("digits", "collapse") else DOUBLE


@pytest.mark.parametrize("name", TABLES, ids=str)
def test_tables_are_as_they_were(finished_run, name):
    there = read_table(GOLDEN / name).drop(columns="time_s", errors="ignore")
    here = read_table(finished_run.results / name.parent / "tables" / name.name)
    assert len(here) == len(there)
    there, here = decided(name, there), decided(name, here)
    assert len(here) == len(there) > 0
    for column in there:
        # Whole numbers may be written as such or not (sigma_F: 0 or 0.0).
        pd.testing.assert_series_equal(here[column], there[column], check_dtype=False, **tolerance(name, column))


def test_weights_alone_match_networks_with_norms_better_than_their_order_does(finished_run):
    """Whichever permutation rounding chose: the golden one's objectives are 0.16 and 0.12."""
    table = read_table(finished_run.results / "norms/tables/matching.csv")
    objective = table.pivot(index="point", columns="permutation", values="objective")
    assert (objective["weight"] > 0.1).all() and (objective["identity"] < 0).all()


def test_claims_are_as_they_were(finished_run):
    key = ["claim", "study", "case"]
    claims = read_table(finished_run.results / "claims.csv")
    here, there = (
        table.set_index(key)[["value", "verdict", "n"]].sort_index()
        for table in (claims[claims["verdict"] != "not run"], read_table(GOLDEN / "claims.csv"))
    )
    # Some are of the tables whose rounding is raised.
    pd.testing.assert_frame_equal(here, there, **RAISED)


def test_a_run_gives_figures_and_a_report(finished_run):
    for name in ("digits/figures/identifiability-4", "students/figures/permutation-2"):
        for suffix in (".svg", ".pdf"):
            assert (finished_run.results / f"{name}{suffix}").stat().st_size > 5000
    report = (finished_run.results / "report.html").read_text()
    assert "identifiability-3a" in report and "permutation-1" in report


def told(results):
    """What each job's log says and what files of tensors say of themselves.

    Without times, versions, digests of contents and what training makes of rounding.
    """
    masks = (
        (r"^\d\d:\d\d:\d\d ", ""),
        (r"loss .*", "loss"),
        (r"torch .*", "torch"),
        (r"^\d+ [a-z ]+\n|^[\d.]+ MB\n", ""),
    )
    for path in sorted(results.glob("logs/**/*.log")):
        text = path.read_text()
        for pattern, instead in masks:
            text = re.sub(pattern, instead, text, flags=re.MULTILINE)
        yield f"{path.relative_to(results)}: {' / '.join(text.splitlines())}"[:LONGEST]
    for path in sorted(results.glob("**/*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            header = json.loads(file.metadata()["symlab"])
        own = {key: value for key, value in header.items() if key not in OF_ROUNDING}
        if "key" in own:
            own["key"] = own["key"]["spec"]
        line = f"{path.relative_to(results)}: {json.dumps(own)}"
        yield re.sub(r"[0-9a-f]{64}|(?<=_)[0-9a-f]{8}(?=\.safe)", "", line)[:LONGEST]


def test_jobs_say_what_they_did_and_files_what_they_are_made_of(finished_run):
    """Where they shall say something else: ``python -m tests.workflow.test_golden --store results/tiny``."""
    assert list(told(finished_run.results)) == (GOLDEN / "told.txt").read_text().splitlines()
    models = read_header(finished_run.results / "digits/w_sigma_F1/models/0.safetensors", "models")
    data = read_header(finished_run.results / "data/digits.safetensors", "dataset")
    assert models["data_sha256"] == data["content_sha256"]


if __name__ == "__main__" and sys.argv[1:2] == ["--store"]:
    (GOLDEN / "told.txt").write_text("\n".join(told(Path(sys.argv[2]))) + "\n")
