"""Processes that unit tests start import symlab from the checkout, as the tests themselves do."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def library_for_processes(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "workflow"))
