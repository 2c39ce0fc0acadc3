"""A headless Chromium that reaches nothing but files, and the pages of a finished smoke run."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROMEDRIVER = shutil.which("chromedriver")
WIDE, NARROW = 1280, 400
HEIGHTS = {WIDE: 900, NARROW: 860}


@dataclass
class Page:
    """A page that was opened, and what the browser had to say and to fetch for it."""

    driver: webdriver.Chrome
    path: Path
    width: int
    messages: list[str]
    requests: list[str]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("needs Chromium and its driver (Debian: apt install chromium chromium-driver)")
    options = Options()
    options.binary_location = CHROMIUM
    # Root, as in a container, has no sandbox; a small /dev/shm must not end the browser.
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    yield driver
    driver.quit()


@pytest.fixture(params=[WIDE, NARROW], ids="{}px".format)
def width(request):
    return request.param


@pytest.fixture(params=["report.html", "claims.html"])
def page(chromium, request, width, finished_run):
    """The page, just loaded in a window of the given width."""
    return opened(chromium, finished_run.folder / "results/smoke" / request.param, width)


@pytest.fixture
def report(chromium, width, finished_run):
    return opened(chromium, finished_run.folder / "results/smoke/report.html", width)


def opened(driver, path, width):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": HEIGHTS[width], "deviceScaleFactor": 1, "mobile": width == NARROW},
    )
    driver.get("about:blank")
    for log in ("browser", "performance"):
        driver.get_log(log)
    driver.get(path.as_uri())
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return Page(driver, path, width, driver.get_log("browser"), requests)
