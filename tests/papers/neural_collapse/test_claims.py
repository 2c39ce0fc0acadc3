"""What claims measure, recomputed; of what they say nothing; how often they hold on data made from the theory."""

import numpy as np
import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.measures import collapse_bounds
from symlab.papers.neural_collapse import NEURAL_COLLAPSE, trained_runs
from symlab.papers.neural_collapse.evidence import (
    CALM,
    GAP,
    SETTING,
    counted,
    lineages,
    networks,
    slopes,
    slopes_from_scratch,
)
from symlab.papers.neural_collapse.fig_01_02_depth import LARGE, of_one_data_set
from symlab.papers.neural_collapse.fig_settings import grown_layers, slope_over_law
from symlab.papers.neural_collapse.run_tables import least_known
from symlab.pipeline.drawing import drawing_of
from symlab.pipeline.ledger import claims_of, evaluate_claim
from symlab.plotting.style import Style
from symlab.study.statistics import slope

from .story import CE, CRITICAL, PERTURBED, READ, RUNS, SAMPLES, SEEDS, described, from_scratch, network, of, tables
from .story import story as its_story

CLAIMS = {claim.id.removeprefix("collapse-"): claim for claim in claims_of(NEURAL_COLLAPSE)}
WITHOUT_EVIDENCE = {"few-optimum", "loss-grown", "practice-minibatches", "1-calm"}
"""Claims that do not ask whether there are enough samples: of others, or of networks beside each other."""
RN1 = "residual networks with one linear layer a block (RN1), digits"


@pytest.fixture(scope="module")
def story():
    return tables()


def test_a_figure_of_networks_that_a_study_lacks_is_not_drawn(story):
    """Those of another network are none that practice is told of, in panels without a line."""
    figure = next(each for each in NEURAL_COLLAPSE.figures if each.id == "collapse-practice")
    with pytest.raises(UserError, match="none of what it shows"):
        drawing_of(figure).draw(story | {RUNS: story[RUNS].assign(network="rn2")}, Style())


def test_a_layers_place_runs_from_0_to_1(story):
    rows = grown_layers(story)
    first, last = (rows[rows["layer"] == (1 if end == 0 else rows["L"])] for end in (0, 1))
    assert len(first) and (first["place"] == 0).all() and len(last) and (last["place"] == 1).all()
    assert np.allclose(rows["place"], 1 - rows["before"] / (rows["layer"] + rows["before"] - 1))


def judged(claim_id, tables):
    return evaluate_claim(CLAIMS[claim_id], tables)


def verdicts(claim_id, tables):
    return [verdict for _, verdict in judged(claim_id, tables)]


def test_networks_above_the_gap_are_left_out_and_too_few_decide_nothing(story):
    table = story[RUNS].copy()
    rn1 = of(table, "rn1") & ~table["reference"]
    # One that is far from an optimum says nothing, whatever its NC1 is.
    table.loc[rn1 & (table["L"] == 3) & (table["seed"] == 0), ["NC1", "gap"]] = 100.0, 2 * GAP
    found = judged("1-falls-theorems", {**story, RUNS: table})[0]
    assert found[0].case == f"spread within classes (NC1), {RN1}" and found[1] == "held"
    assert found[0].value == pytest.approx(-1.2 * 1.0205, rel=0.02)
    # Two lineages of four have four depths at an optimum each.
    table.loc[rn1 & (table["L"] > 5) & (table["seed"] < 2), "gap"] = 2 * GAP
    found = judged("1-falls-theorems", {**story, RUNS: table})[0]
    assert found[1] == "undecided" and found[0].open.startswith("not at an optimum")


