import itertools

import numpy as np
import pandas as pd
import pytest

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.tables import tabulate_trade_off

COLUMNS = ["study", "variant", "sigma_F", "mask_seed", "pair", "identity_ratio", "train_accuracy", "val_accuracy"]
COLUMNS += ["train_loss"]
# Variants may be trained for different times.
LAST = {"a": 4, "b": 2}


def trade_off(matching, history):
    return tabulate_trade_off({"matching.csv": matching, "history.csv": history}, Job("s"))


def matching():
    generator = np.random.default_rng(0)
    rows = [
        {"study": "s", "variant": variant, "sigma_F": np.nan, "mask_seed": mask_seed, "pair": pair, "epoch": epoch}
        | {"point": point, "permutation": permutation, "objective": generator.random()}
        for variant, mask_seed, pair, point, permutation in itertools.product(
            LAST, (0, 1), (0, 1), ("hidden1", "hidden2"), ("optimal", "identity", "random")
        )
        for epoch in (0, LAST[variant])
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0, ignore_index=True)


def history():
    generator = np.random.default_rng(1)
    rows = [
        {"study": "s", "variant": variant, "sigma_F": np.nan, "mask_seed": mask_seed, "seed": seed, "epoch": epoch}
        | dict(zip(("train_loss", "train_accuracy", "val_loss", "val_accuracy"), generator.random(4), strict=True))
        for variant, mask_seed, seed in itertools.product(LAST, (0, 1), range(4))
        for epoch in range(1, LAST[variant] + 1)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=1, ignore_index=True)


def test_one_row_a_pair_as_by_brute_force():
    objectives, epochs = matching(), history()
    table = trade_off(objectives, epochs)
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * 2 * 2
    objective = {tuple(row)[1:]: row.objective for row in objectives.drop(columns=["study", "sigma_F"]).itertuples()}
    objective = {key[:-1]: value for key, value in objective.items()}
    for row in table.itertuples():
        last = LAST[row.variant]
        of_layers = {
            permutation: np.mean(
                [
                    objective[row.variant, row.mask_seed, row.pair, last, point, permutation]
                    for point in ("hidden1", "hidden2")
                ]
            )
            for permutation in ("identity", "optimal", "random")
        }
        way = (of_layers["identity"] - of_layers["random"]) / (of_layers["optimal"] - of_layers["random"])
        assert row.identity_ratio == pytest.approx(way)
        networks = epochs.query("variant == @row.variant and mask_seed == @row.mask_seed and epoch == @last")
        networks = networks[networks["seed"].isin([2 * row.pair, 2 * row.pair + 1])]
        assert len(networks) == 2
        for name in ("train_accuracy", "val_accuracy", "train_loss"):
            assert getattr(row, name) == pytest.approx(networks[name].mean())


def test_a_network_without_history_leaves_its_pair_without_accuracy():
    epochs = history()
    table = trade_off(matching(), epochs[(epochs["seed"] != 3) | (epochs["variant"] != "a")])
    lacking = (table["variant"] == "a") & (table["pair"] == 1)
    assert table.loc[lacking, ["train_accuracy", "val_accuracy", "train_loss"]].isna().all().all()
    assert table.loc[~lacking].drop(columns="sigma_F").notna().all().all()
    assert table["identity_ratio"].notna().all()


def test_an_undefined_objective_is_not_averaged_away():
    objectives = matching()
    chosen = (objectives["variant"] == "b") & (objectives["pair"] == 0) & (objectives["mask_seed"] == 1)
    chosen &= (
        (objectives["epoch"] == 2) & (objectives["point"] == "hidden2") & (objectives["permutation"] == "identity")
    )
    objectives.loc[chosen, "objective"] = np.nan
    table = trade_off(objectives, history()).set_index(["variant", "mask_seed", "pair"])
    assert list(table.index[table["identity_ratio"].isna()]) == [("b", 1, 0)]
