"""The report and the page of claims, as a reader's browser shows them on a desk and on a telephone."""

import base64
from itertools import pairwise
from urllib.parse import unquote

import yaml
from selenium.webdriver.common.by import By

from symlab import __version__
from symlab.claims.verdicts import VERDICTS
from symlab.papers import PAPERS

# Every visible run of text (what is before an element by style included): its size, its colour and what it stands on.
TEXTS = """
    document.querySelectorAll("details").forEach(details => details.open = true);
    const parse = colour => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
    const ground = element => {
        const layers = [];
        for (let each = element; each; each = each.parentElement)
            layers.push(parse(getComputedStyle(each).backgroundColor));
        return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const described = (element, style, text) => {
        const below = ground(element);
        const [light, dark] = [over(parse(style.color), below), below].map(luminance).sort((a, b) => b - a);
        return {
            text: text.trim().slice(0, 60), size: parseFloat(style.fontSize), contrast: (light + 0.05) / (dark + 0.05)
        };
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode, element = node.parentElement;
        if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
        found.push(described(element, getComputedStyle(element), node.data));
    }
    for (const element of document.querySelectorAll("body *")) {
        const style = getComputedStyle(element, "::before");
        if (/^".+"$/.test(style.content) && element.checkVisibility())
            found.push(described(element, style, style.content));
    }
    return found;
"""


def test_the_browser_has_nothing_to_complain_about(page):
    assert [message for message in page.messages if message["level"] in ("SEVERE", "WARNING")] == []


def test_nothing_is_fetched_but_the_file(page):
    assert page.path.as_uri() in page.requests
    assert [url for url in page.requests if url != page.path.as_uri() and not url.startswith("data:")] == []
    assert page.run("return performance.getEntriesByType('resource').map(each => each.name)") == []


def test_claims_are_seen_first(page):
    headings = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, "h1, h2")]
    assert "Claims" in headings[:2]
    counts = page.driver.find_element(By.CLASS_NAME, "counts")
    assert "held" in counts.text and "failed" in counts.text
    bottom = page.run("return arguments[0].getBoundingClientRect().bottom", counts)
    assert 0 < bottom < page.run("return innerHeight") / 2
    # The table starts on the first screen, and its failed claims are above the held ones.
    rows = page.driver.find_elements(By.CSS_SELECTOR, ".claims tbody tr")
    assert page.run("return arguments[0].getBoundingClientRect().top < innerHeight", rows[0])
    verdicts = [row.find_element(By.CLASS_NAME, "verdict").text for row in rows]
    assert set(verdicts) >= {"failed", "held"} and verdicts == sorted(verdicts, key=list(VERDICTS).index)


def test_the_page_says_what_it_is(page):
    assert page.run("return document.documentElement.lang") == "en"
    assert "held" in page.driver.title
    assert page.run("return document.querySelector('meta[name=viewport]').content").startswith("width=device-width")
    levels = [int(each.tag_name[1]) for each in page.driver.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4, h5, h6")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_scrolls_in_one_direction_only(page):
    size = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    for opened in ("false", "true"):
        page.run(f"document.querySelectorAll('details').forEach(each => each.open = {opened})")
        needed, there = page.run(size)
        assert needed <= there


def test_all_text_is_large_and_dark_enough_to_read(page):
    texts = page.run(TEXTS)
    assert len(texts) > 100
    assert [text for text in texts if text["size"] < 12] == []
    assert [text for text in texts if text["contrast"] < 4.5] == []


def test_links_lead_somewhere(page):
    results = page.path.parent
    links = page.driver.find_elements(By.TAG_NAME, "a")
    saved, outside = {}, []
    for link in links:
        # The attribute itself: the property of the same name is resolved against the page's address.
        address = link.get_dom_attribute("href")
        if address.startswith("#"):
            assert page.run("return document.getElementById(arguments[0]) !== null", unquote(address[1:])), address
        elif address.startswith("data:"):
            saved[link.get_dom_attribute("download")] = base64.b64decode(address.partition("base64,")[2])
        else:
            outside.append(address)
    assert set(outside) <= {paper.link for paper in PAPERS}
    if page.path.name == "report.html":
        assert saved["claims.csv"] == (results / "claims.csv").read_bytes()
        assert saved["digits_barriers.csv"] == (results / "digits/tables/barriers.csv").read_bytes()
        assert saved["digits_figure_4.pdf"] == (results / "digits/figures/figure_4.pdf").read_bytes()
        assert yaml.safe_load(saved["config.yaml"]) == yaml.safe_load((results / "config.yaml").read_text())


def test_a_claim_leads_to_its_figure_and_the_figure_back(report):
    claim = report.driver.find_element(By.CSS_SELECTOR, ".claims tbody a")
    claim.click()
    target = report.run("return location.hash.slice(1)")
    top = report.run("return document.getElementById(arguments[0]).getBoundingClientRect().top", target)
    assert target.startswith("figure-") and -1 <= top < 100
    back = report.driver.find_element(By.CSS_SELECTOR, f"[id='{target}'] .verdicts a")
    back.click()
    assert report.run("return document.querySelector('tr:target') !== null")


def test_every_figure_is_loaded_fits_and_is_described(report):
    images = report.driver.find_elements(By.TAG_NAME, "img")
    config = yaml.safe_load((report.path.parent / "config.yaml").read_text())
    assert len(images) == sum(len(study["figures"]) for study in config["studies"].values())
    # A picture may be decoded after the page is loaded.
    report.driver.execute_async_script(
        "const done = arguments[0]; Promise.all([...document.images].map(each => each.decode())).then(() => done())"
    )
    for image in images:
        width, shown, room = report.run(
            "const i = arguments[0]; return [i.naturalWidth, i.clientWidth, i.closest('.frame').clientWidth]", image
        )
        assert width > 300 and min(width, 300) <= shown <= room
        assert image.get_attribute("alt").startswith(("Figure", "Theorem", "Proposition", "Section", "Ridge"))
    assert all(caption.text for caption in report.driver.find_elements(By.TAG_NAME, "figcaption"))


def test_on_a_telephone_a_figure_can_be_seen_at_full_size(report):
    boxes = report.driver.find_elements(By.CSS_SELECTOR, ".zoom input")
    if not boxes[0].is_displayed():
        assert report.width == 1280
        return
    boxes[0].click()
    image = report.driver.find_element(By.TAG_NAME, "img")
    assert report.run("return arguments[0].clientWidth === arguments[0].naturalWidth", image)
    assert report.run("return document.documentElement.scrollWidth") == report.width


def test_the_run_tells_where_it_comes_from(report):
    results = report.path.parent
    text = report.driver.find_element(By.ID, "run").text
    for part in (f"symlab\n{__version__}", "Python", "torch", "Git commit", "Processor", "Memory", "System"):
        assert part in text
    assert (results / "config.yaml").read_text().strip() in text
    jobs = [path for path in results.glob("benchmarks/**/*.tsv") if path.name != "report.tsv"]
    assert f"; {len(jobs)} jobs took" in " ".join(text.split())
    assert str(results) not in report.driver.page_source
