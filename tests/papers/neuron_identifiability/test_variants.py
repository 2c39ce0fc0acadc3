"""What variants of the paper are called, which a mask chooses, and the sweep over sigma_F."""

import numpy as np
import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.masks import (
    any_of,
    apart_from_fractions,
    every_row,
    of_scheme,
    sigma_mlp,
    smallest_sigma,
    w_asymmetric,
)
from symlab.papers.neuron_identifiability.variants import (
    add_labels,
    by_variant,
    compared_variants,
    name_variant,
    names_of,
    sigma_regimes,
    sigma_sweep,
    variants_of,
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
    names = names_of(table[of_scheme("standard")(table)])
    assert names == {"standard": "standard, norm = layernorm", "standard_bn": "standard, norm = batchnorm"}
    twins = pd.concat([VARIANTS, VARIANTS.assign(variant=VARIANTS["variant"] + "_twin")])
    assert list(names_of(twins[sigma_mlp(twins)]).values()) == ["σ-MLP (mlp)", "σ-MLP (mlp_twin)"]


def test_values_by_variant_have_typed_keys_and_a_name():
    table = pd.concat([VARIANTS.assign(mask_seed=0, pair=pair, layer=2, x=pair) for pair in (1, 3)])
    found = by_variant(table, "x", w_asymmetric, ["layer"], name="{name}, layer {layer}")
    assert [str(each.case) for each in found] == [f"W σ_F = {sigma_F}, layer 2" for sigma_F in (3, 0, 1)]
    (one,) = found.at(sigma_F=1)
    key = {"variant": "w_1", "layer": 2, "scheme": "w_asymmetric", "sigma_F": 1.0}
    assert one.case.key == key | {"activation": "gelu", "dataset": "digits"}
    assert {type(value) for value in one.case.key.values()} == {str, float, int}
    assert one.mean == 2 and list(one.array) == [1, 3]


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
