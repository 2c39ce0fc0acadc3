"""What a run says on the terminal at its end."""

from symlab.papers import PAPERS
from symlab.pipeline.provenance import ROOT
from symlab.pipeline.summary import WIDTH, summarise


def test_a_run_ends_with_a_finding_of_every_paper_in_plain_lines(tmp_path):
    *lines, _, _ = summarise(ROOT / "results/reference/demo/claims.csv", tmp_path / "report.html").splitlines()
    assert all(f"{paper.heading} ({paper.short}):" in lines for paper in PAPERS)
    assert max(map(len, lines)) <= WIDTH and "**" not in "".join(lines)
