"""Draws a study's figures by the files that the papers' cards name, and keeps beside each what is said of it."""

from __future__ import annotations

import json
import re
import textwrap
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from symlab.artifacts import ArtifactError, write_text
from symlab.errors import UserError
from symlab.pipeline.registry import FIGURES, paper_of
from symlab.pipeline.telling import tell_seen
from symlab.plotting.numbers import typeset
from symlab.plotting.types import Figure as Drawn
from symlab.study.card import Drawing, Figure, drawings_of

if TYPE_CHECKING:
    from symlab.plotting.settings import Style
    from symlab.study.claim import Tables

FIELDS = {"seen": "To be seen here", "differs": "Unlike the paper", "undrawn": "Not drawn"}


@dataclass(frozen=True)
class Text:
    """What is said of a figure, in Markdown: in <id>.json beside it, and in <id>.rst for Snakemake's own report."""

    title: str
    caption: str
    seen: str = ""
    """What the very picture shows, in a sentence with numbers."""
    differs: str = ""
    """How it differs from the paper's."""
    undrawn: str = ""
    """Why there is none; the files then hold this sentence."""
    made_from: str = ""
    """A digest of what it was drawn from."""
    panels: list[list[float]] = field(default_factory=list)
    """Left, top, width and height of each panel with its labels, in points."""

    def write(self, path: Path) -> None:
        """Write the JSON file, and the same as reStructuredText beside it."""
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False))
        write_text(path.with_suffix(".rst"), self.as_rst())

    def as_rst(self) -> str:
        """The text as reStructuredText, in which literals are in double quotes."""
        said = ((name, " ".join(getattr(self, key).split())) for key, name in FIELDS.items())
        fields = [f":{name}: {text}" for name, text in said if text]
        return re.sub("`+", "``", "\n\n".join([f"**{self.title}**", self.caption.strip(), *fields])) + "\n"

    @classmethod
    def read(cls, path: Path) -> Text:
        """What ``write`` wrote into the JSON file.

        Raises:
            ArtifactError: the file is missing or something else.
        """
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            raise ArtifactError(f"{path} does not say what its figure is. Delete it and run again.") from None


def drawing_of(figure: Figure) -> Drawing:
    """A figure of a card as its file says it."""
    return drawings_of(figure.module)[figure.id]


def draw_figures(
    study: str, made_from: Mapping[str, str], tables: Tables, style: Style, folder: Path, report: Callable[[str], None]
) -> str:
    """Draw figures as <id>.svg and <id>.pdf with their ``Text``; one that cannot be drawn says why.

    Args:
        made_from: of each figure the digest of its tables, code and style; one whose files say that they were drawn
            from the same stays.

    Returns:
        A sentence that names the figures at which the program itself failed, for the job to end with; empty if none.
    """
    from symlab.plotting.style import apply_style, save

    faults = []
    for figure, digest in made_from.items():
        record = folder / f"{figure}.json"
        files = [record.with_suffix(suffix) for suffix in (".svg", ".pdf", ".json", ".rst")]
        if all(file.exists() for file in files) and Text.read(record).made_from == digest:
            # Outputs older than inputs would be drawn again by the next run.
            for file in files:
                file.touch()
            continue
        drawing, undrawn = drawing_of(FIGURES[figure]), ""
        with apply_style(style):
            try:
                drawn = drawing.draw(tables, style)
                told = tell_seen(drawing.sentence, paper_of(figure), tables) if drawing.sentence else ""
                seen = typeset(told)
                save(drawn, *files[:2], dpi=style.dpi)
            except ArtifactError:
                raise
            except UserError as reason:
                undrawn = f"{figure} cannot be drawn: {reason}"
            except Exception as fault:
                # Whatever it is, it hides no other figure; without a digest the next job draws this one again.
                faults.append(f"{figure} ({type(fault).__name__}: {fault})")
                undrawn, digest = f"{figure} could not be drawn for a fault of the program.", ""
                report(traceback.format_exc())
            if undrawn:
                drawn, seen = draw_sentence(undrawn), ""
                save(drawn, *files[:2], dpi=style.dpi)
        caption = typeset(drawing.caption.format(study=study))
        Text(drawing.title, caption, seen, drawing.differs, undrawn, digest, places_of_panels(drawn)).write(record)
        report(undrawn or f"{figure} drawn")
    named = "figure" if len(faults) == 1 else "figures"
    return f"{len(faults)} {named} could not be drawn: {'; '.join(faults)}." if faults else ""


def places_of_panels(figure: Drawn) -> list[list[float]]:
    """Left, top, width and height in points of each panel with its labels, in the order in which they were made."""
    height, points = figure.bbox.height, 72 / figure.dpi
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox()) is not None]
    return [[round(points * side, 1) for side in (box.x0, height - box.y1, box.width, box.height)] for box in boxes]


def draw_sentence(sentence: str) -> Drawn:
    """A figure that holds a sentence alone."""
    from symlab.plotting.style import COLUMN, panels

    figure, axes = panels(1, 1, 2 * COLUMN, 1.5)
    axes[0, 0].axis("off")
    axes[0, 0].text(0.5, 0.5, textwrap.fill(sentence, 80), ha="center", va="center")
    return figure
