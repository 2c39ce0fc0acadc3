"""Every claim is in the ledger once a study and case; an error of ours is never told as a verdict on a paper."""

import math
from functools import partial

import numpy as np
import pytest

from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline.ledger import (
    claims_of,
    evaluate_claims,
    format_number,
    format_value,
    group_claims,
)
from symlab.study.claim import (
    Measurement,
    above,
    at_least,
    at_most,
    below,
    between,
    difference_of,
    exact_value,
    mean_of,
    not_measured,
    ratio_of,
    share_of,
    value_of_all,
)

from .judged import STUDIES, TABLES, claim, judged


def test_phrases_are_told_where_no_case_has_a_value(card):
    def measure(tables, stop=False):
        yield exact_value(1.0, 2, "layer 1")
        yield "layer 2 has no neurons"
        if stop:
            raise UserError("the study lacks layer 3")

    assert list(judged(card, claim("one", measure))["case"]) == ["layer 1"]
    # A phrase speaks of the claim; a case that has no value stands beside those that have one.
    ledger = judged(card, claim("one", lambda tables: [*measure(tables), not_measured("layer 3", "is too small")]))
    assert ledger[["case", "verdict", "detail"]].to_numpy().tolist()[1:] == [["layer 3", "not run", "is too small"]]
    (told,) = group_claims(ledger)
    assert (told.verdict, told.range, len(told.measured)) == ("held", "1", 1)
    alone = judged(card, claim("one", lambda tables: [not_measured("layer 3", "is too small"), "needs a layer 1"]))
    assert alone[["case", "verdict", "detail"]].to_numpy().tolist() == [
        ["layer 3", "not run", "is too small"],
        ["", "not run", "needs a layer 1"],
    ]
    stopped = judged(card, claim("one", partial(measure, stop=True)))
    assert stopped[["verdict", "detail"]].to_numpy().tolist() == [["not run", "the study lacks layer 3"]]
    nothing = judged(card, claim("one", []))
    assert nothing[["verdict", "detail"]].to_numpy().tolist() == [["not run", "the study has no such networks"]]


# Two-sided 95 % quantiles of Student's t: 12.706 for one degree of freedom, 4.303 for 2, 3.182 for 3, 2.045 for 29.
@pytest.mark.parametrize(
    ("bound", "measured", "verdict"),
    [
        (at_most(1), Measurement(0.5, 2, error=0.03), "held"),
        (at_most(1), Measurement(0.5, 2, error=0.04), "undecided"),
        (at_most(1), Measurement(1.5, 2, error=0.04), "undecided"),
        (at_most(1), Measurement(1.5, 2, error=0.03), "failed"),
        (at_most(1), Measurement(0.5, 3, error=0.11), "held"),
        (at_most(1), Measurement(0.5, 3, error=0.12), "undecided"),
        (at_most(1), Measurement(0.5, 30, error=0.24), "held"),
        (at_most(1), Measurement(0.5, 30, error=0.25), "undecided"),
        (between(1, 3), Measurement(2.0, 4, error=0.3), "held"),
        (between(1, 3), Measurement(2.0, 4, error=0.32), "undecided"),
        (between(1, 3), Measurement(3.5, 4, error=0.32), "undecided"),
        # A line takes two numbers from the values: three networks leave one degree of freedom.
        (at_most(1), Measurement(0.5, 3, error=0.05, degrees=1), "undecided"),
        (at_most(1), Measurement(0.5, 2, error=0.0001, degrees=0), "undecided"),
        # Known ends stand for what an error would give; on the edge they decide nothing.
        (at_most(1), Measurement(0.5, 4, error=0.5, ends=(0.4, 0.9)), "held"),
        (at_most(1), Measurement(0.5, 4, error=0.1, ends=(0.4, 1.0)), "undecided"),
        (at_least(0.5), Measurement(0.75, 4, ends=(0.5, 1.0)), "undecided"),
        # One unit is a value; several without an error are not known well enough.
        (at_most(1), Measurement(0.5, 1), "one unit"),
        (at_most(1), Measurement(1.5, 1), "one unit"),
        (at_most(1), mean_of(np.array([0.5])), "one unit"),
        (at_most(1), share_of(1, 1), "one unit"),
        (at_most(1), value_of_all(0.5, 1), "one unit"),
        (at_most(1), Measurement(0.5, 4), "undecided"),
        (at_most(1), Measurement(0.5, 4, error=0.01, open="not reached"), "undecided"),
        # What is exact has a verdict, at the threshold too.
        (at_most(1), exact_value(0.5), "held"),
        (at_most(1), exact_value(1.0), "held"),
        (below(1), exact_value(1.0), "failed"),
        (at_most(1), value_of_all(1.5, 2), "failed"),
        (at_most(1), mean_of(np.array([1.0, 1.0])), "held"),
        (at_least(0), Measurement(math.inf, 4, error=0.1), "held"),
        (at_most(0), Measurement(math.inf, 4), "failed"),
        (at_least(0), Measurement(math.nan, 4), "undecided"),
    ],
)
def test_a_threshold_in_the_interval_decides_nothing(card, bound, measured, verdict):
    ledger = judged(card, claim("one", [measured], bound=bound, why="so"))
    assert list(ledger["verdict"]) == [verdict]
    assert list(ledger["why"]) == ["so" if verdict == "failed" else ""]


