"""What claims measure, recomputed; of what they say nothing."""

import numpy as np
import pandas as pd
import pytest

from symlab.papers.saddle_to_saddle import SADDLE_TO_SADDLE
from symlab.papers.saddle_to_saddle.escapes import first_snapshot
from symlab.papers.saddle_to_saddle.fig_controls import growth
from symlab.papers.saddle_to_saddle.fig_scales import before_escape
from symlab.papers.saddle_to_saddle.fig_success_law import by_polygon, fit_failures, power_minus_exponential
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story import PLANTED, SEEDS, controls, missed_runs, tables

CLAIMS = {claim.id.removeprefix("saddle-"): claim for claim in claims_of(SADDLE_TO_SADDLE)}


@pytest.fixture(scope="module")
def story():
    return tables()


def verdicts(claim_id, tables):
    return [verdict for _, verdict in evaluate_claim(CLAIMS[claim_id], tables)]


@pytest.mark.parametrize("claim_id", ["1-second-value", "3-one-by-one"])
def test_what_a_short_run_does_not_reach_is_undecided(claim_id, story):
    tables = dict(story)
    short = story["escape_course.csv"]["step"] < 10**2.5
    tables["escape_course.csv"] = story["escape_course.csv"][short]
    tables["escape_layers.csv"] = story["escape_layers.csv"][story["escape_layers.csv"]["step"] < 10**2.5]
    found = evaluate_claim(CLAIMS[claim_id], tables)
    assert {verdict for _, verdict in found} == {"undecided"}
    assert all("not reached" in measured.open for measured, _ in found)


def test_plateaus_that_are_cut_off_bound_what_they_gain():
    whole = controls()
    exact = growth({"escape_course.csv": whole}, 3, "identity")
    assert exact.least == pytest.approx(0.5, abs=0.1) and len(exact.most) == exact.n == SEEDS
    # From the smaller weights the second fall is at 10^4.5 and later, from the larger ones at 10^4 and a little.
    late = (whole["std"] == 0.001) & (whole["s"] > 10**4.3)
    cut = growth({"escape_course.csv": whole[~late]}, 3, "identity")
    assert len(cut.least) == cut.n and not len(cut.most) and (cut.least < exact.least).all()
    both = growth({"escape_course.csv": whole[whole["s"] < 10**3.8]}, 3, "identity")
    assert not len(both.least) and not len(both.most)


@pytest.mark.parametrize("law", PLANTED)
def test_laws_are_fitted_as_they_were_planted(law):
    chance = PLANTED[law]
    ((_, counts),) = by_polygon(missed_runs(chance))
    fit = fit_failures(counts, law)
    assert fit.b == pytest.approx({"exponential": 0.06, "power": 0.7}[law], rel=0.02) and abs(fit.a) < 0.02
    np.testing.assert_allclose(fit.fails, chance(counts.index.to_numpy(dtype=float)), atol=0.005)
    assert fit.deviance < 0.1
    value, error = power_minus_exponential(counts)
    assert (value > 2 * error) == (law == "exponential") and error > 0


@pytest.mark.parametrize("law", PLANTED)
def test_the_error_of_a_difference_of_deviances_is_that_of_the_runs(law):
    """From the runs one by one: each adds twice the logarithm of the ratio of its chances under both laws."""
    ((_, counts),) = by_polygon(missed_runs(PLANTED[law]))
    exponential, power = (fit_failures(counts, each).fails for each in ("exponential", "power"))
    runs = []
    for place, (hits, n) in enumerate(zip(counts["hits"], counts["n"], strict=True)):
        runs += [2 * np.log(exponential[place] / power[place])] * int(n - hits)
        runs += [2 * np.log((1 - exponential[place]) / (1 - power[place]))] * int(hits)
    value, error = power_minus_exponential(counts)
    assert value == pytest.approx(np.sum(runs), abs=1e-6)
    assert error == pytest.approx(np.sqrt(len(runs)) * np.std(runs))


def test_a_of_deep_layers_is_measured_in_layers_4_and_5_against_2_and_3(story):
    spread = {0: 0.0, 1: 0.9, 2: 0.5, 3: 0.3, 4: 0.2, 5: 0.1, 6: 0.45}
    layers = story["escape_layers.csv"]
    layers = layers.assign(A_change=layers["layer"].map(spread) * (1 + layers["seed"] * (layers["layer"] == 4)))
    ((found, _),) = evaluate_claim(CLAIMS["1-deeper"], story | {"escape_layers.csv": layers})
    each = [(0.2 * (1 + seed) + 0.1) / 2 - 0.4 for seed in range(SEEDS)]
    assert found.value == pytest.approx(np.mean(each))
    assert found.error == pytest.approx(np.std(each, ddof=1) / np.sqrt(SEEDS))


def falling(*slopes):
    """A network whose loss falls by so much in each decade of s, from 1 on."""
    place = np.linspace(0, len(slopes), 100 * len(slopes) + 1)
    loss = np.interp(place, range(len(slopes) + 1), 10 - np.concatenate([[0], np.cumsum(slopes)]))
    return pd.DataFrame({"step": 10**place, "s": 10**place, "loss": loss})


def test_the_first_flat_moment_is_judged_by_the_slope_before_it():
    """Not by the second drop, which is twenty times as steep."""
    s = first_snapshot(falling(0.0, 0.5, 0.0, 9.4))
    assert 2.03 < np.log10(s) < 2.07
    assert np.isnan(first_snapshot(falling(0.0, 0.5, 0.4, 0.3)))


def test_directions_are_compared_at_the_last_moment_that_no_draw_has_left():
    rows = pd.DataFrame(
        [{"L": L, "seed": seed, "alpha": alpha, "s": s, "loss": 1.0, "angle": 1e-3 * alpha**L * s}
         for L in (3, 4) for seed in range(3) for alpha in (1, 0.5, 0.25) for s in (1, 2, 4)]
    )  # fmt: skip
    # One draw alone has left at s = 2 at depth 3, at s = 4 at depth 4.
    left = (rows["seed"] == 1) & (rows["alpha"] == 1) & (rows["s"] >= 2 * (rows["L"] - 2))
    found = before_escape(rows.assign(loss=np.where(left, 0.5, 1.0)))
    assert found.groupby("L")["s"].unique().map(list).to_dict() == {3: [1], 4: [2]}
    assert len(found) == 2 * 3 * 3
