"""The generated parts of README.md and docs/: ``make docs`` writes them anew, and a test fails where they drifted.

A part stands between ``<!-- generated: <what> -->`` and ``<!-- end of generated -->``; what is around it is by hand.
What there is: ``findings`` (a row a paper) and ``owners`` (of the kept demo, a row an owner of claims); ``headline``,
``found`` and ``verdicts``, each with ``<paper> <run>`` (in plain words, in sentences, as a table); ``runs`` and
``gallery`` (all kept runs, and their figures); ``example`` (what the example's alignment gave); ``settings``,
``figures`` and ``commands`` (the reference). A run is kept by copying its claims.csv to results/reference/<run>,
beside a provenance.json; its figures as <figure>.svg, or <study>-<figure>.svg where several studies draw one.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from symlab.artifacts import read_table
from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline.crate import FILE, crate_text
from symlab.pipeline.drawing import drawing_of
from symlab.pipeline.ledger import (
    FAILED,
    FINDING,
    HELD,
    NOT_RUN,
    ONE_UNIT,
    OWNERS,
    STAND_IN,
    UNDECIDED,
    Judged,
    claims_of,
    group_claims,
)
from symlab.pipeline.reference import command_help, escape, figure_table, settings_tables
from symlab.pipeline.registry import FIGURES, paper_of
from symlab.pipeline.rejudge import CHANGED
from symlab.pipeline.schema import schema_text
from symlab.pipeline.telling import (
    count_findings,
    describe_counts,
    doubt_of,
    read_kept,
    tell,
    tell_largest,
)
from symlab.study.card import Paper

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "results" / "reference"
kept_runs = cache(read_kept)
SCHEMA = ROOT / "config" / "schema.json"
EXAMPLE = ROOT / "examples" / "align" / "kept"
PART = re.compile(r"(<!-- generated: ([\w -]+?) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def pages() -> list[Path]:
    """The files that have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def regenerate(text: str) -> str:
    """The page with its generated parts as they should be.

    Raises:
        UserError: a part asks for what cannot be generated.
    """
    return PART.sub(lambda match: match[1] + "\n".join(generate(match[2])).strip("\n") + "\n" + match[3], text)


def generate(what: str) -> Iterator[str]:
    """Lines of Markdown of one part.

    Raises:
        UserError: there is no such part, paper or run.
    """
    kind, *arguments = what.split()
    alone: dict[str, Callable[[], Iterator[str]]] = {
        "findings": findings_table,
        "owners": owners_table,
        "gallery": gallery,
        "example": example_table,
        "runs": run_table,
        "settings": settings_tables,
        "figures": lambda: figure_table(ROOT / "workflow" / "presets", REFERENCE),
        "commands": command_help,
    }
    if kind in alone and not arguments:
        return alone[kind]()
    papers = {paper.slug: paper for paper in PAPERS}
    of_run = {"headline": headline, "found": found_sentences, "verdicts": verdict_table}
    if kind not in of_run or len(arguments) != 2 or arguments[0] not in papers:
        raise UserError(
            f"Nothing is generated for {what!r}: give {', '.join(alone)}, or headline, found or verdicts <paper> <run>."
        )
    return of_run[kind](papers[arguments[0]], arguments[1])


def findings_table() -> Iterator[str]:
    """A row a paper: what it says, and the first two sentences of what was found."""
    kept = kept_runs(REFERENCE)
    yield "| The paper says | Found here, in *run* |"
    yield "|---|---|"
    for paper in PAPERS:
        link = f"[{paper.short}](docs/explanation/papers/{paper.slug}.md), [{paper.where}]({paper.link})"
        found = tell_largest(replace(paper, headline=paper.headline[:2]), kept)
        yield f"| **{paper.heading}.** {link} | {escape(found)} |"
    demo = _provenance("demo")
    yield ""
    yield f"`make demo`, {demo['date']}: {demo['wall_time'].partition(' (')[0]}, {demo['machine']}."


