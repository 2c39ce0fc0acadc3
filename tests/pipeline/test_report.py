"""The report tells what was found first, holds every figure and small table, and nothing can become markup."""

import base64
import re
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image, PngImagePlugin

from symlab import __version__
from symlab.artifacts import ArtifactError, write_table
from symlab.papers.claim import Claim, Verdict
from symlab.pipeline import html, provenance
from symlab.pipeline.drawing import UNDRAWN
from symlab.pipeline.ledger import VERDICTS, evaluate_claims
from symlab.pipeline.report import write_page

VOID = {"meta", "br", "hr", "img", "link", "input"}
CASES = [Verdict(float(layer), layer != 3, 2, 0.5, f"layer {layer}") for layer in range(1, 8)]


class Text(HTMLParser):
    """Checks nesting and collects tags and text."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text = f"{self.text} {' '.join(data.split())}".strip()


def claim(name, figure, found, also=()):
    return Claim(
        f"test-{name}", figure, f"{name} holds: mean x", "at most 1", "reason", ("a.csv",), lambda t: found, also
    )


@pytest.fixture
def finished(card, tmp_path):
    """Arguments of ``write_page`` for a tiny finished run of two figures, one of which could not be drawn."""
    claims = [
        claim("one", "test-1", Verdict(0.25, True, 4, 0.1, "standard")),
        claim("two", "test-2a", CASES, ("test-2",)),
        claim("three", "test-3", Verdict(1.0, True, 1)),
    ]
    paper = card(claims, ("1", "2", "3"), headlines=("test-one", "test-three"), captions={"a.csv": "What `a` holds."})
    results = tmp_path / "results"
    (results / "small/figures").mkdir(parents=True)
    undrawn = PngImagePlugin.PngInfo()
    undrawn.add_text(UNDRAWN, "It needs a sweep over σ_F.")
    for name, info in (("test-1", None), ("test-2", undrawn)):
        Image.new("L", (400, 200)).save(results / f"small/figures/{name}.png", pnginfo=info)
        (results / f"small/figures/{name}.pdf").write_bytes(b"%PDF")
    tables = [results / "small/tables/a.csv", results / "small/tables/large.parquet"]
    write_table(tables[0], pd.DataFrame({"x": [1, 2]}))
    write_table(tables[1], pd.DataFrame({"noise": np.random.default_rng(0).normal(size=60_000)}))
    studies = {"small": {"figures": ["test-1", "test-2"], "scale": "2 seeds", "about": "A study of nothing."}}
    ledger = evaluate_claims(studies, {"small": {"a.csv": pd.DataFrame({"x": [1]})}}, [paper])
    write_table(results / "claims.csv", ledger)
    (results / "config.yaml").write_text("studies: {}\n")
    header = {"provenance": {"source": "digits"}, "sizes": {"train": 1437, "val": 180, "test": 180}}
    return {
        "config": "studies: {}\n",
        "ledger": ledger,
        "studies": studies,
        "figures": {"small": sorted((results / "small/figures").glob("*.png"))},
        "tables": {"small": tables},
        "datasets": {"digits": header | {"content_sha256": "ab" * 32}},
        "results": results,
        "papers": [paper],
    }


def attributes(page, tag, name):
    return re.findall(rf'<{tag}\b[^>]*\b{name}="([^"]*)"', page)


def test_findings_come_first_then_claims_figures_tables_and_the_run(finished):
    page = write_page(**finished)
    anchors = ("found", "claims", "study-small", "tables", "run")
    places = [page.index(f'id="{anchor}"') for anchor in anchors]
    assert places == sorted(places)
    first = Text("<main>" + page[page.index('<section id="found">') : page.index('<section id="claims">')] + "</main>")
    for part in ("Test et al. 7 held 1 failed 1 not run", "2 of 3 claims judged"):
        assert part in first.text
    # The headline that was judged is told with its number; the one that was not is left out.
    assert "one holds: 0.25 ± 0.1 (standard) (mean x)" in first.text and "three" not in first.text
    judged = page[places[1] : places[2]]
    assert judged.index("two holds") < judged.index("one holds") < judged.index("1 not run") < judged.index("three")


def test_it_is_one_well_formed_file_without_scripts_whose_links_all_lead_somewhere(finished):
    page = write_page(**finished)
    tags = {tag for tag, _ in Text(page).tags}
    assert not {"script", "iframe", "b"} & tags and "@import" not in page and "url(" not in page
    assert [source[:22] for source in attributes(page, "img", "src")] == ["data:image/png;base64,"]
    anchors = set(attributes(page, r"\w+", "id"))
    inner = {link[1:] for link in attributes(page, "a", "href") if link.startswith("#") and link != "#"}
    assert inner <= anchors and {"figure-small-test-1", "claim-small-test-two"} <= inner
    assert [ids for ids in attributes(page, r"\w+", "id") if attributes(page, r"\w+", "id").count(ids) > 1] == []


def test_small_files_can_be_saved_and_large_ones_are_named(finished):
    page = write_page(**finished)
    saved = dict(re.findall(r'href="data:[^;]*;base64,([^"]*)" download="([^"]*)"', page))
    content = {name: base64.b64decode(data) for data, name in saved.items()}
    assert set(content) == {"claims.csv", "config.yaml", "small_a.csv", "small_test-1.pdf"}
    assert content["small_a.csv"] == finished["tables"]["small"][0].read_bytes()
    assert "small/tables/large.parquet" in page and "60,000" in page and "What <code>a</code> holds." in page


def test_figures_have_captions_and_the_claims_about_them(finished):
    page = write_page(**finished)
    one, two = page.split('<section class="figure"')[1:]
    assert "Of study <code>small</code>: <em>σ_F</em> &lt;b&gt;" in one
    assert "Figure 1 of Test et al.: About test-1" in one and "one holds" in one and "two holds" not in one
    # The claim of a panel stands under the whole; many cases are told by their range.
    assert "two holds" in two and "1 to 7 (7 cases)" in two
    assert "It needs a sweep over σ_F." in two and "<img" not in two


def test_failed_cases_are_seen_first_and_many_are_folded(finished):
    page = write_page(**finished)
    row = page[page.index('id="claim-small-test-two"') :].partition("</tr>")[0]
    assert "in 1 of 7 cases" in row and row.index("layer 3") < row.index("layer 1") and "<details>" in row


@pytest.mark.parametrize("field", ["statement", "case", "detail", "reason", "threshold"])
def test_texts_are_escaped(finished, field):
    finished["ledger"] = finished["ledger"].assign(**{field: '<script>alert("1 & 2")</script>'})
    page = Text(write_page(**finished))
    assert "script" not in {tag for tag, _ in page.tags} and '<script>alert("1 & 2")</script>' in page.text


def test_it_depends_on_the_clock_alone_and_names_no_folder(finished):
    pages = [re.sub(r"<time>.*?</time>", "", write_page(**finished)) for _ in range(2)]
    assert pages[0] == pages[1] and str(finished["results"]) not in pages[0]
    assert __version__ in pages[0] and "abababababababab</code>" in pages[0] and "1,437 train" in pages[0]


def test_a_damaged_figure_is_named(finished):
    finished["figures"]["small"][0].write_bytes(b"no image")
    with pytest.raises(ArtifactError, match=r"test-1\.png is no image"):
        write_page(**finished)


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_verdicts_have_contrast(verdict):
    style = (html.FOLDER / "style.css").read_text()
    name = verdict.replace(" ", "-")
    colours = re.search(rf"^\.{name} {{ color: (#\w{{6}}); background: (#\w{{6}}); }}$", style, re.MULTILINE)
    dark, light = sorted(map(luminance, colours.groups()))
    assert (light + 0.05) / (dark + 0.05) >= 7


def test_the_commit_is_that_of_the_folder_alone(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert provenance.commit(tmp_path).startswith("Not known")
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "a")
    head = git("rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == f"{head}; no file differs from it."
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.txt").write_text("a")
    assert provenance.commit(tmp_path) == f"{head}; 1 file differs from it."
    assert provenance.commit(tmp_path / "inner").startswith("Not known")