def test_networks_of_each_depth_by_itself_are_judged_whatever_their_loss_and_those_that_fit_once_more():
    given = from_scratch()
    table = given[RUNS].copy()
    assert (table["gap"] > GAP).all() and set(verdicts("1-falls", given)) == {"held"}
    # Of one seed two deep networks do not fit, and are less collapsed than shallow ones.
    off = of(table, "rn1") & (table["seed"] == 1) & (table["L"] > 13)
    table.loc[off, ["accuracy", "NC1"]] = 0.9, 10.0
    found = {m.case: (m, verdict) for m, verdict in judged("1-falls", {**given, RUNS: table})}
    every, fitting = (found[f"spread within classes (NC1), {RN1}{name}"] for name in ("", ", of those that fit"))
    assert every[1] == "undecided" and fitting[1] == "held" and (every[0].n, fitting[0].n) == (4, 4)
    assert every[0].value > fitting[0].value == pytest.approx(-1.2 * 1.02256, rel=1e-4)
    assert all("26 of 28 networks fit every sample" in str(m) for m, _ in (every, fitting))
    # Grown networks beside them change nothing, and alone are no evidence of how each depth trains.
    both = pd.concat([table, tables()[RUNS]], ignore_index=True)
    both = both[both["grown"] | ~both["L"].isin([3, 8]) | (both["gap"] == 0.5)]
    again = {m.case: (m, verdict) for m, verdict in judged("1-falls", {**given, RUNS: both})}
    assert {case: verdict for case, (_, verdict) in again.items()} == {
        case: verdict for case, (_, verdict) in found.items()
    }
    assert set(verdicts("1-falls", tables())) == {"not run"}


def test_a_slope_from_5_on_has_depth_5_and_nothing_of_shallower_networks():
    table = from_scratch()[RUNS]
    rows = table[of(table, "rn1") & table["L"].isin([2, 3, 5, 8, 13, 21])].copy()
    deep = rows["L"] >= 5
    rows["NC1"] = np.where(deep, 0.3 * rows["L"] ** -0.7, 9.0)
    rows.loc[~deep, "accuracy"] = 0.5
    found = slopes_from_scratch({**from_scratch(), RUNS: rows}, ["NC1"], lambda rows: rows["L"] >= LARGE)
    assert [(each.value, each.n) for each in found] == [(pytest.approx(-0.7), SEEDS)]


def test_slopes_by_minibatches_are_of_one_setting_each(story):
    table = story[RUNS]
    digits, mnist = (table[table["optimizer"] == "sgd"].assign(dataset=dataset) for dataset in ("digits", "mnist"))
    mnist["NC1"] = 5.0 * mnist["L"] ** 0.3
    found = judged("practice-minibatches", {**story, RUNS: pd.concat([digits, mnist])})
    assert [m.value for m, _ in found] == [pytest.approx(-1.2, abs=1e-3), pytest.approx(0.3)]
    assert [m.case.partition(", residual")[0] for m, _ in found] == ["SGD, minibatches"] * 2
    assert [m.case.rpartition(", ")[2] for m, _ in found] == ["digits", "MNIST"]
    # Two depths of one data set and two of another are no four.
    halves = pd.concat([digits[digits["L"] < 5], mnist[mnist["L"].isin([5, 8])]])
    assert verdicts("practice-minibatches", {**story, RUNS: halves}) == ["not run"]


def test_networks_are_counted_by_setting():
    table = networks(tables()).query("title in ('RN1 on digits', 'RN2 split on digits')")
    fewer = table[(table["network"] == "rn2") | (table["seed"] > 0)]
    assert (counted(table), counted(fewer)) == (f"{SEEDS} networks", f"{SEEDS - 1} to {SEEDS} networks")


ABOUT_OPTIMA = ("1-falls-theorems", "1-rate", "loss-falls", "loss-hidden", "loss-seen", "loss-unseen-kept",
                "loss-unseen-goes", "layers-before-last", "practice-test")  # fmt: skip


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("claim_id", ABOUT_OPTIMA)
def test_claims_about_optima_decide_nothing_of_networks_above_the_gap(story, claim_id):
    """Nor where two lineages alone are at an optimum."""
    before = judged(claim_id, story)
    for kind in ("rn1", "rn2"):
        table = story[RUNS].copy()
        table.loc[(table["network"] == kind) & table["grown"] & (table["seed"] > 1), "gap"] = 2 * GAP
        # The seeds 0 and 1 are within the gap, and 2 and 3 are not.
        for (measured, verdict), (_, earlier) in zip(judged(claim_id, {**story, RUNS: table}), before, strict=True):
            about = kind.upper() in measured.case
            assert verdict == ("undecided" if about else earlier), measured
            assert not about or measured.open.startswith("not at an optimum: ")


