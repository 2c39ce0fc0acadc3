"""A kept run judged again loses no verdict, and never says that what was run was not."""

import math

import pandas as pd
import pytest

from symlab.artifacts import read_table, write_table
from symlab.pipeline.ledger import evaluate_claims
from symlab.pipeline.rejudge import rejudge
from symlab.study.claim import Measurement, at_least, at_most, exact_value, share_of

from .judged import STUDIES, TABLE, TABLES, claim

HARD = {"tables": ("hardness.csv",)}
BOTH = {"s": dict.fromkeys(("a.csv", "hardness.csv"), TABLE)}


def told(ledger):
    return {row.claim.removeprefix("test-1-"): (row.verdict, row.detail) for row in ledger.itertuples()}


@pytest.fixture
def kept(card):
    found = [Measurement(2.0, 5, case="", error=0.1, detail="β = 1")]
    return evaluate_claims(STUDIES, BOTH, [card([claim("ridge", found, **HARD), claim("here", found)])])


def test_a_claim_whose_table_is_gone_keeps_its_value_and_says_so(card, kept):
    found = [Measurement(0.5, 5, error=0.1)]
    paper = card([claim("ridge", found, **HARD), claim("here", found), claim("new", found)])
    ledger = rejudge(kept, TABLES, "1856119", (paper,))
    gone = "judged earlier (failed at 1856119), table not kept; β = 1"
    assert told(ledger) == {"ridge": ("failed", gone), "here": ("held", ""), "new": ("held", "")}
    # Once more, also through a file, nothing is said twice.
    assert told(rejudge(ledger, TABLES, "later", (paper,))) == told(ledger)
    # In the order of the card.
    assert list(told(rejudge(ledger[::-1], TABLES, "later", (paper,)))) == ["ridge", "here", "new"]


def test_a_claim_that_measures_something_else_by_now_has_no_verdict_and_says_what_was_measured(card, kept):
    paper = card([claim("ridge", (), quantity="ratio", **HARD), claim("here", [exact_value(0.5)])])
    old = kept.assign(quantity="sum")
    ledger = rejudge(old, TABLES, papers=(paper,))
    gone = "something else was measured, table not kept: sum: 2.00 ± 0.10 (failed); β = 1"
    assert told(ledger) == {"ridge": ("not run", gone), "here": ("held", "")}
    (row,) = ledger[ledger["claim"] == "test-1-ridge"].to_dict("records")
    assert row["quantity"] == "ratio" and math.isnan(row["value"]) and math.isnan(row["high"]) and row["n"] == 0
    assert told(rejudge(ledger, TABLES, papers=(paper,))) == told(ledger)
    assert told(rejudge(ledger, papers=(paper,))) == told(ledger)
    reworded = told(rejudge(old, TABLES, papers=(paper,), reworded=True))
    assert reworded["ridge"] == ("failed", "judged earlier (failed), table not kept; β = 1")
    # With its table the claim is measured anew.
    anew = card([claim("ridge", [exact_value(0.5)], quantity="ratio", **HARD)])
    assert told(rejudge(ledger, BOTH, papers=(anew,)))["ridge"] == ("held", "")


@pytest.mark.parametrize("tables", [{}, TABLES])
def test_a_stand_in_stays_one(card, tables):
    paper = card([claim("one", [exact_value(0.5)])])
    studies = {"s": STUDIES["s"] | {"stand_in": "digits"}}
    kept = evaluate_claims(studies, TABLES, [paper])
    assert list(rejudge(kept, tables, papers=(paper,))["owner"]) == ["stand-in"]


