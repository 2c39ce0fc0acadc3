"""What claims about networks measure, recomputed; of what they say nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.papers.mirror_symmetry.deep.fig_03_06_homogeneity import permutation_p
from symlab.papers.mirror_symmetry.deep.fig_decay import area_under_curve
from symlab.papers.mirror_symmetry.small.fig_01_02_05_mirrors import measured_threshold
from symlab.pipeline.ledger import claims_of, evaluate_claim

from . import story_networks

CLAIMS = {claim.id.removeprefix("mirror-"): claim for claim in claims_of(MIRROR_SYMMETRY)}


def verdicts(claim, tables):
    return {verdict for _, verdict in evaluate_claim(claim, tables)}


@pytest.mark.parametrize(("scheme", "judged"), [("standard", "failed"), ("hadamard", "held")])
def test_pruning_is_not_judged_where_networks_guess(scheme, judged):
    """Accuracies of 8 to 13 % are chance among ten classes, whatever the data set's name; 20 % are not."""

    story = story_networks.tables()

    def with_accuracy(of_seed):
        pruned = story["pruned.csv"].copy()
        rows = pruned["trained_as"] == {"standard": "plain"}.get(scheme, "products")
        pruned.loc[rows, "accuracy"] = of_seed(pruned.loc[rows, "seed"])
        return {**story, "pruned.csv": pruned}

    guess, learned = with_accuracy(lambda seed: 8.0 + seed), with_accuracy(lambda seed: 20 + 0.1 * seed)
    other = {**guess, "pruned.csv": guess["pruned.csv"].assign(source="fashion_mnist")}
    hundred = {**guess, "pruned.csv": guess["pruned.csv"].assign(classes=100)}
    unknown = {**guess, "pruned.csv": guess["pruned.csv"].assign(classes=np.nan)}
    found = [verdicts(CLAIMS["7-pruned"], tables) for tables in (guess, learned, other, hundred, unknown)]
    assert found == [{"undecided"}, {judged}, {"undecided"}, {judged}, {judged}]


def test_where_few_learned_it_is_told_of_which_kind():
    """Of vanilla networks all but one guess, of products all."""
    story = story_networks.tables()
    pruned = story["pruned.csv"]
    learned = (pruned["trained_as"] == "plain") & (pruned["seed"] == 0)
    found = evaluate_claim(CLAIMS["7-pruned"], {**story, "pruned.csv": pruned.assign(accuracy=10.0 + 80 * learned)})
    told = "vanilla: 5 of 6 networks guess; products: 6 of 6 networks guess"
    assert found and {(measured.open, verdict) for measured, verdict in found} == {(told, "undecided")}


@pytest.mark.parametrize(
    ("name", "decay", "dead", "verdict", "value"),
    [
        ("7-sparse", 1e-3, 6, "undecided", 1.0),
        ("7-sparse", 1e-3, 5, "undecided", 5 / 6),
        ("7-sparse", 1e-3, 4, "failed", 0.0),
        ("budget-least", 0.0, 6, "undecided", 1.0),
        ("budget-least", 0.0, 4, "held", 0.0),
    ],
)
def test_networks_that_guess_are_not_counted_as_sparse(name, decay, dead, verdict, value):
    """Of six networks of products some are dead: all of their parameters vanish, and 10 % are right."""
    story = story_networks.tables()
    sizes, pruned = story["magnitudes.csv"].copy(), story["pruned.csv"].copy()
    for table in (sizes, pruned):
        table["dead"] = (table["scheme"] == "hadamard") & (table["weight_decay"] == decay) & (table["seed"] < dead)
    sizes["share"] = np.where(sizes["dead"], 1.0, 0.001 * sizes["seed"] * (sizes["scheme"] == "hadamard"))
    sizes["share"] *= sizes["epoch"] > 0
    pruned["accuracy"] = pruned["accuracy"].where(~pruned["dead"], 10 + 0.3 * pruned["seed"])
    tables = {**story, "magnitudes.csv": sizes, "pruned.csv": pruned}
    ((measured, judged),) = evaluate_claim(CLAIMS[name], tables)
    assert judged == verdict and measured.value == pytest.approx(value, abs=0.02)
    # Those that guess count as networks only where too few have learned.
    assert measured.n == (6 if dead > 4 else 6 - dead)


