"""HTML from the template and from Markdown; files as part of a page."""

from __future__ import annotations

import base64
import mimetypes
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


def data_uri(path: Path) -> str:
    """A file's content as an address, so that the page holds it."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
