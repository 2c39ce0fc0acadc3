"""What a finished run does again after a change: what the change touches, and nothing else."""

import re
import shutil

from symlab.artifacts import read_table

PATH = "workflow/symlab/connectivity/path.py"
FIGURE = "workflow/symlab/papers/neuron_identifiability/fig_04_paths.py"
BROKEN_CLAIM = """
from symlab.papers.claim import Claim


def _measure_nothing(tables):
    return tables["curves.csv"]["no such column"]


CLAIMS += (Claim("identifiability-4-broken", "identifiability-4", "", "", "", ("curves.csv",), _measure_nothing),)
"""
DRAWING = {"figures_digits": 1, "figures_students": 1, "report": 1}
# What follows from the networks of two variants.
OF_NETWORKS = ("train", "moments", "match", "interpolate", "identify")
OF_TABLES = {"tables_digits": 1, "figures_digits": 1, "claims": 1, "report": 1}


def test_a_second_run_has_nothing_to_do(finished_run):
    assert "Nothing to be done" in finished_run.run("all")


def test_remarks_docstrings_newer_files_and_another_folder_are_nothing_to_do(finished, fresh):
    """A clone, a checkout or a pull makes files newer, whatever they hold; results may be taken along."""
    shutil.copytree(finished.folder / "results", fresh.folder / "results")
    fresh.edit(PATH, lambda text: text.replace('"""', '"""Once more: ', 1) + "\n# A remark.\n")
    for script in (fresh.folder / "workflow/scripts").glob("*.py"):
        script.touch()
    assert fresh.plan() == {}


def test_a_new_key_with_a_default_is_nothing_to_do(finished):
    key = '    patience: int | None = Field(None, description="Epochs without progress.")\n'
    finished.edit(
        "workflow/symlab/training/settings.py",
        lambda text: re.sub(r'(class Recipe\(Settings\):\n    """.*?"""\n\n)', rf"\g<1>{key}", text, flags=re.DOTALL),
    )
    assert finished.plan() == {}


def test_a_style_change_redraws_figures_and_nothing_else(finished):
    finished.edit_config(lambda config: config.update(style={"font_size": 12}))
    assert finished.plan() == DRAWING


def test_more_seeds_train_only_the_new_block(finished):
    finished.edit_config(lambda config: config["studies"]["digits"].update(seeds=8))
    assert finished.plan() == dict.fromkeys(OF_NETWORKS, 2) | OF_TABLES


def test_one_more_sigma_trains_only_that_variant_and_a_key_of_an_experiment_runs_it_alone(finished):
    def change(config):
        config["studies"]["digits"]["variants"]["w"]["sweep"]["scheme.sigma_F"].append(2)
        config["studies"]["students"]["teacher_student"]["widths"]["runs"] = 6

    finished.edit_config(change)
    of_students = dict.fromkeys(("teacher_student_widths", "tables_students", "figures_students"), 1)
    assert finished.plan() == dict.fromkeys(OF_NETWORKS, 1) | OF_TABLES | of_students


def test_one_more_width_is_traced_and_leaves_the_other_networks_alone(finished):
    def widen(config):
        wide = {"scheme": {"name": "standard"}, "network": {"widths": [48, 48]}}
        config["studies"]["digits"]["variants"]["wide"] = wide

    finished.edit_config(widen)
    assert finished.plan() == dict.fromkeys((*OF_NETWORKS, "trace"), 1) | OF_TABLES


def test_an_edited_module_reruns_what_uses_it_and_the_reason_names_it(finished):
    finished.edit(PATH, lambda text: f"{text}\nUNUSED = 1\n")
    said = finished.run("all", "--dry-run")
    before, now = (
        set(re.findall(r"'([\w/]+)': '(\w{8})'", part))
        for part in re.search(r"exclusive params.*?before: (.*?) now: (.*)", said).groups()
    )
    assert {module for module, _ in now - before} == {"connectivity/path"}
    assert set(re.findall(r"^(train|moments|match|interpolate|identify) +2$", said, re.MULTILINE)) == {"interpolate"}


def test_a_claim_that_cannot_be_evaluated_fails_the_run_and_its_ledger_stays_for_reading(finished):
    finished.edit(FIGURE, lambda text: text + BROKEN_CLAIM)
    result = finished.snakemake("results/tiny/claims.csv")
    assert result.returncode != 0
    assert "Error: 1 claim could not be evaluated: identifiability-4-broken in study digits" in result.stderr
    assert not (finished.results / "claims.csv").exists()
    verdicts = read_table(finished.results / "claims_with_errors.csv").set_index("claim")["verdict"]
    assert verdicts["identifiability-4-broken"] == "error" and verdicts["identifiability-4a-barrier"] == "held"
