"""What claims about online SGD measure, recomputed."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.papers.mirror_symmetry.online.fig_03b_rank import final_ranks
from symlab.papers.mirror_symmetry.online.fig_collapse import decided
from symlab.papers.mirror_symmetry.online.product_sgd import THRESHOLDS
from symlab.papers.mirror_symmetry.online.runs import midpoint
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story_online import LAW, RANKS, SPARSITY, of, rank_tables, sparsity_tables

CLAIMS = {claim.id.removeprefix("mirror-"): claim for claim in claims_of(MIRROR_SYMMETRY)}


def test_diverged_runs_count_in_no_share():
    rows = sparsity_tables()
    rows[SPARSITY].loc[of(grid=0, seed=1)(rows[SPARSITY]), "diverged"] = True
    (found,) = CLAIMS["3a-half"].measure(rows)
    assert found.n == 2
    ranks = rank_tables()
    ranks[RANKS].loc[of(model="skip", lr=0.02, seed=1)(ranks[RANKS]), "diverged"] = True
    assert set(final_ranks(ranks)[final_ranks(ranks)["model"] == "skip"]["lr"]) == {0.01}


def test_half_are_gone_where_half_of_the_logarithms_are_below_a_millionth():
    """At d = 200, σ = 2 and 100,000 steps T the mean logarithm falls from that of a squared normal over d to that of
    2e-6 where 2 T (2 lr / d - 2 lr^2 s2) is the difference, s2 = σ² + (d + 2) / d² the mean of (x y)²."""
    tables = sparsity_tables()
    rows = tables[SPARSITY]
    rows["below_6"] *= 1 + 0.02 * rows["seed"]
    fall = -np.euler_gamma - math.log(2) - math.log(200 * 2e-6)
    law = np.roots([-4e5 * (4 + 202 / 200**2), 4e5 / 200, fall]).max()
    last = rows[of(grid=0, model="product", step=100_000)(rows)]
    halves = []
    for seed in range(3):
        of_seed = last[last["seed"] == seed]
        assert (np.diff(of_seed["below_6"]) > 0).all()
        halves.append(np.exp(np.interp(0.5, of_seed["below_6"], np.log(of_seed["lr"]))))
    (found,) = CLAIMS["3a-half"].measure(tables)
    assert np.ptp(halves) > 0 and found.value == pytest.approx(np.mean(halves) / law)


def test_products_are_compared_with_single_ones_at_every_rate_late_step_and_threshold():
    """A number for each set of runs: the farthest of all shares, over what chance makes of it in this set."""
    tables, generator, sets = sparsity_tables(), np.random.default_rng(0), ["grid", "d", "sigma", "batch"]
    rows, law = tables[SPARSITY], tables[LAW]
    for k in THRESHOLDS:
        # The farther the earlier, so that one step too many or too few is seen.
        rows[f"below_{k}"] = generator.normal(size=len(rows)) * np.sqrt(1e6 / rows["step"])
    law["chance"] = 0.05 + 0.01 * law.groupby(sets).ngroup()
    expected = []
    for key, of_set in law[np.isfinite(law["batch"])].groupby(sets):
        runs = rows[of(model="product", **dict(zip(sets, key, strict=True)))(rows)]
        farthest = 0.0
        for _, alone in of_set[of_set["step"] >= law.loc[law["grid"] == key[0], "step"].max() / 10].iterrows():
            shares = runs[of(lr=alone["lr"], step=alone["step"])(runs)].mean(numeric_only=True)
            farthest = max(farthest, *(abs(shares[f"below_{k}"] - alone[f"alone_{k}"]) for k in THRESHOLDS))
        expected.append(farthest / of_set["chance"].iloc[0])
    found = list(CLAIMS["phase-alone"].measure(tables))
    assert [each.value for each in found] == pytest.approx(expected)


def test_a_rise_is_told_from_where_it_starts_to_where_it_ends():
    tables = rank_tables()
    rows = final_ranks(tables)
    rows = rows[(rows["model"] == "vanilla") & (rows["d"] == 50)].groupby(["lr", "mu"])["rank_3"].mean()
    told = [measured for measured, _ in evaluate_claim(CLAIMS["3b-monotone"], tables)]
    for measured in told:
        lr, mu, symbol, other = re.search(r"rate (\S+), μ = (\S+) to (rate|μ) (\S+)$", str(measured.case)).groups()
        start, end = (lr, mu), (other, mu) if symbol == "rate" else (lr, other)
        assert measured.value == pytest.approx(rows[tuple(map(float, end))] - rows[tuple(map(float, start))])
    assert len(told) == 4


def test_midpoints_are_linear_in_the_logarithm_of_the_rate():
    assert midpoint(np.array([1.0, 4.0, 9.0]), np.array([0.0, 1.0, 1.0])) == pytest.approx(2.0)
    assert math.isnan(midpoint(np.array([1.0, 4.0]), np.array([0.6, 1.0])))


@pytest.mark.parametrize(("growth", "error", "enough"), [(0.02, 1e-3, True), (0.01, 1e-3, False), (-0.02, 0.01, False)])
def test_a_drift_is_decided_beyond_three_deviations_of_the_sum_of_its_steps(growth, error, enough):
    """Of 10,000 steps the drift is 10,000 Λ and the deviation 100 times that of a step, here 50."""
    row = pd.DataFrame([{"growth": growth, "steps": 10_000, "deviation": 0.5, "error": error}])
    assert len(decided(row)) == enough
