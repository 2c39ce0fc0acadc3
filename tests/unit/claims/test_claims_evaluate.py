import logging
import math

import pandas as pd
import pytest

from symlab.claims import PAPERS, Claim, Verdict, evaluate_study, ledger, tables_of_claims
from symlab.papers.claim import above, at_least, at_most, below, between
from symlab.claims.evaluate import COLUMNS
from symlab.errors import UserError

TABLE = pd.DataFrame({"value": [1.0, 2.0]})


def claim(id, evaluate, figure="1", tables=("a.csv",), also=(), explanation=""):
    return Claim(id, figure, f"statement of {id}", "at most 1", "a reason", tables, evaluate, also, explanation)


def broken(tables):
    return tables["a.csv"]["no such column"]


PAPER = {
    "paper": (
        claim("two", lambda tables: [Verdict(1.0, True, 2, 0.5, "x"), Verdict(2.0, False, 2, None, "y", "why")]),
        claim("one", lambda tables: Verdict(float(tables["a.csv"]["value"].sum()), True, 2), figure="2"),
        claim("none", lambda tables: None, figure="2"),
        claim("empty", lambda tables: [], figure="2"),
        claim("partly", lambda tables: [Verdict(math.nan, None, 0, case="x"), Verdict(1.0, True, 1, case="y")], "3"),
        claim("broken", broken, figure="10"),
        claim("elsewhere", broken, figure="3b"),
        claim("other-table", broken, figure="1", tables=("a.csv", "b.csv")),
    )
}
STUDIES = {"s": {"figures": ["1", "2", "3", "10"], "scale": "4 seeds"}}


def test_one_row_a_claim_and_case_with_all_columns():
    rows = evaluate_study("paper", "s", ["1"], {"a.csv": TABLE}, "4 seeds", PAPER)
    assert list(rows.columns) == COLUMNS
    first, second, third = rows.to_dict("records")
    assert first | {"verdict": "held", "case": "x", "value": 1.0, "spread": 0.5, "n": 2, "scale": "4 seeds"} == first
    assert (second["verdict"], second["detail"]) == ("failed", "why")
    assert math.isnan(second["spread"])
    assert (third["claim"], third["verdict"]) == ("other-table", "not run at this scale")


def test_a_study_without_figures_has_no_rows():
    assert evaluate_study("paper", "s", [], {"a.csv": TABLE}, "4 seeds", PAPER).empty


@pytest.mark.parametrize("tables", [{}, {"a.csv": TABLE.iloc[:0]}])
def test_without_rows_nothing_is_run(tables):
    rows = evaluate_study("paper", "s", ["1", "2", "10"], tables, "4 seeds", PAPER)
    assert set(rows["verdict"]) == {"not run at this scale"}


def test_a_broken_evaluation_shows_as_failed_with_its_error_and_hides_no_other(caplog):
    with caplog.at_level(logging.ERROR):
        rows = evaluate_study("paper", "s", ["10", "2"], {"a.csv": TABLE}, "4 seeds", PAPER).set_index("claim")
    assert rows.loc["broken", "verdict"] == "failed"
    assert rows.loc["broken", "detail"] == "could not be evaluated: KeyError: 'no such column'"
    assert rows.loc["one", "verdict"] == "held"
    assert caplog.records[0].exc_info is not None and "broken" in caplog.text


def test_what_is_no_fault_of_a_claim_ends_the_run():
    def interrupted(tables):
        raise MemoryError

    with pytest.raises(MemoryError):
        evaluate_study("paper", "s", ["1"], {"a.csv": TABLE}, "", {"paper": (claim("x", interrupted),)})


def test_an_unknown_paper_is_a_user_s_error():
    with pytest.raises(UserError, match="neuron-identifiability"):
        evaluate_study("other", "s", [], {}, "")


def test_the_ledger_holds_every_claim_and_those_of_undrawn_figures_once():
    twice = STUDIES | {"t": {"figures": ["2"], "scale": "8 seeds"}}
    book = ledger(twice, {"s": {"a.csv": TABLE}, "t": {"a.csv": TABLE}}, PAPER)
    assert set(book["claim"]) == {each.id for each in PAPER["paper"]}
    assert list(book.loc[book["claim"] == "one", "study"]) == ["s", "t"]
    (undrawn,) = book[book["claim"] == "elsewhere"].to_dict("records")
    assert undrawn | {"verdict": "not run at this scale", "study": "", "scale": "", "n": 0} == undrawn
    assert list(book["figure"].unique()) == ["1", "2", "3", "3b", "10"]


