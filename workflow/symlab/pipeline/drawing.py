"""Draws a study's figures by the files that the papers' cards name, and keeps beside each what is said of it."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symlab.artifacts import ArtifactError, write_text
from symlab.errors import UserError
from symlab.pipeline.registry import FIGURES
from symlab.plotting.numbers import typeset

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

    from symlab.plotting.settings import Style
    from symlab.study.card import Drawing, Figure
    from symlab.study.claim import Tables

FIELDS = {"seen": "To be seen here", "differs": "Unlike the paper", "undrawn": "Not drawn"}


@dataclass(frozen=True)
class Text:
    """What is said of a figure, kept in <id>.rst beside it: reStructuredText that is Markdown too but for its fields.

    Snakemake's own report shows the file as it is, the page what was read from it.
    """

    title: str
    caption: str
    seen: str = ""
    """What the very picture shows, in a sentence with numbers."""
    differs: str = ""
    """How it differs from the paper's."""
    undrawn: str = ""
    """Why there is none; the files then hold this sentence."""

    def write(self, path: Path) -> None:
        """Write the file."""
        fields = [
            f":{name}: {' '.join(text.split())}\n" for key, name in FIELDS.items() if (text := getattr(self, key))
        ]
        parts = [f"**{self.title}**\n", f"{self.caption.strip()}\n", *fields]
        # Literals in single quotes are Markdown alone, those in double ones are both.
        write_text(path, re.sub("`+", "``", "\n".join(parts)))

    @classmethod
    def read(cls, path: Path) -> Text:
        """What ``write`` wrote.

        Raises:
            ArtifactError: the file is missing or something else.
        """
        try:
            title, *rest = path.read_text().split("\n\n")
            keys = {name: key for key, name in FIELDS.items()}
            fields = {keys[found[1]]: found[2] for part in rest if (found := re.fullmatch(r":([\w ]+): (.*)\n?", part))}
            caption = "\n\n".join(part for part in rest if not part.startswith(":"))
            return cls(re.fullmatch(r"\*\*(.*)\*\*", title)[1], caption, **fields)  # type: ignore[index]
        except (OSError, KeyError, TypeError, UnicodeDecodeError):
            raise ArtifactError(f"{path} does not say what its figure is. Delete it and run again.") from None


def drawing_of(figure: Figure) -> Drawing:
    """A figure of a card as its file says it."""
    return next(drawing for drawing in importlib.import_module(figure.module).FIGURES if drawing.id == figure.id)


def draw_figures(
    study: str, figures: Sequence[str], tables: Tables, style: Style, folder: Path, report: Callable[[str], None]
) -> None:
    """Draw figures as <id>.svg and <id>.pdf, with their texts in <id>.rst; one that cannot be drawn says why."""
    from symlab.plotting.style import apply_style, save

    for figure in figures:
        drawing, seen, undrawn = drawing_of(FIGURES[figure]), "", ""
        with apply_style(style):
            try:
                drawn = drawing.draw(tables, style)
                seen = typeset(drawing.seen(tables)) if drawing.seen else ""
            except UserError as reason:
                undrawn = f"{figure} cannot be drawn: {reason}"
                drawn = draw_sentence(undrawn)
            save(drawn, folder / f"{figure}.svg", folder / f"{figure}.pdf", dpi=style.dpi)
        caption = typeset(drawing.caption.format(study=study))
        Text(drawing.title, caption, seen, drawing.differs, undrawn).write(folder / f"{figure}.rst")
        report(undrawn or f"{figure} drawn")


def draw_sentence(sentence: str) -> Drawn:
    """A figure that holds a sentence alone."""
    from symlab.plotting.style import COLUMN, panels

    figure, axes = panels(1, 1, 2 * COLUMN, 1.5)
    axes[0, 0].axis("off")
    axes[0, 0].text(0.5, 0.5, textwrap.fill(sentence, 80), ha="center", va="center")
    return figure
