"""The ledger of claims: every statement of every paper, what was measured, and the verdict, as one table.

A claim held or failed in a case, or is undecided where its threshold lies within the 95 % interval of the value or the
value is undefined. One unit of what varies is a value without a verdict, unless it is exact. A claim without its tables
is not run. An evaluation that raises is an error of ours and says nothing of a paper.
"""

import importlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline.registry import switches
from symlab.plotting.numbers import format_number, format_value, typeset
from symlab.study.card import Paper, with_ids
from symlab.study.claim import Case as Key
from symlab.study.claim import Claim, Measurement, Tables, not_measured
from symlab.words import counted

HELD, FAILED, UNDECIDED, ONE_UNIT, NOT_RUN, ERROR = "held", "failed", "undecided", "one unit", "not run", "error"
VERDICTS = (ERROR, FAILED, UNDECIDED, ONE_UNIT, HELD, NOT_RUN)
"""In the order in which pages list claims; a claim's verdict is the first of these that one of its cases has."""
UNDEFINED = "the value is undefined"
FINDING, THEOREM, CHECK = "finding", "theorem", "check"
STAND_IN = "stand-in"
OWNERS = {"paper": "the paper's", STAND_IN: "the paper's, asked of stand-ins", "derived": "derived", "ours": "ours"}
"""Whose statements there are, as pages name them, in the order in which pages list them.

A finding that a paper states of its networks is counted apart where a study, by its key ``stand_in``, has others.
"""

COLUMNS = [
    *("paper", "figure", "claim", "kind", "study", "case", "key", "statement", "quantity", "value", "error"),
    *("low", "high", "spread", "n", "unit", "threshold", "owner", "origin", "reason", "verdict", "scale", "detail"),
    "why",
]
NUMBERS = ("value", "error", "low", "high", "spread", "n")

logger = logging.getLogger(__name__)


def claims_of(paper: Paper) -> list[Claim]:
    """The claims of a paper, from the files of its figures, in the order of the card."""
    modules = dict.fromkeys(figure.module for figure in paper.figures)
    claims = [claim for module in modules for claim in with_ids(importlib.import_module(module).CLAIMS)]
    order = [figure.id for figure in paper.figures]

    def place(claim: Claim) -> int:
        names = (claim.figure, *claim.also)
        return next((order.index(name) for name in names if name in order), len(order))

    return sorted(claims, key=place)


def evaluate_claims(
    studies: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Tables], papers: Sequence[Paper] = PAPERS
) -> pd.DataFrame:
    """Verdicts of the papers' claims about the figures that the studies draw: one row a claim, study and case.

    ``studies`` gives for each study the ``figures`` it draws, its ``scale``, a phrase such as "8 seeds, 60 epochs", and
    what makes it a ``stand_in``, if anything; ``tables`` holds its tables by file name ("matching.csv", ...). Columns
    are ``COLUMNS``; ``detail`` says why a claim is not run, or what an evaluation raised. A paper of which no study
    draws a figure is left out; of the others, a claim about a figure that no study draws is there once.
    """
    rows: list[dict[str, Any]] = []
    for paper in papers:
        asked = {figure for study in studies.values() for figure in study["figures"]}
        if not asked & {figure.id for figure in paper.figures}:
            continue
        for claim in claims_of(paper):
            drawing = {name: study for name, study in studies.items() if claim.is_about(study["figures"])}
            for name, study in drawing.items():
                for measured, verdict in evaluate_claim(claim, tables.get(name, {}), name):
                    rows.append(row_of(paper, claim, name, study["scale"], measured, verdict, study.get("stand_in")))
            if not drawing:
                nothing = _missing("no study of this config draws the figure")
                rows.append(row_of(paper, claim, "", "", nothing, NOT_RUN))
    return pd.DataFrame(rows, columns=COLUMNS)


