"""The report as a reader's browser shows it on a desk and on a telephone."""

import base64
import re
from itertools import pairwise
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.by import By

from symlab.artifacts import read_table
from symlab.papers import PAPERS
from symlab.pipeline.ledger import NOT_RUN, OWNERS, group_claims
from symlab.pipeline.telling import count_findings

pytestmark = pytest.mark.slow


def test_it_opens_without_complaint_and_fetches_nothing_else(report):
    assert [message for message in report.messages if message["level"] in ("SEVERE", "WARNING")] == []
    assert report.path.as_uri() in report.requests
    assert [url for url in report.requests if url != report.path.as_uri() and not url.startswith("data:")] == []
    assert report.run("return performance.getEntriesByType('resource').map(each => each.name)") == []


def test_each_paper_has_a_card_with_a_finding_and_its_findings_counted_by_owner(report):
    ledger = read_table(report.path.parent / "claims.csv")
    cards = report.driver.find_elements(By.CSS_SELECTOR, "article.paper")
    judged = [paper for paper in PAPERS if paper.slug in set(ledger["paper"])]
    assert len(cards) == len(judged) > 0
    for card, paper in zip(cards, judged, strict=True):
        claims = group_claims(ledger[ledger["paper"] == paper.slug])
        labels = [bar.get_attribute("aria-label") for bar in card.find_elements(By.CLASS_NAME, "bar")]
        assert paper.heading in card.text and paper.short in card.text
        for owner, name in OWNERS.items():
            counts = count_findings(claims, owners=(owner,))
            if any(n for verdict, n in counts.items() if verdict != NOT_RUN):
                (label,) = (label for label in labels if label.startswith(f"{name}:"))
                assert all(f"{n} {word}" in label for word, n in counts.items() if n)
    if report.width == 1280:
        # All cards begin, and tell what was found, on the first screen.
        assert report.run(
            "return [...document.querySelectorAll('.headline')].every(e => e.getBoundingClientRect().top < innerHeight)"
        )


def test_claims_are_filtered_and_sorted(report):
    def shown():
        return report.run("return rows.filter(row => !row.hidden).map(row => row.dataset.verdict)")

    every = shown()
    words = sorted(set(every))
    for word in words:
        report.run(
            "form.elements.verdict.value = arguments[0]; form.dispatchEvent(new Event('input', {bubbles: true}))", word
        )
        assert shown() == [verdict for verdict in every if verdict == word]
    report.run("form.elements.verdict.value = ''; form.elements.text.value = 'no such words'; filter()")
    assert shown() == []
    # A link to a claim shows it, whatever is filtered.
    link = report.run("return document.querySelector('.verdicts a').getAttribute('href')")
    report.run("location.hash = arguments[0]", link)
    report.driver.execute_async_script("setTimeout(arguments[0], 100)")
    assert report.run("return document.querySelector('tr:target').checkVisibility()") and shown() == every
    for order in ("ascending", "descending"):
        report.run("document.querySelector('table.claims th button').click()")
        column = report.run(
            "return [...document.querySelectorAll('table.claims')[0].querySelectorAll('tbody tr')]"
            ".map(row => row.cells[0].textContent.trim())"
        )
        assert column == sorted(column, reverse=order == "descending")


def test_it_is_dark_where_the_reader_wants_it_dark_and_short_on_paper(report):
    def lightness():
        return report.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")

    assert min(lightness()) > 200
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        assert max(lightness()) < 60
    finally:
        report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    printed = report.driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))
    assert 0 < pages <= 40


def test_headings_go_down_one_level_at_a_time(report):
    assert report.run("return document.documentElement.lang") == "en" and "held" in report.driver.title
    levels = [int(each.tag_name[1]) for each in report.driver.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_it_scrolls_in_one_direction_only(report):
    for opened in ("false", "true"):
        report.run(f"document.querySelectorAll('details').forEach(each => each.open = {opened})")
        needed, there = report.run(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert needed <= there


def test_links_lead_somewhere(report):
    links = [link.get_dom_attribute("href") for link in report.driver.find_elements(By.TAG_NAME, "a")]
    known = {paper.link for paper in PAPERS}
    for address in set(links) - known:
        if address.startswith("#"):
            assert report.run("return document.getElementById(arguments[0]) !== null", unquote(address[1:])), address
        else:
            assert (report.path.parent / unquote(address)).exists(), address


def test_every_figure_is_drawn_legible_and_described(report):
    drawings = report.driver.find_elements(By.CSS_SELECTOR, "section.figure .frame > svg")
    undrawn = report.driver.find_elements(By.CSS_SELECTOR, "section.figure .undrawn")
    assert drawings and len(drawings) + len(undrawn) == len(list(report.path.parent.glob("*/figures/*.svg")))
    assert report.run(
        "return [...document.querySelectorAll('use')].every(e => document.getElementById(e.href.baseVal.slice(1)))"
    )
    for drawing in drawings:
        width, shown, room, needed, inside = report.run(
            "const s = arguments[0], f = s.closest('.frame'), b = s.firstElementChild.getBBox();"
            "return [s.viewBox.baseVal.width, s.clientWidth, f.clientWidth, f.scrollWidth, b.width * b.height]",
            drawing,
        )
        # Letters of 9 points stay above 10 pixels; where there is no room for that, the frame scrolls.
        assert round(4 / 3 * width) in (326, 450, 576) and abs(shown - 4 / 3 * width) < 1 and inside > 0
        assert needed >= shown and room <= report.width and drawing.get_attribute("aria-label")