def test_a_reason_is_found_in_the_tables_of_what_failed(card):
    """It is asked for where a case failed, and told of it alone; one that cannot be found is an error of ours."""
    cases = [exact_value(2.0, case="a"), exact_value(3.0, case="b"), exact_value(0.0, case="c")]
    ledger = judged(card, claim("one", cases, why=lambda tables: [("a", f"of {len(tables)}"), ("c", "none")]))
    assert list(ledger["why"]) == ["a: of 1", "", ""]
    broken = {"why": lambda tables: 1 / 0}
    ledger = judged(card, claim("one", cases[2:], **broken), claim("two", cases, **broken))
    assert list(ledger["verdict"]) == ["held", "error"]


def test_an_undefined_value_decides_nothing_and_says_so(card):
    cases = [Measurement(math.nan, 4, detail="base of 0"), Measurement(math.nan, 4, case="b", open="not reached")]
    ledger = judged(card, claim("one", cases, bound=above(0)), claim("two", [exact_value(0.0)], bound=above(0)))
    assert list(ledger["verdict"]) == ["undecided", "undecided", "failed"]
    assert list(ledger["detail"][:2]) == ["the value is undefined: base of 0", "the value is undefined: not reached"]


@pytest.mark.parametrize(
    ("hits", "n", "ends"),
    [(4, 5, (0.283582, 0.994949)), (0, 20, (0.0, 0.168433)), (20, 20, (0.831567, 1.0)), (5, 10, (0.187086, 0.812914))],
)
def test_a_share_has_the_exact_interval_of_the_tables(hits, n, ends):
    """Clopper and Pearson's, as printed in tables of binomial confidence limits."""
    assert share_of(hits, n).interval == pytest.approx(ends, abs=1e-6)


def test_two_samples_count_as_many_units_as_the_smaller_has():
    many, few = np.array([3.0, 4.0, 5.0, 4.0]), np.array([1.0, 2.0])
    assert [each.n for each in (difference_of(many, few), difference_of(few, many), ratio_of(many, few))] == [2, 2, 2]
    assert difference_of(many, few[:1]).interval is None


def test_an_error_is_logged_with_its_traceback(card, caplog):
    judged(card, claim("bad", lambda tables: tables["a.csv"]["no such column"]))
    assert "Traceback" in caplog.text


def test_claims_stand_in_the_order_of_the_card_and_panels_with_their_whole(card):
    claims = [claim("x", [exact_value(1.0)], figure=f"test-{f}") for f in ("thm1", "10", "3")]
    claims.append(claim("panel", [exact_value(1.0)], figure="test-3a", also=("test-3",)))
    paper = card(claims, figures=("3", "10", "thm1"))
    assert [each.figure for each in claims_of(paper)] == ["test-3", "test-3a", "test-10", "test-thm1"]
    ledger = evaluate_claims({"s": {"figures": ["test-3"], "scale": ""}}, TABLES, [paper])
    assert list(ledger["verdict"]) == ["held", "held", "not run", "not run"]


def test_a_paper_of_which_nothing_is_drawn_is_left_out(card):
    other = card([claim("other", [], figure="other-1")], prefix="other")
    assert set(evaluate_claims(STUDIES, TABLES, [card([claim("one", [])]), other])["paper"]) == {"test-paper"}
    assert evaluate_claims({}, {}, [other]).empty


def test_the_cards_that_there_are_have_claims_whose_figures_and_sentences_exist():
    ids = [each.id for paper in PAPERS for each in claims_of(paper)]
    assert len(ids) == len(set(ids))
    for paper in PAPERS:
        own, figures = claims_of(paper), [figure.id for figure in paper.figures]
        assert own and all(each.id.startswith(paper.prefix) and each.is_about(figures) for each in own)
        assert paper.heading and paper.thumbnail[0] in figures
        # Two rows of a page with one sentence could not be told apart.
        assert len({(each.figure, each.statement) for each in own}) == len(own)


def test_units_that_are_all_alike_are_counted_and_not_exact(card):
    (one,) = group_claims(judged(card, claim("one", [Measurement(0.5, 5, error=0.0)])))
    assert one.cases[0].units == "n = 5 pairs"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(0.12345, "0.123"), (-123456.7, "−123,457"), (-2e-5, "−2 × 10⁻⁵")],
        *[(math.inf, "infinite"), (math.nan, "undefined"), (999.6, "1,000"), (-999.4, "−999"), (-0.0, "0")],
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert format_number(value) == text == format_value(value)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        *[(29.123, 5.09, "29.1 ± 5.1"), (0.05141, 0.00983, "0.0514 ± 0.0098"), (12345, 678, "12,340 ± 680")],
        *[(-0.001, 0.5, "0.00 ± 0.50"), (1, 0, "1"), (2.346e-8, 1.23e-9, "2.35 × 10⁻⁸ ± 1.2 × 10⁻⁹")],
    ],
)
def test_a_value_has_the_digits_that_its_error_leaves_it(value, error, text):
    assert format_value(value, error) == text


@pytest.mark.parametrize(
    ("bound", "text", "inside", "outside"),
    [
        (at_most(3, "pp"), "at most 3 pp", [3.0, -math.inf], [3.1, math.inf]),
        (at_least(0.9), "at least 0.9", [0.9, math.inf], [0.89]),
        (between(-0.15, -0.05), "between -0.15 and -0.05", [-0.15, -0.05], [-0.16, 0.0]),
        (below(0.2), "below 0.2", [0.1], [0.2]),
        (above(0), "above 0", [0.1, math.inf], [0.0]),
    ],
)
def test_bounds_do_as_they_say(bound, text, inside, outside):
    assert bound.text == text
    assert all(bound.allows(value) for value in inside)
    assert not any(bound.allows(value) for value in [*outside, math.nan])
