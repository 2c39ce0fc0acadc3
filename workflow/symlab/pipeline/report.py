"""The report: what each paper's studies found, the claims, the figures, the tables and where it all comes from.

One page that fetches nothing. Its script only sorts and filters the table of claims; without it the page is whole.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet

from symlab.artifacts import ArtifactError
from symlab.measures import KERNEL_CAPTIONS
from symlab.papers import PAPERS
from symlab.pipeline import provenance
from symlab.pipeline.drawing import Text
from symlab.pipeline.html import Drawings, render, render_markdown
from symlab.pipeline.ledger import (
    CHECK,
    ERROR,
    FAILED,
    FINDING,
    HELD,
    NOT_RUN,
    ONE_UNIT,
    OWNERS,
    STAND_IN,
    THEOREM,
    UNDECIDED,
    VERDICTS,
    Judged,
    claims_of,
    group_claims,
)
from symlab.pipeline.telling import (
    Kept,
    cases_at,
    count_findings,
    describe_counts,
    doubt_of,
    kept_verdicts,
    read_kept,
    tell,
    tell_elsewhere,
    tell_kept,
)
from symlab.study.card import Paper, Sentence

# More cases than these are told by their range; the full list is folded.
CASES_TOLD = 3
IN_BARS = (HELD, ONE_UNIT, UNDECIDED, FAILED, ERROR, NOT_RUN)
SIGNS = {"error": "!", "failed": "✗", "undecided": "?", "one unit": "•", "held": "✓", "not run": "–"}
"""What stands for a verdict beside its colour where there is no room for the word."""
OF_OWNERS = {
    "paper": "of the papers' own",
    STAND_IN: "of the papers', asked of stand-ins",
    "derived": "that we derived from a paper",
    "ours": "of ours",
}
"""Whose claims there are, after their number."""
THUMBNAIL_MARGIN = 2
FACTS = ("about", "scale")
"""What is told of a study on its paper's card."""
View = dict[str, Any]


def write_page(
    config: str,
    ledger: pd.DataFrame,
    studies: Mapping[str, Mapping[str, str]],
    figures: Mapping[str, Sequence[Path]],
    tables: Mapping[str, Sequence[Path]],
    datasets: Mapping[str, Mapping[str, Any]],
    results: Path,
    papers: Sequence[Paper] = PAPERS,
    project: Path = provenance.ROOT,
    run: str = "this config",
    made: str = "",
) -> str:
    """The whole page as HTML, with nothing to fetch; tables and PDFs are links beside it.

    Args:
        config: text of the config that was run.
        ledger: all claims with their verdicts (``ledger.evaluate_claims``).
        studies: of each study ``about``, one line, and ``scale``, a phrase such as "4 pairs, 60 epochs".
        figures: SVG files (<id>.svg, with <id>.pdf and <id>.json beside each) of each study.
        tables: CSV and parquet files of each study.
        datasets: header of each prepared data set.
        results: folder of them all, with claims.csv and config.yaml, that the page is to lie in.
        papers: the cards to take names and captions from.
        project: the repository, whose docs are linked, with the verdicts of finished runs in results/reference.
        run: what the run is called: the name of its config.
        made: when and where it ran; empty for now and here. All but this, versions and commit depends on the others.

    Raises:
        ArtifactError: a figure is no drawing, or its texts are missing.
    """
    claims = group_claims(ledger)
    kept = read_kept(project / "results" / "reference")
    captions = dict(KERNEL_CAPTIONS)
    sections, drawings = [], Drawings()
    for paper in papers:
        captions |= paper.captions or {}
        drawn = _view_figures(paper, figures, results, drawings)
        views = _view_claims(paper, claims, drawn, kept_verdicts(kept))
        for figure in drawn:
            figure["claims"] = [view for view in views if figure["anchor"] in view["figures"]]
        if views:
            sections.append(_view_paper(paper, views, drawn, studies, _docs(paper, project, results), kept))
    return render(
        "report.html",
        run=run,
        signs=SIGNS,
        verdicts=[verdict for verdict in VERDICTS if any(claim.verdict == verdict for claim in claims)],
        summary=f"of the papers' own findings {describe_counts(count_findings(claims, owners=('paper',)))}",
        checks=describe_counts(count_findings(claims, (THEOREM, CHECK))),
        totals={owner: counts for owner, counts in _count_by_owner(claims).items() if counts},
        letters=drawings.outlines(),
        papers=sections,
        missed=_gather_missed(sections),
        tables={name: [_view_table(path, results, captions) for path in paths] for name, paths in tables.items()},
        datasets={name: _view_dataset(header) for name, header in datasets.items()},
        config=config,
        **_origin(made),
    )


def _origin(made: str) -> View:
    """When, where and with what the page was made."""
    now = f"written on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z} on {provenance.machine()}"
    return {"made": made or now, "versions": provenance.versions(), "commit": provenance.commit()}