def test_a_claim_about_several_figures_brings_in_no_other_claim_of_a_figure_that_its_study_did_not_draw(card):
    """A row names the first figure of its claim, which need not be the one that the study drew."""
    found = [Measurement(0.5, 5, error=0.1)]
    both = claim("both", found, also=("test-2",))
    paper = card([claim("one", found), both, claim("own", found, figure="test-2")], ["1", "2"])
    for drawn, claims in (("test-2", ["test-1-both", "test-2-own"]), ("test-1", ["test-1-one", "test-1-both"])):
        kept = evaluate_claims({"s": STUDIES["s"] | {"figures": [drawn]}}, TABLES, [paper])
        ledger = rejudge(kept, TABLES, papers=(paper,))
        pd.testing.assert_frame_equal(ledger, kept, check_dtype=False)
        assert list(ledger.loc[ledger["study"] == "s", "claim"]) == claims


def test_where_all_tables_are_kept_and_decide_nothing_any_more_the_claim_is_not_run(card, kept):
    paper = card([claim("ridge", [], **HARD), claim("here", [Measurement(0.5, 5, error=0.1)])])
    ledger = rejudge(kept, BOTH, papers=(paper,))
    assert {name: verdict for name, (verdict, _) in told(ledger).items()} == {"ridge": "not run", "here": "held"}


def test_rounding_changes_no_row_and_claims_that_were_not_run_add_none(card, kept):
    found = [Measurement(2.0 * (1 + 1e-14), 5, case="", error=0.1, detail="β = 1")]
    paper = card([claim("ridge", found, **HARD), claim("here", found), claim("new", (), tables=("new.csv",))])
    pd.testing.assert_frame_equal(rejudge(kept, BOTH, papers=(paper,)), kept, check_exact=True, check_dtype=False)


def test_without_tables_the_rows_are_judged_by_todays_bounds_and_rules(card, kept):
    paper = card([claim("ridge", (), bound=at_most(3), owner="derived", statement="anew"), claim("new", ())])
    (row,) = rejudge(kept, papers=(paper,)).to_dict("records")
    assert (row["verdict"], row["detail"], row["owner"], row["statement"]) == ("held", "β = 1", "derived", "anew")
    assert (row["threshold"], row["value"], row["error"], row["n"]) == ("at most 3", 2.0, 0.1, 5)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (Measurement(0.5, 2, error=0.1), "undecided"),
        (Measurement(0.5, 1), "one unit"),
        (Measurement(0.5, 4), "undecided"),
        (exact_value(0.5), "held"),
        (Measurement(0.5, 3, error=0.01, degrees=1), "held"),
        (Measurement(0.5, 3, error=0.05, degrees=1), "undecided"),
        (share_of(0, 20), "held"),
        (Measurement(0.5, 4, error=0.01, open="not reached"), "undecided"),
    ],
)
def test_a_row_alone_gives_the_verdict_that_its_tables_gave(card, tmp_path, measured, verdict):
    paper = card([claim("one", [measured])])
    write_table(tmp_path / "claims.csv", evaluate_claims(STUDIES, TABLES, [paper]))
    before = read_table(tmp_path / "claims.csv")
    assert list(before["verdict"]) == [verdict]
    after = rejudge(before, papers=(paper,))
    texts = ["case", "key", "quantity", "detail", "why"]
    pd.testing.assert_frame_equal(after.drop(columns=texts), before.drop(columns=texts))


def test_rows_of_an_older_form_have_no_interval_but_their_errors(card, kept):
    old = kept.drop(columns=["low", "high", "owner"]).assign(value=0.5, error=[0.1, math.nan], verdict="held")
    ledger = rejudge(old, papers=(card([claim("ridge", (), bound=at_least(0.4)), claim("here", ())]),))
    assert [verdict for verdict, _ in told(ledger).values()] == ["undecided", "undecided"]


def test_a_table_of_a_form_that_is_not_read_any_more_is_as_good_as_gone(card, kept):
    broken = claim("here", lambda tables: tables["a.csv"]["no such column"])
    ledger = rejudge(kept, TABLES, papers=(card([broken]),))
    assert told(ledger) == {"here": ("failed", "judged earlier (failed), table not kept; β = 1")}
