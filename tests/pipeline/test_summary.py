"""What a run says on the terminal."""

import yaml

from symlab.papers import PAPERS
from symlab.pipeline.config import parse_config
from symlab.pipeline.provenance import ROOT
from symlab.pipeline.summary import WIDTH, announce, summarise


def test_a_run_ends_with_a_finding_a_paper_and_the_address_of_its_report(tmp_path):
    said = summarise(ROOT / "results" / "reference" / "demo" / "claims.csv", tmp_path / "report.html")
    assert all(f"{paper.heading} ({paper.short}):" in said for paper in PAPERS)
    assert said.endswith(f"The report: {(tmp_path / 'report.html').as_uri()}")
    *findings, totals, _ = said.splitlines()
    assert max(map(len, findings)) <= WIDTH and "**" not in said and " held, " in totals


def test_a_run_begins_with_what_will_come():
    project = parse_config(yaml.safe_load((ROOT / "config.yaml").read_text()))
    said = announce(project)
    assert said.startswith(f"{len(project.studies)} studies (digits, ") and "results/logs/" in said
