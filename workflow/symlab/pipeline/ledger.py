"""The ledger of claims: every statement of every paper, what was measured, and the verdict, as one table.

A check held or failed. A statement that is only reported agrees or disagrees with what was measured, which fails
nothing. A claim without its tables is not run. An evaluation that raises is an error of ours and says nothing of a
paper.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from symlab.papers import PAPERS
from symlab.papers.card import Paper
from symlab.papers.claim import Claim, Tables, Verdict

HELD, FAILED, AGREES, DISAGREES = "held", "failed", "agrees", "disagrees"
NOT_RUN, ERROR = "not run", "error"
VERDICTS = (ERROR, FAILED, DISAGREES, HELD, AGREES, NOT_RUN)
"""In the order in which pages list claims."""
SENTENCE = (HELD, FAILED, ERROR, AGREES, DISAGREES, NOT_RUN)
"""In the order in which sentences count them."""

TEXTS = ["paper", "figure", "claim", "study", "case", "statement", "threshold", "reason", "scale", "detail", "why"]
COLUMNS = [
    *("paper", "figure", "claim", "study", "case", "statement", "value", "spread", "threshold", "reason", "verdict"),
    *("n", "scale", "detail", "why"),
]

logger = logging.getLogger(__name__)


def claims_of(paper: Paper) -> list[Claim]:
    """The claims of a paper, from the files of its figures, in the order of the card."""
    modules = dict.fromkeys(figure.module for figure in paper.figures)
    claims = [claim for module in modules for claim in importlib.import_module(module).CLAIMS]
    order = [figure.id for figure in paper.figures]

    def place(claim: Claim) -> int:
        names = (claim.figure, *claim.also)
        return next((order.index(name) for name in names if name in order), len(order))

    return sorted(claims, key=place)


def evaluate_claims(
    studies: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Tables], papers: Sequence[Paper] = PAPERS
) -> pd.DataFrame:
    """Verdicts of the papers' claims about the figures that the studies draw: one row a claim, study and case.

    ``studies`` gives for each study the ``figures`` it draws and its ``scale``, a phrase such as "8 seeds, 60 epochs";
    ``tables`` holds its tables by file name ("matching.csv", ...). Columns are ``COLUMNS``; ``detail`` says why a claim
    is not run, or what an evaluation raised. A paper of which no study draws a figure is left out; of the others, a
    claim about a figure that no study draws is there once.
    """
    rows: list[dict[str, Any]] = []
    for paper in papers:
        asked = {figure for study in studies.values() for figure in study["figures"]}
        if not asked & {figure.id for figure in paper.figures}:
            continue
        for claim in claims_of(paper):
            drawing = {name: study for name, study in studies.items() if claim.is_about(study["figures"])}
            for name, study in drawing.items():
                for verdict, word in _evaluate(claim, tables.get(name, {}), name):
                    rows.append(_row(paper, claim, name, study["scale"], verdict, word))
            if not drawing:
                verdict = _missing("no study of this config draws the figure")
                rows.append(_row(paper, claim, "", "", verdict, NOT_RUN))
    return pd.DataFrame(rows, columns=COLUMNS)


def errors_of(ledger: pd.DataFrame) -> str:
    """One sentence that names the claims whose evaluation raised, for the job to end with; empty if none did."""
    broken = ledger[ledger["verdict"] == ERROR]
    if broken.empty:
        return ""
    named = broken.drop_duplicates(["claim", "study"])
    each = "; ".join(f"{row.claim} in study {row.study} ({row.detail})" for row in named.itertuples())
    return f"{len(named)} {'claim' if len(named) == 1 else 'claims'} could not be evaluated: {each}."


def _evaluate(claim: Claim, tables: Tables, study: str) -> list[tuple[Verdict, str]]:
    """What the claim finds in the tables, each verdict with its word."""
    missing = [name for name in claim.tables if name not in tables or tables[name].empty]
    if missing:
        return [(_missing(f"needs {' and '.join(missing)}, which the study does not have"), NOT_RUN)]
    try:
        found = claim.evaluate(tables)
    except Exception as error:
        # Whatever it is, it hides no other claim; the job ends with errors_of once the ledger is made.
        logger.exception("Claim %s of study %s could not be evaluated.", claim.id, study)
        return [(_missing(f"{type(error).__name__}: {error}"), ERROR)]
    verdicts = [found] if isinstance(found, Verdict) else found
    return [(each, _word(claim, each)) for each in verdicts or [_missing("the study has no such networks")]]


def _missing(why: str) -> Verdict:
    return Verdict(math.nan, None, 0, detail=why)


def _word(claim: Claim, verdict: Verdict) -> str:
    if verdict.holds is None:
        return NOT_RUN
    if claim.reported:
        return AGREES if verdict.holds else DISAGREES
    return HELD if verdict.holds else FAILED


def _row(paper: Paper, claim: Claim, study: str, scale: str, verdict: Verdict, word: str) -> dict[str, Any]:
    return {
        "paper": paper.slug,
        "figure": claim.figure,
        "claim": claim.id,
        "study": study,
        "case": verdict.case,
        "statement": claim.statement,
        "value": verdict.value,
        "spread": math.nan if verdict.spread is None else verdict.spread,
        "threshold": claim.threshold,
        "reason": claim.reason,
        "verdict": word,
        "n": verdict.n,
        "scale": scale,
        "detail": verdict.detail,
        # What is undefined is not explained.
        "why": claim.explanation if word == DISAGREES and not math.isnan(verdict.value) else "",
    }


@dataclass(frozen=True)
class Case:
    """One verdict of a claim, as people read it."""

    verdict: str
    name: str
    """What tells it from the claim's other cases: a variant, a layer, a k; may be empty."""
    value: float
    spread: float
    n: int
    detail: str

    @property
    def measured(self) -> str:
        """Value and standard deviation."""
        deviation = "" if math.isnan(self.spread) else f" ± {format_number(self.spread)}"
        return format_number(self.value) + deviation