def errors_of(ledger: pd.DataFrame) -> str:
    """One sentence that names the claims whose evaluation raised, for the job to end with; empty if none did."""
    broken = ledger[ledger["verdict"] == ERROR]
    if broken.empty:
        return ""
    named = broken.drop_duplicates(["claim", "study"])
    each = "; ".join(f"{row.claim} in study {row.study} ({row.detail})" for row in named.itertuples())
    return f"{len(named)} {'claim' if len(named) == 1 else 'claims'} could not be evaluated: {each}."


def evaluate_claim(claim: Claim, tables: Tables, study: str = "") -> list[tuple[Measurement, str]]:
    """What the claim finds in the tables, each case with its verdict."""
    if missing := [name for name in claim.tables if name not in tables or tables[name].empty]:
        return [(_missing(_lacks(missing)), NOT_RUN)]
    try:
        found = list(claim.measure(tables))
        cases = [(each, judge(claim, each)) for each in found if isinstance(each, Measurement)]
        if callable(claim.why) and any(verdict == FAILED for _, verdict in cases):
            whys = {case: f"{case}: {why}" if case else why for case, why in claim.why(tables)}
            cases = [(replace(each, why=_why_of(whys, each.case)), verdict) for each, verdict in cases]
    except UserError as error:
        return [(_missing(str(error)), NOT_RUN)]  # What the study lacks for it.
    except Exception as error:
        # Whatever it is, it hides no other claim; the job ends with errors_of once the ledger is made.
        logger.exception("Claim %s of study %s could not be evaluated.", claim.id, study)
        return [(_missing(f"{type(error).__name__}: {error}"), ERROR)]
    reasons = dict.fromkeys(each for each in found if isinstance(each, str))
    if not cases or (reasons and not any(each.n for each, _ in cases)):
        cases.append((_missing("; ".join(reasons) or "the study has no such networks"), NOT_RUN))
    return cases


def judge(claim: Claim, measured: Measurement) -> str:
    """The verdict on one measured value; an undefined one (NaN) speaks neither for a claim nor against it."""
    if not measured.n:
        return NOT_RUN
    if measured.open or math.isnan(measured.value):
        return UNDECIDED
    if measured.interval is None:
        return ONE_UNIT if measured.n == 1 else UNDECIDED
    if claim.bound.leaves_open(*measured.interval):
        return UNDECIDED
    return HELD if claim.bound.allows(measured.value) else FAILED


def _why_of(whys: str | Mapping[str, str], case: str) -> str:
    return whys if isinstance(whys, str) else whys.get(case, whys.get("", ""))


def _lacks(missing: Sequence[str]) -> str:
    """What a study would need for tables that it lacks."""
    keys = dict.fromkeys(key for name in missing for key in switches(name))
    asked = f"the study does not ask for {' and '.join(keys)}" if keys else "the study trains no networks"
    return f"{asked}, so there is no {' and no '.join(missing)}"


def _missing(why: str) -> Measurement:
    return not_measured("", why)


def row_of(
    paper: Paper,
    claim: Claim,
    study: str,
    scale: str,
    measured: Measurement,
    verdict: str,
    stand_in: object = None,
) -> dict[str, Any]:
    """A row of the ledger, of a study with the networks that the paper speaks of or, as a ``stand_in``, with others."""
    why = measured.why if callable(claim.why) else _why_of(claim.why, measured.case)
    detail = "; ".join(filter(None, [measured.open, measured.detail]))
    if verdict == UNDECIDED and math.isnan(measured.value) and not detail.startswith(UNDEFINED):
        detail = ": ".join(filter(None, [UNDEFINED, detail]))
    low, high = measured.interval or (math.nan, math.nan)
    return {
        "paper": paper.slug,
        "figure": claim.figure,
        "claim": claim.id,
        "kind": claim.kind,
        "study": study,
        "case": str(measured.case),
        "key": json.dumps(measured.case.key) if isinstance(measured.case, Key) else "",
        "statement": claim.statement,
        "quantity": claim.quantity,
        "value": measured.value,
        "error": math.nan if measured.error is None else measured.error,
        "low": low,
        "high": high,
        "spread": math.nan if measured.spread is None else measured.spread,
        "n": measured.n,
        "unit": measured.unit,
        "threshold": claim.bound.text,
        "owner": STAND_IN if stand_in and (claim.owner, claim.kind) == ("paper", FINDING) else claim.owner,
        "origin": claim.origin,
        "reason": claim.reason,
        "verdict": verdict,
        "scale": scale,
        "detail": detail,
        "why": why if verdict == FAILED else "",
    }


