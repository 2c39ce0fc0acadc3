"""What claims measure, recomputed: of matchings, paths, thesis and coherence; which rows they are about."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from .judge import CLAIMS, about, only_value, tables_of, verdicts
from .spoiled import column, objective

# Rows without which a claim has nothing to be about: one for each way in which claims choose their rows.
LACKING = {
    "3a-unbroken": lambda t: t["sigma_F"] != 0,
    "3a-identifiable": lambda t: t["scheme"] != "w_asymmetric",
    "7-sigma": lambda t: t["activation"] != "sigma",
    "4b-lowered": lambda t: t["scheme"] != "standard",
    "4d-lowered": lambda t: ~t["aligned"],
    "20-higher": lambda t: t["sigma_F"] != 0,
    "5-growth": lambda t: t["k"] != 8,
    "thm4.6-width": lambda t: t["variant"] != "w_widths32",
    "5-diagonal": lambda t: t["k"] != 32,
    "5-drop": lambda t: t["k"] != 32,
    "6-ends": lambda t: t["t"] != 10,
    "6-trend": lambda t: t["t"] <= 2,
    "10-fixed": lambda t: (t["sigma_F"] == 0) | (t["fixed_fraction"] < 0.05),
    "11-k8": lambda t: t["m"] == 16,
    "21-layers": lambda t: t["variant"] != "w_0",
    "3a-transition": lambda t: t["sigma_F"] != 1,
    "3c-apart": lambda t: t["epoch"] == 60,
    "3c-untrained": lambda t: t["epoch"] == 0,
    "thesis-identity": lambda t: t["variant"].isin(["standard", "w_0", "w_1", "syre"]),
    "12-ridge-around-zero": lambda t: ~(t["sigma_F"] >= 1),
    "ridge-order": lambda t: t["sigma_F"] >= 1,
    "thm4.4-share": lambda t: t["assumption"] != "",
    "thm4.4-all": lambda t: t["sigma_D2"] == 0,
    "thm4.5-bound": lambda t: t["assumption"] != "",
    "thm4.7-leading": lambda t: t["rho"] > 0.1,
    "thm4.8-growth": lambda t: t["m"] < 1024,
    "neurons-kept": lambda t: t["itself"],
    "sec4.5-trade-off": lambda t: ~(t["sigma_F"] > 1),
    "thm5.1-relu-slope": lambda t: t["scale"] >= 1,
}
BOUNDS = {"gamma", "gamma_in", "bound", "bound_all", "bound_mid", "cost", "chord", "share_above"}


def read_by(claim_id, tables):
    """The table that a claim reads; of two, the first."""
    return tables[CLAIMS[claim_id].tables[0]]


@pytest.mark.parametrize("claim_id", LACKING)
def test_is_not_run_without_its_variants(claim_id, tables_for):
    tables = tables_of(claim_id, tables_for)
    name = CLAIMS[claim_id].tables[0]
    tables[name] = tables[name][LACKING[claim_id](tables[name])]
    assert len(tables[name])
    assert only_value(claim_id, tables)["verdict"] == "not run"


# Theorem C.10 bounds an error from below, by the sizes of the networks alone.
NO_BOUND = ("thm4.6-width", "thmC.10-error", "thmC.10-rise")


@pytest.mark.parametrize(
    "claim_id", [claim_id for claim_id in CLAIMS if claim_id[:3] in ("thm", "pro") and claim_id not in NO_BOUND]
)
@pytest.mark.filterwarnings("error")
def test_bounds_and_gaps_that_are_infinite_show_nothing(claim_id, tables_for):
    tables = tables_of(claim_id, tables_for)
    table = read_by(claim_id, tables)
    for name in BOUNDS & set(table.columns):
        table.loc[table[name].notna(), name] = np.inf
    found = verdicts(claim_id, tables)
    assert len(found) and set(found["verdict"]) <= {"failed", "undecided"}


def test_the_way_from_random_to_optimal_is_that_of_the_pairs(tables_for):
    tables = tables_for("3a")
    objective(0.1, "random", variant="w_1", epoch=60)(tables["matching.csv"])
    objective(0.5, variant="w_1", epoch=60, point="hidden2")(tables["matching.csv"])
    last = tables["matching.csv"].query("variant == 'w_1' and epoch == 60")
    ways = []
    for _, rows in last.groupby("pair"):
        best, identity, random = (
            np.mean(rows.loc[rows["permutation"] == name, "objective"]) for name in ("optimal", "identity", "random")
        )
        ways.append((identity - random) / (best - random))
    row = verdicts("3a-identifiable", tables).set_index("case").loc["W σ_F = 1"]
    assert (row["value"], row["n"]) == (pytest.approx(np.mean(ways)), 4)
    assert row["spread"] == pytest.approx(np.std(ways, ddof=1))
    # In the worst layer alone: (0.5 - 0.1) / (0.8 - 0.1).
    row = verdicts("8-identifiable", tables).set_index("case").loc["W σ_F = 1"]
    assert row["value"] == pytest.approx(0.4 / 0.7, abs=0.01) and row["detail"].startswith("hidden2, epoch 60")


def test_networks_are_apart_from_the_first_epoch_on(tables_for):
    tables = tables_for("3c")
    # Before training there is no stage of it.
    objective(0.0, variant="w_1", epoch=0)(tables["matching.csv"])
    row = only_value("3c-apart", tables)
    assert (row["verdict"], row["value"]) == ("held", pytest.approx((0.78 - 0.04) / 0.8, abs=0.001))
    objective(0.0, variant="w_1", epoch=1)(tables["matching.csv"])
    row = only_value("3c-apart", tables)
    assert row["verdict"] == "failed" and row["detail"].startswith("all layers, epoch 1")


@pytest.mark.parametrize("epoch", [1, 30])
def test_sigma_mlps_may_not_be_apart_at_any_epoch(tables_for, epoch):
    tables = tables_for("7")
    objective(0.7, variant="sigma_mlp", epoch=epoch)(tables["matching.csv"])
    row = only_value("7-sigma", tables)
    assert row["verdict"] == "failed" and row["detail"].endswith(f"epoch {epoch}")


def test_claims_over_training_look_at_the_smallest_large_sigma_alone(tables_for):
    tables = tables_for("7")
    objective(0.0, variant="w_3")(tables["matching.csv"])
    assert list(verdicts("7-apart", tables)["case"]) == ["W σ_F = 1"]


def test_the_transition_is_where_each_pair_passes_half_of_the_way(tables_for):
    tables = tables_for("3a")
    table = tables["matching.csv"]
    table.loc[table["permutation"] == "optimal", "objective"] = 0.8
    table.loc[table["permutation"] == "random", "objective"] = 0.0
    for pair, low in enumerate((0.08, 0.16, 0.24, 0.32)):
        rows = (table["pair"] == pair) & (table["permutation"] == "identity")
        table.loc[rows & (table["variant"] == "w_0"), "objective"] = low
        table.loc[rows & (table["variant"] == "w_1"), "objective"] = 0.72
    # From 0.1, 0.2, 0.3 and 0.4 of the way up to 0.9: past one half after 4/8, 3/7, 2/6 and 1/5 of it.
    of_pairs = [4 / 8, 3 / 7, 2 / 6, 1 / 5]
    row = only_value("3a-transition", tables)
    assert row["value"] == pytest.approx(np.mean(of_pairs))
    assert row["error"] == pytest.approx(np.std(of_pairs, ddof=1) / 2)
    objective(0.1, variant="w_1")(table)
    objective(0.1, variant="w_3")(table)
    assert only_value("3a-transition", tables)["value"] == np.inf


def test_the_thesis_is_a_rank_correlation_over_kinds_of_networks(tables_for):
    tables = tables_for("thesis")
    for name in ("identity", "swap-cost"):
        assert only_value(f"thesis-{name}", tables)["value"] == pytest.approx(-1)
    column(tables["barriers.csv"], "drop_max_pp", 22.0, variant="w_3")
    drops = [30.0, 25.0, 20.0, 5.0, 2.0, 22.0]
    row = only_value("thesis-identity", tables)
    assert (row["n"], row["value"]) == (4, pytest.approx(spearmanr(range(6), drops).statistic))
    assert row["detail"].startswith("6 kinds of networks; ")
    # Swap costs are not defined for sigma-MLPs.
    row = only_value("thesis-swap-cost", tables)
    assert (row["n"], row["value"]) == (4, pytest.approx(spearmanr(range(5), drops[1:]).statistic))


def test_a_sweep_of_the_fraction_of_fixed_weights_counts_for_its_own_figure_alone(tables_for):
    main, sweep = tables_for("3a")["matching.csv"], tables_for("10")["matching.csv"]
    sweep["family"] = "fraction"
    both = {"matching.csv": pd.concat([main, sweep])}
    assert list(verdicts("3a-identifiable", both)["case"]) == ["W σ_F = 1", "W σ_F = 3"]
    pd.testing.assert_frame_equal(verdicts("10-fixed", both), verdicts("10-fixed", {"matching.csv": sweep}))
    alone = verdicts("3a-unbroken", {"matching.csv": sweep})
    assert list(alone["case"]) == [f"W σ_F = 0, fixed_fraction = {fraction}" for fraction in (0.01, 0.05, 0.25)]


def test_drop_is_the_mean_over_pairs_of_the_maximum_on_train(tables_for):
    tables = tables_for("4a")
    column(tables["barriers.csv"], "drop_max_pp", 0.0, split="test")
    rows = tables["barriers.csv"]
    chosen = (rows["variant"] == "standard") & (rows["split"] == "train") & ~rows["aligned"]
    rows.loc[chosen, "drop_max_pp"] = [10.0, 20.0, 30.0, 40.0]
    row = verdicts("4a-barrier", tables).set_index("case").loc["standard"]
    assert (row["value"], row["n"], row["spread"]) == (25.0, 4, pytest.approx(np.std([10, 20, 30, 40], ddof=1)))


def test_drops_are_compared_with_the_lowest_standard_barrier_of_the_data_set(tables_for):
    rows = tables_for("4b")["barriers.csv"]
    other_init = rows[rows["variant"] == "standard"].assign(variant="standard_torch", drop_max_pp=60.0)
    other_data = other_init.assign(variant="standard_cifar100", dataset="cifar100", drop_max_pp=1.0)
    (row,) = verdicts("4b-lowered", {"barriers.csv": pd.concat([rows, other_init, other_data])}).to_dict("records")
    assert row["value"] == pytest.approx(25 / 60)
    assert row["spread"] == pytest.approx(np.std([0.01, -0.01, 0.01, -0.01], ddof=1) / 60)
    assert row["case"] == "W σ_F = 3"


@pytest.mark.parametrize("claim_id", ["4b-lowered", "4d-lowered", "4d-syre"])
def test_where_there_is_no_barrier_nothing_lowers_it(claim_id, tables_for):
    tables = tables_for("4b")
    column(tables["barriers.csv"], "drop_max_pp", 0.0)
    found = verdicts(claim_id, tables)
    assert set(found["verdict"]) == {"undecided"} and found["value"].isna().all()


def test_barriers_are_shares_of_what_networks_have_over_chance(tables_for):
    tables = tables_for("20")
    found = verdicts("20-barrier", tables).set_index("case")["value"]
    assert found.to_dict() == pytest.approx({"standard": 69 / 89, "W σ_F = 0": 67 / 89})
    # Whatever the data set is called, the number of its classes is what tells chance.
    tables["curves.csv"]["source"] = "fashion_mnist"
    assert verdicts("20-barrier", tables).set_index("case")["value"].to_dict() == found.to_dict()
    tables["curves.csv"]["classes"] = 5
    found = verdicts("20-barrier", tables).set_index("case")["value"]
    assert found.to_dict() == pytest.approx({"standard": 69 / 79, "W σ_F = 0": 67 / 79})
    tables["curves.csv"]["classes"] = np.nan
    assert set(verdicts("20-barrier", tables)["verdict"]) == {"undecided"}


def test_data_sets_are_told_apart_and_compared_within_themselves(tables_for):
    tables = tables_for("12")
    here = tables["swap_costs.parquet"]
    there = here.assign(dataset="mnist", variant=here["variant"] + "_mnist", swap_cost=here["swap_cost"] / 20)
    # On mnist alone the costs at sigma_F = 0 are as large as those of W 1 on digits.
    there.loc[there["sigma_F"] == 0, "swap_cost"] = 10.0
    found = verdicts("12-around-zero", {"swap_costs.parquet": pd.concat([here, there])}).set_index("case")
    assert list(found.loc[[case for case in found.index if "digits" in case], "verdict"].unique()) == ["held"]
    assert list(found.loc[[case for case in found.index if "mnist" in case], "verdict"].unique()) == ["failed"]


def test_variants_alike_in_every_description_keep_their_names_apart(tables_for):
    tables = tables_for("4a")
    rows = tables["barriers.csv"]
    twin = rows[rows["variant"] == "standard"].assign(variant="standard_torch_init")
    found = verdicts("4a-barrier", {"barriers.csv": pd.concat([rows, twin])})
    assert list(found["case"]) == ["standard (standard)", "W σ_F = 0", "standard (standard_torch_init)"]


def test_coherence_correlation_equals_scipy_s(tables_for):
    tables = tables_for("6")
    rows = tables["coherence_barriers.csv"]
    column(rows, "barrier_mid", 0.155, t=7)
    column(rows, "barrier_mid", 0.125, t=8)
    means = rows[rows["embedding"] == "exact_copy"].groupby("t")["barrier_mid"].mean()
    row = verdicts("6-trend", tables).set_index("case").loc["exact copy"]
    assert row["value"] == pytest.approx(spearmanr(1 / means.index, means).statistic)
    assert -1 < row["value"] <= -0.9


def test_coherence_ratio_is_over_masks_and_not_over_their_pairs(tables_for):
    tables = tables_for("6")
    rows = tables["coherence_barriers.csv"]
    rows["barrier_mid"] += 0.004 * rows["mask_seed"] * (rows["t"] == 1)
    row = verdicts("6-ends", tables).set_index("case").loc["random frame"]
    # Pairs deviate by 0.01 from their mask, masks at t = 1 by what was added; all masks are alike at t = 10.
    masks = 0.02 + 0.004 * np.arange(4)
    assert (row["value"], row["n"], row["unit"]) == (pytest.approx(masks.mean() / 0.2), 4, "masks")
    assert row["error"] == pytest.approx(np.std(masks, ddof=1) / 2 / 0.2)


def test_claims_of_panels_and_reprints_are_those_of_the_whole_figure():
    assert about("4b") == {"4b-barrier", "4b-lowered", "4d-aligned", "4d-alike", "4d-lowered", "4d-syre"}
    of_table_1 = {"4a-others", "4c-others"}
    assert about("4") == {"4a-barrier", "4a-connected", "4c-aligned", "4c-sigma", "4c-alike"} | of_table_1
    assert about("5") == about("14") and "thm4.8-growth" in about("11")
