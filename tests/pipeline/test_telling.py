"""What is told of claims: under figures, on the first page and in the docs."""

import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from symlab.artifacts import read_table, write_table
from symlab.papers import PAPERS
from symlab.pipeline.ledger import evaluate_claims, group_claims
from symlab.pipeline.provenance import ROOT
from symlab.pipeline.telling import (
    _without_shared,
    count_findings,
    describe_counts,
    doubt_of,
    kept_verdicts,
    read_kept,
    tell,
    tell_elsewhere,
    tell_headline,
    tell_kept,
    tell_largest,
)
from symlab.study.card import Sentence, at
from symlab.study.claim import Measurement, exact_value

from .judged import STUDIES, TABLES, claim, judged


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["RN1 on mnist", "RN1 on imdb"], ["mnist", "imdb"]),
        (["NC1, RN1 on mnist", "NC2, RN1 on mnist"], ["NC1, RN1 on mnist", "NC2, RN1 on mnist"]),
        (["RN1 on mnist", "RN1 on mnist"], ["mnist", "mnist"]),
    ],
)
def test_names_lose_what_all_share_but_never_their_last_part(names, told):
    assert _without_shared(names) == told


def test_sentences_are_told_of_what_was_measured_alone(card):
    cases = [Measurement(0.291, 4, case="standard", error=0.025), Measurement(0.5, 1, case="W")]
    sentences = [
        Sentence("They lose {a:%}, with masks {b}.", {"a": ("test-1-one", "standard"), "b": ("test-1-one", "W")}),
        Sentence("Not told: {c}.", {"c": ("test-1-one", "syre")}),
    ]
    assert tell(sentences, group_claims(judged(card, claim("one", cases)))) == [
        "They lose 29.1 ± 2.5 %, with masks 0.5 (one unit)."
    ]


def test_values_in_a_sentence_have_the_form_that_it_asks_for_and_a_doubtful_one_another_text(card):
    cases = [Measurement(0.291, 4, case="a", error=0.025), Measurement(-1.5, 4, case="b", error=0.1)]
    cases += [Measurement(31.6, 4, case="c", error=0.1), Measurement(math.inf, 4, case="d")]
    values = {name: ("test-1-one", name) for name in "abcd"}
    text = "{a:~}, {a:~%}, {b:^}, {b:^2}, {c:~}, {d:~}"
    claims = group_claims(judged(card, claim("one", cases)))
    assert tell([Sentence(text, values)], claims) == ["0.29, 29 %, 0.032, 0.35, 32 (failed), infinite (failed)"]
    # All of a's and b's values held; c's did not.
    both = [Sentence(f"Held: {{{name}:~}}.", {name: values[name]}, "Not so.") for name in "bc"]
    assert tell(both, claims) == ["Held: \N{MINUS SIGN}1.5.", "Not so."]
    paper = card([], headline=(*both, Sentence("Nothing of {e}.", {"e": ("test-1-one", "e")})))
    assert tell_headline(paper, claims) == "Held: \N{MINUS SIGN}1.5. Not so (failed; threshold: at most 1)."
    # A threshold of a logarithm is none of the factor that is told.
    paper = card([], headline=(Sentence("{c:^2} times.", {"c": values["c"]}),))
    assert tell_headline(paper, claims).endswith("times (failed).")


def test_cases_are_told_by_what_tells_them_apart(card):
    names = ("M = 3, RN1 on mnist", "M = 3, RN1 on imdb, L = 2")
    claims = group_claims(judged(card, claim("one", [exact_value(0.5, case=name) for name in names])))
    assert tell([Sentence("{a}.", {"a": at("test-1-one")})], claims) == ["0.5 (all 2 cases)."]
    claims = group_claims(judged(card, claim("one", [exact_value(at / 4, case=name) for at, name in enumerate(names)])))
    assert tell([Sentence("{a}.", {"a": at("test-1-one")})], claims) == ["0 (mnist), 0.25 (imdb, L = 2)."]


def test_cases_that_several_studies_have_are_told_with_their_study(card):
    """As the summary at the end of a run tells a headline, of all its studies at once."""
    cases = {"mine": {"standard": 0.25, "syre": 0.5}, "pixels": {"standard": 0.75}}
    claims = [
        replace(each, study=study)
        for study, values in cases.items()
        for each in group_claims(judged(card, claim("one", [exact_value(v, case=c) for c, v in values.items()])))
    ]
    sentences = [Sentence("{a}.", {"a": place}) for place in (at("test-1-one"), ("test-1-one", "standard"))]
    both = "0.25 (standard, study mine), 0.5 (syre), 0.75 (standard, study pixels)."
    assert tell(sentences, claims) == [both, "0.25 (study mine), 0.75 (study pixels)."]
    assert tell(sentences, claims[:1]) == ["0.25 (standard), 0.5 (syre).", "0.25."]


def test_four_cases_that_are_told_alike_are_counted(card):
    cases = [exact_value(0.5, case=name) for name in "abcd"] + [exact_value(2.0, case="e")]
    claims = group_claims(judged(card, claim("one", cases)))
    sentence = Sentence("{a}.", {"a": at("test-1-one")})
    assert tell([sentence], claims) == ["2 (e, failed), 0.5 (4 cases)."]


def test_errors_are_counted_first_and_only_where_there_are_any():
    told = [describe_counts(Counter(held=2, error=n)) for n in range(3)]
    assert told == [f"{errors}2 held, 0 failed, 0 undecided, 0 not run" for errors in ("", "1 error, ", "2 errors, ")]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.slug)
