"""The whole workflow on the smoke preset: it runs, and runs again only what a change touches."""

import re
import shutil

import numpy as np
import pandas as pd
import yaml

from symlab.artifacts import read_header, read_table

ONLY_DRAWING = {"figure", "config_used", "report", "all"}


def test_a_run_gives_tables_figures_claims_and_report(finished_run):
    names = {
        path.relative_to(finished_run.folder / "results/smoke").as_posix() for path in finished_run.results("**/*.*")
    }
    for table in ("history.csv", "matching.csv", "curves.csv", "barriers.csv", "subspaces.csv", "swap_costs.parquet"):
        assert f"digits/tables/{table}" in names
    config = yaml.safe_load((finished_run.folder / finished_run.config).read_text())
    for study, spec in config["studies"].items():
        for figure in spec["figures"]:
            assert {f"{study}/figures/figure_{figure}.{suffix}" for suffix in ("png", "pdf")} <= names
    claims = read_table(finished_run.folder / "results/smoke/claims.csv")
    assert set(claims["verdict"]) <= {"held", "failed", "agrees", "disagrees", "not run at this scale"}
    assert (claims["verdict"] != "not run at this scale").any()
    report = (finished_run.folder / "results/smoke/report.html").read_text()
    assert 'id="claims"' in report and 'id="figure-digits-3a"' in report


def test_tables_are_tidy_and_complete(finished_run):
    matching = read_table(finished_run.folder / "results/smoke/digits/tables/matching.csv")
    # 3 variants, 2 pairs, epochs 0, 1 and 4, 2 layers, 3 permutations.
    assert len(matching) == 3 * 2 * 3 * 2 * 3
    assert sorted(matching["sigma_F"].dropna().unique()) == [0, 1] and matching["objective"].between(-1, 1).all()
    wide = matching.pivot_table(index=["variant", "pair", "epoch", "point"], columns="permutation", values="objective")
    assert (wide["optimal"] >= wide["identity"] - 1e-9).all() and (wide["optimal"] >= wide["random"]).all()
    curves = read_table(finished_run.folder / "results/smoke/digits/tables/curves.csv")
    assert len(curves) == 3 * 2 * 2 * 2 * 5
    ends = curves[curves["lambda"].isin([0, 1])].pivot_table(
        index=["variant", "pair", "split", "lambda"], columns="aligned", values="loss"
    )
    pd.testing.assert_series_equal(ends[False], ends[True], check_names=False, rtol=1e-4)
    swaps = read_table(finished_run.folder / "results/smoke/gmm/tables/swap_costs.parquet")
    assert (swaps["i"] < swaps["j"]).all() and len(swaps) == 4 * 2 * 16 * 15 // 2


def test_both_estimators_and_the_theorems_are_measured_on_the_same_networks(finished_run):
    tables = finished_run.folder / "results/smoke/theory/tables"
    ridge = read_table(tables / "ridge_swap_costs.parquet")
    # 2 variants, 1 network, 2 layers of 16 neurons: 8 consecutive pairs at each beta; of the first 8 all 28 pairs, 4 of
    # which are consecutive, at the reported one.
    assert ridge.groupby("beta").size().to_dict() == {0.01: 4 * (28 + 4), 1.0: 4 * 8}
    assert (ridge["i"] < ridge["j"]).all() and np.isfinite(ridge["swap_cost"]).all()
    both = ridge.merge(
        read_table(tables / "swap_costs.parquet"), on=["variant", "mask_seed", "seed", "layer", "i", "j"]
    )
    assert len(both) == len(ridge)
    assert read_table(tables / "ridge_costs.csv")["bound_ratio_max"].le(1 + 1e-4).all()
    # 2 variants, 2 networks, 2 layers; own and fresh masks, 2 sides x 2 kinds x 2 draws; out and in.
    sizes = {"gram_deviation.csv": 8 * 2, "sensitivity.csv": 8 * 8, "network_gaps.csv": 8 * 2}
    # A pair a variant; 9 scales x gaussian and data x relu and gelu.
    sizes |= {"chord_deviation.csv": 2 * 2 * 9 * 4, "loss_bounds.csv": 2 * 2, "trade_off.csv": 2}
    for name, rows in sizes.items():
        assert len(read_table(tables / name)) == rows, name


