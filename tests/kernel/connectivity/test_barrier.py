import numpy as np
import pandas as pd
import pytest

from symlab.connectivity.barrier import barriers, largest
from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.measures.tables import barriers_of_curves

LAMBDAS = np.linspace(0, 1, 25)


def table(loss, accuracy, lambdas=LAMBDAS, **columns):
    return pd.DataFrame({"lambda": lambdas, "loss": loss, "accuracy": accuracy, **columns})


def test_quadratic_loss_in_closed_form():
    # Over a quadratic c l^2 + s l + o, the gap to the chord is -c l (1 - l): extreme at the midpoint, c / 4 deep.
    curve = table(-2.0 * LAMBDAS**2 + 3.0 * LAMBDAS + 1.0, 0.4 * LAMBDAS**2 - 0.1 * LAMBDAS + 0.5, pair=0)
    row = barriers(curve, ["pair"]).iloc[0]
    assert row["barrier_max"] == pytest.approx(0.5)
    assert row["barrier_mid"] == pytest.approx(0.5)
    assert row["drop_max_pp"] == pytest.approx(10.0)
    assert row["drop_mid_pp"] == pytest.approx(10.0)


def test_better_than_the_ends_has_no_maximum_barrier_and_a_negative_midpoint():
    row = barriers(table(LAMBDAS**2, -(LAMBDAS**2) + LAMBDAS, pair=0), ["pair"]).iloc[0]
    assert row["barrier_max"] == 0.0 and row["barrier_mid"] == pytest.approx(-0.25)
    assert row["drop_max_pp"] == 0.0 and row["drop_mid_pp"] == pytest.approx(-25.0)


def test_the_maximum_may_lie_off_the_midpoint():
    loss = np.ones(25)
    loss[6] = 7.0
    row = barriers(table(loss, np.ones(25), pair=0), ["pair"]).iloc[0]
    assert (row["barrier_max"], row["barrier_mid"], row["drop_max_pp"]) == (6.0, 0.0, 0.0)


def test_one_row_a_curve_in_any_order_of_rows():
    curves = pd.concat(
        table(height * LAMBDAS * (1 - LAMBDAS), np.nan, pair=pair, split=split, aligned=aligned, sigma_F=np.nan)
        for height, (pair, split, aligned) in enumerate(
            [(0, "train", True), (0, "test", True), (1, "train", False), (1, "test", False)]
        )
    )
    # Of schemes without fixed weights sigma_F is no number.
    by = ["pair", "split", "aligned", "sigma_F"]
    found = barriers(curves.sample(frac=1, random_state=0), by).sort_values("barrier_mid")
    assert found.columns.tolist() == [*by, "barrier_max", "barrier_mid", "drop_max_pp", "drop_mid_pp"]
    np.testing.assert_allclose(found["barrier_mid"], [0, 0.25, 0.5, 0.75])
    assert found["split"].tolist() == ["train", "test", "train", "test"]
    assert found["drop_max_pp"].isna().all() and found["drop_mid_pp"].isna().all()


@pytest.mark.parametrize("missing", [0.0, 0.5, 1.0])
def test_missing_points_are_refused(missing):
    lambdas = np.array([lam for lam in (0.0, 0.25, 0.5, 0.75, 1.0) if lam != missing])
    with pytest.raises(UserError, match=f"curve of pair 3 has no point at lambda {missing}"):
        barriers(table(lambdas, lambdas, lambdas, pair=3), ["pair"])


def test_two_curves_mistaken_for_one_are_refused():
    curves = pd.concat([table(LAMBDAS, LAMBDAS, pair=0, split=split) for split in ("train", "test")])
    with pytest.raises(UserError, match="column missing"):
        barriers(curves, ["pair"])


def test_a_measure_of_curves_tells_them_by_all_that_is_not_measured():
    curves = pd.concat(
        [table(LAMBDAS, LAMBDAS * n, pair=n, split=split) for n in (1, 2) for split in ("train", "test")]
    )
    found = barriers_of_curves({"curves.csv": curves.assign(chord=LAMBDAS.mean())}, Job("study"))
    pd.testing.assert_frame_equal(found, barriers(curves, ["pair", "split"]))


def test_of_several_curves_each_has_a_barrier_of_its_own():
    assert largest(np.array([0, 0.5, 1]), np.array([[0.0, 2, 0], [1.0, 1, 3]])).tolist() == [2, 0]
