"""What claims measure, recomputed; of what they say nothing."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE
from symlab.papers.permutation_invariance.fig_02_04_10_widths import slope_of_decay
from symlab.papers.permutation_invariance.fig_07_08_15_networks import as_in_fig_7
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story import MATCHED, SPOILED, TEACHERS, network_barriers, pairs, sparsity, story, widths

CLAIMS = {claim.id.removeprefix("permutation-"): claim for claim in claims_of(PERMUTATION_INVARIANCE)}


def tables_for(claim_id):
    """Copies of the tables that a claim reads, as they are if the paper is right."""
    return {name: story(claim_id)[name].copy() for name in CLAIMS[claim_id].tables}


def only_table(tables):
    """The one table that a claim reads."""
    (table,) = tables.values()
    return table


def verdicts(claim_id, tables):
    """One row a case of a claim on a study's tables: what was measured, its verdict, and whether it ``holds``."""
    found = evaluate_claim(CLAIMS[claim_id], tables)
    holds = {"held": True, "failed": False}
    return pd.DataFrame([{**asdict(each), "verdict": word, "holds": holds.get(word)} for each, word in found])


CASES = [f"M = {M}, d = {d}" for M, d in TEACHERS]
BOTH = [f"{case}, {matching}" for case in CASES for matching in ("Algorithm 1", "linear assignment")]


def test_the_p_value_is_that_of_pearson_s_test():
    tables = tables_for("9-doubled-types")
    SPOILED["9-doubled-types"](only_table(tables))
    (row,) = verdicts("9-doubled-types", tables).to_dict("records")
    assert row["value"] == pytest.approx(chisquare([100, 100, 50, 100, 100]).pvalue)
    assert (row["n"], row["holds"]) == (450, False)


def test_online_training_is_a_case_of_its_own():
    tables = tables_for("2-trained-peak")
    (name,) = tables
    trained = tables[name][(tables[name]["source"] == "gd") & (tables[name]["M"] == 6)]
    tables[name] = pd.concat([trained, trained.assign(source="sgd")])
    both = ("Algorithm 1", "linear assignment")
    names = [*both, *(f"online SGD, {name}" for name in both)]
    assert list(verdicts("2-trained-peak", tables)["case"]) == [f"M = 6, d = 8, {name}" for name in names]


def test_wider_or_other_settings_have_no_learning_rate_threshold():
    for claim_id in ("6-threshold", "13-collapse"):
        tables = tables_for(claim_id)
        only_table(tables)["m"] = 18
        (row,) = verdicts(claim_id, tables).to_dict("records")
        assert row["holds"] is None and "M = 6, d = 8, m = 12" in row["detail"]


def test_a_threshold_that_is_never_reached_is_failed():
    tables = tables_for("6-threshold")
    only_table(tables)["zero_rows"] = 0
    (row,) = verdicts("6-threshold", tables).to_dict("records")
    assert (row["value"], row["holds"]) == (np.inf, False)


def test_of_one_depth_and_data_set_the_claims_of_figure_7_are_about_those():
    alone = network_barriers().query("source == 'cifar10' and depth == 3")
    assert len(as_in_fig_7(alone)) == len(alone)


@pytest.mark.usefixtures("few_resamples")
def test_cifar_from_jpeg_images_is_cifar():
    tables = tables_for("14-dataset")
    (name,) = tables
    jpeg = {name: tables[name].replace({"source": {"cifar10": "cifar10_jpeg"}})}
    pd.testing.assert_frame_equal(verdicts("14-dataset", jpeg), verdicts("14-dataset", tables))


@pytest.mark.parametrize("claim_id", ["14-depth", "14-dataset"])
def test_a_curve_without_a_peak_within_its_widths_has_none(claim_id):
    falling = network_barriers()
    falling["barrier_max"] = np.where(falling["matching"] == "none", 1.2, 1 / falling["width"])
    rows = verdicts(claim_id, {"barriers.csv": falling})
    assert set(rows["verdict"]) == {"not run"} and rows["detail"].str.contains("peak within them").all()


