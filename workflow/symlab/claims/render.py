"""The ledger for people: rows for HTML pages, a page of its own, a Markdown table for a README."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import pandas as pd

from symlab.claims.evaluate import FAILED, HELD, NOT_RUN, figure_order
from symlab.html import render

# Worst first; values are the names of their styles.
VERDICTS = {FAILED: "failed", HELD: "held", NOT_RUN: "not-run"}
# Cases of one claim that a page shows without being asked.
CASES_SHOWN = 3


def to_html(ledger: pd.DataFrame) -> str:
    """A self-contained page without scripts: counts, then all claims, failed ones first."""
    return render("claims.html", claims=claims_view(ledger))


def claims_view(ledger: pd.DataFrame) -> dict[str, Any]:
    """What the pages' claims table shows: counts of each verdict, then one row a claim and study, worst first.

    ``judged`` are the claims that have a verdict, ``not_run`` those that have none.
    """
    rows = _sorted(ledger)
    counts = _counts(rows)
    claims = [_view(cases) for cases in _claims(rows)]
    return {
        "summary": _summary(counts),
        "counts": [
            {"verdict": name, "style": VERDICTS[name], "count": counts[name]} for name in (HELD, FAILED, NOT_RUN)
        ],
        "papers": list(dict.fromkeys(row["paper"] for row in rows)),
        "judged": [claim for claim in claims if claim["verdict"] != NOT_RUN],
        "not_run": [claim for claim in claims if claim["verdict"] == NOT_RUN],
    }


def figure_name(figure: str) -> str:
    """A figure's number as a reader calls it: 4a is Figure 4a, thm4.5 Theorem 4.5."""
    kinds = {"thm": "Theorem", "prop": "Proposition", "sec": "Section", "": "Figure"}
    number = re.fullmatch(r"(thm|prop|sec|)(\d.*)", figure)
    return f"{kinds[number[1]]} {number[2]}" if number else figure.capitalize()


def to_markdown(ledger: pd.DataFrame) -> str:
    """A Markdown table for a README: counts first, then one row a claim and study with all its cases, worst first.

    Claims that were not run are named by their figures below the table.
    """
    rows = _sorted(ledger)
    lines = [
        f"{_summary(_counts(rows))}.",
        "",
        "| Verdict | Figure | Claim | Measured | Threshold | Study |",
        "|---|---|---|---|---|---|",
    ]
    for cases in _claims(rows):
        if cases[0]["verdict"] != NOT_RUN:
            lines.append(_markdown_row(cases))
    drawn = {(row["paper"], row["figure"]) for row in rows if row["verdict"] != NOT_RUN}
    undrawn = [(row["paper"], row["figure"]) for row in rows if row["verdict"] == NOT_RUN]
    missing = [_markdown(figure) for paper, figure in dict.fromkeys(undrawn) if (paper, figure) not in drawn]
    if missing:
        lines += ["", f"Figures without a verdict at this scale: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _markdown_row(cases: list[dict]) -> str:
    first = cases[0]
    failed = sum(case["verdict"] == FAILED for case in cases)
    verdict = first["verdict"]
    if failed:
        verdict = "**failed**" if len(cases) == 1 else f"**failed** in {failed} of {len(cases)}"
    figure, statement, threshold, study = (
        _markdown(first[key]) for key in ("figure", "statement", "threshold", "study")
    )
    measured = "<br>".join(
        f"{_markdown(case['case'])}: {_measured(case)}" if case["case"] else _measured(case) for case in cases
    )
    return f"| {verdict} | {figure} | {statement} | {measured} | {threshold} | {study} |"


def _sorted(ledger: pd.DataFrame) -> list[dict]:
    # Empty texts come back from a CSV file as NaN, and figure numbers as integers where no figure has a letter.
    texts = ["paper", "figure", "claim", "study", "case", "statement", "threshold", "reason", "scale", "detail"]
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


def _summary(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in (HELD, FAILED, NOT_RUN))


def _view(cases: list[dict]) -> dict[str, Any]:
    first = cases[0]
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
    # Failed cases are always seen; of many others only the range is, until they are unfolded.
    failed = sum(case["verdict"] == FAILED for case in cases)
    shown = len(cases) if len(cases) <= CASES_SHOWN else failed
    values = [case["value"] for case in cases[shown:] if not math.isnan(case["value"])]
    return {
        "paper": first["paper"],
        "claim": first["claim"],
        "study": first["study"],
        "scale": first["scale"],
        "anchor": re.sub(r"[^\w.-]+", "-", f"claim-{first['paper']}-{first['claim']}-{first['study']}"),
        "verdict": first["verdict"],
        "style": VERDICTS[first["verdict"]],
        "figure": figure_name(first["figure"]),
        "headline": headline,
        "quantity": quantity,
        "reason": first["reason"],
        "threshold": first["threshold"],
        "failed": failed,
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
