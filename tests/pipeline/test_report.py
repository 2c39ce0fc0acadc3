"""The report tells first what was found, is whole without scripts, holds every figure; nothing can become markup."""

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from symlab import __version__
from symlab.artifacts import ArtifactError, write_table
from symlab.pipeline import html, provenance
from symlab.pipeline.drawing import Text
from symlab.pipeline.ledger import VERDICTS, evaluate_claims
from symlab.pipeline.report import write_page
from symlab.plotting.style import panels, save
from symlab.study.card import Sentence
from symlab.study.claim import Claim, Measurement, at_most, exact_value

VOID = {"meta", "br", "hr", "img", "link", "input"}
CLOSED = {"path", "use", "rect", "image"}
"""Tags of a drawing without content, which end with />."""
LAYERS = [Measurement(float(layer), 5, case=f"layer {layer}", error=0.1) for layer in (0.1, 0.2, 0.3, 0.4, 0.5, 3)]


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


def claim(name, figure, found, **fields):
    fields = {"kind": "finding", "owner": "paper", "tables": ("a.csv",)} | fields
    return Claim(
        id=f"{figure}-{name}",
        statement=f"{name} holds",
        quantity=f"mean of {name}",
        bound=at_most(1),
        origin="pilot",
        reason="a pilot said so",
        measure=lambda tables: found,
        **fields,
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A folder of two drawn figures."""
    folder = tmp_path_factory.mktemp("figures")
    for name in ("test-1", "test-2"):
        save(panels(1, 1, 3, 1.5)[0], folder / f"{name}.svg", folder / f"{name}.pdf", dpi=50)
    return folder


@pytest.fixture
def finished(card, drawn, tmp_path):
    """Arguments of ``write_page`` for a tiny finished run of two figures, one of which could not be drawn."""
    claims = [
        claim("one", "test-1", [Measurement(0.25, 4, 0.1, "standard", error=0.05)]),
        claim("proven", "test-1", [exact_value(0.5)], kind="theorem"),
        claim("sane", "test-1", [exact_value(0.5)], kind="check"),
        claim("near", "test-1", [Measurement(1.1, 8, error=0.1, unit="masks")], owner="ours"),
        claim("two", "test-2a", LAYERS, also=("test-2",), why="it is too deep"),
        claim("three", "test-3", [Measurement(1.0, 1)]),
        claim("four", "test-2", [Measurement(1.0, 1)], tables=("ridge_swap_costs.parquet",)),
    ]
    sentences = (
        Sentence("Ones have {x}.", {"x": ("test-1-one", "standard")}),
        Sentence("Twos have {x} and {y}.", {"x": ("test-2a-two", "layer 0.2"), "y": ("test-2a-two", "layer 3")}),
    )
    paper = card(
        claims, ("1", "2", "3"), captions={"a.csv": "What `a` holds."}, found=sentences, scale="eight pairs",
        terms=(("one", "what there is once"),), thumbnail=("test-1", 1, "Blue: ones."), heading="Ones are small",
        subjects="MLPs", headline=(Sentence("One has **{x:~}** of σ_F.", {"x": ("test-1-one", "standard")}),),
    )  # fmt: skip
    results, project = tmp_path / "project" / "results", tmp_path / "project"
    figures = shutil.copytree(drawn, results / "small" / "figures")
    for name, undrawn in (("test-1", ""), ("test-2", "It needs a sweep over σ_F.")):
        panels = [[0, 0, 100, 100], [110, 10, 90, 80]]
        text = Text(f"About {name}", "Of `σ_F`: *σ_F* <b>", "One sees 3 %.", "It is small.", undrawn, "", panels)
        text.write(figures / f"{name}.json")
    tables = [results / "small/tables/a.csv"]
    write_table(tables[0], pd.DataFrame({"x": [1, 2]}))
    studies = {"small": {"figures": ["test-1", "test-2"], "scale": "2 pairs", "about": "nothing at all"}}
    ledger = evaluate_claims(studies, {"small": {"a.csv": pd.DataFrame({"x": [1]})}}, [paper])
    write_table(results / "claims.csv", ledger)
    write_table(project / "results/reference/large/claims.csv", ledger.assign(claim="test-3-three", verdict="held"))
    (project / "docs/papers").mkdir(parents=True)
    (project / "docs/papers/test-paper.md").write_text("# Test")
    (results / "config.yaml").write_text("studies: {}\n")
    header = {"provenance": {"source": "digits"}, "sizes": {"train": 1437, "val": 180, "test": 180}}
    return {
        "config": "studies: {}\n",
        "ledger": ledger,
        "studies": studies,
        "figures": {"small": sorted(figures.glob("*.svg"), reverse=True)},
        "tables": {"small": tables},
        "datasets": {"digits": header | {"content_sha256": "ab" * 32}},
        "results": results,
        "papers": [paper],
        "project": project,
    }


def between(page, start, end):
    return Parsed(f"<div>{page[page.index(start) : page.index(end)]}</div>").text


def test_the_first_screen_tells_what_was_found_at_what_scale_and_whose_claims_held(finished):
    page = write_page(**finished)
    places = [page.index(f'id="{anchor}"') for anchor in ("papers", "missed", "claims", "figures", "tables", "run")]
    assert places == sorted(places)
    first = between(page, '<h2 id="paper-', "</article>")
    assert "Ones are small" in first and "One has 0.25 of σ F ." in first
    first = " ".join(first.split())
    assert "Here: MLPs; nothing at all; 2 pairs. The paper: eight pairs." in first
    assert "The paper's own claims in larger runs large: 1 held" in first
    assert "Failed, of the paper's own claims: two holds ." in first and "2 not run" in first
    assert "Theorems and checks: 2 held." in page
    # Rows, not cases, of findings, by whose they are.
    bars = [label for label in Parsed(page).values("aria-label") if label.startswith(("the paper's:", "ours:"))]
    assert bars == ["the paper's: 1 held, 1 failed, 2 not run", "ours: 1 undecided"] * 2
    missed = between(page, '<section id="missed">', '<section id="claims">')
    assert (
        "1 of the papers' own two holds (Test et al.). Measured, mean of two: 3.00 ± 0.10 (layer 3) (1 of 6 cases)"
        in missed
    )
    assert "it is too deep" in missed and "near holds" not in missed


def test_a_card_names_what_failed_of_the_paper_s_own_alone(finished):
    def card():
        return between(write_page(**finished), '<h2 id="paper-', "</article>")

    assert "Failed, of the paper's own claims:" in card()
    ledger = finished["ledger"]
    finished["ledger"] = ledger.assign(owner=ledger["owner"].where(ledger["verdict"] != "failed", "ours"))
    assert "Failed, of the paper's own claims:" not in card()


def test_a_thumbnail_is_one_panel_of_a_figure_that_the_page_holds_once(finished):
    page = write_page(**finished)
    assert 'viewBox="108 8 94 84"><use href="#drawing-figure-small-test-1"/>' in page
    assert page.count('id="drawing-figure-small-test-1"') == 1
    assert "Blue: ones." in page
    # Letters are there once for all figures; what they hold refers to what there is.
    drawn = Parsed(page)
    ids = drawn.values("id")
    used = [address[1:] for address in drawn.values("href", "use")]
    assert set(used) <= set(ids) and len(ids) == len(set(ids)) and any(name.startswith("l") for name in used)
    of_one_not_drawn = replace(finished["papers"][0], thumbnail=("test-2", 0, "Red: twos."))
    assert "Red: twos." not in write_page(**finished | {"papers": [of_one_not_drawn]})
    finished["figures"] = {}
    assert "<use" not in write_page(**finished)


def test_claims_are_a_table_and_sentences_lead_to_it(finished):
    page = write_page(**finished)
    rows = [re.sub(r"<[^>]*>", " ", row) for row in page.split('<tr role="row" id="claim-')[1:]]
    rows = [" ".join(row.split()) for row in rows]
    assert [row.split(" holds")[0].split()[-1] for row in rows] == [
        "one",
        "proven",
        "sane",
        "near",
        "two",
        "four",
        "three",
    ]
    told = "\n".join(rows)
    for part in (
        "0.250 ± 0.050 n = 4 pairs",
        "1.10 ± 0.10 n = 8 masks; undecided",
        "Measured: mean of near. Threshold (pilot): a pilot said so.",
        "3.00 ± 0.10 n = 5 pairs",
        "it is too deep",
        "no study of this config draws the figure",
        "large held",
        "the study does not ask for ridge, so there is no ridge_swap_costs.parquet",
    ):
        assert part in told, part
    words = [attributes for tag, attributes in Parsed(page).tags if tag == "tr" and "data-verdict" in attributes]
    verdicts = ["held", "held", "held", "undecided", "failed", "not run", "not run"]
    assert [each["data-verdict"] for each in words] == verdicts
    assert {each["data-owner"] for each in words} == {"the paper's", "ours"}
    found = between(page, '<h3 id="figures-', '<section class="figure"')
    assert "Ones have 0.250 ± 0.050. Figure 1" in found and "nothing at all; 2 pairs" in found
    # Doubt is about the cases that a sentence tells, and about nothing else.
    assert "Twos have 0.20 ± 0.10 and 3.00 ± 0.10 (failed). Figure 2a" in found and "what there is once" in found


def test_it_is_one_well_formed_page_that_fetches_nothing_and_whose_links_all_lead_somewhere(finished):
    page = write_page(**finished)
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
    beside = {link for link in links if not link.startswith("#")}
    assert beside == {
        "small/figures/test-1.pdf", "small/tables/a.csv", "claims.csv", "config.yaml", "../docs/papers/test-paper.md",
    }  # fmt: skip
    assert all((finished["results"] / link).exists() for link in beside)


def test_figures_are_drawings_with_what_is_to_be_seen_and_their_claims_with_numbers(finished):
    page = write_page(**finished)
    one, two = page.split('<section class="figure"')[1:]
    image = next(attributes for tag, attributes in Parsed(page).tags if tag == "svg" and "width" in attributes
                 and attributes.get("role") == "img")  # fmt: skip
    assert image["aria-label"] == "Figure 1, About test-1. One sees 3 %."
    assert (int(image["width"]), int(image["height"])) == (326, 144)
    assert "Of <code>σ_F</code>: <em>σ<sub>F</sub></em> &lt;b&gt;" in one and "It is small." in one
    text = Parsed(f"<section{one[: one.index('</section>')]}</section>").text
    assert "near holds : 1.10 ± 0.10; at most 1" in text and "one holds : 0.250 ± 0.050 (standard)" in text
    assert "two holds" not in one
    assert "It needs a sweep over σ_F." in two and "<svg" not in two


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


def test_what_is_said_of_a_figure_is_restructured_text_too(tmp_path):
    Text("Title of `x`", "A ``b``.\n\nSecond `c`.", "σ is 3 %.", "", "Why:\nnot.").write(tmp_path / "a.json")
    assert (tmp_path / "a.rst").read_text() == (
        "**Title of ``x``**\n\nA ``b``.\n\nSecond ``c``.\n\n:To be seen here: σ is 3 %.\n\n:Not drawn: Why: not.\n"
    )


def test_texts_are_escaped(finished):
    fields = ["statement", "case", "detail", "reason", "threshold", "quantity", "why"]
    finished["ledger"] = finished["ledger"].assign(**{field: f'<script>"{field} & 2"</script>' for field in fields})
    page = Parsed(write_page(**finished))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert [field for field in fields if f'<script>"{field} & 2"</script>' not in page.text] == []


def test_it_depends_on_the_clock_alone_and_names_no_folder(finished):
    pages = [re.sub(r"<time>.*?</time>", "", write_page(**finished)) for _ in range(2)]
    assert pages[0] == pages[1] and str(finished["results"]) not in pages[0]
    assert __version__ in pages[0] and "abababab</code>" in pages[0] and "1,437 train" in pages[0]


@pytest.mark.parametrize(("kind", "why"), [("svg", "is no drawing"), ("json", "does not say what its figure is")])
def test_a_damaged_figure_is_named(finished, kind, why):
    finished["figures"]["small"][0].with_suffix(f".{kind}").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=rf"test-\d\.{kind} {why}"):
        write_page(**finished)


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
    git("commit", "--quiet", "--allow-empty", "--message", "a")
    head = git("rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == f"{head}; no file differs from it."
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.txt").write_text("a")
    assert provenance.commit(tmp_path) == f"{head}; 1 file differs from it."
    assert provenance.commit(tmp_path / "inner").startswith("Not known")
