"""What claims measure, recomputed; of what they say nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress

from symlab.papers.neural_collapse import NEURAL_COLLAPSE
from symlab.papers.neural_collapse.fig_critical import switch_of
from symlab.papers.neural_collapse.finals import finals, slope_with_depth
from symlab.pipeline.ledger import claims_of, evaluate_claim

from .story import COURSE, MSE, PERTURBED, SAMPLES, SEEDS, of, tables

CLAIMS = {claim.id.removeprefix("collapse-"): claim for claim in claims_of(NEURAL_COLLAPSE)}


@pytest.fixture(scope="module")
def story():
    return tables()


def verdicts(claim_id, tables):
    return [verdict for _, verdict in evaluate_claim(CLAIMS[claim_id], tables)]


def test_what_has_not_converged_is_left_out_where_it_is_said(story):
    """One network each that moves, does not fit, is above one without blocks, or a shallower one, or has a gradient."""
    table = story[COURSE].copy()

    def network(L, seed):
        return of(table, "rn1") & (table["L"] == L) & (table["seed"] == seed)

    table.loc[network(3, 0) & (table["step"] == 800), "NC1"] *= 1.2
    table.loc[network(5, 1) & (table["step"] == 1000), "accuracy"] = 0.99
    table.loc[network(8, 2), "fit"] += 0.02
    table.loc[network(13, 3), "fit"] += 0.001
    table.loc[network(21, 0) & (table["step"] == 1000), "gradient"] = 0.02
    ended = finals(table)
    ended = ended[ended["by_depth"] != "swept"]
    left_out = ended.loc[~ended["converged"], ["L", "seed"]].to_numpy().tolist()
    assert left_out == [[3, 0], [5, 1], [8, 2], [13, 3], [21, 0]]
    kept = [m for m, _ in evaluate_claim(CLAIMS["1-falls-converged"], {**story, COURSE: table})]
    told = {m.case: m.n for m in kept}
    assert told["NC1, RN1 on digits"] == 7 * SEEDS - 5 and told["NC1, T11 on digits"] == 8 * SEEDS


def test_squared_error_is_judged_too(story):
    table = story[COURSE].copy()
    squared = table["loss"] == MSE
    table.loc[squared, "NC2B"] = 0.5 * table["L"] ** -0.3
    table.loc[squared & (table["L"] == 5) & (table["seed"] == 1), "NC1"] = 10.0
    found = {
        measured.case: verdict
        for claim in ("1-rate", "certificate-holds")
        for measured, verdict in evaluate_claim(CLAIMS[claim], {**story, COURSE: table})
    }
    assert found["NC2, RN1 on digits, squared error"] == found["squared error"] == "failed"
    assert found["NC2, RN1 on digits"] == found[""] == "held"


@pytest.mark.parametrize("control", [0.5, 0.9, 0.99994, 1.1, 2.0])
@pytest.mark.parametrize("left", [0.1, 0.4, 0.44, 0.9, 0.95, 0.99991, 1.05])
def test_no_scheme_both_leaves_and_removes_a_perturbation(story, left, control):
    table = story[PERTURBED].copy()
    table["NC1"] = left * table["NC1_in"]
    table.loc[table["scheme"] == "rn2 constant", "NC1"] = control * table["NC1_in"]
    removes, leaves = (set(verdicts(name, {PERTURBED: table})) for name in ("perturbed-leaves", "perturbed-uniform"))
    assert not (leaves & {"held", "undecided"} and removes & {"held", "undecided"})
    assert removes == {"held" if left <= 0.5 * min(control, 1) else "failed"}


def test_networks_above_the_loss_without_branches_decide_nothing(story):
    table = story[PERTURBED].assign(without=0.05)
    assert set(verdicts("perturbed-uniform", {PERTURBED: table})) == {"undecided"}


@pytest.mark.parametrize(("dataset", "N"), [("digits", 200), ("mnist", 1000)])
@pytest.mark.parametrize("claim_id", [name for name in CLAIMS if SAMPLES in CLAIMS[name].tables and name != "few-flat"])
def test_too_few_samples_are_no_evidence(story, claim_id, dataset, N):
    samples = pd.DataFrame([{"dataset": dataset, "N": N, "rank": 60}])
    found = evaluate_claim(CLAIMS[claim_id], {**story, SAMPLES: samples})
    assert {verdict for _, verdict in found} == {"undecided"}
    assert all(measured.open.startswith("no evidence") for measured, _ in found)


def test_a_slope_has_the_error_of_least_squares():
    depths = np.repeat([2.0, 3, 5, 8, 13], 2)
    value = depths**-1.2 * np.random.default_rng(0).uniform(0.7, 1.4, len(depths))
    found = slope_with_depth(pd.DataFrame({"L": depths, "NC1": value}), "NC1", "", over=-0.5)
    expected = linregress(np.log10(depths), np.log10(value))
    assert found.value == pytest.approx(expected.slope / -0.5) and found.n == 10
    assert found.error == pytest.approx(expected.stderr / 0.5)


def test_branches_live_or_are_dead_as_those_of_the_median_network():
    alive = {0.001: [1.0, 2.0, 1e-6], 0.002: [1.0, 1e-6, 1e-6], 0.004: [1e-6, 1e-6, 3.0]}
    rows = [{"hidden_penalty": at, "weights": weight} for at, weights in alive.items() for weight in weights]
    assert switch_of(pd.DataFrame(rows)) == (0.001, 0.002)


def test_slopes_are_those_of_the_planted_powers(story):
    (value,) = [m.value for m, _ in evaluate_claim(CLAIMS["1-falls"], story) if m.case == "NC1, RN1 on digits"]
    np.testing.assert_allclose(value, -1.2 * 1.01, rtol=1e-6)
