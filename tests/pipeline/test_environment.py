"""The two descriptions of the environment agree."""

from pathlib import Path

import yaml

ENVS = Path(__file__).parents[2] / "envs"


def test_the_conda_environment_pins_what_the_lock_pins():
    lock = [line for line in (ENVS / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    conda = yaml.safe_load((ENVS / "environment.yaml").read_text())
    assert conda["dependencies"][-1]["pip"] == lock
    assert all("==" in line for line in lock)
