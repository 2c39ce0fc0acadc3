"""What claims about online SGD measure, recomputed."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.papers.mirror_symmetry.online.fig_03b_rank import final_ranks
from symlab.papers.mirror_symmetry.online.fig_collapse import decided
from symlab.papers.mirror_symmetry.online.runs import midpoint
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story_online import RANKS, SPARSITY, of, rank_tables, sparsity_tables

CLAIMS = {claim.id.removeprefix("mirror-"): claim for claim in claims_of(MIRROR_SYMMETRY)}


def test_diverged_runs_count_in_no_share():
    rows = sparsity_tables()
    rows[SPARSITY].loc[of(grid=0, seed=1)(rows[SPARSITY]), "diverged"] = True
    (found,) = CLAIMS["3a-half"].measure(rows)
    assert found.n == 2
    ranks = rank_tables()
    ranks[RANKS].loc[of(model="skip", lr=0.02, seed=1)(ranks[RANKS]), "diverged"] = True
    assert set(final_ranks(ranks)[final_ranks(ranks)["model"] == "skip"]["lr"]) == {0.01}


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
