"""Every stage of every paper, small: networks of all kinds, both estimators, every measure."""

import numpy as np
import pandas as pd
import pytest
import yaml

from symlab.artifacts import read_table

pytestmark = pytest.mark.slow


def test_a_run_gives_every_table_figure_and_claim_that_was_asked_for(smoke_run):
    config = yaml.safe_load((smoke_run.folder / smoke_run.config).read_text())
    for study, spec in config["studies"].items():
        for figure in spec["figures"]:
            for suffix in ("svg", "pdf"):
                assert (smoke_run.results / study / "figures" / f"{figure}.{suffix}").stat().st_size > 5000
            assert f"{figure} cannot be drawn" not in (smoke_run.results / f"logs/figures/{study}.log").read_text()
    claims = read_table(smoke_run.results / "claims.csv")
    assert set(claims["verdict"]) <= {"held", "failed", "undecided", "one unit", "not run"}
    assert len(smoke_run.plan()) == 0


def test_matching_and_paths_are_tidy_and_complete(smoke_run):
    matching = read_table(smoke_run.results / "digits/tables/matching.csv")
    # 3 variants, 2 pairs, epochs 0, 1 and 4, 2 layers, 3 permutations.
    assert len(matching) == 3 * 2 * 3 * 2 * 3
    assert sorted(matching["sigma_F"].dropna().unique()) == [0, 1] and matching["objective"].between(-1, 1).all()
    wide = matching.pivot_table(index=["variant", "pair", "epoch", "point"], columns="permutation", values="objective")
    assert (wide["optimal"] >= wide["identity"] - 1e-9).all() and (wide["optimal"] >= wide["random"]).all()
    curves = read_table(smoke_run.results / "digits/tables/curves.csv")
    assert len(curves) == 3 * 2 * 2 * 2 * 5
    ends = curves[curves["lambda"].isin([0, 1])].pivot_table(
        index=["variant", "pair", "split", "lambda"], columns="aligned", values="loss"
    )
    pd.testing.assert_series_equal(ends[False], ends[True], check_names=False, rtol=1e-4)
    swaps = read_table(smoke_run.results / "gmm/tables/swap_costs.parquet")
    assert (swaps["i"] < swaps["j"]).all() and len(swaps) == 4 * 2 * 16 * 15 // 2


def test_both_estimators_and_the_theorems_are_measured_on_the_same_networks(smoke_run):
    tables = smoke_run.results / "theory/tables"
    ridge = read_table(tables / "ridge_swap_costs.parquet")
    # 2 variants, 1 network, 2 layers of 16 neurons: 8 consecutive pairs at each beta; of the first 8 all 28 pairs, 4 of
    # which are consecutive, at the reported one.
    assert ridge.groupby("beta").size().to_dict() == {0.01: 4 * (28 + 4), 1.0: 4 * 8}
    assert (ridge["i"] < ridge["j"]).all() and np.isfinite(ridge["swap_cost"]).all()
    both = ridge.merge(
        read_table(tables / "swap_costs.parquet"), on=["variant", "mask_seed", "seed", "layer", "i", "j"]
    )
    assert len(both) == len(ridge)
    # 2 variants, 2 networks, 2 layers; own and fresh masks, 2 sides x 2 kinds x 2 draws; out and in.
    sizes = {"gram_deviation.csv": 8 * 2, "sensitivity.csv": 8 * 8, "network_gaps.csv": 8 * 2}
    # A pair a variant; 9 scales x gaussian and data x relu and gelu.
    sizes |= {"chord_deviation.csv": 2 * 2 * 9 * 4, "loss_bounds.csv": 2 * 2, "trade_off.csv": 2}
    for name, rows in sizes.items():
        assert len(read_table(tables / name)) == rows, name
