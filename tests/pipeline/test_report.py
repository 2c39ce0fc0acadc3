"""The report is one page that fetches nothing, whole and well-formed, in which nothing can become markup."""

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from symlab.artifacts import ArtifactError, read_table
from symlab.pipeline import html, provenance
from symlab.pipeline.drawing import Text
from symlab.pipeline.ledger import VERDICTS
from symlab.pipeline.report import write_page

from . import made_run
from .conftest import make_card

VOID = {"meta", "br", "hr", "img", "link", "input"}
CLOSED = {"path", "use", "rect", "image"}
"""Tags of a drawing without content, which end with />."""


class Parsed(HTMLParser):
    """Checks nesting and collects tags and text."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(source)
        assert not self.open

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        assert tag in CLOSED

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text = f"{self.text} {' '.join(data.split())}".strip()

    def values(self, name, tag=None):
        return [attributes[name] for each, attributes in self.tags if name in attributes and tag in (None, each)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The arguments of ``write_page`` for a made-up run, one of whose figures could not be drawn."""
    with pytest.MonkeyPatch.context() as patched:
        papers = made_run.papers_of(lambda *given, **fields: make_card(patched, *given, **fields))
        results = made_run.make(tmp_path_factory.mktemp("project"), papers, patched)
        header = {"provenance": {"source": "digits"}, "sizes": {"train": 1, "val": 1, "test": 1}}
        yield {
            "config": "studies: {}",
            "ledger": read_table(results / "claims.csv"),
            "studies": {name: {"about": "", "scale": "2 pairs"} for name in made_run.STUDIES},
            "figures": {name: sorted(results.glob(f"{name}/figures/*.svg")) for name in made_run.STUDIES},
            "tables": {"small": [results / "small/tables/a.csv"]},
            "datasets": {"digits": header | {"content_sha256": "ab" * 32}},
            "results": results,
            "papers": papers,
        }


@pytest.fixture(scope="module")
def page(made):
    return write_page(**made)


def test_it_is_one_well_formed_page_that_fetches_nothing_and_whose_links_all_lead_somewhere(page, made):
    parsed = Parsed(page)
    assert not {"iframe", "b", "img"} & {tag for tag, _ in parsed.tags}
    # One script, which the page's own policy allows by what it is.
    assert [attributes for tag, attributes in parsed.tags if tag == "script"] == [{}]
    script = page[page.index("<script>") + 8 : page.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert parsed.values("content", "meta")[0] == (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    assert "@import" not in page and not re.search(r"url\((?!#)", page)
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    anchors, links = parsed.values("id"), parsed.values("href", "a")
    assert len(anchors) == len(set(anchors))
    assert {link[1:] for link in links if link.startswith("#")} - {""} <= set(anchors)
    # Letters are there once for all figures; what they hold refers to what there is.
    used = [address[1:] for address in parsed.values("href", "use")]
    assert set(used) <= set(anchors) and any(name.startswith("l") for name in used)
    beside = {link for link in links if not link.startswith(("#", "https://example.org"))}
    assert {"claims.csv", "config.yaml", "../../docs/papers/test-paper.md"} < beside
    assert all((made["results"] / link).exists() for link in beside)


@pytest.mark.parametrize(
    ("text", "marked_up"),
    [
        ("σ_F of W_VO", "σ<sub>F</sub> of W<sub>VO</sub>"),
        ("m^(-2/k), 10^3", "m<sup>-2/k</sup>, 10<sup>3</sup>"),
        ("B_{l+1} and `n_fixed`", "B<sub>l+1</sub> and <code>n_fixed</code>"),
        ("gmm_k2, loss_bounds.csv", "gmm_k2, loss_bounds.csv"),
    ],
)
def test_indices_and_powers_are_set_but_not_in_names(text, marked_up):
    assert html.render_inline(text) == marked_up


def test_what_is_said_of_a_figure_is_read_back_as_it_was_written(tmp_path):
    text = Text("**Title**: of `x`", ":A: ``b``.\n\nSecond `c`.", "σ is 3 %.", "", "Why:\nnot.")
    text.write(tmp_path / "a.json")
    assert Text.read(tmp_path / "a.json") == text
    (tmp_path / "b.json").write_text('{"caption": "no title"}')
    for name in ("a.rst", "b.json", "none.json"):
        with pytest.raises(ArtifactError, match=f"{name} does not say what its figure is"):
            Text.read(tmp_path / name)


def test_texts_are_escaped(made):
    fields = ["statement", "case", "detail", "reason", "threshold", "quantity", "why"]
    ledger = made["ledger"].assign(**{field: f'<script>"{field} & 2"</script>' for field in fields})
    page = Parsed(write_page(**made | {"ledger": ledger}))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert [field for field in fields if f'<script>"{field} & 2"</script>' not in page.text] == []


def test_a_thumbnail_that_was_not_drawn_is_left_out(made):
    for figure, there in (("test-1", True), ("test-3", False)):
        paper = replace(made["papers"][0], thumbnail=(figure, 0, "Red: twos."))
        assert ("Red: twos." in write_page(**made | {"papers": [paper]})) == there


@pytest.mark.parametrize(("kind", "why"), [("svg", "is no drawing"), ("json", "does not say what its figure is")])
def test_a_damaged_or_missing_figure_is_named(made, kind, why, tmp_path):
    shutil.copytree(made["results"] / "small/figures", tmp_path / "small")
    file = tmp_path / f"small/test-1.{kind}"
    for damage in (lambda: file.write_bytes(b"nothing"), lambda: file.write_bytes(b"\xff"), file.unlink):
        damage()
        with pytest.raises(ArtifactError, match=rf"test-1\.{kind} {why}"):
            write_page(**made | {"figures": {"small": [tmp_path / "small/test-1.svg"]}, "results": tmp_path})


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_verdicts_have_contrast_by_day_and_night(verdict):
    style = (html.FOLDER / "style.css").read_text()
    name = verdict.replace(" ", "-")
    found = re.findall(rf"^ *\.{name} {{ color: (#\w{{6}}); background: (#\w{{6}}); }}$", style, re.MULTILINE)
    assert len(found) == (1 if verdict == "error" else 2)
    for colours in found:
        dark, light = sorted(map(luminance, colours))
        assert (light + 0.05) / (dark + 0.05) >= 7


def test_the_commit_is_that_of_the_folder_alone(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert provenance.commit(tmp_path).startswith("Not known")
    git("init", "--quiet")
    assert provenance.commit(tmp_path).startswith("Not known")
    git("commit", "--quiet", "--allow-empty", "--message", "a")
    head = git("rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == f"{head}; no file differs from it."
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.txt").write_text("a")
    assert provenance.commit(tmp_path) == f"{head}; 1 file differs from it."
    assert provenance.commit(tmp_path / "inner").startswith("Not known")