def test_the_least_known_never_rises_and_says_what_gave_it():
    rows = []
    for L, total, without in ((2, 0.05, 0.03), (3, 0.028, 0.03), (5, 0.029, np.nan), (8, 0.02, 0.03)):
        row = network(described("rn1", "constant", L), 0, reference=L == 8)
        rows += [row | {"total": total, "without": without}, row | {"total": 0.06, "without": without}]
    found = least_known(pd.DataFrame(rows)).set_index("L")
    assert found["least"].tolist() == [0.03, 0.028, 0.028, 0.02]
    assert found["by"].tolist() == ["without branches", "grown", "depth before", "reference"]
    assert set(SETTING) <= set(found.columns)


@pytest.mark.parametrize(("power", "least", "most"), [(-0.4, 0.95, 1.0), (0.0, 0.0, 0.07), (0.4, 0.0, 0.0)])
def test_three_lineages_are_judged_rightly_on_data_made_from_a_power(power, least, most):
    """With a scatter of 10 % a network, more than lineages on digits have."""
    rng = np.random.default_rng(0)
    rows = [
        network(described("rn1", "constant", L), seed)
        | {"NC1": L**power * np.exp(0.1 * rng.normal()), "setting": str(draw), "within": True}
        for draw in range(100)
        for L in (2, 3, 5, 8, 13)
        for seed in range(3)
    ]
    held = [measured.interval[1] < 0 for measured in slopes(pd.DataFrame(rows), ["NC1"]).means()]
    assert len(held) == 100 and least <= np.mean(held) <= most


def test_of_networks_at_an_optimum_those_of_a_small_gradient_are_counted(story):
    table = story[RUNS].copy()
    table["gap"] = (2 * GAP * (np.arange(len(table)) % 2)).astype(float)  # every other one
    table["gradient"] = np.where(table["seed"] < 1, 0.5 * CALM, 2 * CALM)
    ((measured, verdict),) = judged("1-calm", {**story, RUNS: table})
    told = table[table["grown"] & ~table["reference"] & (table["gap"] == 0)]
    # All networks of a lineage are one unit: of the seed 0 all are calm, of others none.
    seeds = told.groupby(["network", "loss", "by_depth", "seed"])["gap"].size().reset_index()["seed"]
    assert measured.value == pytest.approx((seeds < 1).mean()) and (measured.n, verdict) == (len(seeds), "failed")
    assert measured.interval[0] < measured.value < measured.interval[1]
    assert CALM == trained_runs.CALM


def test_settings_that_differ_in_their_inputs_alone_are_two(story):
    """Averaged pixels and patches: one slope each, with evidence of their own, and one least loss each."""
    table, samples = story[RUNS][story[RUNS]["network"] == "rn1"], story[SAMPLES]
    for name in ("pool", "patch"):
        both = pd.concat([table, table.assign(**{name: 2}, total=1.5 * table["total"])], ignore_index=True)
        found = judged("loss-falls", {**story, RUNS: both})
        assert len(found) == 2 * len(judged("loss-falls", {**story, RUNS: table}))
        cases = {measured.case: measured for measured, _ in found}
        known, unknown = (
            cases[f"loss over that of free features, {RN1}, {name} = {value}"] for value in (READ[name], 2)
        )
        assert not known.open and unknown.open.startswith("no evidence: the rank")
        more = pd.concat([samples, samples.assign(**{name: 2}, rank=100)])
        few = {each.case: each for each, _ in judged("loss-falls", {**story, RUNS: both, SAMPLES: more})}
        assert few[unknown.case].open.startswith("no evidence: 3 samples") and not few[known.case].open
        least = least_known(both).groupby(SETTING)["least"].min()
        assert least.loc[least.index.get_level_values(name) == 2].tolist() == pytest.approx(
            (1.5 * least.loc[least.index.get_level_values(name) != 2]).tolist()
        )
    # Where nothing has to be told apart names are as they were.
    assert not lineages(story)["setting"].str.contains(" = ").any()


def test_the_bounds_law_has_its_own_slope_and_falls_from_8_on():
    law = pd.Series({L: np.log(L) ** 2 / L for L in (8, 13, 21, 34)})
    assert slope_over_law(3 * law) == pytest.approx(1) and slope_over_law(law**0 + 0) == pytest.approx(0)
    assert (
        slope(law)
        < slope(law[law.index > 8]) * 0.5
        < 0
        < slope(pd.Series({L: np.log(L) ** 2 / L for L in (2, 3, 5, 8, 13)}))
    )


