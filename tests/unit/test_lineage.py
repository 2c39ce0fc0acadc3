"""The origin of a file changes with all that led to it, and with nothing else."""

import copy

import pytest
import yaml

from symlab import lineage
from symlab.analyses import ANALYSIS_OF, DERIVED, PARTS, ROLE_OF
from symlab.config import parse_config
from symlab.lineage import Lineage, student_files
from symlab.networks import NETWORKS, SCHEMES

CONFIG = yaml.safe_load(
    """
results: out
datasets:
  digits: {source: digits}
  gmm: {source: gmm, seed: 2, sigma_sep: 1, sweep: {k: [2, 8]}}
studies:
  images:
    dataset: digits
    network: {name: mlp, widths: [16, 16]}
    recipe: {epochs: 2}
    seeds: 4
    seeds_per_job: 2
    variants:
      standard: {scheme: {name: standard}}
      syre: {scheme: {name: syre, sigma_F: 1}}
    matching: {}
    interpolation: {aligned: true}
    identification: {}
    theory: {}
    figures: []
  mixtures:
    dataset: gmm
    network: {name: mlp, widths: [16]}
    recipe: {epochs: 1}
    seeds: 2
    variants:
      standard: {scheme: {name: standard}}
    interpolation: {aligned: false}
    centre_gaps: {}
    figures: []
  students:
    teacher_student:
      overlap: {M: 6}
      widths: [{M: 6, d: 8, m: [7, 8], runs: 4}, {M: 6, d: 8, m: 9, uniform_pairs: 4}]
      learning_rates: {M: 6, d: 8, m: 12, lr: [0.1, 0.2], runs: 4}
      column: {M: 1, d: 8, m: 8, runs: 4}
    figures: []
"""
)


def paths(project):
    """All files of the project that other jobs read."""
    found = [f"out/data/{name}.safetensors" for name in project.datasets]
    for study in project.studies.values():
        tables = ["history.csv"] * bool(study.variants)
        tables += [table for table, key in ANALYSIS_OF.items() if study.analysis(key)]
        found += [f"out/{study.name}/tables/{table}" for table in tables]
        roles = {ROLE_OF[table] for table in tables if table in ROLE_OF}
        found += [f"out/{study.name}/students/{role}/{name}" for role in roles for name in student_files(study, role)]
        for variant in study.variants:
            for block in study.blocks():
                base = f"out/{study.name}/{variant}"
                found.append(f"{base}/models/{block}.safetensors")
                found += [f"{base}/{PARTS[table]}/{block}.x" for table in tables if table in PARTS]
                if study.matching:
                    found += [f"{base}/{name}/{block}.safetensors" for name in ("moments", "permutations")]
    return found


def origins(config):
    project = parse_config(config)
    known = Lineage(project)
    return {path: known.origin(path)["settings"] for path in paths(project)}


def changed(edit):
    config = copy.deepcopy(CONFIG)
    edit(config)
    before, after = origins(CONFIG), origins(config)
    assert before.keys() <= after.keys()
    return {path for path in before if before[path] != after[path]}


def files(prefix, *words):
    return {
        path for path in origins(CONFIG) if path.startswith(prefix) and (not words or any(w in path for w in words))
    }


@pytest.mark.parametrize("key", ["device", "checkpoint_minutes", "data_dir", "style"])
def test_where_and_how_something_is_computed_changes_no_origin(key):
    values = {"device": "cpu", "checkpoint_minutes": 1, "data_dir": "/x", "style": {"dpi": 100}}
    assert changed(lambda config: config.update({key: values[key]})) == set()


def test_training_changes_all_of_its_study():
    found = changed(lambda config: config["studies"]["images"]["recipe"].update(epochs=3))
    assert found == files("out/images")


def test_one_variant_changes_its_own_files_and_the_study_s_tables():
    found = changed(lambda config: config["studies"]["images"]["variants"]["syre"]["scheme"].update(sigma_F=2))
    assert found == files("out/images/syre") | files("out/images/tables")


def test_a_data_set_changes_what_is_made_from_it():
    found = changed(lambda config: config["datasets"]["gmm"].update(seed=3))
    assert found == files("out/data/gmm") | files("out/mixtures")