def test_the_ledger_of_nothing_lists_every_claim_as_not_run():
    book = ledger({}, {})
    assert len(book) == sum(len(claims) for claims in PAPERS.values())
    assert set(book["verdict"]) == {"not run at this scale"}


def test_a_reported_statement_agrees_or_disagrees_and_fails_nothing():
    cases = [Verdict(1.0, True, 2, case="x"), Verdict(2.0, False, 2, case="y"), Verdict(math.nan, None, 0, case="z")]
    cases.append(Verdict(math.nan, False, 2, case="undefined"))
    papers = {"paper": (claim("told", lambda tables: cases, explanation="because"),)}
    rows = evaluate_study("paper", "s", ["1"], {"a.csv": TABLE}, "", papers)
    assert list(rows["verdict"]) == ["agrees", "disagrees", "not run at this scale", "disagrees"]
    # Only a number that disagrees is explained.
    assert list(rows["why"]) == ["", "because", "", ""]


def test_a_broken_evaluation_of_a_reported_statement_is_no_disagreement():
    papers = {"paper": (claim("told", broken, explanation="because"),)}
    (row,) = evaluate_study("paper", "s", ["1"], {"a.csv": TABLE}, "", papers).to_dict("records")
    assert (row["verdict"], row["why"]) == ("failed", "")


def test_checks_are_not_explained():
    rows = evaluate_study("paper", "s", ["1"], {"a.csv": TABLE}, "", PAPER)
    assert "failed" in set(rows["verdict"]) and set(rows["why"]) == {""}


def test_papers_of_which_no_figure_is_drawn_are_left_out():
    papers = PAPER | {"other": (claim("of-other", lambda tables: Verdict(1.0, True, 1), figure="99"),)}
    tables = {"s": {"a.csv": TABLE}}
    assert set(ledger(STUDIES, tables, papers)["paper"]) == {"paper"}
    both = STUDIES | {"t": {"figures": ["99"], "scale": ""}}
    assert set(ledger(both, tables, papers)["paper"]) == {"paper", "other"}
    # A config that draws nothing is told about everything.
    assert set(ledger({"s": {"figures": [], "scale": ""}}, tables, papers)["paper"]) == {"paper", "other"}


def test_claims_answer_to_the_other_names_of_their_figure():
    papers = {"paper": (claim("panel", lambda tables: Verdict(1.0, True, 1), "4a", also=("4",)),)}
    assert len(evaluate_study("paper", "s", ["4"], {"a.csv": TABLE}, "", papers)) == 1
    assert evaluate_study("paper", "s", ["4b"], {"a.csv": TABLE}, "", papers).empty
    assert tables_of_claims(["4"], papers) == ["a.csv"]


def test_a_claim_that_lacks_tables_says_which_and_hides_no_other():
    rows = evaluate_study("paper", "s", ["1"], {"a.csv": TABLE, "b.csv": TABLE.iloc[:0]}, "4 seeds", PAPER)
    assert list(rows["verdict"]) == ["held", "failed", "not run at this scale"]
    assert rows["detail"].iloc[2] == "needs b.csv, which the study does not have"


def test_theorems_follow_the_figures_in_the_order_of_their_claims():
    names = ["thm5.1", "10", "prop5.2", "3a", "sec4.5"]
    papers = {"paper": tuple(claim(name, lambda tables: None, figure=name) for name in names)}
    in_order = ["3a", "10", "thm5.1", "prop5.2", "sec4.5"]
    assert list(ledger({}, {}, papers)["figure"]) == in_order
    figures = list(dict.fromkeys(each.figure for each in PAPERS["neuron-identifiability"]))
    theorems = ["thm4.4", "thm4.5", "thm4.7", "thm4.8", "sec4.5", "thm5.1", "prop5.2", "ridge"]
    assert [figure for figure in figures if not figure[0].isdigit()] == theorems


@pytest.mark.parametrize(
    ("bound", "text", "inside", "outside"),
    [
        (at_most(3, "pp"), "at most 3 pp", [3.0, -math.inf], [3.1, math.inf]),
        (at_least(0.9), "at least 0.9", [0.9, math.inf], [0.89]),
        (between(-0.15, -0.05), "between -0.15 and -0.05", [-0.15, -0.05], [-0.16, 0.0]),
        (below(0.2), "below 0.2", [0.1], [0.2]),
        (between(-5, 5, "pp"), "between -5 and 5 pp", [-5.0, 5.0], [5.1]),
        (above(0), "above 0", [0.1, math.inf], [0.0]),
    ],
)
def test_bounds_do_as_they_say(bound, text, inside, outside):
    assert bound.text == text
    assert all(bound.allows(value) for value in inside)
    assert not any(bound.allows(value) for value in [*outside, math.nan])