def test_what_bisection_found_is_told_as_an_interval(story):
    """Networks that agree are at one place of it, which is known to its step alone: 1.19 in the story."""
    table = story[CRITICAL].assign(
        born=lambda rows: 0.95 * rows["predicted"], dies=lambda rows: 1.9 * rows["predicted"]
    )
    for name, value, reach in (("critical-switch", 0.95, 1.19**0.5), ("critical-hysteresis", 2.0, 1.19)):
        for measured, verdict in judged(name, {CRITICAL: table}):
            assert verdict == "held" and measured.error is None
            assert measured.interval == pytest.approx((value / reach, value * reach))
    # A threshold within half a step decides nothing.
    near = table.assign(born=0.85 * table["predicted"])
    assert {verdict for _, verdict in judged("critical-switch", {CRITICAL: near})} == {"undecided"}
    alone = table[table["seed"] == 0]
    assert {verdict for _, verdict in judged("critical-switch", {CRITICAL: alone})} == {"one unit"}


def test_the_control_is_compared_with_the_mean_of_what_is_predicted_at_each_depth():
    """0.0025 over the mean of 0.001 and 0.003, of each of two networks alike; not over either."""
    rows = [{"dataset": "digits", "last_penalty": 0.0025, "L": L, "seed": seed, "predicted": predicted, "step": 1.19}
            for L, predicted in ((2, 0.001), (5, 0.003)) for seed in range(2)]  # fmt: skip
    ((measured, _),) = judged("critical-control", {CRITICAL: pd.DataFrame(rows)})
    assert measured.value == pytest.approx(1.25) and measured.n == 2


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


# Few of the story's own data, or enough of others.
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(("dataset", "N", "rank"), [("digits", 300, 100), ("mnist", 1000, 60)])
@pytest.mark.parametrize("claim_id", [name for name in CLAIMS if SAMPLES in CLAIMS[name].tables
                                      and name not in WITHOUT_EVIDENCE])  # fmt: skip
def test_too_few_samples_are_no_evidence(claim_id, dataset, N, rank):
    samples = pd.DataFrame([{"dataset": dataset, "N": N, "rank": rank, **READ}])
    found = judged(claim_id, {**its_story(claim_id), SAMPLES: samples})
    assert {verdict for _, verdict in found} == {"undecided"}
    assert all(measured.open.startswith("no evidence") for measured, _ in found)


def test_growth_is_compared_at_equal_work_alone(story):
    table = story[RUNS].copy()
    table.loc[~table["grown"] & (table["L"] == 8) & (table["loss"] == CE), "work"] *= 2
    assert [str(m.case) for m, _ in judged("loss-grown", {**story, RUNS: table})] == [f"{RN1}, L = 3"]


def test_the_depth_from_which_networks_grow_is_no_growth(story):
    """Its lineages begin at random weights, as networks from scratch do, so that nothing is told of it."""
    first = network(described("rn1", "constant", 2, grown=False), 0, worse=0.5)
    more = pd.DataFrame([first | {"seed": seed} for seed in range(SEEDS)])
    given = {**story, RUNS: pd.concat([story[RUNS], more], ignore_index=True)}
    assert [str(m.case) for m, _ in judged("loss-grown", given)] == [f"{RN1}, L = 3", f"{RN1}, L = 8"]


def test_an_undefined_ratio_of_one_network_leaves_its_certificate_open(story):
    table = story[RUNS].query("L <= 3").copy()
    table.loc[table.index[of(table, "rn1")][0], "NC1"] = np.nan
    found = {str(m.case): verdict for m, verdict in judged("certificate-holds", {**story, RUNS: table})}
    assert found["NC1"] == "undecided" and set(found.values()) == {"held", "undecided"}


def test_small_perturbations_are_those_that_the_deepest_leave(story):
    """Whatever shallower networks leave."""
    table = story[PERTURBED].copy()
    shallow = table["L"] < table["L"].max()
    table.loc[shallow, ["NC1", "NC1_row"]] *= 0.1
    for name in ("perturbed-constant", "perturbed-uniform", "perturbed-seen"):
        found, before = (judged(name, tables) for tables in ({PERTURBED: table}, story))
        assert [m.value for m, _ in found] == [m.value for m, _ in before] and len(found) == 2


