"""The examples of docs/how-to/extending.md, put together as they stand there, make a study that runs."""

import re
from pathlib import Path

import pytest

from symlab.artifacts import read_table, read_tensors

pytestmark = pytest.mark.slow
EXTENDING = Path(__file__).parents[2] / "docs" / "how-to" / "extending.md"
BLOCK = re.compile(r"```\w+\n# file: ([^\n,]+)(?:, (before|in): (\w+))?\n(.*?)```", re.DOTALL)


def apply_examples(folder):
    """Write the new files and change the registries, as the first line of each block says."""
    blocks = BLOCK.findall(EXTENDING.read_text())
    assert len(blocks) == EXTENDING.read_text().count("# file: ")
    for name, where, place, code in blocks:
        path = folder / name
        if where == "before":
            before, found, after = re.split(rf"^({place}\b)", path.read_text(), maxsplit=1, flags=re.MULTILINE)
            code = f"{before}{code}{found}{after}"
        elif where == "in":
            before, found, after = re.split(rf"^({place}\b.*?= \()", path.read_text(), maxsplit=1, flags=re.MULTILINE)
            code = f"{before}{found}{code.strip()} {after}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)


def test_a_network_a_scheme_a_data_set_a_measure_an_experiment_and_a_paper_of_ones_own(fresh):
    apply_examples(fresh.folder)
    fresh.config = Path("workflow/presets/weight_growth.yaml")
    result = fresh.snakemake("all")
    assert result.returncode == 0, result.stderr[-4000:]
    results = fresh.folder / "results" / "weight_growth"
    rings = results / "rings"
    history = read_table(rings / "tables" / "history.csv")
    assert history[history["epoch"] == 30]["train_accuracy"].min() > 0.9
    barriers = read_table(rings / "tables" / "barriers.csv")
    assert set(barriers["variant"]) == {"free", "checked"} and set(barriers["aligned"]) == {False, True}
    # Its symmetry was found by tracing: nothing in the network says which of its axes are neurons.
    assert set(read_table(rings / "tables" / "matching.csv")["point"]) == {"features"}
    state, _ = read_tensors(rings / "checked" / "models" / "0.safetensors", "models")
    weight = state["30/features.weight"]
    assert (weight[:, 0::2, 1] == 1).all() and (weight[:, 0::2, 0] != 1).all()
    assert len(read_table(rings / "tables" / "weight_norms.csv")) == 2 * 2 * 3
    claims = read_table(results / "claims.csv").groupby("claim")["verdict"].first()
    assert claims["growth-2-slope"] == "held" and claims["growth-1-grows"] not in ("error", "not run")
    assert all((results / name).exists() for name in ("rings/figures/growth-1.svg", "tosses/figures/growth-2.pdf"))
    report = (results / "report.html").read_text()
    assert "Weights grow" in report and "The norm grows by a factor of" in report
