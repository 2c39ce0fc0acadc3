"""The report: what was found, the claims, the figures, the tables and where it all comes from, as one page."""

from __future__ import annotations

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
from symlab.pipeline.html import render, render_markdown, svg_uri
from symlab.pipeline.ledger import (
    CHECK,
    ERROR,
    FAILED,
    FINDING,
    NOT_RUN,
    ONE_UNIT,
    OWNERS,
    THEOREM,
    UNDECIDED,
    VERDICTS,
    Judged,
    cases_at,
    claims_of,
    count_findings,
    describe_counts,
    group_claims,
    kept_verdicts,
    tell,
)
from symlab.study.card import Paper

# More cases than these are told by their range; the full list is folded.
CASES_TOLD = 5
AGAINST = (ERROR, FAILED, UNDECIDED)
DOUBTFUL = (*AGAINST, ONE_UNIT)
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
) -> str:
    """The whole page as HTML, without scripts and without anything to fetch; tables and PDFs are links beside it.

    Args:
        config: text of the config that was run.
        ledger: all claims with their verdicts (``ledger.evaluate_claims``).
        studies: of each study ``about``, one line, and ``scale``, a phrase such as "4 pairs, 60 epochs".
        figures: SVG files (<id>.svg, with <id>.pdf and <id>.json beside each) of each study.
        tables: CSV and parquet files of each study.
        datasets: header of each prepared data set.
        results: folder that all of them are in, with claims.csv and config.yaml, and that the page is to lie in.
        papers: the cards to take names and captions from.
        project: the repository, whose docs are linked, with the verdicts of finished runs in results/reference.

    Everything but the time, the versions and the commit depends on these alone.

    Raises:
        ArtifactError: a figure is no drawing, or its texts are missing.
    """
    claims = group_claims(ledger)
    kept = kept_verdicts(project / "results" / "reference")
    shown = {paper.slug: _view_figures(paper, figures, results) for paper in papers}
    views = {paper.slug: _view_claims(paper, claims, shown[paper.slug]) for paper in papers}
    captions = dict(KERNEL_CAPTIONS)
    for paper in papers:
        captions |= paper.captions or {}
        for figure in shown[paper.slug]:
            figure["claims"] = [view for view in views[paper.slug] if figure["anchor"] in view["figures"]]
    return render(
        "report.html",
        summary=f"of the papers' own findings {describe_counts(count_findings(claims, owners=('paper',)))}",
        papers=[
            _view_paper(paper, views[paper.slug], shown[paper.slug], studies, kept, _docs(paper, project, results))
            for paper in papers
            if views[paper.slug]
        ],
        tables={name: [_view_table(path, results, captions) for path in paths] for name, paths in tables.items()},
        datasets={name: _view_dataset(header) for name, header in datasets.items()},
        config=config,
        written=f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        versions=provenance.versions(),
        commit=provenance.commit(),
    )


def _docs(paper: Paper, project: Path, results: Path) -> str:
    """The address, from the page, of what the repository says of the paper; empty if it says nothing."""
    path = project / "docs" / "papers" / f"{paper.slug}.md"
    return Path(os.path.relpath(path, results)).as_posix() if path.exists() else ""


def _view_paper(
    paper: Paper,
    views: list[View],
    figures: list[View],
    studies: Mapping[str, Mapping[str, str]],
    kept: Mapping[str, Mapping[str, str]],
    docs: str,
) -> View:
    """A paper's part of the first screen, of the claims and of the figures."""
    claims = [view["claim"] for view in views]
    judged = [view for view in views if view["verdict"] != NOT_RUN]
    first = {figure["id"]: figure for figure in reversed(figures)}
    others = count_findings(claims, (THEOREM, CHECK))
    return {
        "card": paper,
        "slug": paper.slug,
        "docs": docs,
        "counts": {OWNERS[owner]: counts for owner in OWNERS if (counts := _count(claims, owner))},
        "others": ", ".join(f"{n} {word}" for word, n in others.items() if n),
        "found": list(_view_found(paper, views, studies)),
        "missed": sorted((view for view in judged if view["verdict"] == FAILED), key=_place_of_owner),
        "pictures": [first[name] for name in paper.thumbnail[:1] if name in first],
        "groups": _group_views(judged),
        "scales": {view["claim"].study: view["claim"].scale for view in judged},
        "not_run": list(_view_not_run(views, kept)),
        "n_not_run": len(views) - len(judged),
        "figures": figures,
    }


def _count(claims: Sequence[Judged], owner: str) -> list[tuple[str, str]]:
    """How many of an owner's findings have which verdict, as badges."""
    counts = count_findings(claims, owners=(owner,))
    return [(_style(verdict), f"{n} {_word(verdict, owner)}") for verdict, n in counts.items() if n]


def _place_of_owner(view: View) -> int:
    return list(OWNERS).index(view["claim"].owner)


def _view_found(paper: Paper, views: list[View], studies: Mapping[str, Mapping[str, str]]) -> Iterator[View]:
    """What each study found, in sentences, each with the claims that its numbers are from."""
    for name, facts in studies.items():
        of_study = [view for view in views if view["claim"].study == name]
        sentences = []
        for sentence in paper.found:
            for text in tell([sentence], [view["claim"] for view in of_study]):
                places = sentence.values.values()
                told = [
                    (view, case) for place in places for view in of_study for case in cases_at(place, [view["claim"]])
                ]
                against = min((case.verdict for _, case in told), key=VERDICTS.index)
                sources = {view["title"]: view["anchor"] for view, _ in told}
                owner = next(view["claim"].owner for view, case in told if case.verdict == against)
                doubt = (_style(against), _word(against, owner)) if against in DOUBTFUL else None
                sentences.append({"text": text, "sources": sources, "doubt": doubt})
        if sentences:
            yield {"study": name, **facts, "sentences": sentences}