def test_families_of_networks_are_cases_of_their_own():
    table = network_barriers()
    flat = table.assign(family="other", barrier_max=np.where(table["matching"] == "none", 1.2, 1 / table["width"]))
    rows = verdicts("7-peak", {"barriers.csv": pd.concat([table, flat])})
    by_family = {case.split(", ")[2]: verdict for case, verdict in zip(rows["case"], rows["holds"], strict=True)}
    assert by_family == {"mlp": True, "other": False}


@pytest.mark.parametrize("claim_id", ["7-peak", "7-direct", "8-peak", "8-wide", "8-ends"])
def test_networks_that_differ_in_more_than_their_width_are_none_of_a_kind_s(claim_id):
    tables = tables_for(claim_id)
    (name,) = tables
    other = tables[name].assign(variant=tables[name]["variant"] + "_noisy", sigma_F=1.0)
    (row,) = verdicts(claim_id, {name: pd.concat([tables[name], other])}).itertuples()
    assert row.verdict == "not run" and "differ in nothing else" in row.detail


def test_a_peak_at_the_first_width_is_none_unless_that_is_the_teacher_s():
    table = widths()
    falling = table[(table["m"] > table["M"]) & (table["source"] == "gd")].assign(
        **{name: lambda rows: 1 / rows["m"] for name in MATCHED}
    )
    rows = verdicts("2-trained-peak", {"widths_barriers.csv": falling})
    assert set(rows["holds"]) == {None}


@pytest.mark.parametrize(("kept", "judged"), [((6, 9, 30), False), ((6, 9, 12, 30), True), ((6, 9, 12, 15), False)])
def test_a_peak_needs_two_widths_up_to_two_and_a_half_times_the_teacher_s_and_one_beyond(kept, judged):
    table = widths()
    rows = verdicts("2-peak-at-2M", {"widths_barriers.csv": table[(table["M"] == 6) & table["m"].isin(kept)]})
    assert (rows["verdict"] != "not run").all() == judged


def test_the_effect_of_matching_is_judged_at_the_paper_s_width_or_not_at_all():
    table = network_barriers().query("depth == 4 and source == 'mnist'")
    at_20 = (table["width"] == 20) & (table["matching"] == "weight") & (table["split"] == "train")
    raised = table.assign(barrier_max=table["barrier_max"].mask(table["width"] == 160, 9.0).mask(at_20, 0.3))
    rows = verdicts("8-peak", {"barriers.csv": raised}).set_index("case")
    assert rows.loc["mnist, depth 4, weight matching", "value"] == pytest.approx(0.3 / 1.2)
    rows = verdicts("8-peak", {"barriers.csv": table[table["width"] != 20]})
    assert set(rows["verdict"]) == {"not run"} and rows["detail"].str.contains("a width from 20 to 31").all()


def test_beside_the_growth_at_the_largest_rate_that_at_the_others_is_told():
    table = sparsity()
    at = table["c"].round(6).isin([0.15, 1.0])
    table.loc[at, "pq_rows"] = 0.001 * table.loc[at, "m"] * table.loc[at, "c"]
    (row,) = verdicts("5-growth", {"sparsity_runs.csv": table}).itertuples()
    assert row.detail.endswith("; growth 0.0042 at c = 0.15, 0.028 at c = 1")


def test_beside_the_jump_that_of_the_paper_s_index_is_told():
    tables = tables_for("6-jump")
    runs = only_table(tables)
    runs["pq_entries"] = np.where(runs["lr"] > 1.95, 0.9, 0.8 + 0.01 * runs["lr"])
    (row,) = verdicts("6-jump", tables).itertuples()
    assert row.detail.endswith("; of all entries 0.801 to 0.819 below, jump 0.081")


def test_the_limit_is_told_with_the_exact_minimum_of_each_teacher():
    (row,) = verdicts("1-minimum-at-2M", tables_for("1-minimum-at-2M")).itertuples()
    assert row.detail.endswith("2 M; smallest at m = 12 for M = 6; smallest at m = 40 for M = 20")


def test_without_growth_at_the_largest_rate_there_is_nothing_to_compare_with():
    def verdict(low, high):
        table = sparsity()
        for c, growth in ((0.15, low), (3.0, high)):
            at = table["c"].round(6) == c
            table.loc[at, "pq_rows"] = 0.1 + growth * table.loc[at, "m"] / 36
        (row,) = verdicts("5-no-growth", {"sparsity_runs.csv": table}).itertuples()
        return row.holds

    assert verdict(0.01, 0.1) is True and verdict(0.09, 0.1) is False
    assert verdict(-0.01, 0.1) is True
    assert verdict(0.01, -0.1) is verdict(-0.01, -0.1) is None


