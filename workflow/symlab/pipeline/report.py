"""The report: what was found, the claims, the figures, the tables and where it all comes from, as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
from PIL import Image, UnidentifiedImageError

from symlab.artifacts import ArtifactError
from symlab.measures import KERNEL_CAPTIONS
from symlab.papers import PAPERS
from symlab.papers.card import Paper
from symlab.pipeline import provenance
from symlab.pipeline.drawing import UNDRAWN, drawing_of
from symlab.pipeline.html import data_uri, render, render_markdown
from symlab.pipeline.ledger import (
    AGREES,
    HELD,
    NOT_RUN,
    SENTENCE,
    Judged,
    claims_of,
    count_verdicts,
    describe_count,
    describe_counts,
    group_claims,
)

# Larger tables and drawings stay outside the page, which says where they are: a page has to open at once.
HELD_BYTES = 256 * 1024
# More cases than these are told by their range; the full list is folded.
CASES_TOLD = 5


def write_page(
    config: str,
    ledger: pd.DataFrame,
    studies: Mapping[str, Mapping[str, str]],
    figures: Mapping[str, Sequence[Path]],
    tables: Mapping[str, Sequence[Path]],
    datasets: Mapping[str, Mapping[str, Any]],
    results: Path,
    papers: Sequence[Paper] = PAPERS,
) -> str:
    """The whole page as HTML, without scripts and without anything to fetch.

    Args:
        config: text of the config that was run.
        ledger: all claims with their verdicts (``ledger.evaluate_claims``).
        studies: of each study ``about``, one line, and ``scale``, a phrase such as "8 seeds, 60 epochs".
        figures: PNG files (<id>.png, a PDF of the same name beside each) of each study.
        tables: CSV and parquet files of each study.
        datasets: header of each prepared data set.
        results: folder that all of them are in, with claims.csv and config.yaml.
        papers: the cards to take names, headlines and captions from.

    Everything but the time, the versions and the commit depends on these alone.

    Raises:
        ArtifactError: a figure is no image.
    """
    claims = group_claims(ledger)
    views = {paper.slug: _view_claims(paper, claims, figures) for paper in papers}
    counts = count_verdicts(ledger)
    captions = dict(KERNEL_CAPTIONS)
    for paper in papers:
        captions |= paper.captions or {}
    return render(
        "report.html",
        summary=describe_counts(counts),
        papers=[_view_paper(paper, ledger, views[paper.slug]) for paper in papers if views[paper.slug]],
        studies=[
            {"name": name, **facts, "figures": _view_figures(name, figures.get(name, ()), papers, views, results)}
            for name, facts in studies.items()
        ],
        tables={name: [_view_table(path, name, results, captions) for path in paths] for name, paths in tables.items()},
        datasets={name: _view_dataset(header) for name, header in datasets.items()},
        config=config,
        config_file=_attach(results / "config.yaml", results),
        ledger_file=_attach(results / "claims.csv", results),
        written=f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        versions=provenance.versions(),
        commit=provenance.commit(),
    )


def _view_paper(paper: Paper, ledger: pd.DataFrame, views: list[dict[str, Any]]) -> dict[str, Any]:
    """A paper's part of the first screen and of the claims."""
    counts = count_verdicts(ledger[ledger["paper"] == paper.slug])
    judged = [view for view in views if view["verdict"] != NOT_RUN]
    return {
        "card": paper,
        "anchor": f"paper-{paper.slug}",
        "counts": [(_style(word), describe_count(word, counts[word])) for word in SENTENCE if counts[word]],
        "n_claims": len(views),
        "headlines": [view for name in paper.headlines for view in judged if view["claim"].claim == name],
        "against": [view for view in judged if view["verdict"] not in (HELD, AGREES)],
        "for": [view for view in judged if view["verdict"] in (HELD, AGREES)],
        "not_run": [view for view in views if view["verdict"] == NOT_RUN],
    }


def _view_claims(paper: Paper, claims: Sequence[Judged], figures: Mapping[str, Sequence[Path]]) -> list[dict[str, Any]]:
    """The paper's claims as the template shows them, each with the drawn figures of its study that it is about."""
    known = {claim.id: claim for claim in claims_of(paper)} if any(each.paper == paper.slug for each in claims) else {}
    return [
        {
            "claim": claim,
            "verdict": claim.verdict,
            "style": _style(claim.verdict),
            "anchor": f"claim-{claim.study}-{claim.claim}",
            "title": paper.title_of(claim.figure),
            "figures": [
                _figure_anchor(claim.study, path.stem)
                for path in figures.get(claim.study, ())
                if claim.claim in known and known[claim.claim].is_about([path.stem])
            ],
            "told": _tell_values(claim),
            "folded": len(claim.cases) > CASES_TOLD,
        }
        for claim in claims
        if claim.paper == paper.slug
    ]


def _tell_values(claim: Judged) -> str:
    """The values in a sentence: 29.1 ± 5.09 (standard), 20.6 ± 3.18 (W, σ_F = 0); of many, the range."""
    if len(claim.cases) > CASES_TOLD:
        return f"{claim.range} ({len(claim.cases)} cases)"
    return ", ".join(f"{case.measured} ({case.name})" if case.name else case.measured for case in claim.cases)


def _view_figures(
    study: str,
    paths: Sequence[Path],
    papers: Sequence[Paper],
    views: Mapping[str, Sequence[Mapping[str, Any]]],
    results: Path,
) -> list[dict[str, Any]]:
    """The figures of a study with their captions and the claims about them."""
    cards = {figure.id: (paper, figure) for paper in papers for figure in paper.figures}
    shown = []
    for path in paths:
        paper, figure = cards[path.stem]
        drawing = drawing_of(figure)
        anchor = _figure_anchor(study, path.stem)
        width, height, undrawn = _look_at_png(path)
        shown.append(
            {
                "anchor": anchor,
                "paper": paper,
                "title": paper.title_of(path.stem),
                "drawing": drawing,
                "caption": render_markdown(drawing.caption.format(study=study)),
                "undrawn": undrawn,
                "source": "" if undrawn else data_uri(path),
                "width": width,
                "height": height,
                "pdf": _attach(path.with_suffix(".pdf"), results, f"{study}_"),
                "claims": [
                    view for view in views[paper.slug] if view["verdict"] != NOT_RUN and anchor in view["figures"]
                ],
            }
        )
    return shown


def _look_at_png(path: Path) -> tuple[int, int, str]:
    """Width, height, and the sentence why it is no drawing (empty if it is one)."""
    try:
        with Image.open(path) as image:
            return *image.size, str(image.info.get(UNDRAWN, ""))
    except (UnidentifiedImageError, OSError):
        raise ArtifactError(f"{path} is no image. Delete it and run again.") from None


def _view_table(path: Path, study: str, results: Path, captions: Mapping[str, str]) -> dict[str, Any]:
    return {
        **_attach(path, results, f"{study}_"),
        "title": path.name,
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


def _attach(path: Path, results: Path, prefix: str = "") -> dict[str, str]:
    """A file of the results to save from the page; ``uri`` is empty if it is too large to be held by it."""
    size = path.stat().st_size
    return {
        "name": prefix + path.name,
        "path": path.relative_to(results).as_posix(),
        "size": f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size / 1e3, 1):.0f} kB",
        "uri": data_uri(path) if size <= HELD_BYTES else "",
    }


def _figure_anchor(study: str, figure: str) -> str:
    return f"figure-{study}-{figure}"


def _style(verdict: str) -> str:
    return verdict.replace(" ", "-")
