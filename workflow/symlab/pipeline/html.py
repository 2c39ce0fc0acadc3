"""HTML from templates, plain sentences and reStructuredText; files as part of a page.

The Snakefile imports this module on every start, so docutils is imported only where it is needed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import mimetypes
import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from symlab.errors import UserError

FOLDER = Path(__file__).parents[1] / "report"

# Quantities whose names the claims spell out, as the papers write them.
LETTERS = {
    "sigma": "σ",
    "gamma": "γ",
    "mu": "μ",
    "nu": "ν",
    "rho": "ρ",
    "beta": "β",
    "delta": "δ",
    "lambda": "λ",
}
NAME = re.compile(rf"\b({'|'.join(LETTERS)})(?=_(?:F|D|in|out)\b|\b)")
# A lone letter or a closing bracket; names of files, variants and keys are longer and stay as they are.
SUBSCRIPT = re.compile(r"((?<!\w)[σγμνρβδλΔΣScd]|[⟩‖])_(F|D|i|k|in|out)\b")
SUPERSCRIPT = re.compile(r"\^(?:\(([^()]+)\)|(-?\w+(?:\.\d+)?))")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    environment.globals["style"] = Markup((FOLDER / "pages" / "style.css").read_text())
    return environment


def render(template: str, **values: object) -> str:
    """A page from a template of workflow/report/pages; texts are escaped."""
    return _environment().get_template(template).render(values)


def digest_of_texts(*names: str) -> str:
    """Digest (16 hex digits) of files and folders of workflow/report, by which a job notices that they changed."""
    found = hashlib.sha256()
    for name in names:
        path = FOLDER / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            found.update(f"{file.relative_to(FOLDER).as_posix()}\0{file.read_text()}\0".encode())
    return found.hexdigest()[:16]


def typeset(text: str) -> Markup:
    """A sentence as HTML, quantities as in the papers: sigma_F is σ with a subscript, m^(1/2) has a superscript."""
    line = NAME.sub(lambda match: LETTERS[match[1]], str(escape(text)))
    line = SUBSCRIPT.sub(r"\1<sub>\2</sub>", line)
    line = SUPERSCRIPT.sub(lambda match: f"<sup>{(match[1] or match[2]).replace('-', '−')}</sup>", line)
    return Markup(line)


def from_rst(text: str, place: str) -> Markup:
    """Paragraphs of reStructuredText as HTML, quantities typeset.

    Raises:
        UserError: the text is not valid; ``place`` says where it is from.
    """
    from docutils import nodes
    from docutils.core import publish_parts
    from docutils.utils import SystemMessage
    from docutils.writers import html5_polyglot

    class Translator(html5_polyglot.HTMLTranslator):
        def visit_Text(self, node: nodes.Text) -> None:
            self.body.append(typeset(node.astext()))

        def visit_literal(self, node: nodes.literal) -> None:
            self.body.append(f"<code>{escape(node.astext())}</code>")
            raise nodes.SkipNode

    writer = html5_polyglot.Writer()
    writer.translator_class = Translator
    settings = {
        "halt_level": 2,
        "warning_stream": io.StringIO(),
        "raw_enabled": False,
        "file_insertion_enabled": False,
        "_disable_config": True,
    }
    try:
        return Markup(publish_parts(text, "line", writer=writer, settings_overrides=settings)["body"])
    except SystemMessage as error:
        raise UserError(f"{place} is not valid reStructuredText: {error} Mend it and run again.") from None


def data_uri(path: str | Path) -> str:
    """A file's content as an address, so that the page holds it."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(Path(path).read_bytes()).decode()}"