def owners_table() -> Iterator[str]:
    """A row an owner of claims: how many of its findings have which verdict in the demo."""
    claims = [claim for paper in PAPERS for claim in _claims_of(paper, "demo")]
    names = {"paper": "stated by a paper", STAND_IN: "the same, asked of stand-ins"}
    names |= {"derived": "derived from a paper by us", "ours": "ours"}
    shown = (HELD, FAILED, UNDECIDED, ONE_UNIT, NOT_RUN)
    yield f"| Claims in the demo | {' | '.join(shown)} |"
    yield "|---" * (len(shown) + 1) + "|"
    for owner, name in names.items():
        counts = count_findings(claims, owners=(owner,))
        if owner == STAND_IN and not any(counts.values()):
            continue
        yield f"| {name} | {' | '.join(str(counts[verdict]) for verdict in shown)} |"
    measured = [
        claim for claim in claims if (claim.kind, claim.owner) == (FINDING, "paper") and claim.verdict != NOT_RUN
    ]
    origins = Counter(claim.origin for claim in measured)
    yield ""
    yield (
        "Thresholds are set before a run, or after values were seen where a reason says so. "
        f"{len(measured)} claims of the papers were measured. Of their thresholds {origins['paper']} are the paper's, "
        f"{origins['derived']} follow from it, {origins['ours']} are ours, and {origins['pilot']} were set after a "
        "pilot, by someone who had seen similar numbers."
    )


def example_table() -> Iterator[str]:
    """What the example's alignment and merge gave, in the accuracy of the average of the two networks."""
    scores = read_table(EXAMPLE / "scores.csv").set_index("network")["accuracy"]
    curve = read_table(EXAMPLE / "curve.csv")
    for name, aligned in (("as they are", False), ("B aligned to A", True)):
        middle = curve[(curve["aligned"] == aligned) & curve["lambda"].between(0.499, 0.501)]["accuracy"]
        yield f"- average of A and B, {name}: **{100 * middle.iloc[0]:.0f} %** of 500 held-out digits"
    yield f"- A alone {100 * scores.iloc[0]:.0f} %, B alone {100 * scores.iloc[1]:.0f} %"


def gallery() -> Iterator[str]:
    """Of each paper the figure that stands for it, of the demo if it has one, and all others folded by run."""
    for paper in PAPERS:
        kept = {
            run.name: {
                path: told
                for path, told in kept_figures(run, kept_runs(REFERENCE).get(run.name, ())).items()
                if FIGURES[told[0]] in paper.figures
            }
            for run in sorted(REFERENCE.iterdir())
        }
        if not any(kept.values()):
            continue
        yield from (f"## {paper.heading}", "", f"[{paper.short}](explanation/papers/{paper.slug}.md)", "")
        first = min(
            (path for figures in kept.values() for path in figures),
            key=lambda path: (kept[path.parent.name][path][0] != paper.thumbnail[0], path.parent.name != "demo"),
        )
        yield from _show(paper, first, *kept[first.parent.name].pop(first))
        for run, figures in kept.items():
            if figures:
                count = f"{len(figures)} figure{'s' if len(figures) > 1 else ''}"
                yield from (f'<details markdown="1"><summary>Run {run}: {count}</summary>', "")
                for path, (figure, study) in figures.items():
                    yield from _show(paper, path, figure, study)
                yield from ("</details>", "")


def _show(paper: Paper, path: Path, figure: str, study: str) -> Iterator[str]:
    """A kept figure with what it shows."""
    run, drawing = path.parent.name, drawing_of(FIGURES[figure])
    claims = [claim for claim in kept_runs(REFERENCE).get(run, ()) if claim.study == study]
    seen = "".join(tell([drawing.sentence], claims)) if drawing.sentence else ""
    title = f"{paper.title_of(figure)}: {drawing.title}"
    yield from (f"**{title}** (run {run}{f', study {study}' if study else ''}). {seen}".rstrip(), "")
    yield from (f"![{title}](../results/reference/{run}/{path.name})", "")


