"""HTML from the template and from Markdown; drawings as part of a page."""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

FOLDER = Path(__file__).with_name("page")
# σ_F, W_VO, B_{l+1} and m^(-2/k), Δ^out: a letter with what is below it, and what is above anything.
LOWERED = re.compile(r"(?<!\w)([A-Za-zΑ-ω])_(?:\{([^{}]+)\}|([A-Za-z0-9Α-ω]+))")
RAISED = re.compile(r"\^(?:\{([^{}]+)\}|\(([^()]+)\)|([-\N{MINUS SIGN}]?[A-Za-z0-9Α-ω]+))")
NOT_TEXT = re.compile(r"(<code>.*?</code>|<[^>]*>)", re.DOTALL)


def render(template: str, **values: object) -> str:
    """A page from a template in page/; texts are escaped, a value that is missing raises.

    The page fetches nothing and runs no script but the one there: its own policy forbids the rest.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (FOLDER / "script.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "style": Markup((FOLDER / "style.css").read_text()),
        "script": Markup(script),
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    }
    environment.filters |= {"indices": lambda text: raise_and_lower(escape(text)), "markdown": render_inline}
    return environment.get_template(template).render(values)


def render_markdown(text: str) -> Markup:
    """Paragraphs of Markdown as HTML, with indices and powers; HTML in them is shown as it is written."""
    return raise_and_lower(Markup(MarkdownIt("commonmark", {"html": False}).render(text)))


def render_inline(text: str) -> Markup:
    """The same of a text within a paragraph."""
    return raise_and_lower(Markup(MarkdownIt("commonmark", {"html": False}).renderInline(text)))


def raise_and_lower(html: Markup) -> Markup:
    """HTML with σ_F and m^(-2/k) as a reader expects them; what is code or a tag stays."""
    parts = NOT_TEXT.split(str(html))
    for at in range(0, len(parts), 2):
        lowered = LOWERED.sub(lambda found: f"{found[1]}<sub>{found[2] or found[3]}</sub>", parts[at])
        parts[at] = RAISED.sub(lambda found: f"<sup>{found[1] or found[2] or found[3]}</sup>", lowered)
    return Markup("".join(parts))


@dataclass
class Drawings:
    """The drawings of a page, which are part of it: each letter of all of them is there once."""

    letters: dict[str, str] = field(default_factory=dict)
    """Of the outline of each letter its name."""

    def add(self, svg: str, name: str) -> Markup:
        """What a drawing by matplotlib holds, with ``name`` before its own names, to stand in an <svg> of the page."""
        inner = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
        inner = re.sub(r"<defs><style.*?</style></defs>", "", inner, flags=re.DOTALL).replace("xlink:href", "href")
        names: dict[str, str] = {}

        def keep(letter: re.Match[str]) -> str:
            names[letter[1]] = self.letters.setdefault(letter[2], f"l{len(self.letters)}")
            return ""

        inner = re.sub(r'<path id="(n\d+)" d="([^"]*)" transform="scale\(0\.015625\)"/>', keep, inner)
        renamed = re.sub(
            r'( id="|href="#|url\(#)(n\d+)', lambda found: found[1] + names.get(found[2], f"{name}-{found[2]}"), inner
        )
        return Markup(renamed.replace("<defs></defs>", ""))

    def outlines(self) -> Markup:
        """The letters, to stand in the page before all drawings."""
        paths = (f'<path id="{name}" d="{d}" transform="scale(.015625)"/>' for d, name in self.letters.items())
        return Markup(f'<svg width="0" height="0" aria-hidden="true"><defs>{"".join(paths)}</defs></svg>')