def _docs(paper: Paper, project: Path, results: Path) -> str:
    """The address, from the page, of what the repository says of the paper; empty if it says nothing."""
    path = next((project / "docs").rglob(f"papers/{paper.slug}.md"), None)
    return Path(os.path.relpath(path, results)).as_posix() if path else ""


def _count_by_owner(claims: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """How many findings of each owner have which verdict; verdicts that none has are left out."""
    by_owner = {name: count_findings(claims, owners=(owner,)) for owner, name in OWNERS.items()}
    return {name: {verdict: n for verdict in IN_BARS if (n := counts[verdict])} for name, counts in by_owner.items()}


def _view_paper(
    paper: Paper,
    views: list[View],
    figures: list[View],
    studies: Mapping[str, Mapping[str, str]],
    docs: str,
    kept: Kept,
) -> View:
    """A paper's card on the first screen, its claims and its figures."""
    claims = [view["claim"] for view in views]
    others = count_findings(claims, (THEOREM, CHECK))
    headline, told_of = _tell_headline(paper, claims, studies, kept)
    return {
        "card": paper,
        "slug": paper.slug,
        "docs": docs,
        "headline": headline,
        "scale": "; ".join(
            filter(None, [paper.subjects, *(studies[study].get(fact) for study in told_of for fact in FACTS)])
        ),
        "missed": {
            name: missed
            for kind, name in ((FINDING, "Failed, of the paper's own claims"), (THEOREM, "Failed theorem"))
            if (missed := [v for v in views if v["missed"] and (v["claim"].owner, v["claim"].kind) == ("paper", kind)])
        },
        "counts": {name: counts for name, counts in _count_by_owner(claims).items() if set(counts) - {NOT_RUN}},
        "others": ", ".join(f"{n} {word}" for word, n in others.items() if n),
        "thumbnail": _view_thumbnail(paper, figures),
        "found": list(_view_found(paper, views, studies)),
        "scales": {view["claim"].study: view["claim"].scale for view in views if view["verdict"] != NOT_RUN},
        "kept": tell_kept(claims, kept),
        "n_not_run": sum(view["verdict"] == NOT_RUN for view in views),
        "claims": views,
        "figures": figures,
    }


def _gather_missed(sections: Sequence[View]) -> dict[str, list[View]]:
    """The findings that failed, by whose they are, then the theorems."""
    missed = [view for section in sections for view in section["claims"] if view["missed"]]
    theorems = [view for view in missed if view["claim"].kind == THEOREM]
    findings = [view for view in missed if view not in theorems]
    groups = {name: [view for view in findings if view["claim"].owner == owner] for owner, name in OF_OWNERS.items()}
    groups["that a paper calls a theorem"] = theorems
    return {name: views for name, views in groups.items() if views}


def _tell_headline(
    paper: Paper, claims: Sequence[Judged], studies: Mapping[str, Any], kept: Kept
) -> tuple[list[View], list[str]]:
    """Each sentence of the paper's headline from the first study that has its values; and those studies."""
    told: list[View] = []
    used: list[str] = []
    for sentence in paper.headline:
        for study in studies:
            of_study = [claim for claim in claims if claim.study == study]
            if text := tell([sentence], of_study):
                elsewhere = tell_elsewhere(sentence, of_study, kept)
                told.append({"text": text[0], "doubt": doubt_of(sentence, of_study), "elsewhere": elsewhere})
                used.append(study)
                break
    return told, list(dict.fromkeys(used))


def _view_found(paper: Paper, views: list[View], studies: Mapping[str, Mapping[str, str]]) -> Iterator[View]:
    """What each study found, in sentences, each with the claims that its numbers are from."""
    for name, facts in studies.items():
        of_study = [view for view in views if view["claim"].study == name]
        sentences = [
            {"text": text, **_view_sources(sentence, of_study)}
            for sentence in paper.found
            for text in tell([sentence], [view["claim"] for view in of_study])
        ]
        if sentences:
            yield {"study": name, **facts, "sentences": sentences}


def _view_sources(sentence: Sentence, views: list[View]) -> View:
    """The claims that a sentence's values are from, and their verdict if it casts doubt on all of them."""
    told = [view for place in sentence.values.values() for view in views if cases_at(place, [view["claim"]])]
    return {
        "sources": {view["title"]: view["anchor"] for view in told},
        "doubt": doubt_of(sentence, [view["claim"] for view in views]),
    }


def _view_claims(
    paper: Paper, claims: Sequence[Judged], figures: Sequence[View], kept: Mapping[str, Mapping[str, str]]
) -> list[View]:
    """The paper's claims in the order of its figures, each with the drawn figures of its study that it is about."""
    own = [claim for claim in claims if claim.paper == paper.slug]
    known = {claim.id: claim for claim in claims_of(paper)} if own else {}
    views = []
    for claim in own:
        why = dict.fromkeys(case.why for case in claim.cases if case.why)
        names = [claim.figure, *(known[claim.claim].also if claim.claim in known else ())]
        views.append(
            {
                "claim": claim,
                "paper": paper.short,
                "verdict": claim.verdict,
                "owner": OWNERS[claim.owner],
                "anchor": "-".join(filter(None, ["claim", claim.study, claim.claim])),
                "title": paper.title_of(claim.figure),
                "figures": [each["anchor"] for each in figures if each["study"] == claim.study and each["id"] in names],
                "told": "" if claim.verdict == NOT_RUN else _tell_values(claim),
                "missed": claim.kind != CHECK and claim.verdict == FAILED,
                "why": [text for text in why if not any(text.rstrip(".") in other for other in why if other != text)],
                "kept": kept.get(claim.claim, {}),
            }
        )
    order = [*known, *(claim.claim for claim in own if claim.claim not in known)]
    return sorted(views, key=lambda view: order.index(view["claim"].claim))


def _tell_values(claim: Judged) -> str:
    """The values in a sentence: 29.1 ± 5.1 (standard), 20.6 ± 3.2 (W, σ_F = 0); of many, what failed or the range.

    Where a claim failed in some cases, the others say their verdict.
    """
    measured = claim.measured
    many, failed = len(measured) > CASES_TOLD, [case for case in measured if case.verdict == FAILED]
    if many and not 0 < len(failed) <= CASES_TOLD:
        return f"{claim.range} ({len(measured)} cases)"
    told = []
    for case in failed if many else measured:
        verdict = case.verdict if failed and case.verdict != FAILED else ""
        notes = ", ".join(filter(None, [case.name, verdict]))
        told.append(f"{case.measured} ({notes})" if notes else case.measured)
    return ", ".join(told) + (f" ({len(failed)} of {len(measured)} cases)" if many else "")


def _view_figures(paper: Paper, figures: Mapping[str, Sequence[Path]], results: Path, drawings: Drawings) -> list[View]:
    """The paper's figures in its order, and of each those of all studies."""
    order = [figure.id for figure in paper.figures]
    drawn = [
        (order.index(path.stem), study, path)
        for study, paths in figures.items()
        for path in paths
        if path.stem in order
    ]
    shown = []
    for _, study, path in sorted(drawn, key=lambda each: each[0]):
        text = Text.read(path.with_suffix(".json"))
        svg, width, height = _read_svg(path)
        shown.append(
            {
                "id": path.stem,
                "study": study,
                "anchor": f"figure-{study}-{path.stem}",
                "title": paper.title_of(path.stem),
                "text": text,
                "caption": render_markdown(text.caption),
                "seen": render_markdown(text.seen),
                "differs": render_markdown(text.differs),
                "drawing": "" if text.undrawn else drawings.add(svg, f"{study}-{path.stem}"),
                "place": (0, 0, width, height),
                "file": _print_of(path).relative_to(results).as_posix(),
            }
        )
    return shown


def _print_of(path: Path) -> Path:
    """The file to print a drawing from: its PDF, or where only the drawing was kept, that."""
    pdf = path.with_suffix(".pdf")
    return pdf if pdf.exists() else path


def _view_thumbnail(paper: Paper, figures: Sequence[View]) -> View | None:
    """The figure that stands for the paper, and the place of the panel to show of it: all where it has no such panel.

    None where the figure was not drawn.
    """
    name, number, marks = paper.thumbnail
    figure = next((each for each in figures if each["id"] == name and each["drawing"]), None)
    if figure is None:
        return None
    shown = figure | {"marks": marks}
    if number >= len(figure["text"].panels):
        return shown
    left, top, width, height = figure["text"].panels[number]
    margin = THUMBNAIL_MARGIN
    place = left - margin, top - margin, width + 2 * margin, height + 2 * margin
    return shown | {"place": place}


def _read_svg(path: Path) -> tuple[str, float, float]:
    """A drawing with its width and height in points."""
    try:
        svg = path.read_text()
        width, height = (float(re.search(rf'<svg [^>]*\b{side}="([\d.]+)pt"', svg)[1]) for side in ("width", "height"))  # type: ignore[index]
    except (OSError, UnicodeDecodeError, TypeError):
        raise ArtifactError(f"{path} is no drawing. Delete it and run again.") from None
    return svg, width, height


def _view_table(path: Path, results: Path, captions: Mapping[str, str]) -> View:
    return {
        "name": path.name,
        "path": path.relative_to(results).as_posix(),
        "caption": render_markdown(captions.get(path.name, "")),
        "rows": f"{_count_rows(path):,}",
    }


def _count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_metadata(path).num_rows
    with path.open("rb") as file:
        return sum(line.count(b"\n") for line in iter(lambda: file.read(2**20), b"")) - 1


def _view_dataset(header: Mapping[str, Any]) -> dict[str, str]:
    return {
        "source": header["provenance"]["source"],
        "sizes": ", ".join(f"{header['sizes'][part]:,} {part}" for part in ("train", "val", "test")),
        "sha256": header["content_sha256"],
    }