def test_an_analysis_changes_its_own_tables():
    found = changed(lambda config: config["studies"]["images"].update(interpolation={"aligned": True, "lambdas": 5}))
    assert found == files("out/images", "curves", "barriers.csv", "loss_bounds.csv")


def test_matching_changes_what_uses_permutations():
    found = changed(lambda config: config["studies"]["images"].update(matching={"n_random": 3}))
    made = files("out/images", "permutations", "matching", "trade_off", "curves", "barriers.csv", "loss_bounds.csv")
    assert found == made


def test_a_grid_of_students_changes_its_own_files():
    def students(edit):
        return changed(lambda config: edit(config["studies"]["students"]["teacher_student"]))

    assert students(lambda block: block["overlap"].update(draws=700)) == {"out/students/tables/overlap.csv"}
    assert students(lambda block: block["learning_rates"].update(runs=6)) == files("out/students", "learning_rates")
    assert students(lambda block: block["widths"][0].update(c=2)) == files("out/students", "widths")
    assert students(lambda block: block["column"].update(init_std=0.1)) == files("out/students", "column")


def test_uniform_pairs_train_no_students_anew():
    def more(config):
        config["studies"]["students"]["teacher_student"]["widths"][0]["uniform_pairs"] = 9

    assert changed(more) == files("out/students/tables", "widths")


def test_more_seeds_change_tables_and_no_finished_block():
    found = changed(lambda config: config["studies"]["images"].update(seeds=6))
    assert found == files("out/images/tables")


def test_blocks_and_variants_have_origins_of_their_own():
    found = origins(CONFIG)
    models = [found[path] for path in found if "/models/" in path]
    assert len(set(models)) == len(models)


def test_variants_of_equal_settings_are_not_taken_for_one_another():
    config = copy.deepcopy(CONFIG)
    config["studies"]["images"]["variants"]["twin"] = {"scheme": {"name": "standard"}}
    config["studies"]["again"] = copy.deepcopy(config["studies"]["images"])
    found = origins(config)
    models = [found[path] for path in found if "/models/" in path]
    assert len(set(models)) == len(models)


TRAINED = ("models", "history", "moments", "curves", "tables/barriers", "tables/swap_costs")


@pytest.mark.parametrize(
    ("edited", "made_by_it"),
    [
        ("train.py", TRAINED),
        ("match.py", ("permutations", "matching", "curves", "tables/barriers", "tables/trade_off")),
        ("table.py", ("tables/history", "tables/curves", "tables/barriers")),
        ("prepare_data.py", ("data/digits", *TRAINED)),
    ],
)
def test_the_code_of_a_job_counts_for_all_that_is_made_from_its_outputs(monkeypatch, edited, made_by_it):
    def codes():
        project = parse_config(CONFIG)
        chosen = [path for path in paths(project) if path.startswith(("out/images/", "out/data/digits"))]
        return {path: Lineage(project).origin(path)["code"] for path in chosen}

    before, real = codes(), lineage.library
    monkeypatch.setattr(lineage, "library", lambda script, *modules: real(script, *modules) + "x" * (script == edited))
    after = codes()
    changed = {path for path in before if before[path] != after[path]}
    for part in made_by_it:
        assert any(part in path for path in changed), part
    if edited != "prepare_data.py":
        assert not any("/data/" in path for path in changed)
    if edited == "match.py":
        assert not any("/models/" in path or "/swap_costs" in path for path in changed)


def test_a_network_s_module_counts_for_its_training(monkeypatch):
    study = parse_config(CONFIG).studies["images"]
    asked = []
    monkeypatch.setattr(lineage, "library", lambda *names: asked.append(names) or "")
    lineage.library_of_training(study, "syre")
    assert asked == [("train.py", NETWORKS["mlp"], SCHEMES["syre"])]


def test_files_that_no_job_reads_have_none():
    known = Lineage(parse_config(CONFIG))
    for path in ("out/claims.csv", "out/images/figures/figure_3a.png", "elsewhere/data/digits.safetensors"):
        assert known.origin(path) is None


def test_every_table_of_an_analysis_has_parts_or_is_derived():
    alone = {"centre_gaps.csv", "overlap.csv", *ROLE_OF}
    assert set(ANALYSIS_OF) | {"history.csv"} == set(PARTS) | set(DERIVED) | alone