@pytest.mark.parametrize(
    ("budget", "epochs", "why"), [(5.0, (0, 10), "known up to 0.01"), (3.0, (10,), "no snapshot of epoch 0")]
)
def test_budgets_of_which_decay_alone_is_not_known_are_told_as_open(budget, epochs, why):
    """Below 1e-6 exp(10) = 0.022 lies more than the largest threshold, 0.01, tells."""
    story = story_networks.tables()
    sizes = story["magnitudes.csv"]
    sizes = sizes[sizes["epoch"].isin(epochs) & (sizes["scheme"] == "hadamard") & (sizes["weight_decay"] == 0)]
    more = [sizes.assign(budget=budget, threshold=threshold) for threshold in (1e-6, 1e-2)]
    found = evaluate_claim(CLAIMS["budget-least"], {**story, "magnitudes.csv": pd.concat(more)})
    assert found and all(verdict == "undecided" and why in measured.open for measured, verdict in found)


def test_the_area_under_the_curve_counts_ties_half():
    table = pd.DataFrame({"merged": [True, True, False, False], "curvature": [1.0, 0.0, 0.0, -1.0]})
    assert area_under_curve(table, "curvature") == pytest.approx((2 + 1.5) / 4)
    # Of which it is not known whether they merged, they leave the area unknown.
    assert np.isnan(area_under_curve(table.assign(merged=[True, True, False, None]), "curvature"))


def test_the_permutation_test_counts_relabellings():
    """Of 6 ways to label two of four networks, one has a sum of 7 or more; ties count."""
    assert permutation_p(np.array([3.0, 4.0]), np.array([0.0, 1.0])) == pytest.approx(1 / 6)
    assert permutation_p(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(5 / 6)
    assert np.isnan(permutation_p(np.array([1.0, np.nan]), np.array([0.0])))


def test_the_permutation_test_of_zeros_and_ones_is_that_of_other_numbers():
    """Of 252 ways to label five of ten networks, 26 have four or five of the five that learned; so have twice as many
    learned in each."""
    more, fewer = np.array([1.0, 1, 1, 1, 0]), np.array([1.0, 0, 0, 0, 0])
    for alternative, p in (("greater", 26 / 252), ("less", 251 / 252)):
        assert permutation_p(more, fewer, alternative) == pytest.approx(p)
        assert permutation_p(2 * more, 2 * fewer, alternative) == pytest.approx(p)


@pytest.mark.parametrize(("few", "same"), [(2, False), (7, True)])
def test_forgetting_is_judged_of_networks_that_had_learned(few, same):
    """Of twelve, ten forget against two, or against seven; others, never right on 90 %, are no evidence."""
    history = story_networks.simulate_forgetting(np.random.default_rng(0))["history.csv"]
    history = story_networks.forgets(history, hadamard=range(10), weights=range(few))
    tables = {**story_networks.tables(), "history.csv": history}
    ((found, verdict),) = evaluate_claim(CLAIMS["7-norms"], tables)
    assert verdict == ("undecided" if same else "held")
    unlearned = history["variant"].isin(["hadamard_0.001", "weights_0.001"]) & (history["seed"] >= 10)
    rest = history.assign(train_accuracy=history["train_accuracy"].where(~unlearned, 0.89))
    ((without, _),) = evaluate_claim(CLAIMS["7-norms"], tables | {"history.csv": rest})
    assert (found.n, without.n) == (12, 10) and found.value > without.value


def test_where_as_many_forget_the_claim_holds_by_chance_in_one_of_twenty_at_most():
    """Over all outcomes of twelve networks each that forget with one probability."""
    ends = np.arange(12)
    holds = [
        [permutation_p(1.0 * (ends < more), 1.0 * (ends < few)) <= 0.05 for few in range(13)] for more in range(13)
    ]
    for p in (0.1, 0.3, 0.5, 0.8):
        chances = binom.pmf(np.arange(13), 12, p)
        assert 0 < chances @ np.array(holds) @ chances <= 0.05


@pytest.mark.parametrize(("merged", "verdict"), [(0, "undecided"), (3, "held"), (-1, "failed")])
def test_counts_of_merged_pairs_decide_where_they_differ(merged, verdict):
    """None in any network tells nothing; 6 networks of 3 pairs each against 6 of 0 to 1 do, either way."""
    story = story_networks.tables()["homogeneity.csv"]
    none = story["weight_decay"] == 0
    counts = np.where(none, 3 * (merged < 0) + (story["seed"] % 2) * (merged > 0), max(merged, 0))
    assert verdicts(CLAIMS["6-merged"], {"homogeneity.csv": story.assign(merged=counts)}) == {verdict}


def test_the_measured_threshold_is_where_a_pitchfork_ends():
    ratios = np.array([0.9, 0.94, 0.96, 0.98, 1.02])
    norms = 0.7 * np.sqrt(np.clip(0.99 - ratios, 0, None))
    assert measured_threshold(pd.DataFrame({"gamma_over_critical": ratios, "norm": norms})) == pytest.approx(0.99)
