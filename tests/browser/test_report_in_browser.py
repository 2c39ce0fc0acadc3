"""The report as a reader's browser shows it on a desk and on a telephone."""

from itertools import pairwise
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.by import By

from symlab.artifacts import read_table
from symlab.papers import PAPERS
from symlab.pipeline.ledger import SENTENCE, count_verdicts, describe_count

pytestmark = pytest.mark.slow


def test_it_opens_without_complaint_and_fetches_nothing_else(report):
    assert [message for message in report.messages if message["level"] in ("SEVERE", "WARNING")] == []
    assert report.path.as_uri() in report.requests
    assert [url for url in report.requests if url != report.path.as_uri() and not url.startswith("data:")] == []
    assert report.run("return performance.getEntriesByType('resource').map(each => each.name)") == []


def test_the_first_screen_says_what_was_found_of_each_paper(report):
    ledger = read_table(report.path.parent / "claims.csv")
    lines = report.driver.find_elements(By.CSS_SELECTOR, ".papers li")
    judged = [paper for paper in PAPERS if paper.slug in set(ledger["paper"])]
    assert len(lines) == len(judged) > 0
    for line, paper in zip(lines, judged, strict=True):
        counts = count_verdicts(ledger[ledger["paper"] == paper.slug])
        assert all(describe_count(word, counts[word]) in line.text for word in SENTENCE if counts[word])
        assert paper.short in line.text
        assert report.run("return arguments[0].getBoundingClientRect().bottom < innerHeight", line)


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


def test_links_within_it_lead_somewhere_and_a_folded_claim_is_unfolded(report):
    links = [link.get_dom_attribute("href") for link in report.driver.find_elements(By.TAG_NAME, "a")]
    for address in links:
        if address.startswith("#"):
            assert report.run("return document.getElementById(arguments[0]) !== null", unquote(address[1:])), address
    outside = {address for address in links if not address.startswith(("#", "data:"))}
    assert outside <= {paper.link for paper in PAPERS}
    report.driver.find_element(By.CSS_SELECTOR, ".verdicts a").click()
    assert report.run("return document.querySelector('tr:target').checkVisibility()")


def test_every_figure_is_loaded_fits_and_is_described(report):
    images = report.driver.find_elements(By.TAG_NAME, "img")
    undrawn = report.driver.find_elements(By.CLASS_NAME, "undrawn")
    assert images and len(images) + len(undrawn) == len(list(report.path.parent.glob("*/figures/*.png")))
    # A picture may be decoded after the page is loaded.
    report.driver.execute_async_script(
        "const done = arguments[0]; Promise.all([...document.images].map(each => each.decode())).then(() => done())"
    )
    for image in images:
        width, shown, room = report.run(
            "const i = arguments[0]; return [i.naturalWidth, i.clientWidth, i.closest('.frame').clientWidth]", image
        )
        assert width > 300 and min(width, 300) <= shown <= room and image.get_attribute("alt")
