"""The examples of docs/how-to/extending.md, put together as they stand there, make a study that runs."""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from symlab.artifacts import read_table, read_tensors
from symlab.schemes.fixed_parts import weight_shapes

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


def test_the_scheme_fixes_every_second_weight_of_matrices_and_kernels_and_is_given_no_others(tmp_path):
    [code] = [code for name, *_, code in BLOCK.findall(EXTENDING.read_text()) if name.endswith("checkerboard.py")]
    (tmp_path / "checkerboard.py").write_text(code)
    recipe = run_path(str(tmp_path / "checkerboard.py"))
    maps = nn.ModuleDict({"matrix": nn.Linear(4, 3), "kernel": nn.Conv2d(4, 6, (3, 2), groups=2)})
    others = [nn.Conv1d(2, 2, 3), nn.ConvTranspose2d(2, 2, 2), nn.Embedding(3, 2), nn.LSTM(2, 2), nn.LayerNorm(2)]
    network = nn.ModuleList([maps, nn.ParameterList([torch.zeros(2, 2)]), *others])
    parts = recipe["draw_parts"](SimpleNamespace(sigma_F=0.5), weight_shapes(network), ("seed",))
    assert {name: tuple(F.shape) for name, (F, _) in parts.items()} == {
        "0.matrix.weight": (3, 4),
        "0.kernel.weight": (6, 2, 3, 2),
    }
    for F, D in parts.values():
        assert (F == 0.5 * (1 - D)).all() and D.flatten(1).mean(1).tolist() == [0.5] * len(D)
        assert all((D.narrow(axis, 1, n - 1) + D.narrow(axis, 0, n - 1) == 1).all() for axis, n in enumerate(D.shape))


@pytest.mark.slow
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
