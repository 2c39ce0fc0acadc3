"""Every claim's verdict as one table: what was measured, against which threshold, at which scale."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from symlab.papers.claim import Claim, Tables, Verdict
from symlab.claims.papers import PAPERS
from symlab.claims.verdicts import AGREES, DISAGREES, FAILED, HELD, NOT_RUN
from symlab.errors import UserError
from symlab.papers import figure_order

COLUMNS = [
    "paper",
    "figure",
    "claim",
    "study",
    "case",
    "statement",
    "value",
    "spread",
    "threshold",
    "reason",
    "verdict",
    "n",
    "scale",
    "detail",
    "why",
]

# What a table without an expected column, or a slip in an evaluation, raises. Everything else ends the run.
EVALUATION_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

BROKEN = "could not be evaluated"

logger = logging.getLogger(__name__)


def evaluate_study(
    paper: str,
    study: str,
    figures: Sequence[str],
    tables: Tables,
    scale: str,
    papers: Mapping[str, Sequence[Claim]] = PAPERS,
) -> pd.DataFrame:
    """Verdicts of a paper's claims about the figures that a study draws: one row a claim and case, columns ``COLUMNS``.

    ``tables`` are the study's tables by file name ("matching.csv", ...). A claim whose table is absent or empty (the
    detail says which), or does not hold the variants it is about, is "not run at this scale". An evaluation that breaks
    off is logged with its traceback and counted as failed, its error as the detail: it neither hides the other claims
    nor passes for a result. ``why`` explains a disagreement with a statement that is only reported.

    Raises:
        UserError: the paper is not registered.
    """
    if paper not in papers:
        raise UserError(f"There are no claims of a paper {paper!r}; choose one of {', '.join(sorted(papers))}.")
    rows = [
        _row(paper, study, claim, verdict, scale)
        for claim in papers[paper]
        if claim.is_about(figures)
        for verdict in _verdicts(claim, tables, study)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def ledger(
    studies: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Tables],
    papers: Mapping[str, Sequence[Claim]] = PAPERS,
) -> pd.DataFrame:
    """Verdicts of every claim of every paper, sorted by paper, figure, claim and study; columns ``COLUMNS``.

    ``studies`` gives for each study the ``figures`` it draws and its ``scale``, a phrase such as "8 seeds, 60 epochs";
    ``tables`` its tables by file name. A claim about a figure that no study draws is there once, as
    "not run at this scale", unless the studies draw figures of other papers alone.
    """
    papers = _drawn(studies, papers)
    rows = [
        row
        for paper in papers
        for name, study in studies.items()
        for row in evaluate_study(paper, name, study["figures"], tables.get(name, {}), study["scale"], papers).to_dict(
            "records"
        )
    ]
    seen = {(row["paper"], row["claim"]) for row in rows}
    place: dict[tuple[str, str], int] = {}
    for paper, claims in papers.items():
        for claim in claims:
            place[paper, claim.id] = len(place)
            if (paper, claim.id) not in seen:
                rows.append(_row(paper, "", claim, NOT_ASKED, ""))
    papers_in_order = list(papers)
    rows.sort(
        key=lambda row: (
            papers_in_order.index(row["paper"]),
            figure_order(row["figure"]),
            place[row["paper"], row["claim"]],
        )
    )
    return pd.DataFrame(rows, columns=COLUMNS)


def tables_of_claims(figures: Sequence[str], papers: Mapping[str, Sequence[Claim]] = PAPERS) -> list[str]:
    """File names of the tables that the claims about some figures read, each once.

    A study need not have them all: claims whose tables it lacks are not run.
    """
    about = [claim for claims in papers.values() for claim in claims if claim.is_about(figures)]
    return list(dict.fromkeys(name for claim in about for name in claim.tables))


def _drawn(
    studies: Mapping[str, Mapping[str, Any]], papers: Mapping[str, Sequence[Claim]]
) -> Mapping[str, Sequence[Claim]]:
    """The papers of which the studies draw a figure; all of them if they draw none."""
    figures = [figure for study in studies.values() for figure in study["figures"]]
    drawn = {slug: claims for slug, claims in papers.items() if any(claim.is_about(figures) for claim in claims)}
    return drawn or papers


NOT_EVALUATED = Verdict(math.nan, None, 0)
NOT_ASKED = replace(NOT_EVALUATED, detail="no study of this config draws the figure")


def _verdicts(claim: Claim, tables: Tables, study: str) -> list[Verdict]:
    missing = [name for name in claim.tables if name not in tables or tables[name].empty]
    if missing:
        return [replace(NOT_EVALUATED, detail=f"needs {' and '.join(missing)}, which the study does not have")]
    try:
        found = claim.evaluate(tables)
    except EVALUATION_ERRORS as error:
        logger.exception("Claim %s of study %s could not be evaluated.", claim.id, study)
        return [Verdict(math.nan, False, 0, detail=f"{BROKEN}: {type(error).__name__}: {error}")]
    if isinstance(found, Verdict):
        return [found]
    return found or [NOT_EVALUATED]


def _verdict(claim: Claim, verdict: Verdict) -> str:
    if verdict.holds is None:
        return NOT_RUN
    # A fault of the program is no disagreement with the paper.
    if claim.reported and not verdict.detail.startswith(BROKEN):
        return AGREES if verdict.holds else DISAGREES
    return HELD if verdict.holds else FAILED


def _row(paper: str, study: str, claim: Claim, verdict: Verdict, scale: str) -> dict[str, Any]:
    word = _verdict(claim, verdict)
    return {
        "paper": paper,
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
