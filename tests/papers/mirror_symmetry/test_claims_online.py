"""What claims about online SGD measure, recomputed."""

import math

import numpy as np
import pandas as pd
import pytest

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.papers.mirror_symmetry.online.fig_03b_rank import final_ranks
from symlab.papers.mirror_symmetry.online.runs import midpoint
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story_online import RANKS, SPARSITY, of, rank_tables, sparsity_tables

CLAIMS = {claim.id.removeprefix("mirror-"): claim for claim in claims_of(MIRROR_SYMMETRY)}


def test_diverged_runs_count_in_no_share():
    rows = sparsity_tables()
    rows[SPARSITY].loc[of(grid=0, lr=0.006, seed=1)(rows[SPARSITY]), "diverged"] = True
    cases = [measured.case for measured, _ in evaluate_claim(CLAIMS["3a-law"], rows)]
    assert len(cases) == 4 and not any("0.006" in case for case in cases)
    ranks = rank_tables()
    ranks[RANKS].loc[of(model="skip", lr=0.02, seed=1)(ranks[RANKS]), "diverged"] = True
    assert set(final_ranks(ranks)[final_ranks(ranks)["model"] == "skip"]["lr"]) == {0.01}


def test_midpoints_are_linear_in_the_logarithm_of_the_rate():
    assert midpoint(np.array([1.0, 4.0, 9.0]), np.array([0.0, 1.0, 1.0])) == pytest.approx(2.0)
    assert math.isnan(midpoint(np.array([1.0, 4.0]), np.array([0.6, 1.0])))


def test_the_claim_on_the_stationary_law_is_calibrated():
    """With the preset's seeds, products drawn from that law hold in at least 95 of 100 draws, in every case."""
    drawn, d, seeds = np.random.default_rng(0), 50, 36
    tables = sparsity_tables()
    rows = tables[SPARSITY]
    rows = rows[(rows["grid"] == 3) & (rows["seed"] == 0)]
    verdicts = []
    for _ in range(100):
        measured = pd.concat([rows.assign(seed=seed) for seed in range(seeds)], ignore_index=True)
        for k in (3, 6, 9):
            measured[f"below_{k}"] = drawn.binomial(d, measured[f"below_{k}"]) / d
        found = evaluate_claim(CLAIMS["phase-stationary"], {**tables, SPARSITY: measured})
        verdicts.append([verdict for _, verdict in found])
    assert len(verdicts[0]) == 6
    assert np.mean(np.array(verdicts) == "held", axis=0).min() >= 0.95
