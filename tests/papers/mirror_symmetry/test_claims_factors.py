"""What claims on factors, tasks, attention and solvers measure; of what they say nothing."""

import numpy as np
import pandas as pd
import pytest

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.pipeline.ledger import claims_of, evaluate_claim

from . import story_factors
from .story_factors import ATTENTION, DEAD, SPARSE

CLAIMS = {claim.id.removeprefix("mirror-"): claim for claim in claims_of(MIRROR_SYMMETRY)}


@pytest.fixture
def tables():
    return story_factors.tables()


def verdicts(claim, tables):
    return [verdict for _, verdict in evaluate_claim(CLAIMS[claim], tables)]


def test_claims_say_what_they_lack(tables):
    """One layer alone, no noise weaker than the paper's, none dead: no verdict, or undecided at most."""
    tables[ATTENTION] = tables[ATTENTION][tables[ATTENTION]["layers"] == 1]
    tables[DEAD] = tables[DEAD].assign(dead=0, kept=0, before=0)
    for claim in ("10-decay", "10-layers", "10-balance", "4-contained"):
        assert verdicts(claim, tables) == ["not run"], claim


def test_the_rate_of_balancing_is_judged_where_steps_are_short_enough(tables):
    """Of three descents one whose steps are too long is left out; where all are so, the case says how far each is off.

    Within a tenth of one another, two rates may both be wrong.
    """
    rows = tables[ATTENTION]
    coarse = (rows["optimizer"] == "gradient descent") & (rows["lr"] == rows["lr"].max()) & (rows["decay"] == 0.1)
    slow = rows["unbalance"] ** 0.5
    tables[ATTENTION] = rows.assign(unbalance=rows["unbalance"].mask(coarse & (rows["seed"] == 1), slow))
    some, whole = CLAIMS["9-balance"].measure(tables)
    assert (some.case, some.n, whole.n) == ("decay 0.1", 2, 3)
    tables[ATTENTION] = rows.assign(unbalance=rows["unbalance"].mask(coarse, slow))
    none, whole = CLAIMS["9-balance"].measure(tables)
    assert (none.n, whole.n) == (0, 3) and none.detail.startswith("steps are too long")
    assert verdicts("9-step", tables) == ["failed", "held"]
    tables[ATTENTION] = rows.assign(unbalance=slow)
    assert verdicts("9-balance", tables) == ["failed", "failed"]
    finer = rows["lr"] < rows["lr"].max()
    tables[ATTENTION] = rows[~(finer & (rows["decay"] == 0.1))]
    whole, none = CLAIMS["9-balance"].measure(tables)
    assert (whole.n, none.case, none.n, none.detail) == (3, "decay 0.1", 0, "no steps of half the length")
    tables[ATTENTION] = rows[finer | (rows["seed"] > 0) | (rows["optimizer"] != "gradient descent")]
    assert {each.n for each in CLAIMS["9-balance"].measure(tables)} == {2}
    tables[ATTENTION] = rows[~finer]
    assert verdicts("9-balance", tables) == verdicts("9-step", tables) == ["not run"]


def test_repeated_runs_differ_by_the_most_of_any_seed(tables):
    """Networks are left out that were pruned to another share than the one at which they are judged."""
    rows = tables[SPARSE]
    rows["test"] = 90 + np.random.default_rng(0).normal(size=len(rows))
    expected = {}
    for (structure, method, strength), of in rows[rows["share"] == 0.9].groupby(["structure", "method", "strength"]):
        each = [of.loc[of["seed"] == seed, "test"].to_numpy() for seed in range(3)]
        expected[f"{structure}, {method}, {strength:g}"] = max(abs(first - second) for first, second in each)
    other = rows[(rows["method"] == "magnitude pruning") & (rows["share"] == 0.9)].assign(strength=0.5, test=range(12))
    tables[SPARSE] = pd.concat([rows, other])
    found = {str(measured.case): measured.value for measured in CLAIMS["sparse-repeated"].measure(tables)}
    assert found == pytest.approx(expected)


def test_the_least_noise_is_the_one_from_which_on_all_suffice(tables):
    """A gap in the middle counts: below it, what suffices does so by chance."""
    rows = tables[DEAD]
    paper = rows[rows["noise"] == 1e-4]
    more = [paper.assign(noise=variance, dead=count) for variance, count in ((1e-8, 0), (1e-6, 50), (1e-5, 0))]
    tables[DEAD] = pd.concat([rows[rows["noise"] != 1e-6], *more])
    (found,) = CLAIMS["4-least-noise"].measure(tables)
    assert found.value == pytest.approx(-5)


def test_one_unknown_count_leaves_the_least_noise_of_its_seed_unknown(tables):
    rows = tables[DEAD] = tables[DEAD].astype({"dead": float})
    rows.loc[(rows["noise"] == 1e-6) & (rows["seed"] == 1), "dead"] = np.nan
    (found,) = CLAIMS["4-least-noise"].measure(tables)
    assert np.isnan(found.value)
