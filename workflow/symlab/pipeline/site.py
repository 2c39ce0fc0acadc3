"""What mkdocs calls while it builds the site from docs/ (mkdocs.yml, ``make site``).

Pages are written for the repository: they may show kept figures and name files outside docs/. On the site the former
are copied and the latter lead to the repository. Kept runs get their reports.
"""

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from symlab.artifacts import read_table, write_text
from symlab.pipeline.docs import REFERENCE, ROOT, kept_figures
from symlab.pipeline.drawing import Text, drawing_of
from symlab.pipeline.ledger import group_claims
from symlab.pipeline.registry import FIGURES
from symlab.pipeline.report import write_page
from symlab.pipeline.telling import tell
from symlab.plotting.numbers import typeset

LINK = re.compile(r"(\]\()([^)#\s]+)([^)]*\))")


def on_files(files: Any, config: Any) -> Any:
    """Add the kept figures to what is copied."""
    from mkdocs.structure.files import File

    for path in REFERENCE.glob("*/*.svg"):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with links that lead out of docs/ put right."""
    return LINK.sub(lambda link: link[1] + _address(link[2], page.file.src_uri, config["repo_url"]) + link[3], markdown)


def _address(target: str, page: str, repository: str) -> str:
    """Where a page's link leads on the site."""
    if "://" in target:
        return target
    path = PurePosixPath(os.path.normpath(PurePosixPath("docs", page).parent / target))
    if path.parts[0] == "docs":
        return target
    if path.suffix == ".svg":
        return PurePosixPath(os.path.relpath(path, PurePosixPath(page).parent)).as_posix()
    return f"{repository}/blob/main/{path}"


def on_post_build(config: Any) -> None:
    """Write the report of each kept run with its figures, and its claims and config beside it."""
    for run in sorted(path.parent for path in REFERENCE.glob("*/claims.csv")):
        folder = Path(config["site_dir"]) / "reports" / run.name
        ledger = read_table(run / "claims.csv")
        kept = json.loads((run / "provenance.json").read_text())
        command, made = kept["command"], f"{kept['date']}: {kept['wall_time']}, {kept['machine']}"
        given = re.search(r"--configfile (\S+)", command)
        text = (ROOT / (given[1] if given else "config.yaml")).read_text()
        scales = ledger.dropna(subset=["study"]).groupby("study")["scale"].first()
        studies = {study: {"about": "", "scale": scale} for study, scale in scales.items()}
        figures = _copy_figures(run, ledger, folder)
        page = write_page(text, ledger, studies, figures, {}, {}, folder, run=command, made=made)
        write_text(
            folder / "report.html",
            re.sub(r'href="[^"]*/papers/([\w-]+)\.md"', r'href="../../explanation/papers/\1/"', page),
        )
        write_text(folder / "config.yaml", text)
        shutil.copy(run / "claims.csv", folder / "claims.csv")


def _copy_figures(run: Path, ledger: pd.DataFrame, folder: Path) -> dict[str, list[Path]]:
    """The kept figures of a run by study, copied below ``folder``, each with what its card says of it.

    A figure about which no study has claims is under the run's name.
    """
    claims = group_claims(ledger)
    copied: dict[str, list[Path]] = {}
    for drawn, (figure, of) in kept_figures(run, claims).items():
        study, drawing = of or run.name, drawing_of(FIGURES[figure])
        seen = tell([drawing.sentence], [claim for claim in claims if claim.study == of]) if drawing.sentence else []
        place = folder / study / "figures" / f"{figure}.svg"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(drawn, place)
        text = Text(drawing.title, typeset(drawing.caption.format(study=study)), "".join(seen), drawing.differs)
        text.write(place.with_suffix(".json"))
        copied.setdefault(study, []).append(place)
    return copied
