"""HTML from the template and from Markdown; drawings as part of a page."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

FOLDER = Path(__file__).parents[2] / "report"


def render(template: str, **values: object) -> str:
    """A page from a template of workflow/report; texts are escaped, a value that is missing raises."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup((FOLDER / "style.css").read_text())
    return environment.get_template(template).render(values)


def render_markdown(text: str) -> Markup:
    """Paragraphs of Markdown as HTML; HTML in them is shown as it is written."""
    return Markup(MarkdownIt("commonmark", {"html": False}).render(text))


def svg_uri(svg: str) -> Markup:
    """An SVG drawing as an address for an attribute in double quotes, so that the page holds it; it needs no base64."""
    short = " ".join(svg.split()).replace("xlink:href", "href")
    quoted = short.replace('"', "'") if "'" not in short else short
    # An address may hold the rest as it is, and so may an attribute.
    return Markup("data:image/svg+xml," + re.sub('[%#"&]', lambda sign: f"%{ord(sign[0]):02X}", quoted))
