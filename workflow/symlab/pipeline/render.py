"""The ledger for people: rows for HTML pages, a page of its own, a Markdown table for a README."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import pandas as pd

from symlab.claims.verdicts import AGREES, DISAGREES, FAILED, HELD, NOT_RUN, VERDICTS, counted, summary
from symlab.html import render
from symlab.papers import figure_name, figure_order, paper

# Cases of one claim that a page shows without being asked.
CASES_SHOWN = 3


def to_html(ledger: pd.DataFrame) -> str:
    """A self-contained page without scripts: counts, then all claims, failed ones first, then disagreements."""
    return render("claims.html", claims=claims_view(ledger))


def claims_view(ledger: pd.DataFrame) -> dict[str, Any]:
    """What the pages' claims table shows: counts of each verdict, then one row a claim and study, worst first.

    ``judged`` are the claims that have a verdict, ``not_run`` those that have none.
    """
    rows = _sorted(ledger)
    counts = _counts(rows)
    papers = sorted({row["paper"] for row in rows})
    claims = [_view(cases, len(papers) > 1) for cases in _claims(rows)]
    return {
        "summary": summary(counts, _told(counts)),
        "counts": [{"text": counted(name, counts[name]), "style": VERDICTS[name]} for name in _told(counts)],
        "papers": [_cited(slug) for slug in papers],
        "judged": [claim for claim in claims if claim["verdict"] != NOT_RUN],
        "not_run": [claim for claim in claims if claim["verdict"] == NOT_RUN],
    }


def to_markdown(ledger: pd.DataFrame) -> str:
    """A Markdown table for a README: counts first, then one row a claim and study with all its cases, worst first.

    Claims that were not run are named by their figures below the table.
    """
    rows = _sorted(ledger)
    counts = _counts(rows)
    lines = [
        f"{summary(counts, _told(counts))}.",
        "",
        "| Verdict | Figure | Claim | Measured | Threshold | Study |",
        "|---|---|---|---|---|---|",
    ]
    for cases in _claims(rows):
        if cases[0]["verdict"] != NOT_RUN:
            lines.append(_markdown_row(cases))
    drawn = {(row["paper"], row["figure"]) for row in rows if row["verdict"] != NOT_RUN}
    undrawn = [(row["paper"], row["figure"]) for row in rows if row["verdict"] == NOT_RUN]
    missing = [_markdown(_figure(figure)) for slug, figure in dict.fromkeys(undrawn) if (slug, figure) not in drawn]
    if missing:
        lines += ["", f"Figures without a verdict at this scale: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _markdown_row(cases: list[dict]) -> str:
    first = cases[0]
    against = _against(cases)
    verdict = f"**{first['verdict']}**" if first["verdict"] == FAILED else first["verdict"]
    if against and len(cases) > 1:
        verdict += f" in {against} of {len(cases)}"
    figure, statement, threshold, study = (
        _markdown(text) for text in (_figure(first["figure"]), first["statement"], first["threshold"], first["study"])
    )
    measured = "<br>".join(
        f"{_markdown(case['case'])}: {_measured(case)}" if case["case"] else _measured(case) for case in cases
    )
    if why := _why(cases):
        measured += f"<br>{_markdown(why)}"
    return f"| {verdict} | {figure} | {statement} | {measured} | {threshold} | {study} |"


def _figure(figure: str) -> str:
    """A figure in a column headed so: 4a, or Figure 2 (Zhan et al.) where the number alone would mislead."""
    name = figure_name(figure)
    return name if "(" in name else figure


def _sorted(ledger: pd.DataFrame) -> list[dict]:
    # Empty texts come back from a CSV file as NaN, and figure numbers as integers where no figure has a letter.
    texts = ["paper", "figure", "claim", "study", "case", "statement", "threshold", "reason", "scale", "detail", "why"]
    filled = ledger.assign(**{column: ledger[column].astype(object).fillna("").astype(str) for column in texts})
    rank = {verdict: place for place, verdict in enumerate(VERDICTS)}
    return sorted(
        filled.to_dict("records"), key=lambda row: (rank[row["verdict"]], row["paper"], figure_order(row["figure"]))
    )


def _claims(rows: list[dict]) -> list[list[dict]]:
    """The cases of each claim and study. A claim stands where its worst case stands, for rows come sorted."""
    claims: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        claims.setdefault((row["paper"], row["claim"], row["study"]), []).append(row)
    return list(claims.values())


def _counts(rows: list[dict]) -> dict[str, int]:
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}


def _told(counts: dict[str, int]) -> list[str]:
    """Verdicts whose counts head a page; many a run has no statements that are only reported."""
    reported = [verdict for verdict in (AGREES, DISAGREES) if counts[verdict]]
    return [HELD, FAILED, *reported, NOT_RUN]


def _cited(slug: str) -> str:
    """A paper by its authors; the name in the ledger if it is not listed."""
    found = paper(slug)
    return found.short if found else slug


def _against(cases: list[dict]) -> int:
    """In how many cases a claim failed or disagrees."""
    return sum(case["verdict"] in (FAILED, DISAGREES) for case in cases)


def _why(cases: list[dict]) -> str:
    """What explains the cases that disagree; it is the same for all."""
    return next((case["why"] for case in cases if case["why"]), "")


def _view(cases: list[dict], several_papers: bool) -> dict[str, Any]:
    first = cases[0]
    figure = figure_name(first["figure"])
    cited = _cited(first["paper"])
    headline, _, quantity = first["statement"].partition(": ")
    views = [
        {
            "verdict": case["verdict"],
            "style": VERDICTS[case["verdict"]],
            "name": case["case"],
            "measured": _measured(case),
            "n": case["n"],
            "detail": case["detail"],
        }
        for case in cases
    ]
    # Cases against a claim are always seen; of many others only the range is, until they are unfolded.
    against = _against(cases)
    shown = len(cases) if len(cases) <= CASES_SHOWN else against
    values = [case["value"] for case in cases[shown:] if not math.isnan(case["value"])]
    return {
        "paper": first["paper"],
        # Where a page holds claims of several papers, each says whose it is; a figure's name may do so already.
        "cited": cited if several_papers and cited not in figure else "",
        "claim": first["claim"],
        "study": first["study"],
        "scale": first["scale"],
        "anchor": re.sub(r"[^\w.-]+", "-", f"claim-{first['paper']}-{first['claim']}-{first['study']}"),
        "verdict": first["verdict"],
        "style": VERDICTS[first["verdict"]],
        "figure": figure,
        "headline": headline,
        "quantity": quantity,
        "reason": first["reason"],
        "threshold": first["threshold"],
        "why": _why(cases),
        "against": against,
        "cases": len(cases),
        "shown": views[:shown],
        "folded": views[shown:],
        "range": f"{_number(min(values))} to {_number(max(values))}" if values else "",
    }


def _measured(row: dict) -> str:
    if row["verdict"] == NOT_RUN:
        return "not measured"
    deviation = "" if math.isnan(row["spread"]) else f" ± {_number(row['spread'])}"
    return _number(row["value"]) + deviation


def _number(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _markdown(text: str) -> str:
    return " ".join(html.escape(text, quote=False).replace("|", "\\|").split())