def kept_figures(run: Path, claims: Sequence[Judged]) -> dict[Path, tuple[str, str]]:
    """Of each kept figure of a run its id and its study: of <study>-<id>.svg, else the one with claims about it.

    The study is empty where none of the run's ``claims`` is about the figure.

    Raises:
        UserError: a file is called otherwise, or lacks its study where several have claims about the figure.
    """
    found = {}
    for path in sorted(run.glob("*.svg")):
        ids = [figure for figure in FIGURES if f"-{path.stem}".endswith(f"-{figure}")]
        if not ids:
            raise UserError(f"{path} is called after no figure: rename it to <figure>.svg or <study>-<figure>.svg.")
        figure = max(ids, key=len)
        study = path.stem.removesuffix(figure).removesuffix("-")
        studies = [study] if study else _studies_of(figure, claims)
        if len(studies) > 1:
            named = ", ".join(studies)
            raise UserError(f"{path} does not say of which study it is ({named}): rename it to <study>-{figure}.svg.")
        found[path] = figure, "".join(studies)
    return found


def _studies_of(figure: str, claims: Sequence[Judged]) -> list[str]:
    """The studies that drew a figure: those with claims of its own, or where it has none, with others also about it."""
    also = {claim.id for claim in claims_of(paper_of(figure)) if claim.is_about([figure])}
    own = {claim.study for claim in claims if claim.figure == figure and claim.study}
    return sorted(own or {claim.study for claim in claims if claim.claim in also and claim.study})


def headline(paper: Paper, run: str) -> Iterator[str]:
    """What the paper says and what was found, in ``run`` if none is named, for those who know nothing of it."""
    runs = [each for each in (paper.largest, run) if each]
    told = "; ".join(f"{each}, {_provenance(each)['date']}" for each in runs)
    yield f"> **{paper.heading}.** {tell_largest(paper, kept_runs(REFERENCE), run)} *({told})*"


def run_table() -> Iterator[str]:
    """A row a kept run: its report, the papers, when and how long it ran, and how many findings have which verdict."""
    short = {paper.slug: paper.short for paper in PAPERS}
    yield "| Run | Papers | Date | Time | Findings |"
    yield "|---|---|---|---|---|"
    for name, claims in kept_runs(REFERENCE).items():
        kept = _provenance(name)
        papers = dict.fromkeys(short[claim.paper] for claim in claims if claim.verdict != NOT_RUN)
        counts = describe_counts(count_findings(claims) | {NOT_RUN: 0}, all_of_them=False)
        link = f'<a href="{name}/report.html">{name}</a>'
        yield f"| {link} | {', '.join(papers)} | {kept['date']} | {escape(kept['wall_time'])} | {counts} |"


def found_sentences(paper: Paper, run: str) -> Iterator[str]:
    """What a run found, in sentences, each with its study, and its scale beside the paper's."""
    claims = _claims_of(paper, run)
    for study in dict.fromkeys(claim.study for claim in claims if claim.study):
        of_study = [claim for claim in claims if claim.study == study]
        for sentence in paper.found:
            doubt = doubt_of(sentence, of_study)
            for text in tell([sentence], of_study):
                yield f"- {text} {f'({doubt}) ' if doubt else ''}*(study {study})*"
    yield ""
    yield f"Here: {_scales(claims)}." + (f" The paper: {paper.scale}." if paper.scale else "")


