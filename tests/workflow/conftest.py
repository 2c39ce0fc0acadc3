"""A copy of the project in a temporary folder, and one finished smoke run that the tests start from."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SMOKE = Path("workflow/presets/smoke.yaml")


@dataclass
class Project:
    """A project folder in which snakemake can be called as a user would."""

    folder: Path
    config: Path = SMOKE

    def command(self, *arguments):
        return [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", "--configfile", str(self.config)]

    def snakemake(self, *arguments, data_dir=None):
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SYMLAB_DATA")}
        environment |= {"SYMLAB_DATA": str(data_dir)} if data_dir else {}
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, env=environment, text=True, capture_output=True, timeout=600
        )

    def planned(self, *targets):
        """Jobs of each rule that a run would execute now."""
        result = self.snakemake(*targets, "--dry-run", "--quiet", "host")
        assert result.returncode == 0, result.stderr
        output = result.stdout + result.stderr
        if "Nothing to be done" in output:
            return {}
        stats = output.split("Job stats:")[-1].split("total")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", stats, flags=re.MULTILINE)}

    def edit_config(self, change):
        path = self.folder / self.config
        config = yaml.safe_load(path.read_text())
        change(config)
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    def results(self, pattern):
        return sorted((self.folder / "results" / "smoke").glob(pattern))


def copy_project(folder):
    for name in ("Snakefile", "config.yaml", "envs", "profiles", "workflow"):
        source = ROOT / name
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name, follow_symlinks=False)
    return Project(folder)


@pytest.fixture
def fresh(tmp_path):
    """The project as cloned."""
    return copy_project(tmp_path)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The project after a smoke run; not to be changed (use ``finished``)."""
    project = copy_project(tmp_path_factory.mktemp("finished"))
    result = project.snakemake("all")
    assert result.returncode == 0, result.stderr[-5000:]
    return project


@pytest.fixture
def finished(finished_run, tmp_path):
    """A copy of the finished run with its timestamps and Snakemake's records."""
    shutil.copytree(finished_run.folder, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy")
