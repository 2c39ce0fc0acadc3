"""A headless Chromium that reaches nothing but files, and the report of a finished run."""

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
HEIGHTS = {1280: 900, 400: 860}


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


@pytest.fixture(scope="session")
def report_path(finished_run):
    return finished_run.results / "report.html"


@pytest.fixture(params=HEIGHTS, ids="{}px".format)
def report(chromium, request, report_path):
    """The report, just loaded in a window of the given width."""
    width = request.param
    metrics = {"width": width, "height": HEIGHTS[width], "deviceScaleFactor": 1, "mobile": width == 400}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get("about:blank")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    chromium.get(report_path.as_uri())
    events = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return Page(chromium, report_path, width, chromium.get_log("browser"), requests)