def test_where_matching_leaves_no_barrier_it_has_no_peak():
    table = widths()
    for column in MATCHED:
        table.loc[(table["source"] == "gd") & (table["M"] == 12) & (table["m"] >= 12), column] *= 1e-5
    for claim_id in ("2-trained-peak", "4-second-descent"):
        rows = verdicts(claim_id, {"widths_barriers.csv": table})
        # They have no value, and are told as not run beside the others.
        assert list(rows["case"]) == BOTH, claim_id
        assert list(rows["verdict"][2:]) == ["not run"] * 2 and list(rows["n"][2:]) == [0, 0]
        assert rows["detail"][2:].str.startswith("no barrier is left").all()


def test_a_peak_of_a_coarse_grid_is_known_to_lie_between_its_neighbours():
    table = widths().query("M == 6")
    coarse = table[table["m"].isin([6, 9, 12, 15, 18])]
    for row in verdicts("2-peak-at-2M", {"widths_barriers.csv": coarse}).itertuples():
        assert row.value == 2 and row.verdict == "undecided"
        assert row.ends[0] <= 10 / 6 and row.ends[1] >= 14 / 6
    assert set(verdicts("2-peak-at-2M", {"widths_barriers.csv": table})["verdict"]) == {"held"}


def test_a_threshold_is_told_with_the_rate_before_it():
    (row,) = verdicts("6-threshold", tables_for("6-threshold")).itertuples()
    assert row.value == 2.0 and 1.9 < row.ends[0] < 1.9001 and row.ends[1] == 2.0 and row.verdict == "held"


def test_samples_of_many_pairs_count_as_so_many():
    rows = verdicts("2-uniform-decay", {"widths_barriers.csv": widths().assign(pairs=50)})
    assert set(rows["n"]) == {4 * 50}


def test_the_slope_of_the_decay_is_that_of_the_widths_from_4M_on():
    rows = []
    for ratio in (1.5, 2, 3, 4, 5, 8):
        columns = {"source": "uniform", "M": 12, "d": 20, "m": 12 * ratio}
        rows += pairs(columns, 0.05, (12 * ratio) ** -0.5 if ratio >= 4 else ratio)
    (found,) = slope_of_decay({"widths_barriers.csv": pd.DataFrame(rows)})
    assert found.value == pytest.approx(-0.5)
    (lacking,) = slope_of_decay({"widths_barriers.csv": pd.DataFrame(rows).query("m < 90")})
    assert "three widths of 4M" in lacking


@pytest.mark.parametrize(("shape", "held"), [(1.0, (0.95, 1.0)), (1.3, (0.0, 0.05))])
def test_the_simplex_is_told_from_others_at_the_run_s_size(shape, held):
    """A uniform point's shares pass, as a true statement is to in 95 % of draws; somewhat more equal ones do not."""
    rng, rank = np.random.default_rng(0), np.arange(1, 11)
    expected = [sum(1 / k for k in range(r, 11)) / 10 for r in rank]
    found = []
    for _ in range(100):
        shares = -np.sort(-rng.dirichlet(np.full(10, shape), 200), axis=1)
        columns = {"M": 1, "d": 10, "m": 10, "init_std": 0.01, "runs": 200, "rank": rank, "expected": expected}
        table = pd.DataFrame(columns | {"mean": shares.mean(axis=0), "std": shares.std(axis=0, ddof=1)})
        found += list(verdicts("9-column", {"column_entries.csv": table})["verdict"])
    assert held[0] <= np.mean([verdict == "held" for verdict in found]) <= held[1]


def test_equal_chances_of_types_pass_in_95_of_100_draws():
    rng = np.random.default_rng(1)
    students = {"source": "gd", "M": 5, "d": 5, "m": 6, "kept": True}
    found = [
        verdicts("9-doubled-types", {"doubled_types_runs.csv": pd.DataFrame(students | {"doubled_type": types})})
        for types in rng.integers(1, 6, (100, 500))
    ]
    assert np.mean([table["holds"].all() for table in found]) >= 0.95
