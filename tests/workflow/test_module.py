"""symlab as a module of another workflow, as the catalog's users have it."""

import subprocess
import sys

import pytest
import yaml

pytestmark = pytest.mark.slow


def test_another_workflow_asks_for_a_report(fresh, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    config = yaml.safe_load((fresh.folder / fresh.config).read_text())
    (other / "mine.yaml").write_text(yaml.safe_dump({"symlab": config}))
    (other / "Snakefile").write_text(
        'configfile: "mine.yaml"\n'
        f'module symlab:\n    snakefile: "{fresh.folder / "workflow" / "Snakefile"}"\n    config: config["symlab"]\n'
        "use rule * from symlab as symlab_*\n"
        f'rule mine:\n    input: "{config["results"]}/report.html"\n    default_target: True\n'
    )
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1", "--quiet", "host"]
    planned = subprocess.run(command, cwd=other, env=fresh.environment(), capture_output=True, text=True)
    assert planned.returncode == 0, planned.stderr
    assert "symlab_report" in planned.stdout + planned.stderr
