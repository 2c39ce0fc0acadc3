"""Claims on data drawn from the theory itself, with the numbers of units of a run: held in 95 % of draws or more.

A yardstick that fails perfect theory for its noise alone is wrong. Beside each stands the same with what the theory
excludes, on which the claim does not hold in any draw.
"""

import numpy as np
import pandas as pd
import pytest

from symlab.papers import PAPERS
from symlab.pipeline.ledger import claims_of, evaluate_claim

CLAIMS = {claim.id: claim for paper in PAPERS for claim in claims_of(paper)}
DRAWS = 20


def centre_gaps(generator, k, power):
    """The least of the m (m - 1) / 2 distances of random points in k dimensions: its k-th power is exponential."""
    rows = [
        {"study": "s", "dataset": "gmm", "k": k, "d": 64, "m": m, "draw": draw, "sigma_F": 1.0, "fixed_fraction": share}
        | {"gamma_out": (generator.exponential() / (m * (m - 1) / 2)) ** (1 / power), "row_gap": 1.0, "gamma_in": 1.0}
        for share in (0.125, 1.0)
        for m in 2 ** np.arange(4, 12)
        for draw in range(12)
    ]
    return {"centre_gaps.csv": pd.DataFrame(rows)}


def polygon_runs(generator, chance):
    """400 runs at each of five widths, of which each misses with the chance of its width."""
    rows = [
        {"N": 6, "L": 3, "width": width, "run": run, "outcome": "failure" if missed else "success"}
        for width in (2, 4, 8, 16, 32)
        for run, missed in enumerate(generator.random(400) < chance(width))
    ]
    return {"polygon_runs.csv": pd.DataFrame(rows)}


def student_pairs(generator, decay):
    """200 pairs of uniform samples and 10 of trained students a width, whose barriers scatter by nine tenths."""
    rows = []
    for source, n, level in (("uniform", 200, 1.0), ("gd", 10, 0.5)):
        for ratio in (1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6):
            mean = level * 6e-4 * (ratio - 1 if ratio <= 2 else (2 / ratio) ** decay)
            for pair, permuted in enumerate(mean * generator.gamma(1 / 0.9**2, 0.9**2, n)):
                rows.append({"study": "s", "source": source, "M": 12, "d": 20, "m": round(12 * ratio), "pair": pair})
                rows[-1] |= {"kept": True, "direct": 0.05, "permuted": permuted, "permuted_hungarian": permuted}
                rows[-1] |= {"c": 1.0, "lr": 20 / rows[-1]["m"]} if source == "gd" else {}
    return {"widths_barriers.csv": pd.DataFrame(rows)}


# Each claim with what draws its tables: as the theory says, and as it excludes.
DRAWN = {
    "identifiability-11-k2": (centre_gaps, {"k": 2, "power": 2}, {"k": 2, "power": 4}),
    "identifiability-11-k8": (centre_gaps, {"k": 8, "power": 8}, {"k": 8, "power": 3}),
    "saddle-success-exponential": (
        polygon_runs,
        {"chance": lambda width: np.exp(-0.06 * width)},
        {"chance": lambda width: width**-0.7},
    ),
    "permutation-2-uniform-decay": (student_pairs, {"decay": 2}, {"decay": 0}),
}


def verdicts(claim, draw, **keywords):
    drawn = (evaluate_claim(CLAIMS[claim], draw(np.random.default_rng(seed), **keywords)) for seed in range(DRAWS))
    return [{verdict for _, verdict in found} for found in drawn]


@pytest.mark.parametrize(
    "claim", [pytest.param(each, marks=[pytest.mark.slow] if DRAWN[each][0] is student_pairs else []) for each in DRAWN]
)
def test_a_claim_holds_on_what_the_theory_gives_and_not_on_what_it_excludes(claim):
    draw, theory, excluded = DRAWN[claim]
    held = [found == {"held"} for found in verdicts(claim, draw, **theory)]
    assert sum(held) >= 0.95 * DRAWS
    assert {"held"} not in verdicts(claim, draw, **excluded)
