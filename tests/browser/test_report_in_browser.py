"""The report as a reader's browser shows it on a desk and on a telephone."""

from itertools import pairwise
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.by import By

from symlab.artifacts import read_table
from symlab.papers import PAPERS
from symlab.pipeline.ledger import FAILED, OWNERS, count_findings, group_claims

pytestmark = pytest.mark.slow


def test_it_opens_without_complaint_and_fetches_nothing_else(report):
    assert [message for message in report.messages if message["level"] in ("SEVERE", "WARNING")] == []
    assert report.path.as_uri() in report.requests
    assert [url for url in report.requests if url != report.path.as_uri() and not url.startswith("data:")] == []
    assert report.run("return performance.getEntriesByType('resource').map(each => each.name)") == []


def test_the_first_screen_counts_the_findings_of_each_paper(report):
    ledger = read_table(report.path.parent / "claims.csv")
    sections = report.driver.find_elements(By.CSS_SELECTOR, "section.paper")
    judged = [paper for paper in PAPERS if paper.slug in set(ledger["paper"])]
    assert len(sections) == len(judged) > 0
    for section, paper in zip(sections, judged, strict=True):
        claims = group_claims(ledger[ledger["paper"] == paper.slug])
        for owner in OWNERS:
            counts = count_findings([claim for claim in claims if claim.owner == owner])
            failed = "not reproduced" if owner == "paper" else FAILED
            told = {word.replace(FAILED, failed): n for word, n in counts.items() if n}
            assert all(f"{n} {word}" in section.text for word, n in told.items()) and paper.short in section.text
    first = report.driver.find_element(By.CSS_SELECTOR, "section.paper h2")
    assert report.run("return arguments[0].getBoundingClientRect().bottom < innerHeight / 2", first)


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


def test_links_lead_somewhere_and_a_folded_claim_is_unfolded(report):
    links = [link.get_dom_attribute("href") for link in report.driver.find_elements(By.TAG_NAME, "a")]
    known = {paper.link for paper in PAPERS}
    for address in set(links) - known:
        if address.startswith("#"):
            assert report.run("return document.getElementById(arguments[0]) !== null", unquote(address[1:])), address
        else:
            assert (report.path.parent / unquote(address)).exists(), address
    link = report.run("return document.querySelector('.verdicts a').getAttribute('href')")
    report.run("location.hash = arguments[0]", link)
    assert report.run("return document.querySelector('li:target').checkVisibility()")


def test_every_figure_is_loaded_legible_and_described(report):
    images = report.driver.find_elements(By.CSS_SELECTOR, "section.figure img")
    undrawn = report.driver.find_elements(By.CSS_SELECTOR, "section.figure .undrawn")
    assert images and len(images) + len(undrawn) == len(list(report.path.parent.glob("*/figures/*.svg")))
    # A picture may be decoded after the page is loaded.
    report.driver.execute_async_script(
        "const done = arguments[0]; Promise.all([...document.images].map(each => each.decode())).then(() => done())"
    )
    for image in images:
        width, shown, room, needed = report.run(
            "const i = arguments[0], f = i.closest('.frame');"
            "return [i.naturalWidth, i.clientWidth, f.clientWidth, f.scrollWidth]",
            image,
        )
        # Letters of 9 points stay above 10 pixels; where there is no room for that, the frame scrolls.
        assert width > 300 and shown >= min(width, 560) and needed >= shown and room <= report.width
        assert image.get_attribute("alt")
