"""The ledger for people: a page of its own for the report, a Markdown table for a README."""

from __future__ import annotations

import html
import math

import pandas as pd

from symlab.claims.evaluate import FAILED, HELD, NOT_RUN, figure_order

VERDICTS = {FAILED: "failed", HELD: "held", NOT_RUN: "not-run"}

# Text and ground of each verdict: contrast above 7 : 1, and the word says the same as the colour.
COLOURS = {"failed": ("#7a1212", "#fbe5e3"), "held": ("#0b4f26", "#e0f3e6"), "not-run": ("#3d4650", "#e9ecef")}

HEADINGS = ["Verdict", "Figure", "Claim", "Measured", "Threshold", "Study"]

# A narrow screen gets one card a row: cells keep their table roles, which display: block would otherwise take away.
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 80rem; padding: 1rem;
  font: 1rem/1.5 system-ui, sans-serif; color: #1b1f23; background: #fff;
}
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; margin: 1rem 0; padding: 0; }
.counts li, .verdict { border-radius: .25rem; padding: .1rem .5rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: #3d4650; padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem; overflow-wrap: anywhere; }
td { border-bottom: 1px solid #c9ced3; }
thead th { border-bottom: 2px solid #3d4650; overflow-wrap: normal; }
td.verdict-cell, td.threshold { min-width: 7rem; }
td.figure { min-width: 9rem; }
p { margin: 0; }
.case { font-weight: 600; }
.small { font-size: .875rem; color: #3d4650; }
@media (max-width: 48rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, th, td, caption { display: block; width: 100%; }
  tr { border: 1px solid #c9ced3; border-radius: .25rem; margin-bottom: 1rem; }
  th, td { border: 0; padding: .35rem .5rem; }
  [data-heading]::before { content: attr(data-heading); display: block; font-size: .875rem; color: #3d4650; }
}
@media print { body { max-width: none; } tr { break-inside: avoid; } }
"""


def to_html(ledger: pd.DataFrame) -> str:
    """A self-contained page without scripts: counts, then all claims, failed ones first."""
    rows = _sorted(ledger)
    counts = _counts(rows)
    colours = "".join(
        f".{name} {{ color: {text}; background: {ground}; }}\n" for name, (text, ground) in COLOURS.items()
    )
    badges = "".join(
        f'<li class="{VERDICTS[verdict]}">{counts[verdict]} {verdict}</li>\n' for verdict in (HELD, FAILED, NOT_RUN)
    )
    heads = "".join(f'<th role="columnheader" scope="col">{heading}</th>' for heading in HEADINGS)
    body = "".join(_html_row(row) for row in rows)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Claims: {_summary(counts)}</title>
<style>{STYLE}{colours}</style>
</head>
<body>
<main>
<h1>Claims</h1>
<p>Each claim of a paper, measured on this run's tables and held against a threshold that was fixed before it.</p>
<ul class="counts">
{badges}</ul>
<table role="table">
<caption>Failed claims come first, then held ones, then those this run has no networks for. &#177; is one standard
deviation over the n pairs, models or draws.</caption>
<thead role="rowgroup"><tr role="row">{heads}</tr></thead>
<tbody role="rowgroup">
{body}</tbody>
</table>
</main>
</body>
</html>
"""


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
    claims: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        claims.setdefault((row["paper"], row["claim"], row["study"]), []).append(row)
    # A claim stands where its worst case stands, for the rows are sorted: failed before held before not run.
    for cases in claims.values():
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


def _counts(rows: list[dict]) -> dict[str, int]:
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}


def _summary(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in (HELD, FAILED, NOT_RUN))


def _html_row(row: dict) -> str:
    text = {key: html.escape(value) if isinstance(value, str) else value for key, value in row.items()}
    case = f'<p class="case">{text["case"]}</p>' if row["case"] else ""
    detail = f'<p class="small">{text["detail"]}</p>' if row["detail"] else ""
    count = f'<p class="small">n = {row["n"]}</p>' if row["verdict"] != NOT_RUN else ""
    cells = [
        ("verdict-cell", f'<span class="verdict {VERDICTS[row["verdict"]]}">{row["verdict"]}</span>'),
        ("figure", f'<p>{text["figure"]}</p><p class="small">{text["paper"]}</p>'),
        ("claim", f'{case}<p>{text["statement"]}</p><p class="small">{text["reason"]}</p>'),
        ("measured", f"<p>{html.escape(_measured(row))}</p>{count}{detail}"),
        ("threshold", f"<p>{text['threshold']}</p>"),
        ("study", f'<p>{text["study"] or "none"}</p><p class="small">{text["scale"]}</p>'),
    ]
    joined = "".join(
        f'<td role="cell" class="{name}" data-heading="{heading}">{content}</td>'
        for heading, (name, content) in zip(HEADINGS, cells, strict=True)
    )
    return f'<tr role="row">{joined}</tr>\n'


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
