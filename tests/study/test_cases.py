"""Means, ratios and differences of cases against plain computations on drawn values."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from symlab.study.cases import Cases, Values, cases
from symlab.study.claim import Case, Measurement, difference_of, mean_of, minus, worst_of_each
from symlab.study.statistics import slope


@pytest.fixture
def rows():
    """Of each scheme and layer values of five seeds, of standard networks without the last."""
    generator = np.random.default_rng(3)
    return pd.DataFrame(
        {"scheme": scheme, "layer": layer, "seed": seed, "cost": generator.uniform(1, 2), "other": generator.normal()}
        for scheme, seeds in (("standard", 4), ("syre", 5))
        for layer in (1, 2)
        for seed in range(seeds)
    )


def of(rows, scheme, layer, column="cost"):
    return rows[(rows["scheme"] == scheme) & (rows["layer"] == layer)].set_index("seed")[column]


def test_a_case_has_the_values_of_its_units_and_a_name_from_its_key(rows):
    found = cases(rows, "cost", by=("scheme", "layer"), name="{scheme} in layer {layer}")
    assert [str(each.case) for each in found][1] == "standard in layer 2"
    assert [each.case.key for each in found][1] == {"scheme": "standard", "layer": 2}
    (mean, *_) = found.means()
    values = of(rows, "standard", 1)
    assert mean.value == pytest.approx(values.mean()) and mean.error == pytest.approx(values.std() / 2)
    assert (mean.n, mean.unit) == (4, "seeds")


def test_values_may_be_an_expression_of_columns_or_a_series_with_the_columns_in_its_index(rows):
    ratios = rows.assign(ratio=abs(rows["cost"] - rows["other"]) / rows["cost"])
    by = ["scheme", "layer"]
    given = cases(ratios, "ratio", by, name="{scheme}").means()
    assert cases(rows, "abs(cost - other) / cost", by, name="{scheme}").means() == given
    assert cases(ratios.set_index([*by, "seed"])["ratio"], by=by, name="{scheme}").means() == given
    # A key may be called value.
    found = cases(pd.DataFrame({"x": [6.0], "y": [2.0], "value": [9], "seed": [0]}), "x / y", ["value"])
    assert [(each.case.key, each.mean) for each in found] == [({"value": 9}, 3.0)]


def test_several_rows_of_a_unit_are_one_value_undefined_where_one_is(rows):
    found = {str(each.case): each.values for each in cases(rows, "cost", by=("scheme",), name="{scheme}")}
    assert found["syre"][3] == pytest.approx(rows[(rows["scheme"] == "syre") & (rows["seed"] == 3)]["cost"].mean())
    rows.loc[(rows["scheme"] == "syre") & (rows["seed"] == 3) & (rows["layer"] == 2), "cost"] = np.nan
    found = {str(each.case): each.values for each in cases(rows, "cost", by=("scheme",), name="{scheme}")}
    assert found["syre"].isna().tolist() == [False, False, False, True, False]


def test_of_several_rows_of_a_unit_the_largest_or_the_sum_may_be_taken(rows):
    rows.loc[0, "cost"] = np.nan
    by_seed = rows[rows["scheme"] == "standard"].groupby("seed")["cost"]
    for several, expected in (("max", by_seed.max()), ("sum", by_seed.sum())):
        values = next(iter(cases(rows, "cost", by=("scheme",), name="{scheme}", several=several))).values
        assert np.isnan(values[0]) and values[1:].tolist() == pytest.approx(expected[1:].tolist())


def test_several_rows_of_a_unit_may_be_one_value_by_their_index():
    depths = [2, 4, 8]
    rows = pd.DataFrame(
        {"L": L, "seed": seed, "loss": 3 * L**-power} for seed, power in ((0, 1), (1, 2)) for L in depths
    )
    (found,) = cases(rows.set_index("L"), "loss", several=slope)
    assert found.values.to_dict() == pytest.approx({0: -1, 1: -2})


def test_pairs_that_share_a_mask_are_one_unit():
    rows = pd.DataFrame({"mask_seed": [0, 0, 1, 1], "pair": [0, 1, 0, 1], "drop": [1.0, 3.0, 5.0, 9.0]})
    (found,) = cases(rows, "drop", unit=("mask_seed", "pair")).means()
    assert (found.value, found.n, found.unit) == (4.5, 2, "masks") and found.error == pytest.approx(2.5)
    (alone,) = cases(rows.assign(mask_seed=0, pair=range(4)), "drop", unit=("mask_seed", "pair")).means()
    assert (alone.n, alone.unit) == (4, "pairs")
    # A pair without a value leaves its mask without one.
    (lacking,) = cases(rows.assign(drop=[1.0, np.nan, 5.0, 9.0]), "drop", unit=("mask_seed", "pair")).means()
    assert math.isnan(lacking.value)
    assert [cases(rows.rename(columns={"pair": each}), "drop", unit=each).unit for each in ("lr", "draw")] == [
        "rates",
        "draws",
    ]


def test_arithmetic_is_unit_by_unit_and_leaves_out_cases_without_a_counterpart(rows):
    by = {"by": ("scheme", "layer"), "name": "{scheme} {layer}"}
    whole, part = cases(rows, "cost", **by), cases(rows[rows["layer"] == 1], "other", **by)
    difference = whole - part
    assert [str(each.case) for each in difference] == ["standard 1", "syre 1"]
    (_, syre) = difference.means()
    expected = of(rows, "syre", 1) - of(rows, "syre", 1, "other")
    assert syre.value == pytest.approx(expected.mean()) and syre.error == pytest.approx(expected.sem())
    (_, ratio) = (2 * part / whole).means()
    assert ratio.value == pytest.approx((2 * of(rows, "syre", 1, "other") / of(rows, "syre", 1)).mean())
    shuffled = cases(rows.sample(frac=1, random_state=0), "other", **by)
    assert {str(e.case): e.mean for e in whole - shuffled} == pytest.approx(
        {str(e.case): e.mean for e in whole - cases(rows, "other", **by)}
    )


def test_cases_are_found_by_part_of_their_key(rows):
    found = cases(rows, "cost", ["scheme", "layer"], name="{scheme}, {layer}")
    assert [str(each.case) for each in found.at(scheme="standard")] == ["standard, 1", "standard, 2"]
    assert [str(each.case) for each in found.at(layer=2, scheme="syre")] == ["syre, 2"]
    assert [str(each.case) for each in found.without(scheme="standard", layer=1)] == [
        "standard, 2",
        "syre, 1",
        "syre, 2",
    ]


@pytest.mark.parametrize("unit", [1, 0.01])
def test_ratios_and_differences_to_other_networks_have_errors_to_first_order(rows, unit):
    """In any unit, small values too."""
    rows["cost"] *= unit
    by = {"by": ("scheme", "layer"), "name": "{scheme} {layer}"}
    whole = cases(rows, "cost", **by)
    standard = whole.where(lambda each: each.case.key["scheme"] == "standard").keyed("layer")
    syre = whole.where(lambda each: each.case.key["scheme"] == "syre")
    for layer, ratio, difference in zip((1, 2), syre.ratios(standard), syre.differences(standard), strict=True):
        a, b = of(rows, "syre", layer), of(rows, "standard", layer)
        assert ratio.value == pytest.approx(a.mean() / b.mean()) and ratio.n == 4
        assert ratio.error == pytest.approx(ratio.value * math.hypot(a.sem() / a.mean(), b.sem() / b.mean()))
        assert difference.value == pytest.approx(a.mean() - b.mean())
        assert difference.error == pytest.approx(math.hypot(a.sem(), b.sem()))
    with pytest.raises(ValueError, match="several to be set beside"):
        syre.ratios(whole.keyed("layer"))


@pytest.mark.parametrize("unit", [1, 0.01])
def test_paired_ratios_know_that_units_share_their_noise(unit):
    generator = np.random.default_rng(0)
    before = generator.uniform(1, 9, 400)
    rows = pd.DataFrame({"seed": range(400), "before": before, "after": 0.3 * before + generator.normal(0, 0.1, 400)})
    rows[["before", "after"]] *= unit
    (found,) = cases(rows, "after").paired_ratios(cases(rows, "before"))
    # The scatter of `before` itself does not count: the error is that of what the line 0.3 x leaves.
    assert found.value == pytest.approx(0.3, abs=0.005)
    assert found.error == pytest.approx(0.1 / before.mean() / 20, rel=0.15)
    (none,) = cases(rows, "after").paired_ratios(cases(rows.assign(before=0.0), "before"))
    assert math.isnan(none.value) and none.error is None


def test_paired_values_are_those_of_the_same_units_in_whatever_order_and_however_many_others_there_are():
    base = cases(pd.DataFrame({"seed": [3, 2, 1, 0], "cost": [100.0, 4.0, 2.0, 1.0]}), "cost")
    (found,) = cases(pd.DataFrame({"seed": range(3), "cost": [2.0, 4.0, 8.0]}), "cost").paired_ratios(base)
    assert (found.value, found.error, found.n) == (2, 0, 3)


def test_values_of_all_units_and_exact_ones_have_no_error():
    rows = pd.DataFrame({"seed": range(10), "hit": [1.0] * 8 + [0.0] * 2})
    (worst,) = cases(rows, "hit").of_all(np.min)
    assert (worst.value, worst.error, worst.n) == (0, 0, 10)
    (exact,) = Cases((Values(Case("a"), pd.Series([2.5])),), "pairs").exact()
    assert (exact.value, exact.error) == (2.5, 0)


def test_the_extreme_of_cases_is_a_base_for_all_that_agree_with_it(rows):
    found = cases(rows, "cost", by=("scheme", "layer"), name="{scheme} {layer}")
    lowest = found.extreme(lambda mean: -mean, "layer")
    means = rows.groupby(["layer", "scheme"])["cost"].mean()
    assert [each.mean for each in lowest] == pytest.approx([means[layer].min() for layer in (1, 2)])
    assert [each.case.key for each in lowest] == [{"layer": 1}, {"layer": 2}]
    undefined = rows.assign(cost=rows["cost"].where(rows["scheme"] == "syre"))
    assert all(math.isnan(each.mean) for each in cases(undefined, "cost", by=("scheme", "layer")).extreme(abs, "layer"))
    assert [str(each.case) for each in found.at(layer=2)] == ["standard 2", "syre 2"]
    (told, _) = found.at(layer=2).detailed(lambda each: f"{len(each.values)} seeds").means()
    assert told.detail == "4 seeds"


def test_the_worst_of_each_name_says_where_it_was_and_passes_over_nothing(rows):
    by_layer = cases(rows, "cost", by=("scheme", "layer"), name="{scheme}").means()
    worst = worst_of_each([*by_layer, "a phrase"], lambda value: value, "layer")
    means = rows.groupby(["scheme", "layer"])["cost"].mean()
    for each, scheme in zip(worst, ("standard", "syre"), strict=True):
        assert (each.value, str(each.case)) == (pytest.approx(means[scheme].max()), scheme)
        assert each.detail == f"layer {means[scheme].idxmax()}"
    (undefined,) = worst_of_each(
        [Measurement(5.0, 2, case="a"), Measurement(math.nan, 2, case="a")], lambda value: value
    )
    assert math.isnan(undefined.value)


def test_the_difference_of_two_measured_values_has_the_errors_of_both():
    generator = np.random.default_rng(5)
    high, low = generator.normal(3, 1, 5), generator.normal(1, 2, 7)
    found, plain = minus(mean_of(high, "x"), mean_of(low)), difference_of(high, low)
    assert (found.value, found.error) == pytest.approx((plain.value, plain.error)) and found.case == "x"
    assert found.interval == pytest.approx(plain.interval)


def test_what_is_measured_of_open_values_or_beside_them_is_open(rows):
    found = cases(rows, "cost", by=("scheme", "layer"), name="{scheme} in layer {layer}")
    other = cases(rows, "other", by=("scheme", "layer"))
    late = Cases(
        tuple(replace(each, open="late" * (each.case.key == {"scheme": "syre", "layer": 2})) for each in found)
    )
    for measured in (late.means(), late.of_all(np.max), late.ratios(found),
                     found.ratios(late), found.differences(late), found.paired_ratios(late), (late / 2).means(),
                     (late - other).means(), (other - late).means()):  # fmt: skip
        assert [each.open for each in measured] == ["", "", "", "late"]
    assert all(not each.open for each in found.ratios(other))
    one = late.at(scheme="syre", layer=2).map(lambda values: values.head(1) > 0)
    assert one.exact()[0].open == "late"