def _view_claims(paper: Paper, claims: Sequence[Judged], figures: Sequence[View]) -> list[View]:
    """The paper's claims as the template shows them, each with the drawn figures of its study that it is about."""
    own = [claim for claim in claims if claim.paper == paper.slug]
    known = {claim.id: claim for claim in claims_of(paper)} if own else {}
    order = [figure.id for figure in paper.figures]
    views = []
    for claim in own:
        names = [claim.figure, *(known[claim.claim].also if claim.claim in known else ())]
        about = next((name for name in names if name in order), claim.figure)
        views.append(
            {
                "claim": claim,
                "verdict": claim.verdict,
                "style": _style(claim.verdict),
                "word": _word(claim.verdict, claim.owner),
                "owner": OWNERS[claim.owner],
                "anchor": f"claim-{claim.study}-{claim.claim}",
                "about": about,
                "place": order.index(about) if about in order else len(order),
                "title": paper.title_of(claim.figure),
                "figures": [each["anchor"] for each in figures if each["study"] == claim.study and each["id"] in names],
                "told": _tell_values(claim),
                "folded": len(claim.cases) > CASES_TOLD,
                "against": [case for case in claim.cases if case.verdict in AGAINST],
                "why": list(dict.fromkeys(case.why for case in claim.cases if case.why)),
            }
        )
    return views


def _tell_values(claim: Judged) -> str:
    """The values in a sentence: 29.1 ± 5.1 (standard), 20.6 ± 3.2 (W, σ_F = 0); of many, what failed or the range.

    Where a claim failed in some cases, the others say their verdict.
    """
    many, failed = len(claim.cases) > CASES_TOLD, [case for case in claim.cases if case.verdict == FAILED]
    if many and not 0 < len(failed) <= CASES_TOLD:
        return f"{claim.range} ({len(claim.cases)} cases)"
    told = []
    for case in failed if many else claim.cases:
        verdict = case.verdict if failed and case.verdict != FAILED else ""
        notes = ", ".join(filter(None, [case.name, verdict]))
        told.append(f"{case.measured} ({notes})" if notes else case.measured)
    return ", ".join(told) + (f" ({len(failed)} of {len(claim.cases)} cases)" if many else "")


def _group_views(views: list[View]) -> list[View]:
    """The claims by figure and study: figures with findings that speak against the paper first, then in its order."""
    groups: dict[tuple[int, str], list[View]] = {}
    for view in sorted(views, key=lambda view: (view["claim"].kind != FINDING, VERDICTS.index(view["verdict"]))):
        groups.setdefault((view["place"], view["claim"].study), []).append(view)
    told = []
    for (_, study), members in sorted(groups.items(), key=lambda item: (_rank(item[1]), item[0][0])):
        counts = {word: sum(view["verdict"] == word for view in members) for word in VERDICTS}
        told.append(
            {
                "title": members[0]["title"] if len({view["title"] for view in members}) == 1 else "",
                "about": members[0]["about"],
                "study": study,
                "counts": [(_style(word), f"{n} {word}") for word, n in counts.items() if n],
                "claims": members,
            }
        )
    return told


def _rank(views: list[View]) -> int:
    """The place among the verdicts of the worst that speaks against the paper; beyond all where none does."""
    against = [VERDICTS.index(view["verdict"]) for view in views if view["verdict"] in AGAINST]
    return min(against, default=len(VERDICTS))


def _view_not_run(views: list[View], kept: Mapping[str, Mapping[str, str]]) -> Iterator[View]:
    """The claims without a verdict, by figure, with why and what finished runs said of them."""
    missing = sorted((view for view in views if view["verdict"] == NOT_RUN), key=lambda view: view["place"])
    for title in dict.fromkeys(view["title"] for view in missing):
        members = [view for view in missing if view["title"] == title]
        yield {
            "title": title,
            "claims": [{**view, "kept": kept.get(view["claim"].claim, {})} for view in members],
            "why": list(dict.fromkeys(_why_not(view["claim"]) for view in members)),
        }


def _why_not(claim: Judged) -> str:
    why = "; ".join(dict.fromkeys(case.detail for case in claim.cases))
    return f"study {claim.study}: {why}" if claim.study else why


def _view_figures(paper: Paper, figures: Mapping[str, Sequence[Path]], results: Path) -> list[View]:
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
                "source": "" if text.undrawn else svg_uri(svg),
                "width": width,
                "height": height,
                "pdf": path.with_suffix(".pdf").relative_to(results).as_posix(),
            }
        )
    return shown


def _read_svg(path: Path) -> tuple[str, int, int]:
    """A drawing with its width and height in pixels of a page."""
    try:
        svg = path.read_text()
        points = [re.search(rf'<svg [^>]*\b{side}="([\d.]+)pt"', svg)[1] for side in ("width", "height")]  # type: ignore[index]
    except (OSError, UnicodeDecodeError, TypeError):
        raise ArtifactError(f"{path} is no drawing. Delete it and run again.") from None
    width, height = (round(float(side) * 4 / 3) for side in points)
    return svg[svg.index("<svg") :], width, height


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


def _word(verdict: str, owner: str) -> str:
    """A verdict as the page says it: only what a paper says itself is reproduced, or not."""
    return "not reproduced" if verdict == FAILED and owner == "paper" else verdict


def _style(verdict: str) -> str:
    return verdict.replace(" ", "-")
