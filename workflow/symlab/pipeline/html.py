"""HTML from the template and from Markdown; files as part of a page.

The Snakefile asks for the digest of the template on every start, so what renders is imported where it is needed.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

FOLDER = Path(__file__).parents[2] / "report"


def render(template: str, **values: object) -> str:
    """A page from a template of workflow/report; texts are escaped, a value that is missing raises."""
    import jinja2
    from markupsafe import Markup

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
    from markupsafe import Markup

    return Markup(_markdown().render(text))


@cache
def _markdown():  # type: ignore[no-untyped-def]
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})


def digest_of_template() -> str:
    """Digest (16 hex digits) of workflow/report, by which the report's job notices a change."""
    found = hashlib.sha256()
    for path in sorted(each for each in FOLDER.iterdir() if each.is_file()):
        found.update(f"{path.name}\0{path.read_text()}\0".encode())
    return found.hexdigest()[:16]


def data_uri(path: Path) -> str:
    """A file's content as an address, so that the page holds it."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
