"""Every claim is in the ledger once a study and case; an error of ours is never told as a verdict on a paper."""

import math

import pandas as pd
import pytest

from symlab.artifacts import read_table, write_table
from symlab.papers import PAPERS
from symlab.papers.claim import Claim, Verdict, above, at_least, at_most, below, between
from symlab.pipeline.ledger import (
    COLUMNS,
    claims_of,
    count_verdicts,
    describe_counts,
    errors_of,
    evaluate_claims,
    format_number,
    group_claims,
)

TABLE = pd.DataFrame({"x": [1.0]})
TABLES = {"s": {"a.csv": TABLE}}
STUDIES = {"s": {"figures": ["test-1"], "scale": "2 seeds"}}


def claim(name, evaluate, figure="test-1", tables=("a.csv",), also=(), explanation=""):
    return Claim(f"{figure}-{name}", figure, f"{name}: x", "at most 1", "why", tables, evaluate, also, explanation)


def held(tables):
    return Verdict(1.0, True, 2, 0.5)


def broken(tables):
    return Verdict(tables["a.csv"]["no such column"].mean(), True, 1)


def test_each_claim_has_one_row_a_case_with_every_column(card):
    cases = [Verdict(1.0, True, 2, case="layer 1"), Verdict(3.0, False, 2, case="layer 2")]
    paper = card([claim("one", held), claim("two", lambda tables: cases)])
    ledger = evaluate_claims(STUDIES, TABLES, [paper])
    assert list(ledger) == COLUMNS
    assert list(ledger["verdict"]) == ["held", "held", "failed"]
    assert list(ledger["case"]) == ["", "layer 1", "layer 2"]
    first = ledger.iloc[0]
    assert (first["paper"], first["study"], first["scale"]) == ("test-paper", "s", "2 seeds")
    assert (first["value"], first["spread"], first["n"], first["threshold"]) == (1.0, 0.5, 2, "at most 1")


def test_an_error_is_a_row_of_its_own_hides_no_claim_and_is_named(card, caplog):
    paper = card([claim("bad", broken), claim("told", broken, explanation="because"), claim("good", held)])
    ledger = evaluate_claims(STUDIES, TABLES, [paper])
    assert list(ledger["verdict"]) == ["error", "error", "held"]
    assert set(ledger["detail"][:2]) == {"KeyError: 'no such column'"} and set(ledger["why"]) == {""}
    assert "Traceback" in caplog.text
    said = errors_of(ledger)
    assert said.startswith("2 claims could not be evaluated: test-1-bad in study s (KeyError: 'no such column');")
    assert errors_of(ledger[2:]) == ""
    assert describe_counts(count_verdicts(ledger)) == "1 held, 0 failed, 2 errors, 0 not run"


def test_what_is_not_run_says_why(card):
    paper = card(
        [
            claim("no-table", held, tables=("a.csv", "b.csv")),
            claim("no-rows", held, tables=("c.csv",)),
            claim("no-networks", lambda tables: []),
            claim("no-case", lambda tables: Verdict(math.nan, None, 0, case="k = 2", detail="one width alone")),
            claim("no-study", held, figure="test-2"),
        ],
        figures=("1", "2"),
    )
    ledger = evaluate_claims(STUDIES, {"s": {"a.csv": TABLE, "c.csv": TABLE[:0]}}, [paper])
    assert set(ledger["verdict"]) == {"not run"}
    assert list(ledger["detail"]) == [
        "needs b.csv, which the study does not have",
        "needs c.csv, which the study does not have",
        "the study has no such networks",
        "one width alone",
        "no study of this config draws the figure",
    ]
    assert list(ledger["study"]) == ["s"] * 4 + [""]


def test_a_reported_statement_agrees_or_disagrees_and_only_numbers_are_explained(card):
    cases = [Verdict(1.0, True, 2), Verdict(2.0, False, 2), Verdict(math.nan, None, 0), Verdict(math.nan, False, 2)]
    paper = card([claim("told", lambda tables: cases, explanation="because")])
    ledger = evaluate_claims(STUDIES, TABLES, [paper])
    assert list(ledger["verdict"]) == ["agrees", "disagrees", "not run", "disagrees"]
    assert list(ledger["why"]) == ["", "because", "", ""]


def test_claims_stand_in_the_order_of_the_card_and_panels_with_their_whole(card):
    claims = [claim(f, held, figure=f"test-{f}") for f in ("thm1", "10", "3")]
    claims.append(claim("panel", held, figure="test-3a", also=("test-3",)))
    paper = card(claims, figures=("3", "10", "thm1"))
    assert [each.figure for each in claims_of(paper)] == ["test-3", "test-3a", "test-10", "test-thm1"]
    studies = {"s": {"figures": ["test-3"], "scale": ""}}
    ledger = evaluate_claims(studies, TABLES, [paper])
    assert list(ledger["verdict"]) == ["held", "held", "not run", "not run"]


def test_a_paper_of_which_nothing_is_drawn_is_left_out(card):
    other = card([claim("other", held, figure="other-1")], prefix="other")
    assert set(evaluate_claims(STUDIES, TABLES, [card([claim("one", held)]), other])["paper"]) == {"test-paper"}
    assert evaluate_claims({}, {}, [other]).empty


def test_the_cards_that_there_are_have_claims_and_headlines_among_them():
    ids = [each.id for paper in PAPERS for each in claims_of(paper)]
    assert len(ids) == len(set(ids))
    for paper in PAPERS:
        own = claims_of(paper)
        assert own and set(paper.headlines) <= {each.id for each in own}
        assert all(each.figure.startswith(f"{paper.prefix}-") and each.id.startswith(paper.prefix) for each in own)
        figures = [figure.id for figure in paper.figures]
        assert all(each.is_about(figures) for each in own)


def test_cases_are_gathered_worst_first_also_from_a_file(card, tmp_path):
    cases = [Verdict(float(layer), layer != 2, 2, None, f"layer {layer}") for layer in (1, 2, 3)]
    ledger = evaluate_claims(STUDIES, TABLES, [card([claim("one", held), claim("two", lambda tables: cases)])])
    two, one = group_claims(ledger)
    assert (two.verdict, two.against, two.range) == ("failed", 1, "1 to 3")
    assert [case.name for case in two.cases] == ["layer 2", "layer 1", "layer 3"]
    assert (one.verdict, one.range, one.headline, one.quantity) == ("held", "1 ± 0.5", "one", "x")
    write_table(tmp_path / "claims.csv", ledger)
    again = group_claims(read_table(tmp_path / "claims.csv"))
    assert [(each.claim, each.range, each.why) for each in again] == [
        (each.claim, each.range, "") for each in (two, one)
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (123456.7, "123,457"), (math.inf, "infinite"), (math.nan, "undefined")]
)
def test_numbers_are_written_for_people(value, text):
    assert format_number(value) == text


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


@pytest.mark.parametrize(
    ("figure", "title"),
    [("test-4a", "Figure 4a"), ("test-thm4.5", "Theorem 4.5"), ("test-sec4.5", "Section 4.5"), ("test-ridge", "Ridge")],
)
def test_figures_are_called_as_a_reader_does(card, figure, title):
    assert card([]).title_of(figure) == title