@dataclass(frozen=True)
class Case:
    """One verdict of a claim, as people read it."""

    verdict: str
    name: str
    """What tells it from the claim's other cases: a variant, a layer, a k; may be empty."""
    key: Mapping[str, Any]
    """The same as data; empty where a case has a name alone."""
    value: float
    error: float
    spread: float
    n: int
    unit: str
    detail: str
    why: str
    """What explains it if it failed."""
    low: float = math.nan
    high: float = math.nan
    """The ends of its interval."""

    @property
    def measured(self) -> str:
        """Value and standard error; the interval where it is known without an error."""
        if math.isnan(self.error) and self.low < self.value < self.high:
            return f"{format_number(self.low)} to {format_number(self.high)}"
        return format_value(self.value, self.error)

    @property
    def units(self) -> str:
        """Over what it was measured: n = 4 pairs, or exact; empty where that is not said."""
        if self.n == 1 and self.error == 0:
            return "exact"
        return f"n = {counted(self.n, self.unit)}" if self.unit else ""


@dataclass(frozen=True)
class Judged:
    """A claim in one study with all its cases, those that speak against it first: a row of a page."""

    paper: str
    figure: str
    claim: str
    kind: str
    study: str
    statement: str
    quantity: str
    threshold: str
    owner: str
    origin: str
    reason: str
    scale: str
    cases: tuple[Case, ...]

    @property
    def verdict(self) -> str:
        """The worst of its cases."""
        return self.cases[0].verdict

    @property
    def against(self) -> int:
        """How many cases failed."""
        return sum(case.verdict == FAILED for case in self.cases)

    @property
    def measured(self) -> tuple[Case, ...]:
        """The cases with a verdict; the first one where none has."""
        return tuple(case for case in self.cases if case.verdict != NOT_RUN) or self.cases[:1]

    @property
    def range(self) -> str:
        """Smallest and largest value; the one value of a single case, with its error."""
        if len(self.measured) == 1:
            return self.measured[0].measured
        values = [case.value for case in self.measured if not math.isnan(case.value)]
        low, high = (format_number(each(values)) if values else "undefined" for each in (min, max))
        return low if low == high else f"{low} to {high}"


def group_claims(ledger: pd.DataFrame) -> list[Judged]:
    """The claims of a ledger with their cases, worst verdict first and in the ledger's order among equals."""
    # Empty texts come back from a CSV file as NaN.
    texts = [name for name in COLUMNS if name not in NUMBERS]
    filled = ledger.assign(**{name: ledger[name].astype(object).fillna("").astype(str) for name in texts})
    told = ["statement", "quantity", "threshold", "reason", "detail", "why"]
    filled[told] = filled[told].map(typeset)
    # Grouped as records: a data frame for each claim takes ten times as long.
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in filled.to_dict("records"):
        groups.setdefault((row["paper"], row["claim"], row["study"]), []).append(row)
    claims = []
    for rows in groups.values():
        records = sorted(rows, key=lambda row: VERDICTS.index(row["verdict"]))
        of_case = ("verdict", "value", "error", "spread", "n", "unit", "detail", "why", "low", "high")
        cases = tuple(
            Case(name=row["case"], key=json.loads(row["key"] or "{}"), **{name: row[name] for name in of_case})
            for row in records
        )
        of_claim = ("paper", "figure", "claim", "kind", "study", "statement", "quantity", "threshold", "owner")
        shared = {key: records[0][key] for key in (*of_claim, "origin", "reason", "scale")}
        claims.append(Judged(**shared, cases=cases))
    return sorted(claims, key=lambda claim: VERDICTS.index(claim.verdict))
