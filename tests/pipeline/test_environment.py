"""The two descriptions of the environment agree."""

from pathlib import Path

import numpy
import yaml

from symlab.pipeline import provenance

ENVS = Path(__file__).parents[2] / "envs"


def test_a_package_that_is_missing_is_said_to_be(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "no-such-package"))
    found = provenance.versions()
    assert (found["numpy"], found["no-such-package"]) == (numpy.__version__, "not installed")


def test_the_conda_environment_pins_what_the_lock_pins():
    lock = [line for line in (ENVS / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    conda = yaml.safe_load((ENVS / "environment.yaml").read_text())
    assert conda["dependencies"][-1]["pip"] == lock
    assert all("==" in line for line in lock)
