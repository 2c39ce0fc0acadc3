"""What claims measure, recomputed; of what they say nothing."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from symlab.errors import UserError
from symlab.papers.saddle_to_saddle import SADDLE_TO_SADDLE
from symlab.papers.saddle_to_saddle.escapes import at_drop, descents
from symlab.papers.saddle_to_saddle.fig_01_03_04_escape import farthest
from symlab.papers.saddle_to_saddle.fig_polygons import by_polygon, fit_failures, power_minus_exponential
from symlab.pipeline.drawing import drawing_of
from symlab.pipeline.ledger import claims_of, evaluate_claim
from symlab.plotting.style import Style

from .story import PLANTED, SEEDS, missed_runs, tables
from .story import story as room_story

CLAIMS = {claim.id.removeprefix("saddle-"): claim for claim in claims_of(SADDLE_TO_SADDLE)}


@pytest.fixture(scope="module")
def story():
    return tables()


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


@pytest.mark.parametrize("law", PLANTED)
def test_laws_are_compared_by_the_likelihoods_of_the_numbers_of_failures(law):
    """Twice the logarithm of the ratio of both, the largest over all lines a + b x of -log P(fail)."""
    runs = missed_runs(PLANTED[law])
    widths, missed = np.array([2.0, 4.0, 8.0, 16.0, 32.0]), (runs["outcome"] == "failure").groupby(runs["width"]).sum()

    def likelihood(x):
        def less(line):
            return -binom.logpmf(missed, 400, np.exp(-np.maximum(line[0] + line[1] * x, 1e-9))).sum()

        return -minimize(less, [0.1, 0.5 / x.mean()], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).fun

    ((found, _),) = evaluate_claim(CLAIMS["success-exponential"], {"polygon_runs.csv": runs})
    assert found.value == pytest.approx(2 * (likelihood(widths) - likelihood(np.log(widths))), rel=1e-4)
    assert (found.n, found.case) == (2000, "N = 6")


def test_laws_are_fitted_from_the_narrowest_width_with_a_success_on():
    runs = missed_runs(lambda width: 1.0 if width <= 4 else 0.5)
    ((case, counts),) = by_polygon(runs)
    assert case.key == {"N": 6} and list(counts.index) == [8, 16, 32] and list(counts["hits"]) == [200] * 3
    assert by_polygon(runs[runs["width"] < 32]) == []


def test_a_of_deep_layers_is_measured_in_layers_4_and_5_against_2_and_3(story):
    spread = {0: 0.0, 1: 0.9, 2: 0.5, 3: 0.3, 4: 0.2, 5: 0.1, 6: 0.45}
    layers = story["escape_layers.csv"]
    layers = layers.assign(A_change=layers["layer"].map(spread) * (1 + layers["seed"] * (layers["layer"] == 4)))
    ((found, _),) = evaluate_claim(CLAIMS["1-deeper"], story | {"escape_layers.csv": layers})
    each = [(0.2 * (1 + seed) + 0.1) / 2 - 0.4 for seed in range(SEEDS)]
    assert found.value == pytest.approx(np.mean(each))
    assert found.error == pytest.approx(np.std(each, ddof=1) / np.sqrt(SEEDS))


def measured(claim_id, tables):
    return [measurement for measurement, _ in evaluate_claim(CLAIMS[claim_id], tables)]


def test_the_layer_that_is_furthest_from_rank_one_is_named(story):
    runs = story["polygon_runs.csv"]
    runs = runs.assign(second_3=runs["second_3"].where(runs["L"] != 4, 0.02), second_1=0.7)
    found = measured("depths-rank", story | {"polygon_runs.csv": runs})
    assert {str(each.case): each.detail for each in found}["depth 4"] == "layer 3; first layer 0.7"


def test_descents_are_of_the_longest_steps_and_of_the_first_escape_alone(story):
    rows = descents(story["escape_events.csv"])
    assert set(rows["h"]) == {0.03} and set(rows["ends"]) == {0.1} and set(rows["rule"]) == {"flow"}
    assert set(farthest(story["escape_layers.csv"])["ends"]) == {0.3}
    assert len(at_drop(rows)) == 3 * 4 * SEEDS


def test_a_network_that_has_not_come_so_far_leaves_its_case_undecided(story):
    events = story["escape_events.csv"]
    late = (events["seed"] == 2) & (events["L"] == 6) & (events["std"] == 1e-4) & (events["event"] == 0.01)
    found = evaluate_claim(CLAIMS["ladder-direction"], story | {"escape_events.csv": events[~late]})
    by_case = {(each.case.key["L"], each.case.key["std"]): verdict for each, verdict in found}
    assert by_case[6, 1e-4] == "undecided" and by_case[4, 1e-4] == by_case[6, 1e-5] == "held"


def test_sgd_is_set_beside_the_flow_from_the_same_weights(story):
    events = story["escape_events.csv"].copy()
    sgd = events["rule"] == "sgd"
    events.loc[sgd, "s"] *= 1 + 0.01 * events["seed"]
    events.loc[sgd, "h"] = 0.02
    assert all(
        each.value == pytest.approx(1 + 0.01 * (SEEDS - 1) / 2)
        for each in measured("time-sgd", story | {"escape_events.csv": events})
    )


def test_two_layers_of_which_no_theory_speaks_are_left_out_of_the_exponent_of_the_residual(story):
    shallow = story["escape_events.csv"].replace({"L": {3: 2}})
    found = measured("ladder-falling", story | {"escape_events.csv": shallow})
    assert {each.case.key["L"] for each in found} == {4, 6}


def test_plateaus_that_are_not_over_decide_where_they_can(story):
    """Longer already at depth 6 than at depth 4 the share is known; at depth 4 it is not."""
    following = story["escape_next.csv"]

    def found(L):
        stays = following.assign(left=np.where(following["L"] == L, 0, 1))
        (each,) = evaluate_claim(CLAIMS["4-longer-plateau"], story | {"escape_next.csv": stays})
        return each

    assert found(6)[0].value == 1 and found(4)[1] == "not run"


def test_exact_rank_one_is_asked_of_noise_smaller_than_the_rank_one_part_alone(story):
    found = {
        (each.case.key["ratio"], each.case.key["noise"]) for each, _ in evaluate_claim(CLAIMS["prop3.3-exact"], story)
    }
    assert found == {("A", 0.1), ("A", 0.4), ("B", 0.1), ("B", 0.4)}


def polygons(rows):
    return rows.assign(N=6) if "N" in rows else rows


def linear(rows):
    return rows.assign(activation="identity") if "activation" in rows else rows


def from_larger_weights(rows):
    return rows[rows["std"] > 1e-4] if "std" in rows else rows


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        ("1", linear, "needs ReLU networks"),
        ("2", polygons, "needs the circle"),
        ("6", polygons, "needs the circle"),
        ("depths", polygons, "needs the circle"),
        ("speeds", from_larger_weights, "needs networks from small weights"),
        ("budget", lambda rows: polygons(from_larger_weights(rows)), "has none of what it shows"),
    ],
)
def test_a_figure_says_what_a_study_lacks_and_its_claims_are_not_run(story, number, change, words):
    tables = {name: change(rows) for name, rows in story.items()}
    figure = next(each for each in SADDLE_TO_SADDLE.figures if each.id == f"saddle-{number}")
    with pytest.raises(UserError, match=words):
        drawing_of(figure).draw(tables, Style())
    about = [claim for claim in CLAIMS.values() if figure.id == claim.figure]
    assert "error" not in {verdict for claim in about for _, verdict in evaluate_claim(claim, tables)}


def test_a_kind_of_network_that_a_study_lacks_has_no_panel(story):
    figure = next(each for each in SADDLE_TO_SADDLE.figures if each.id == "saddle-controls")
    drawn = drawing_of(figure).draw({name: linear(rows) for name, rows in story.items()}, Style())
    assert [axis.get_title() for axis in drawn.axes] == ["linear"]


def test_networks_that_have_left_the_origin_alone_lack_a_second_escape(story):
    first = {name: of.query("ends <= 0.1") if "ends" in of else of for name, of in story.items()}
    ((found, verdict),) = evaluate_claim(CLAIMS["3-second"], first)
    assert (verdict, found.detail) == ("not run", "needs runs beyond the first escape")


@pytest.mark.parametrize(("share", "verdict"), [(0.09, "held"), (0.11, "undecided")])
@pytest.mark.parametrize("claim", ["ladder-direction", "time-growth"])
def test_networks_of_which_much_is_the_start_still_decide_nothing(story, claim, share, verdict):
    """At depth 6, from weights of 0.0001: their norm is set to a share of that at the escape."""
    events = story["escape_events.csv"].copy()
    these = (events["L"] == 6) & (events["std"] == 1e-4)
    start = these & (events["event"] == 0)
    events.loc[start, "norm"] = share * events.loc[these & (events["event"] == 0.01), "norm"].iloc[0]
    found = evaluate_claim(CLAIMS[claim], story | {"escape_events.csv": events})
    (at,) = ((each, said) for each, said in found if each.case.key == {"dataset": "digits", "L": 6, "std": 1e-4})
    assert at[1] == verdict and (f"{share:.2g} of all" in at[0].open) == (verdict == "undecided")
    assert {said for each, said in found if each.case != at[0].case} == {"held"}
    assert {said for _, said in evaluate_claim(CLAIMS["ladder-falling"], story | {"escape_events.csv": events})} == {
        "held"
    }
    # Where it is the smallest scale, nothing is told of how values fall with it.
    falling = evaluate_claim(CLAIMS["ladder-falling"], story | {"escape_events.csv": events.query("std >= 1e-4")})
    assert {said for each, said in falling if each.case.key["L"] == 6} == {verdict}
    assert {said for each, said in falling if each.case.key["L"] != 6} == {"held"}


def test_the_figure_of_a_run_that_ends_in_its_first_escape_has_one_moment(story):
    figure = next(each for each in SADDLE_TO_SADDLE.figures if each.id == "saddle-1")

    def titles(tables):
        return [axis.get_title() for axis in drawing_of(figure).draw(tables, Style()).axes]

    early = {name: of[of["event"] <= 0.01] if "event" in of else of for name, of in story.items()}
    assert titles(story) == ["a", "b: at a drop of 0.1", "c: at a drop of 0.3"]
    assert titles(early) == ["a", "b: at a drop of 0.01"]


def test_values_late_in_the_first_escape_name_the_drop_at_which_they_were_read(story):
    early = story["escape_layers.csv"].query("event <= 0.01")
    for layers, drop in ((story["escape_layers.csv"], "0.1"), (early, "0.01")):
        found = measured("1-one-value", story | {"escape_layers.csv": layers})
        assert {each.detail for each in found} == {f"at a drop of {drop}"}


def test_the_plateau_is_that_of_networks_that_stay_on_it_after_their_escape():
    given = room_story("1-plateau")
    early = given["escape_spectra.csv"].assign(s2=lambda rows: rows["s2"].where(rows["event"] != 0.1, 0.9))
    nxt = given["escape_next.csv"]
    left = nxt.assign(left=((nxt["seed"] == 0) & (nxt["ends"] == 0.3)).astype(int))
    found = measured("1-plateau", given | {"escape_spectra.csv": early, "escape_next.csv": left})
    assert [each.n for each in found] == [SEEDS - 1] * 6
    assert all(each.value == pytest.approx(0.2, rel=0.01) for each in found)