def test_what_is_seen_of_perturbations_of_one_size_hides_nothing_of_another(story):
    """Of the larger a tenth is seen, of the smaller most: not one mean of both, which would hold."""
    table = story[PERTURBED].copy()
    table.loc[table["eps"] == 0.02, "NC1_row"] *= 7
    found = {
        str(m.case).rpartition("ε = ")[2]: (m.n, verdict) for m, verdict in judged("perturbed-seen", {PERTURBED: table})
    }
    assert found == {"0.02": (3, "failed"), "0.05": (3, "held")}


def test_one_network_above_the_loss_without_branches_leaves_the_perturbed_open(story):
    table = story[PERTURBED].copy()
    assert set(verdicts("perturbed-leaves", story)) == {"held"}
    table.loc[(table["L"] == table["L"].max()) & (table["seed"] == 0), "total"] *= 2
    assert "undecided" in verdicts("perturbed-leaves", {**story, PERTURBED: table})


def on(table, dataset, *networks, grown=True):
    """RN1 and RN2 of a constant penalty of the story as networks on a data set; T11 is RN1 by another name."""
    found = [table[of(table, {"t11": "rn1"}.get(each, each))].assign(network=each) for each in networks]
    return pd.concat(found).assign(dataset=dataset, grown=grown)


@pytest.mark.parametrize("grown", [True, False])
@pytest.mark.parametrize("names", [("digits", "mnist"), ("mnist", "digits")])
def test_the_control_is_that_of_the_data_set_that_has_most_networks(story, names, grown):
    """On one RN1 and RN2, on another T11 too, on a third no control; grown ones beside scratch decide nothing."""
    there = {"digits": ("rn2", "rn1"), "mnist": ("rn2", "t11", "rn1"), "cifar10": ("rn1", "t11")}
    rows = [on(story[RUNS], name, *there[name], grown=grown) for name in (*names, "cifar10")]
    rows += [] if grown else [on(story[RUNS], "words", "rn1", "rn2", "t11")]
    given = {**story, RUNS: pd.concat(rows, ignore_index=True)}
    drawn = of_one_data_set(given)
    assert set(drawn["dataset"]) == {"mnist"} and set(drawn["network"]) == {"rn1", "t11", "rn2"}
    told = {(m.case.key["dataset"], m.case.key["network"]) for m, v in judged("2-control", given) if v != "not run"}
    assert told == (set() if grown else {("mnist", "rn2")})


def test_what_a_loss_bounds_is_told_of_the_network_that_is_nearest_to_its_bound(story):
    """The loss has the last layer's penalty in it; no bound is of squared error with a bias, or of every token."""
    table = story[RUNS].query("L <= 5 and seed >= 0").reset_index(drop=True)
    rng = np.random.default_rng(0)
    table["last"], table["between"] = 0.1 * table["fit"], 64.0 - table["L"]
    for name in ("NC1", "NC2A", "NC2B", "NC3", "NC3_centred"):
        table[name] = rng.uniform(size=len(table))
    biased = table[table["loss"] == "squared_error"].assign(output_bias=True, NC1=100.0)
    words = table.assign(every_token=True, NC1=100.0, NC2A=100.0, NC3_centred=100.0)
    ratios = {name: [] for name in ("NC1", "NC2", "NC3", "scatter")}
    for each in table.itertuples():
        total, of = each.fit + each.last, (each.width, each.classes, each.last_penalty)
        if each.loss == CE:
            ratios["NC1"].append(each.NC1 / collapse_bounds.certified_collapse(total, *of))
            ratios["NC2"].append(each.NC2A / collapse_bounds.certified_frame(total, *of))
            ratios["NC3"].append(each.NC3_centred / collapse_bounds.certified_alignment(total, *of))
        elif each.loss == "squared_error":
            # What is left at a scatter within classes s is 10 λ / (2 (64 - s + 10 λ)).
            ratios["scatter"].append(each.NC1 * each.between / (64 + 0.05 - 0.05 / (2 * total)))
    found = judged("certificate-holds", {**story, RUNS: pd.concat([table, biased, words], ignore_index=True)})
    assert {str(each.case): each.value for each, _ in found} == pytest.approx({k: max(v) for k, v in ratios.items()})
