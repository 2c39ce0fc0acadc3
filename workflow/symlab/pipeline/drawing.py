"""Draws a study's figures by the files that the papers' cards name."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from symlab.artifacts import write_text
from symlab.errors import UserError
from symlab.pipeline.registry import FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

    from symlab.papers.card import Drawing, Figure
    from symlab.papers.claim import Tables
    from symlab.plotting.settings import Style

UNDRAWN = "undrawn"
"""Key of the text in a PNG that says why the figure could not be drawn; the report shows the sentence instead."""


def drawing_of(figure: Figure) -> Drawing:
    """A figure of a card as its file says it."""
    return next(drawing for drawing in importlib.import_module(figure.module).FIGURES if drawing.id == figure.id)


def draw_figures(
    study: str, figures: Sequence[str], tables: Tables, style: Style, folder: Path, report: Callable[[str], None]
) -> None:
    """Draw figures as <id>.png and <id>.pdf; one that its tables do not allow becomes a page that says why.

    The PNG of such a page holds the sentence as its text ``undrawn``, by which the report knows it. <id>.rst is the
    caption in reStructuredText, which Snakemake's own report shows.
    """
    from symlab.plotting.style import apply_style, save

    for figure in figures:
        texts: dict[str, str] = {}
        drawing = drawing_of(FIGURES[figure])
        with apply_style(style):
            try:
                drawn = drawing.draw(tables, style)
            except UserError as reason:
                texts = {UNDRAWN: f"{figure} cannot be drawn: {reason}"}
                drawn = draw_sentence(texts[UNDRAWN])
        save(drawn, folder / f"{figure}.pdf", folder / f"{figure}.png", style.dpi, texts)
        caption = drawing.caption.format(study=study).replace("`", "``")
        write_text(folder / f"{figure}.rst", f"**{drawing.title}**\n\n{caption}\n")
        report(texts.get(UNDRAWN, f"{figure} drawn"))


def draw_sentence(sentence: str) -> Drawn:
    """A figure that holds a sentence alone."""
    from symlab.plotting.style import COLUMN, panels

    figure, axes = panels(1, 1, 2 * COLUMN, 1.5)
    axes[0, 0].axis("off")
    axes[0, 0].text(0.5, 0.5, textwrap.fill(sentence, 80), ha="center", va="center")
    return figure
