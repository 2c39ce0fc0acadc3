"""Statistics of mean curves: values, errors by resampling, and how far a place on a grid is known."""

import numpy as np
import pandas as pd
import pytest

from symlab.study.curves import curves, neighbours


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"kind": kind, "m": m, "pairs": 10, "y": sign * m + m / 4 * noise, "z": 1.0}
        for kind, sign in (("up", 1), ("down", -1))
        for m, n in ((8, 60), (4, 25))
        for noise in rng.standard_normal(n)
    )


def test_a_case_has_its_means_in_rising_order_and_the_fewest_units(rows):
    up, down = curves(rows, ["y"], "m", ["kind"], "{kind}ward")
    assert (up.case, up.case.key) == ("upward", {"kind": "up"}) and list(up.places) == [4, 8]
    expected = rows[rows["kind"] == "down"].groupby("m")["y"].mean()
    assert down.means["y"].to_dict() == pytest.approx(expected.to_dict())
    assert up.n == 25 and curves(rows, ["y"], "m", ["kind"], number="pairs")[0].n == 250


def test_a_case_without_places_has_no_curve(rows):
    rows.loc[rows["kind"] == "up", "m"] = np.nan
    assert [curve.case.key for curve in curves(rows, ["y"], "m", ["kind"])] == [{"kind": "down"}]


def test_errors_are_those_of_the_means(rows):
    """200 draws give a standard deviation to a twentieth; a statistic that is linear has a formula for it."""
    (up, _) = curves(rows, ["y"], "m", ["kind"])
    variance = rows[rows["kind"] == "up"].groupby("m")["y"].agg(lambda of: of.var() / len(of))
    last = up.measure(lambda of: (of["y"].iloc[-1], ""))
    gain = up.measure(lambda of: (of["y"].iloc[-1] - 2 * of["y"].iloc[0], ""))
    assert last.value == pytest.approx(rows.query("kind == 'up' and m == 8")["y"].mean())
    assert last.error == pytest.approx(variance[8] ** 0.5, rel=0.15)
    assert gain.error == pytest.approx((variance[8] + 4 * variance[4]) ** 0.5, rel=0.15)


def test_curves_over_two_quantities_are_indexed_by_both(rows):
    (curve,) = curves(rows, ["y", "z"], ["kind", "m"])
    found = curve.measure(lambda of: (of["y"]["up"][8] - of["y"]["down"][8], ""))
    assert found.value == pytest.approx(rows.query("m == 8").groupby("kind")["y"].mean() @ [-1, 1])
    assert curve.means["z"].tolist() == [1.0] * 4


def test_a_place_of_a_grid_is_known_no_better_than_the_grid(rows):
    (up, _) = curves(rows, ["y"], "m", ["kind"])
    found = up.measure(lambda of: (of["y"].idxmax(), "", (5.0, np.inf)))
    assert (found.value, found.error, found.interval) == (8, None, (5.0, np.inf))
    assert up.measure(lambda of: (of["y"].idxmax(), "", (8, 8))).interval == (8, 8)
    mean = up.measure(lambda of: (of["y"].iloc[-1], "", (7.0, 9.0)))
    assert mean.ends[0] < 7 - 1.9 * mean.error and mean.ends[1] > 9 + 1.9 * mean.error


def test_an_undefined_value_is_not_passed_over(rows):
    rows.loc[3, "y"] = np.nan
    up, down = curves(rows, ["y"], "m", ["kind"])
    assert not up.defined and np.isnan(up.measure(lambda of: (of["y"].max(), "")).value)
    assert down.defined and np.isfinite(down.measure(lambda of: (of["y"].max(), "")).value)


def test_a_peak_lies_between_the_places_beside_it():
    assert neighbours([18, 21, 24], 21, 1) == (19, 23)
    assert neighbours([20, 21, 22], 21, 1) == (21, 21)
    assert neighbours([18, 21], 21, 1) == (19, np.inf) and neighbours([18, 21], 18, 1) == (-np.inf, 20)
