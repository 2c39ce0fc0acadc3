"""Which rows figures and claims are about, and what variants are called."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.plotting.rows import (
    add_labels,
    any_of,
    apart_from_fractions,
    assumptions_hold,
    compared_variants,
    consecutive,
    every_row,
    first_block,
    last_epoch,
    list_layers,
    name_point,
    name_variant,
    need,
    of_scheme,
    one_matching,
    one_path,
    sigma_mlp,
    sigma_regimes,
    sigma_sweep,
    signed_sqrt,
    smallest_sigma,
    sort_points,
    split_variants,
    variants_of,
    w_asymmetric,
)

COMMON = {"study": "digits", "dataset": "digits", "fixed_fraction": np.nan, "k": np.nan, "norm": "layernorm"}
VARIANTS = pd.DataFrame(
    [
        {"variant": name, "family": name.split("_")[0], "scheme": scheme, "sigma_F": sigma_F, "activation": activation}
        | COMMON
        for name, scheme, sigma_F, activation in (
            ("syre", "syre", 1.0, "gelu"),
            ("w_3", "w_asymmetric", 3.0, "gelu"),
            ("w_0", "w_asymmetric", 0.0, "gelu"),
            ("mlp", "standard", np.nan, "sigma"),
            ("w_1", "w_asymmetric", 1.0, "gelu"),
            ("standard", "standard", np.nan, "gelu"),
        )
    ]
)
FRACTIONS = VARIANTS[VARIANTS["variant"] == "w_1"].merge(
    pd.DataFrame({"fixed_fraction": [0.125, 0.25]}), how="cross", suffixes=("_", "")
)
FRACTIONS = FRACTIONS.drop(columns="fixed_fraction_").assign(family="fractions", variant=["f_1", "f_2"])
W = [rf"W, $\sigma_F$ = {sigma_F}" for sigma_F in (0, 1, 3)]


def test_labels_and_order_of_variants():
    table = pd.concat([VARIANTS, FRACTIONS])
    labels = ["standard", *W, r"syre, $\sigma_F$ = 1", r"$\sigma$-MLP"]
    assert list(compared_variants(table)["label"]) == labels
    assert list(sigma_sweep(table)["label"]) == W
    assert sigma_regimes(table)[1] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("scheme", "sigma_F", "activation", "latex", "plain"),
    [
        ("standard", np.nan, "gelu", "standard", "standard"),
        ("standard", np.nan, "sigma", r"$\sigma$-MLP", "σ-MLP"),
        ("w_asymmetric", 0.5, "gelu", r"W, $\sigma_F$ = 0.5", "W σ_F = 0.5"),
        ("w_asymmetric_heads", 1.0, np.nan, r"W by head, $\sigma_F$ = 1", "W by head σ_F = 1"),
        ("syre", 1.0, "sigma", r"syre, $\sigma_F$ = 1, $\sigma$-MLP", "syre σ_F = 1, σ-MLP"),
        ("sparse", np.nan, np.nan, "sparse", "sparse"),
    ],
)
def test_a_variant_has_one_name_in_legends_and_one_in_the_ledger(scheme, sigma_F, activation, latex, plain):
    row = pd.Series({"scheme": scheme, "sigma_F": sigma_F, "activation": activation})
    assert (name_variant(row, latex=True), name_variant(row, latex=False)) == (latex, plain)


def test_variants_of_one_name_are_told_apart_by_what_differs():
    table = pd.concat([VARIANTS, FRACTIONS, VARIANTS.assign(variant=VARIANTS["variant"] + "_bn", norm="batchnorm")])
    labels = add_labels(variants_of(table))["label"]
    assert labels.is_unique
    assert labels["standard_bn"] == "standard (batchnorm)"
    assert labels["f_1"] == r"W, $\sigma_F$ = 1 (fractions) (0.125)"
    names = [name for name, _ in split_variants(table, of_scheme("standard"))]
    assert names == ["standard, norm = layernorm", "standard, norm = batchnorm"]
    twins = pd.concat([VARIANTS, VARIANTS.assign(variant=VARIANTS["variant"] + "_twin")])
    assert [name for name, _ in split_variants(twins, sigma_mlp)] == ["σ-MLP (mlp)", "σ-MLP (mlp_twin)"]


def test_masks_choose_architectures():
    def chosen(mask, table=VARIANTS):
        return set(table.loc[mask(table), "variant"])

    assert chosen(w_asymmetric) == {"w_0", "w_1", "w_3"} and chosen(every_row) == set(VARIANTS["variant"])
    assert chosen(of_scheme("w_asymmetric", 1)) == {"w_1", "w_3"}
    assert chosen(any_of(of_scheme("standard"), of_scheme("syre"))) == {"standard", "syre"}
    assert chosen(smallest_sigma(of_scheme("w_asymmetric", 1))) == {"w_1"}
    both = pd.concat([VARIANTS, FRACTIONS], ignore_index=True)
    plain = apart_from_fractions(w_asymmetric)
    assert chosen(plain, both) == {"w_0", "w_1", "w_3"} and chosen(plain, FRACTIONS) == {"f_1", "f_2"}


def test_a_sweep_needs_w_asymmetric_variants():
    with pytest.raises(UserError, match=r"studies\.digits\.variants has no W-asymmetric"):
        sigma_sweep(VARIANTS[VARIANTS["scheme"] == "standard"])
    with pytest.raises(UserError, match="sigma_F 0 and with sigma_F of at least 1"):
        sigma_regimes(VARIANTS[VARIANTS["variant"] != "w_0"])


def test_a_table_is_needed_with_rows():
    with pytest.raises(UserError, match="needs a"):
        need({"a.csv": pd.DataFrame()}, "a.csv")


def test_each_variant_has_its_own_last_epoch():
    table = pd.DataFrame({"variant": ["a", "a", "b", "b"], "epoch": [1, 5, 1, 2]})
    assert last_epoch(table).to_numpy().tolist() == [["a", 5], ["b", 2]]


def test_an_aligned_path_is_that_of_the_first_matching():
    table = pd.DataFrame(
        {"aligned": [False, True, True], "matching": ["none", "weight", "activation"], "split": "test"}
    )
    assert list(one_matching(table)["matching"]) == ["none", "weight"]
    assert list(one_path(table, "test", True)["matching"]) == ["weight"] and one_path(table, "train", True).empty
    assert one_matching(table.drop(columns="matching")).equals(table.drop(columns="matching"))


def test_pairs_of_neurons():
    i, j = np.triu_indices(200, 1)
    pairs = pd.DataFrame({"i": i, "j": j})
    disjoint = pairs[consecutive(pairs)]
    assert disjoint.to_numpy().ravel().tolist() == list(range(200))
    assert first_block(pairs).sum() == 128 * 127 / 2


def test_the_signed_root_keeps_signs_and_infinities():
    for values in ([-4.0, 0.0, 9.0, np.inf], pd.Series([-4.0, 0.0, 9.0, np.inf])):
        np.testing.assert_array_equal(signed_sqrt(values), [-2, 0, 3, np.inf])


def test_an_assumption_fails_where_a_phrase_says_so():
    table = pd.DataFrame({"assumption": ["", np.nan, None, " ", "rho = 2 > 1"]})
    assert list(assumptions_hold(table)) == [True, True, True, True, False]
    # A table without a failure is read back as empty numbers.
    assert assumptions_hold(pd.DataFrame({"assumption": [np.nan, np.nan]})).all()


def test_layers_are_named_where_they_are_not_all():
    rows = pd.DataFrame({"label": ["a", "a", "b", "b"], "dataset": "d", "layer": [1, 2, 1, 2]})
    assert list_layers(rows[rows["label"] == "a"], rows) == "a"
    assert list_layers(rows.iloc[1:], rows).replace("\N{NO-BREAK SPACE}", " ") == "a in layer 2; b"


def test_points_come_in_the_order_of_the_network_and_foreign_ones_as_they_are():
    assert sort_points(["output", "hidden10", "hidden2", "input", "hidden2"]) == [
        "input",
        "hidden2",
        "hidden10",
        "output",
    ]
    blocks = sort_points(["inner1.1", "stream1", "inner1.10", "inner1.2", "inner2.1", "stream2", "stream1"])
    assert blocks == ["stream1", "inner1.1", "inner1.2", "inner1.10", "stream2", "inner2.1"]
    assert sort_points(["stem", "hidden2", "blocks.0", "stem"]) == ["stem", "hidden2", "blocks.0"]
    assert name_point("hidden2") == "after layer 2" and name_point("a$b") == r"a\$b"


def test_rows_import_pandas_alone():
    code = "import sys, symlab.plotting.rows; sys.exit(bool({'matplotlib', 'scipy', 'torch'} & sys.modules.keys()))"
    workflow = Path(__file__).parents[3] / "workflow"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(workflow)}).returncode == 0