@dataclass(frozen=True)
class Judged:
    """A claim in one study with all its cases, those that speak against it first."""

    paper: str
    figure: str
    claim: str
    study: str
    statement: str
    threshold: str
    reason: str
    why: str
    """What explains the cases that disagree."""
    cases: tuple[Case, ...]

    @property
    def verdict(self) -> str:
        """The worst of its cases."""
        return self.cases[0].verdict

    @property
    def against(self) -> int:
        """How many cases failed or disagree."""
        return sum(case.verdict in (FAILED, DISAGREES) for case in self.cases)

    @property
    def headline(self) -> str:
        """What is claimed; what is measured for it stands behind the statement's first colon."""
        return self.statement.partition(": ")[0]

    @property
    def quantity(self) -> str:
        return self.statement.partition(": ")[2]

    @property
    def range(self) -> str:
        """Smallest and largest value; the one value of a single case, with its deviation."""
        if len(self.cases) == 1:
            return self.cases[0].measured
        values = [case.value for case in self.cases if not math.isnan(case.value)]
        low, high = (format_number(each(values)) if values else "undefined" for each in (min, max))
        return low if low == high else f"{low} to {high}"


def group_claims(ledger: pd.DataFrame) -> list[Judged]:
    """The claims of a ledger with their cases, worst verdict first and in the ledger's order among equals."""
    # Empty texts come back from a CSV file as NaN.
    filled = ledger.assign(**{name: ledger[name].astype(object).fillna("").astype(str) for name in TEXTS})
    claims = []
    for _, rows in filled.groupby(["paper", "claim", "study"], sort=False):
        records = sorted(rows.to_dict("records"), key=lambda row: VERDICTS.index(row["verdict"]))
        cases = [
            Case(row["verdict"], row["case"], row["value"], row["spread"], row["n"], row["detail"]) for row in records
        ]
        names = ("paper", "figure", "claim", "study", "statement", "threshold", "reason")
        why = next((row["why"] for row in records if row["why"]), "")
        claims.append(Judged(**{name: records[0][name] for name in names}, why=why, cases=tuple(cases)))
    return sorted(claims, key=lambda claim: VERDICTS.index(claim.verdict))


def count_verdicts(ledger: pd.DataFrame) -> dict[str, int]:
    """How many rows have each verdict, in the order of ``VERDICTS``."""
    counts = Counter(ledger["verdict"])
    return {verdict: counts[verdict] for verdict in VERDICTS}


def describe_counts(counts: Mapping[str, int]) -> str:
    """The numbers in words, in the order of a sentence: 115 held, 4 failed, 3 disagree, 66 not run."""
    shown = [verdict for verdict in SENTENCE if counts[verdict] or verdict in (HELD, FAILED, NOT_RUN)]
    return ", ".join(describe_count(verdict, counts[verdict]) for verdict in shown)


def describe_count(verdict: str, count: int) -> str:
    """2 held, 1 disagrees, 2 disagree, 2 errors."""
    word = {AGREES: "agree", DISAGREES: "disagree", ERROR: "errors"}.get(verdict, verdict) if count != 1 else verdict
    return f"{count} {word}"


def format_number(value: float) -> str:
    """Three digits, thousands in full."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