def verdict_table(paper: Paper, run: str) -> Iterator[str]:
    """Counts; a row a claim that failed or is undecided; the others, folded; what was not run."""
    claims = _claims_of(paper, run)
    kept = _provenance(run)
    others = [claim for claim in claims if claim.kind != FINDING and claim.verdict != NOT_RUN]
    held = sum(claim.verdict == HELD for claim in others)
    made = f"{kept['date']}: {kept['wall_time']}, {kept['machine']}"
    yield f"`{kept['command']}`, {made}. Scale: {_scales(claims)}."
    told = [
        f"{name}: {describe_counts(counts, all_of_them=False)}"
        for owner, name in OWNERS.items()
        if any((counts := count_findings(claims, owners=(owner,))).values())
    ]
    told += [f"theorems and checks: {held} of {len(others)} held"] if others else []
    yield f"Claims ([words](../../../README.md#how-far-to-trust-it)), {'; '.join(told)}."
    yield ""
    order = list(dict.fromkeys(claim.claim for claim in claims))
    judged = sorted((claim for claim in claims if claim.verdict != NOT_RUN), key=lambda claim: order.index(claim.claim))
    open_ones = [claim for claim in judged if claim.verdict in (FAILED, UNDECIDED)]
    yield from _claim_rows(paper, open_ones, named=True)
    others = [claim for claim in judged if claim not in open_ones]
    if others:
        counts = Counter(claim.verdict for claim in others)
        yield f'<details markdown="1"><summary>{", ".join(f"{n} {verdict}" for verdict, n in counts.items())}</summary>'
        yield ""
        yield from _claim_rows(paper, others)
        yield "</details>"
        yield ""
    changed = [claim for claim in claims if claim.cases[0].detail.startswith(CHANGED)]
    if changed:
        names = dict.fromkeys(claim.claim.removeprefix(f"{paper.prefix}-") for claim in changed)
        yield f"Without a verdict, since {CHANGED} (each value is in the run's claims.csv): {', '.join(names)}."
        yield ""
    drawn = {claim.figure for claim in judged}
    missing = dict.fromkeys(paper.number(claim.figure) for claim in claims if claim.figure not in drawn)
    if missing:
        yield f"Figures without a verdict in this run: {', '.join(missing)}."


def _claim_rows(paper: Paper, claims: Sequence[Judged], named: bool = False) -> Iterator[str]:
    """A table with a row a claim and study; ``named`` tables say what was measured before its value."""
    if not claims:
        return
    yield "| Figure | Study | Claim | Whose | Measured | Threshold | Verdict |"
    yield "|---|---|---|---|---|---|---|"
    for claim in claims:
        measured = f"{claim.quantity}: {claim.range}" if named and claim.quantity else claim.range
        threshold = f"{claim.threshold} ({claim.origin})"
        cells = (claim.study, claim.statement, claim.owner, measured, threshold, _verdict_of(claim))
        yield f"| {paper.number(claim.figure)} | {' | '.join(map(escape, cells))} |"
    yield ""


def _claims_of(paper: Paper, run: str) -> list[Judged]:
    """The paper's claims in a kept run, in the ledger's order."""
    ledger = read_table(REFERENCE / run / "claims.csv")
    order = {name: at for at, name in enumerate(dict.fromkeys(ledger["claim"]))}
    claims = group_claims(ledger[ledger["paper"] == paper.slug])
    return sorted(claims, key=lambda claim: order[claim.claim])


def _provenance(run: str) -> dict[str, Any]:
    return json.loads((REFERENCE / run / "provenance.json").read_text())


def _scales(claims: Sequence[Judged]) -> str:
    """At which scale each study ran."""
    scales = {claim.study: claim.scale for claim in claims if claim.verdict != NOT_RUN}
    return "; ".join(f"{study}: {scale}" for study, scale in scales.items())


def _verdict_of(claim: Judged) -> str:
    verdict = f"**{claim.verdict}**" if claim.verdict == FAILED else claim.verdict
    verdict += f" in {claim.against} of {len(claim.measured)}" if 0 < claim.against < len(claim.measured) else ""
    return verdict if claim.kind == FINDING else f"{verdict} ({claim.kind})"


def main() -> None:
    """Write the generated parts anew and name the files that changed."""
    fresh = {path: regenerate(path.read_text()) for path in pages()} | {SCHEMA: schema_text()}
    fresh |= {path.with_name(FILE): crate_text(path.parent) for path in sorted(REFERENCE.glob("*/provenance.json"))}
    for path, text in fresh.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
