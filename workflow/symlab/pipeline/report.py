"""The report: claims, then each study's figures, tables, and where it all comes from, as one file without scripts."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import yaml

from symlab.artifacts import ArtifactError, read_header, rebuild
from symlab.claims import PAPERS
from symlab.claims.render import claims_view
from symlab.config import parse_config
from symlab.figures import FIGURES
from symlab.html import FOLDER, data_uri, from_rst, render
from symlab.papers import PAPERS as SOURCES
from symlab.papers import figure_name
from symlab.report import provenance
from symlab.study import Project, Study

# Larger tables and drawings stay outside the page, which says where they are: a page has to open at once.
HELD_BYTES = 256 * 1024
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def report_page(
    config: str,
    ledger: pd.DataFrame,
    figures: Mapping[str, Sequence[Path]],
    tables: Mapping[str, Sequence[Path]],
    datasets: Sequence[Path],
    results: Path,
    device: str,
) -> str:
    """The whole page as HTML.

    Args:
        config: text of the config that was run.
        ledger: all claims with their verdicts.
        figures: PNG files (figure_<id>.png, a PDF of the same name beside each) of each study.
        tables: CSV and parquet files of each study.
        datasets: the prepared data sets.
        results: folder that all of them are in, with Snakemake's ``benchmarks``.
        device: what the run was asked to compute on.

    Everything but the section "This run" depends on these files alone.

    Raises:
        UserError: a file is damaged, or a caption is not valid reStructuredText.
    """
    project = parse_config(yaml.safe_load(config))
    claims = claims_view(ledger)
    captions = yaml.safe_load((FOLDER / "tables.yaml").read_text())
    return render(
        "report.html",
        claims=claims,
        links=_links(claims, project),
        studies=[
            {
                "name": name,
                "anchor": f"study-{name}",
                "about": _about(study),
                "figures": [_figure(path, study, results, claims) for path in figures.get(name, ())],
            }
            for name, study in project.studies.items()
        ],
        tables=[
            {"study": name, "files": [_table(path, name, results, captions) for path in paths]}
            for name, paths in tables.items()
        ],
        claims_file=_download(results / "claims.csv", results),
        config=config,
        papers=SOURCES,
        config_file=_download(results / "config.yaml", results),
        run={
            "written": _time(provenance.now()),
            "versions": provenance.versions(),
            "commit": provenance.commit(),
            "device": device,
            "machine": provenance.machine(),
            "times": _times(project, results),
            "datasets": [_dataset(path) for path in datasets],
        },
    )


def figure_anchor(study: str, figure: str) -> str:
    """Where in the page a study's figure is."""
    return f"figure-{study}-{figure}"


def _is_about(paper: str, claim: str, figure: str) -> bool:
    return any(each.id == claim and each.is_about([figure]) for each in PAPERS.get(paper, ()))


def _links(claims: dict[str, Any], project: Project) -> dict[str, str]:
    """The anchor of the figure that each judged claim is about, by the claim's own anchor."""
    return {
        claim["anchor"]: figure_anchor(claim["study"], figure)
        for claim in claims["judged"]
        for figure in project.studies[claim["study"]].figures
        if _is_about(claim["paper"], claim["claim"], figure)
    }


def _about(study: Study) -> str:
    if study.teacher_student:
        asked = ", ".join(role.replace("_", " ") for role, grids in study.teacher_student.items() if grids)
        return f"Two-layer students of a teacher with orthonormal neurons ({asked}): {study.scale()}."
    masks = f" for each of {study.mask_seeds} draws of the fixed parts" if study.mask_seeds > 1 else ""
    epochs = sorted({variant.recipe["epochs"] for variant in study.variants.values()})
    data, variants = study.datasets(), list(study.variants)
    return (
        f"{study.seeds} seeds{masks}, {' or '.join(map(str, epochs))} epochs, "
        f"{'data set' if len(data) == 1 else 'data sets'} {', '.join(data)}; "
        f"{len(variants)} {'variant' if len(variants) == 1 else 'variants'}: {', '.join(variants)}."
    )


def _figure(path: Path, study: Study, results: Path, claims: dict[str, Any]) -> dict[str, Any]:
    figure = path.stem.removeprefix("figure_")
    name, title = figure_name(figure), FIGURES[figure].title
    # Titles say their number too where matplotlib draws no other; once is enough.
    title = re.sub(rf" \((?:Thm|Prop|Sec)\. {re.escape(name.partition(' ')[2])}\)$", "", title)
    width, height = _png_size(path)
    caption = FOLDER / "figures" / f"{figure}.rst"
    text = caption.read_text().format(study=study.name) if caption.exists() else ""
    return {
        "anchor": figure_anchor(study.name, figure),
        "name": name,
        "title": title,
        "alt": f"{name} of study {study.name}: {title}",
        "caption": from_rst(text, f"The caption workflow/report/figures/{caption.name}"),
        "source": data_uri(path),
        "width": width,
        "height": height,
        "pdf": _download(path.with_suffix(".pdf"), results, f"{study.name}_"),
        "claims": [
            claim
            for claim in claims["judged"]
            if claim["study"] == study.name and _is_about(claim["paper"], claim["claim"], figure)
        ],
    }


def _png_size(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        start = file.read(24)
    if len(start) < 24 or not start.startswith(PNG_SIGNATURE):
        raise ArtifactError(f"{path} is no PNG image. {rebuild(path)}")
    return struct.unpack(">II", start[16:24])


def _table(path: Path, study: str, results: Path, captions: Mapping[str, str]) -> dict[str, Any]:
    return {
        **_download(path, results, f"{study}_"),
        "title": path.name,
        "caption": from_rst(captions.get(path.name, ""), f"The entry {path.name} of workflow/report/tables.yaml"),
        "rows": f"{_rows(path):,}",
    }


def _rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_metadata(path).num_rows
    with path.open("rb") as file:
        return sum(line.count(b"\n") for line in iter(lambda: file.read(2**20), b"")) - 1


def _download(path: Path, results: Path, prefix: str = "") -> dict[str, Any]:
    """A file of the results to save from the page; ``uri`` is empty if it is too large to be held by it."""
    size = path.stat().st_size
    return {
        "name": prefix + path.name,
        "path": path.relative_to(results).as_posix(),
        "size": f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size / 1e3, 1):.0f} kB",
        "uri": data_uri(path) if size <= HELD_BYTES else "",
    }


def _times(project: Project, results: Path) -> dict[str, Any] | None:
    found = provenance.times(results / "benchmarks", project)
    if found is None:
        return None
    return {
        "started": _time(found.started),
        "ended": _time(found.ended),
        "jobs": found.jobs,
        "total": _duration(found.total_s),
        "rules": [
            {
                "rule": rule.rule,
                "jobs": rule.jobs,
                "total": _duration(rule.total_s),
                "longest": _duration(rule.longest_s),
                "memory": "not measured" if rule.memory_mb is None else f"{rule.memory_mb:,.0f} MB",
            }
            for rule in found.rules
        ],
    }


def _dataset(path: Path) -> dict[str, Any]:
    header = read_header(path, "dataset")
    return {
        "name": path.stem,
        "source": header["provenance"]["source"],
        "sizes": ", ".join(f"{header['sizes'][part]:,} {part}" for part in ("train", "val", "test")),
        "sha256": header["content_sha256"],
    }


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