def test_artifacts_say_what_they_are(finished_run):
    path = finished_run.folder / "results/smoke/digits/w_sigma_F1/models/0.safetensors"
    header = read_header(path, "models")
    assert header["study"] == "digits" and header["variant"] == "w_sigma_F1" and header["epochs"] == [0, 1, 4]
    data = read_header(finished_run.folder / "results/smoke/data/digits.safetensors", "dataset")
    assert header["data_sha256"] == data["content_sha256"]


def test_a_second_run_has_nothing_to_do(finished_run):
    result = finished_run.snakemake("all")
    assert result.returncode == 0 and "Nothing to be done" in result.stdout + result.stderr


def test_a_style_change_redraws_figures_and_nothing_else(finished):
    finished.edit_config(lambda config: config.update(style={"font_size": 12}))
    planned = finished.planned("all")
    assert set(planned) == ONLY_DRAWING and planned["figure"] == 21
    assert finished.snakemake("figures").returncode == 0
    assert set(finished.planned("all")) <= ONLY_DRAWING - {"figure"}


def test_more_seeds_train_only_the_new_block(finished):
    old = {path: path.stat().st_mtime_ns for path in finished.results("digits/*/models/0.safetensors")}
    finished.edit_config(lambda config: config["studies"]["digits"].update(seeds=8))
    planned = finished.planned("tables")
    assert planned["train"] == planned["moments"] == planned["match"] == planned["interpolate"] == 3
    assert "data" not in planned and "centre_gaps" not in planned
    assert finished.snakemake("results/smoke/digits/tables/history.csv").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in old} == old
    history = read_table(finished.folder / "results/smoke/digits/tables/history.csv")
    assert sorted(history["seed"].unique()) == list(range(8))


def test_one_more_sigma_trains_only_that_variant(finished):
    def add_sigma(config):
        config["studies"]["digits"]["variants"]["w"]["sweep"]["scheme.sigma_F"].append(2)

    finished.edit_config(add_sigma)
    planned = finished.planned("all")
    assert (
        planned["train"] == planned["moments"] == planned["match"] == planned["interpolate"] == planned["identify"] == 1
    )
    result = finished.snakemake("tables", "--dry-run")
    trained = re.findall(r"Train (\S+),", result.stdout + result.stderr)
    assert trained == ["digits/w_sigma_F2"]


def test_an_edited_module_reruns_what_uses_it_and_an_edited_docstring_nothing(finished):
    path = finished.folder / "workflow/symlab/connectivity/path.py"
    path.write_text(path.read_text() + "\n# A remark.\n")
    assert finished.planned("all") == {}
    path.write_text(path.read_text() + "\nUNUSED = 1\n")
    planned = finished.planned("all")
    assert planned["interpolate"] == 13
    assert not {"data", "train", "moments", "match", "identify", "centre_gaps"} & set(planned)


def test_a_newer_script_reruns_nothing_and_an_edited_one_its_jobs(finished):
    """A checkout, a copy or a pull makes files newer, whatever they hold."""
    for path in (finished.folder / "workflow/scripts").glob("*.py"):
        path.touch()
    assert finished.planned("all") == {}
    path = finished.folder / "workflow/scripts/interpolate.py"
    path.write_text("# A remark.\n" + path.read_text())
    assert finished.planned("all") == {}
    path.write_text(path.read_text() + "\nUNUSED = 1\n")
    planned = finished.planned("all")
    assert planned["interpolate"] == 13 and not {"data", "train", "moments", "match", "identify"} & set(planned)


def test_results_may_move_to_another_clone(finished, fresh):
    shutil.copytree(finished.folder / "results", fresh.folder / "results")
    assert fresh.planned("all") == {}


def test_an_altered_artifact_is_refused_with_its_name(finished):
    path = finished.folder / "results/smoke/gmm/w_sigma_F0_k2/models/0.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (finished.folder / "results/smoke/gmm/w_sigma_F0_k2/curves/0.csv").unlink()
    result = finished.snakemake("results/smoke/gmm/w_sigma_F0_k2/curves/0.csv", "--rerun-triggers", "params")
    assert result.returncode != 0
    assert "models/0.safetensors is not what symlab wrote there" in result.stdout + result.stderr
    assert not (finished.folder / "results/smoke/gmm/w_sigma_F0_k2/curves/0.csv").exists()