def test_the_kept_demo_has_every_value_of_the_first_screen(paper):
    ledger = read_table(ROOT / "results" / "reference" / "demo" / "claims.csv")
    claims = group_claims(ledger[ledger["paper"] == paper.slug])
    told = tell(paper.headline, claims)
    assert len(told) == len(paper.headline) and sum(text.count("**") for text in told) // 2 == 1
    assert sum(len(re.findall(r"\b[Bb]ut\b", text)) for text in told) <= 1


def test_kept_runs_tell_the_worst_verdict_of_a_claim(card, tmp_path):
    ledger = judged(card, claim("one", [exact_value(1.0, case="a"), exact_value(2.0, case="b")]), claim("no", []))
    write_table(tmp_path / "mnist" / "claims.csv", ledger)
    write_table(tmp_path / "theory" / "claims.csv", ledger[ledger["verdict"] != "failed"])
    write_table(tmp_path / "demo" / "claims.csv", ledger)
    kept = read_kept(tmp_path)
    assert kept_verdicts(kept) == {"test-1-one": {"demo": "failed", "mnist": "failed", "theory": "held"}}
    assert tell_kept(group_claims(ledger), kept) == {"mnist": "1 failed: one holds", "theory": "1 held"}


def test_the_paper_s_findings_asked_of_stand_ins_are_counted_apart(card):
    paper = card([claim("one", [exact_value(2.0)]), claim("sure", [exact_value(0.5)], kind="theorem")])
    claims = {}
    for name, stand_in in (("its own", ""), ("another", "digits, not MNIST")):
        studies = {"s": STUDIES["s"] | {"stand_in": stand_in}}
        claims[name] = group_claims(evaluate_claims(studies, TABLES, [paper]))
    assert [each.owner for each in claims["another"]] == ["stand-in", "paper"]
    assert [count_findings(claims[name], owners=("paper",))["failed"] for name in claims] == [1, 0]
    assert count_findings(claims["another"], owners=("stand-in",))["failed"] == 1
    assert count_findings(claims["another"])["failed"] == 1
    kept = {"run": [*claims["its own"], *claims["another"]], "small": claims["another"]}
    assert tell_kept(claims["its own"], kept) == {
        "run": "1 failed: one holds; as a stand-in 1 failed: one holds",
        "small": "as a stand-in 1 failed: one holds",
    }


def test_what_failed_in_a_kept_run_alone_is_named_first(card):
    def run(**values):
        claims = [claim(name, [exact_value(value, case="a")]) for name, value in values.items()]
        return group_claims(judged(card, *claims))

    told = tell_kept(run(a=2.0, b=1.0), {"demo": run(a=2.0, b=1.0), "mnist": run(a=2.0, b=2.0)})
    assert told == {"mnist": "2 failed: b holds; a holds"}
    # Three are named; of more the number of the others.
    three, five = (run(**dict.fromkeys(names, 2.0)) for names in ("abc", "abcde"))
    assert tell_kept(five, {"mnist": three, "whole": five}) == {
        "mnist": "3 failed: a holds; b holds; c holds",
        "whole": "5 failed: a holds; b holds; c holds; 2 more",
    }


def test_a_sentence_says_which_of_its_values_did_not_hold_and_what_other_runs_decided_else(card):
    def run(*values):
        return group_claims(judged(card, claim("one", [exact_value(value, case=name) for name, value in values])))

    here, there = run(("a", 0.5), ("b", 31.0)), run(("a", 2.0), ("b", 32.0))
    sentence = Sentence("{a} and {b:~}.", {name: ("test-1-one", name) for name in "ab"})
    assert tell([sentence], here) == ["0.5 and 31 (failed)."]
    assert doubt_of(sentence, here) == "" and doubt_of(sentence, there) == "failed"
    elsewhere = "Other runs: 2 (mnist, failed)."
    assert tell_elsewhere(sentence, here, {"mnist": there, "demo": there}) == elsewhere
    # One unit decides nothing, here or there.
    (one,) = run(("a", 9.0))
    one = replace(one, cases=[replace(case, verdict="one unit") for case in one.cases])
    more = {"mnist": there, "theory": run(("a", 7.0)), "demo": there, "small": [one]}
    assert tell_elsewhere(sentence, here, more) == "Other runs: 2 to 7 (mnist and theory, failed)."
    # Where studies of a run do not agree they are named.
    both = [*there, *(replace(each, study="t") for each in run(("a", 0.5)))]
    assert tell_elsewhere(sentence, here, {"mnist": both}) == "Other runs: 2 (study s of mnist, failed)."
    # Where a sentence tells several cases and another run decided one of them otherwise, that one is named.
    several = Sentence("{x}.", {"x": at("test-1-one")})
    assert tell_elsewhere(several, run(("a", 0.5), ("b", 0.25)), {"demo": here, "mnist": here}) == (
        "Other runs: 31 (study s of mnist, b, failed)."
    )
    paper = card([], headline=(sentence,))
    assert tell_headline(paper, here, {"mnist": there}) == f"0.5 and 31 (failed). {elsewhere}"
    assert tell_headline(paper, here, {"mnist": here}) == "0.5 and 31 (failed)."


def test_docs_tell_the_largest_run_first_and_name_it(card):
    def run(**values):
        return group_claims(judged(card, *(claim(name, [exact_value(value)]) for name, value in values.items())))

    sentences = tuple(Sentence(f"{{x}} is {name}.", {"x": (f"test-1-{name}", "")}) for name in "ab")
    kept = {"demo": run(a=0.5, b=0.25), "whole": run(a=2.0)}
    told = "*whole:* 2 is a (failed; threshold: at most 1). Other runs: 0.5 (demo, held). *demo:* 0.25 is b."
    assert tell_largest(card([], headline=sentences, largest="whole"), kept) == told
    assert tell_largest(card([], headline=sentences), {"demo": kept["demo"]}) == "*demo:* 0.5 is a. 0.25 is b."
