"""What a finished run does again after a change: what the change touches, and nothing else."""

import re

from symlab.artifacts import read_table

PATH = "workflow/symlab/connectivity/path.py"
REGISTRY = "workflow/symlab/networks/__init__.py"
SCRIPT = "workflow/scripts/measure.py"
FIGURE = "workflow/symlab/papers/neuron_identifiability/fig_04_paths.py"
BROKEN_CLAIM = """
from symlab.study.claim import Claim, at_most


def _measure_nothing(tables):
    return tables["curves.csv"]["no such column"]


CLAIMS |= {
    "identifiability-4-broken": Claim(
        statement="",
        bound=at_most(1),
        owner="ours",
        origin="ours",
        reason="",
        tables=("curves.csv",),
        measure=_measure_nothing,
    ),
}
"""
DRAWING = {
    **dict.fromkeys(("figures_digits", "figures_students", "figures_origin", "figures_collapse", "figures_mirrors"), 1),
    "report": 1,
}
# A new key of training's settings.
KEY = '    patience: int | None = Field(None, description="Epochs without progress.")\n'
# What follows from the networks of a block, as its jobs say.
OF_NETWORKS = ("Train", "Moments", "Match", "Interpolate", "Identify")


def remark(text):
    return text.replace('"""', '"""Once more: ', 1) + "\n# A remark.\n"


def test_remarks_newer_files_another_folder_and_a_new_key_that_has_a_default_are_nothing_to_do(finished):
    """A checkout or a pull makes files newer, whatever they hold; a run may be moved."""
    for name in (PATH, REGISTRY, SCRIPT, "workflow/symlab/pipeline/outputs.py"):
        finished.edit(name, remark)
    for script in (finished.folder / "workflow/scripts").glob("*.py"):
        script.touch()
    finished.edit(
        "workflow/symlab/training/settings.py",
        lambda text: re.sub(r'(class Recipe\(Settings\):\n    """.*?"""\n\n)', rf"\g<1>{KEY}", text, flags=re.DOTALL),
    )
    assert "Nothing to be done" in finished.run("all")


def test_a_style_change_redraws_figures_and_nothing_else(finished):
    finished.edit_config(lambda config: config.update(style={"font_size": 12}))
    assert finished.plan() == DRAWING


def test_an_edited_caption_redraws_its_figure_alone(finished):
    finished.edit(FIGURE, lambda text: text.replace("The deeper a line sags", "The lower a line goes"))
    before = {path.name: path.read_bytes() for path in finished.find("digits/figures/*")}
    assert finished.jobs_of(finished.run("figures")) == {"figures_digits": 1}
    after = {path.name: path.read_bytes() for path in finished.find("digits/figures/*")}
    changed = {name for name in before if after[name] != before[name]}
    assert {"identifiability-4.json", "identifiability-4.rst"} <= changed
    assert not any(name.startswith("identifiability-3a") for name in changed)
    log = (finished.results / "logs/figures/digits.log").read_text()
    assert "identifiability-4 drawn" in log and "identifiability-3a" not in log
    assert finished.plan("figures") == {}


def test_only_new_blocks_variants_and_shapes_are_computed_and_a_key_of_an_experiment_runs_it_alone(finished):
    def change(config):
        digits = config["studies"]["digits"]
        digits.update(seeds=8)
        digits["variants"]["w"]["sweep"]["scheme.sigma_F"].append(2)
        digits["variants"]["wide"] = {"scheme": {"name": "standard"}, "network": {"widths": [48, 48]}}
        config["studies"]["students"]["teacher_student"]["widths"]["runs"] = 6

    known = finished.find("digits/symmetries/*")
    finished.edit_config(change)
    # Without a target all is asked for.
    jobs = re.findall(r"^ *Job \d+: (.*)", finished.run("--dry-run"), re.MULTILINE)
    (traced,) = (job for job in jobs if job.startswith("Permutation symmetries of "))
    assert len(known) == 1 and known[0].stem not in traced
    blocks = {"w_sigma_F0": [1], "w_sigma_F1": [1], "w_sigma_F2": [0, 1], "wide": [0, 1]}
    of_networks = [
        f"{measure} digits/{variant}, block {block}"
        for measure in OF_NETWORKS
        for variant, new in blocks.items()
        for block in new
    ]
    of_studies = ["Tables of digits", "Figures of digits", "Figures of students"]
    rest = ["Experiment teacher_student.widths of students", "Claims", "Report", traced]
    assert sorted(jobs) == sorted(of_networks + of_studies + rest)


def test_an_edited_module_reruns_what_uses_it_and_the_reason_names_it(finished):
    finished.edit(PATH, lambda text: f"{text}\nUNUSED = 1\n")
    said = finished.run("all", "--dry-run")
    before, now = (
        set(re.findall(r"'([\w/]+)': '(\w{8})'", part))
        for part in re.search(r"exclusive params.*?before: (.*?) now: (.*)", said).groups()
    )
    assert {module for module, _ in now - before} == {"connectivity/path"}
    assert set(re.findall(r"^(train|moments|match|interpolate|identify) +\d+$", said, re.MULTILINE)) == {"interpolate"}


def test_an_edited_script_reruns_the_jobs_of_its_rules_and_reading_and_writing_those_that_do_it(finished):
    finished.edit(SCRIPT, lambda text: f"{text}\nUNUSED = 1\n")
    after = dict.fromkeys(("tables_digits", "tables_norms", "figures_digits", "claims", "report"), 1)
    of_script = {**dict.fromkeys(("moments", "match", "interpolate"), 3), "identify": 2, **after}
    assert finished.plan() == of_script
    finished.edit("workflow/symlab/pipeline/outputs.py", lambda text: f"{text}\nUNUSED = 1\n")
    plan = finished.plan()
    assert plan.items() >= of_script.items() and not {"data", "train", "trace"} & set(plan)
    studies = ("digits", "students", "origin", "collapse", "mirrors")
    experiments = {"teacher_student_widths", "teacher_student_overlap", "mirror_symmetry_lines"}
    assert {*experiments, *(f"figures_{study}" for study in studies)} <= set(plan)


def test_how_networks_are_built_reruns_what_builds_them(finished):
    finished.edit(REGISTRY, lambda text: text.replace("    options = network", "    UNUSED = 1\n    options = network"))
    assert finished.plan() == {
        **dict.fromkeys(("train", "moments", "match", "interpolate"), 3),
        **dict.fromkeys(("trace", "identify"), 2),
        **dict.fromkeys(("tables_digits", "tables_norms", "figures_digits", "claims", "report"), 1),
    }


def test_a_claim_that_cannot_be_evaluated_fails_the_run_and_its_ledger_stays_for_reading(finished):
    finished.edit(FIGURE, lambda text: text + BROKEN_CLAIM)
    result = finished.snakemake("results/tiny/claims.csv")
    assert result.returncode != 0
    assert "Error: 1 claim could not be evaluated: identifiability-4-broken in study digits" in result.stderr
    assert not (finished.results / "claims.csv").exists()
    verdicts = read_table(finished.results / "claims_with_errors.csv").set_index("claim")["verdict"]
    assert verdicts["identifiability-4-broken"] == "error" and verdicts["identifiability-4a-barrier"] == "held"
