import itertools

import numpy as np
import pandas as pd
import pytest

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.tables import compare_estimators

COLUMNS = ["study", "variant", "sigma_F", "mask_seed", "seed", "layer", "beta", "reported", "pairs", "spearman"]
BLOCK, M = 5, 8


def estimators(swap_costs, ridge_swap_costs):
    inputs = {"swap_costs.parquet": swap_costs, "ridge_swap_costs.parquet": ridge_swap_costs}
    return compare_estimators(inputs, Job("s"))


def pairs():
    every = list(itertools.combinations(range(M), 2))
    return every, [(i, j) for i, j in every if j == i + 1 and i % 2 == 0]


def mahalanobis(seed=0):
    generator = np.random.default_rng(seed)
    rows = [
        {"study": "s", "variant": variant, "sigma_F": np.nan, "mask_seed": 0, "seed": model, "layer": layer}
        | {"i": i, "j": j, "swap_cost": generator.normal()}
        for variant, model, layer in itertools.product(("a", "b"), (0, 1), (1, 2))
        for i, j in pairs()[0]
    ]
    return pd.DataFrame(rows)


def ridge(costs, seed=1):
    """Of model 0 alone: consecutive pairs at two betas, those of the first five neurons at the second one."""
    generator = np.random.default_rng(seed)
    first = costs[costs["seed"] == 0]
    consecutive = (first["j"] == first["i"] + 1) & (first["i"] % 2 == 0)
    reported = first[consecutive | (first["j"] < BLOCK)].assign(beta=0.01, reported=True)
    tables = [first[consecutive].assign(beta=1.0, reported=False), reported]
    table = pd.concat(tables, ignore_index=True)
    return table.assign(swap_cost=table["swap_cost"] + generator.normal(size=len(table)))


def ranks(values):
    return np.array([np.mean([(other < value) + (other <= value) for other in values]) for value in values])


def test_one_row_a_network_layer_beta_and_kind_of_pairs_as_by_brute_force():
    costs = mahalanobis()
    relaxed = ridge(costs)
    table = estimators(costs, relaxed)
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * 1 * 2 * 3
    assert set(table["seed"]) == {0}
    exact = {(row.variant, row.seed, row.layer, row.i, row.j): row.swap_cost for row in costs.itertuples()}
    for row in table.itertuples():
        chosen = pairs()[1] if row.pairs == "consecutive" else list(itertools.combinations(range(BLOCK), 2))
        of_row = relaxed.query("variant == @row.variant and layer == @row.layer and beta == @row.beta")
        found = {(each.i, each.j): each.swap_cost for each in of_row.itertuples()}
        x = np.array([exact[row.variant, 0, row.layer, i, j] for i, j in chosen])
        y = np.array([found[i, j] for i, j in chosen])
        assert row.spearman == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1])


def test_a_beta_without_other_pairs_has_no_block():
    table = estimators(costs := mahalanobis(), ridge(costs))
    assert set(table.loc[table["beta"] == 1.0, "pairs"]) == {"consecutive"}
    assert set(table.loc[table["beta"] == 0.01, "pairs"]) == {"consecutive", "block"}
    assert (table["reported"] == (table["beta"] == 0.01)).all()


def test_costs_that_keep_their_order_agree_whatever_their_size():
    costs = mahalanobis()
    relaxed = ridge(costs)
    key = ["variant", "mask_seed", "seed", "layer", "i", "j"]
    same = relaxed.drop(columns="swap_cost").merge(costs[[*key, "swap_cost"]], on=key)
    table = estimators(costs, same.assign(swap_cost=same["swap_cost"] ** 3))
    assert table["spearman"].to_numpy() == pytest.approx(1)


@pytest.mark.filterwarnings("error")
def test_costs_that_are_constant_up_to_rounding_have_no_correlation():
    costs = mahalanobis()
    relaxed = ridge(costs)
    rounded = costs["variant"] == "a"
    costs.loc[rounded, "swap_cost"] *= 1e-12
    table = estimators(costs, relaxed)
    assert (table["spearman"].isna() == (table["variant"] == "a")).all()
    costs.loc[rounded, "swap_cost"] *= 1e9
    assert estimators(costs, relaxed)["spearman"].notna().all()
    table = estimators(costs, relaxed.assign(swap_cost=0.0))
    assert table["spearman"].isna().all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_costs_that_are_not_finite_have_no_ranks(value):
    costs = mahalanobis()
    relaxed = ridge(costs)
    costs.loc[(costs["variant"] == "a") & (costs["i"] == 0), "swap_cost"] = value
    relaxed["swap_cost"] = relaxed["swap_cost"].abs()
    table = estimators(costs.assign(swap_cost=costs["swap_cost"].abs()), relaxed).set_index("variant")
    assert table.loc["a", "spearman"].isna().all()
    assert table.loc["b", "spearman"].notna().all()


def test_all_costs_infinite_are_no_constant_to_compare():
    costs = mahalanobis().assign(swap_cost=np.inf)
    table = estimators(costs, ridge(mahalanobis()))
    assert table["spearman"].isna().all()
