"""What is installed without the extra 'studies' is enough for networks of one's own."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Packages of the extra by the names that they are imported by; torch itself needs jinja2 and markupsafe.
STUDIES = ["snakemake", "pyarrow", "seaborn", "sklearn", "pooch", "yaml", "markdown_it"]
CODE = f"""
import sys

sys.modules |= dict.fromkeys({STUDIES})
import torch
from torch import nn
import symlab
from symlab import align, merge, trace
print(symlab.__file__)
from symlab.cli import main

build = lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
x = torch.randn(20, 4)
print(align(build(), build(), build(), (x, torch.arange(20) % 3)))
merge(build(), [build(), build()], x)
for name in "AB":
    torch.save(build().state_dict(), name + ".pt")
torch.save({{"x": x, "y": torch.arange(20) % 3}}, "data.pt")
open("mine.py", "w").write(
    "from torch import nn; build = lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))"
)
main(["align", "A.pt", "B.pt", "--model", "mine:build", "--data", "data.pt", "--out", "out", "--device", "cpu"])
"""


@pytest.mark.slow
def test_the_wheel_holds_all_that_own_networks_need_and_nothing_large(tmp_path):
    pytest.importorskip("setuptools", reason="the wheel is built by setuptools, which is not installed")
    clone = tmp_path / "clone"
    for name in ("workflow/symlab", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, clone / name)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, clone]
    build = [sys.executable, "-m", "pip", "wheel", *options]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("symlab-*-py3-none-any.whl")
    assert wheel.stat().st_size < 2e6
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
    assert (tmp_path / "installed" / "symlab" / "py.typed").is_file()
    installed = {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, env=os.environ | installed
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout.splitlines()[0]
    assert "Verdict" in done.stdout
    assert (tmp_path / "out" / "curve.png").exists()


def test_the_packages_are_told_apart_and_the_hints_are_shipped():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    core = {name.partition(">")[0] for name in project["project"]["dependencies"]}
    assert {"torch", "numpy", "safetensors"} <= core
    assert not core & {"snakemake", "pyarrow", "seaborn", "scikit-learn", "pooch"}
    assert (ROOT / "workflow" / "symlab" / "py.typed").is_file()
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["symlab"]
