import math
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from symlab.artifacts import read_table, write_table
from symlab.claims import Claim, Verdict, ledger, to_html, to_markdown
from symlab.claims.render import claims_view
from symlab.claims.verdicts import VERDICTS
from symlab.html import FOLDER

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = '<script>alert("1 & 2")</script> | a'


def book(**verdicts):
    """A ledger with one claim a verdict, named by figure."""
    claims = tuple(
        Claim(
            f"{figure}-x", figure, f"statement {figure}", "at most 1", "reason", ("a.csv",), lambda tables, v=verdict: v
        )
        for figure, verdict in verdicts.items()
    )
    study = {"figures": [figure for figure in verdicts if figure != "9"], "scale": "8 seeds"}
    return ledger({"digits": study}, {"digits": {"a.csv": pd.DataFrame({"x": [1]})}}, {"paper": claims})


BOOK = book(
    **{
        "3a": Verdict(0.1234, True, 4, 0.01, "W sigma_F = 0"),
        "10": Verdict(2.5, False, 4, None, "k = 2", "hidden1"),
        "4a": Verdict(math.nan, False, 1),
        "5": Verdict(math.inf, True, 2),
        "6": Verdict(123456.7, True, 2),
        "9": Verdict(0.0, True, 1),
    }
)


class Page(HTMLParser):
    """Checks nesting and collects the text of every element, row by row."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.rows, self.text = [], [], [], ""
        self.feed(source)
        self.close()
        assert not self.open
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def cells(self, columns):
        """Rows of the table that has that many columns, without its headings."""
        return [row for row in self.rows if len(row) == columns][1:]


def test_the_page_is_well_formed_and_keeps_to_itself():
    page = Page(to_html(BOOK))
    assert not {"script", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not [attributes for _, attributes in page.tags if {"src", "onclick", "style"} & set(attributes)]
    # An icon without content keeps browsers from asking a server for one.
    assert [(tag, attributes["href"]) for tag, attributes in page.tags if "href" in attributes] == [("link", "data:,")]
    assert "url(" not in to_html(BOOK) and "@import" not in to_html(BOOK)


def test_the_page_serves_readers_of_all_kinds():
    page = Page(to_html(BOOK))
    tags = dict(reversed(page.tags))
    assert tags["html"]["lang"] == "en"
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    assert "caption" in tags and tags["th"]["scope"] == "col"
    # Cards on a narrow screen lose the table's display; the roles keep it a table for screen readers.
    roles = {tag: attributes.get("role") for tag, attributes in page.tags}
    assert (roles["table"], roles["tr"], roles["td"]) == ("table", "row", "cell")
    assert "@media screen and (max-width" in to_html(BOOK)
    assert all(attributes["data-heading"] for tag, attributes in page.tags if tag == "td")


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("verdict", VERDICTS.values())
def test_verdicts_have_contrast(verdict):
    style = (FOLDER / "pages" / "style.css").read_text()
    colours = re.search(rf"^\.{verdict} {{ color: (#\w{{6}}); background: (#\w{{6}}); }}$", style, re.MULTILINE)
    dark, light = sorted(map(luminance, colours.groups()))
    assert (light + 0.05) / (dark + 0.05) >= 7


def test_counts_come_first_and_failed_claims_head_the_table():
    page = Page(to_html(BOOK))
    assert "3 held" in page.text and "2 failed" in page.text and "1 not run at this scale" in page.text
    assert page.text.index("3 held") < page.text.index("statement")
    assert [row[:2] for row in page.cells(5)] == [
        ["failed", "Figure 4a digits: 8 seeds"],
        ["failed", "Figure 10 digits: 8 seeds"],
        ["held", "Figure 3a digits: 8 seeds"],
        ["held", "Figure 5 digits: 8 seeds"],
        ["held", "Figure 6 digits: 8 seeds"],
    ]
    assert page.cells(4) == [["Figure 9", "statement 9", "at most 1reason", "no study of this config draws the figure"]]


def test_measured_values_are_told_for_people():
    measured = [row[3] for row in Page(to_html(BOOK)).cells(5)]
    assert measured == [
        "undefined (n = 1)",
        "k = 2: 2.5 (n = 4; hidden1)",
        "W σF = 0: 0.123 ± 0.01 (n = 4)",
        "infinite (n = 2)",
        "123,457 (n = 2)",
    ]


def test_failed_cases_are_seen_and_many_others_are_folded():
    cases = [Verdict(float(layer), layer != 3, 2, None, f"layer {layer}") for layer in range(1, 6)]
    (claim,) = claims_view(book(**{"5": cases}))["judged"]
    assert [case["name"] for case in claim["shown"]] == ["layer 3"]
    assert len(claim["folded"]) == 4 and claim["range"] == "1 to 5"
    row = Page(to_html(book(**{"5": cases}))).cells(5)[0]
    assert row[0] == "failed in 1 of 5 cases" and row[3].startswith("layer 3: 3 (n = 2) 4 more cases: 1 to 5 layer 1")
    (few,) = claims_view(book(**{"5": cases[:3]}))["judged"]
    assert len(few["shown"]) == 3 and not few["folded"]


def test_a_statement_says_apart_what_is_claimed_and_what_is_measured():
    stated = BOOK.assign(statement="At sigma_F = 0 swaps are cheap: median cost, in m^(1/2)")
    html = to_html(stated)
    assert 'data-heading="Claim">At σ<sub>F</sub> = 0 swaps are cheap</td>' in html
    assert "median cost, in m<sup>1/2</sup>" in html


@pytest.mark.parametrize("field", ["statement", "case", "detail", "reason", "threshold", "study", "scale", "paper"])
def test_texts_are_escaped(field):
    hostile = BOOK.assign(**{field: HOSTILE})
    page = Page(to_html(hostile))
    assert "script" not in [tag for tag, _ in page.tags]
    assert HOSTILE in page.text
    rows = [line for line in to_markdown(hostile).splitlines()[4:] if line.startswith("| ")]
    assert len(rows) == 5
    assert all(len(re.split(r"(?<!\\)\|", row)) == 8 for row in rows)
    assert "<script>" not in to_markdown(hostile)


def test_markdown_is_one_table_with_the_counts_above_it():
    lines = to_markdown(BOOK).splitlines()
    assert lines[0] == "3 held, 2 failed, 1 not run at this scale."
    assert lines[2] == "| Verdict | Figure | Claim | Measured | Threshold | Study |"
    assert lines[4] == "| **failed** | 4a | statement 4a | undefined | at most 1 | digits |"
    assert lines[6] == "| held | 3a | statement 3a | W sigma_F = 0: 0.123 ± 0.01 | at most 1 | digits |"
    assert lines[-2:] == ["", "Figures without a verdict at this scale: 9."]
    assert len(lines) == 4 + 5 + 2


def test_markdown_gathers_the_cases_of_a_claim_under_its_worst_verdict():
    cases = [Verdict(1.0, True, 2, None, "layer 1"), Verdict(2.0, False, 2, 0.5, "layer 2")]
    row = to_markdown(book(**{"5": Verdict(1.0, True, 1), "10": cases})).splitlines()[4]
    assert row.startswith("| **failed** in 1 of 2 | 10 |")
    assert "| layer 2: 2 ± 0.5<br>layer 1: 1 |" in row


def reported(cases, figure="permutation-2", slug="permutation-invariance"):
    """A ledger of two papers: a statement that is only reported, and checks of the other one."""
    told = Claim(
        f"{figure}-x", figure, "it peaks: place", "2", "reason", ("a.csv",), lambda tables: cases, (), "because sigma_F"
    )
    check = Claim("4a-x", "4a", "it holds", "1", "reason", ("a.csv",), lambda tables: Verdict(1.0, True, 1))
    bad = Claim("5-x", "5", "it fails", "1", "reason", ("a.csv",), lambda tables: Verdict(1.0, False, 1))
    study = {"digits": {"figures": [figure, "4a", "5"], "scale": "8 seeds"}}
    papers = {"neuron-identifiability": (check, bad), slug: (told,)}
    return ledger(study, {"digits": {"a.csv": pd.DataFrame({"x": [1]})}}, papers)


def test_disagreements_stand_between_failed_and_held_claims_and_say_why():
    page = Page(to_html(reported([Verdict(1.5, False, 4, None, "M = 6"), Verdict(2.0, True, 4, None, "M = 12")])))
    assert [row[:2] for row in page.cells(5)] == [
        ["failed", "Figure 5 Bürgin et al. digits: 8 seeds"],
        ["disagrees in 1 of 2 cases", "Figure 2 (Zhan et al.) digits: 8 seeds"],
        ["held", "Figure 4a Bürgin et al. digits: 8 seeds"],
    ]
    assert page.cells(5)[1][3] == "placeM = 6: 1.5 (n = 4) M = 12: 2 (n = 4) because σF"
    for text in ("1 held", "1 failed", "1 agrees", "1 disagrees", "fail nothing", "then disagreements"):
        assert text in page.text
    assert "Claims of Bürgin et al., Zhan et al.: failed ones first" in page.text


def test_agreement_needs_no_explanation():
    page = Page(to_html(reported([Verdict(2.0, True, 4, None, "M = 6"), Verdict(2.0, True, 4, None, "M = 12")])))
    assert [row[0] for row in page.cells(5)] == ["failed", "held", "agrees"]
    assert "2 agree" in page.text and "disagrees in" not in page.text and "because" not in page.text


def test_nothing_is_said_of_agreement_where_nothing_is_reported():
    page = Page(to_html(BOOK))
    assert "agree" not in page.text and "fail nothing" not in page.text


def test_disagreeing_cases_are_seen_and_the_others_are_folded():
    cases = [Verdict(float(M), M != 6, 2, None, f"M = {M}") for M in (4, 6, 8, 10)]
    (claim,) = [each for each in claims_view(reported(cases))["judged"] if each["verdict"] == "disagrees"]
    assert [case["name"] for case in claim["shown"]] == ["M = 6"] and len(claim["folded"]) == 3


def test_markdown_tells_disagreements_and_whose_figure_it_is():
    book_of_two = reported([Verdict(1.5, False, 4, None, "M = 6"), Verdict(2.0, True, 4, None, "M = 12")])
    lines = to_markdown(book_of_two).splitlines()
    assert lines[0] == "1 held, 1 failed, 1 agrees, 1 disagrees, 0 not run at this scale."
    assert lines[5] == (
        "| disagrees in 1 of 2 | Figure 2 (Zhan et al.) | it peaks: place | M = 6: 1.5<br>M = 12: 2<br>because sigma_F "
        "| 2 | digits |"
    )


def test_a_ledger_that_went_through_a_file_looks_the_same(tmp_path):
    reports = reported(Verdict(1.5, False, 4))
    for number, each in enumerate((BOOK, book(**{"5": Verdict(1.0, True, 1)}), ledger({}, {}), reports)):
        path = tmp_path / f"{number}.csv"
        write_table(path, each)
        assert to_html(read_table(path)) == to_html(each)
        assert to_markdown(read_table(path)) == to_markdown(each)
