"""The report holds what the run found: claims first, every figure, small tables, provenance; and only that."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from symlab.artifacts import ArtifactError, write_table, write_tensors
from symlab.claims import ledger
from symlab.papers import PAPERS
from symlab.report import page as module
from symlab.report.page import report_page

matplotlib.use("agg")
import matplotlib.pyplot as plt

CONFIG = """
results: results
datasets:
  digits: {source: digits}
studies:
  small:
    dataset: digits
    network: {name: mlp, widths: [8]}
    recipe: {epochs: 1}
    seeds: 2
    variants:
      standard: {scheme: {name: standard}}
    interpolation: {aligned: false}
    identification: {}
    figures: ["4", "12"]
"""
STUDIES = {"small": {"figures": ["4", "12"], "scale": "2 seeds, 1 epochs"}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Arguments of ``report_page`` for a tiny finished run."""
    results = tmp_path_factory.mktemp("run") / "results"
    (results / "small/figures").mkdir(parents=True)
    (results / "config.yaml").write_text(CONFIG)
    figures = []
    for name in STUDIES["small"]["figures"]:
        drawing, axis = plt.subplots(figsize=(2, 1))
        axis.plot([0, 1])
        figures.append(results / f"small/figures/figure_{name}.png")
        drawing.savefig(figures[-1])
        drawing.savefig(figures[-1].with_suffix(".pdf"))
        plt.close(drawing)
    curves = [
        {"variant": "standard", "family": "standard", "scheme": "standard", "sigma_F": None, "activation": "gelu"}
        | {
            "mask_seed": 0,
            "pair": 0,
            "aligned": False,
            "split": "train",
            "lambda": at,
            "loss": 1.0,
            "accuracy": accuracy,
        }
        for at, accuracy in ((0, 1.0), (0.5, 0.4), (1, 1.0))
    ]
    tables = [results / "small/tables/curves.csv", results / "small/tables/swap_costs.parquet"]
    write_table(tables[0], pd.DataFrame(curves))
    write_table(tables[1], pd.DataFrame({"noise": np.random.default_rng(0).normal(size=60_000)}))
    claims = ledger(STUDIES, {"small": {}})
    claims.loc[(claims["figure"] == "4a") & (claims["claim"] == "4a-barrier"), ["verdict", "study"]] = [
        "failed",
        "small",
    ]
    claims.loc[claims["figure"] == "12", ["verdict", "study", "value"]] = ["held", "small", 1.0]
    write_table(results / "claims.csv", claims)
    data = results / "data/digits.safetensors"
    header = {"provenance": {"source": "digits"}, "sizes": {"train": 1437, "val": 180, "test": 180}}
    write_tensors(data, {"x": np.zeros(1, np.float32)}, "dataset", header)
    return {
        "config": CONFIG,
        "ledger": claims,
        "figures": {"small": figures},
        "tables": {"small": tables},
        "datasets": [data],
        "results": results,
        "device": "cpu",
    }


@pytest.fixture
def finished(run):
    return dict(run)


def attributes(page, tag, name):
    return re.findall(rf'<{tag}\b[^>]*\b{name}="([^"]*)"', page)


def test_claims_come_first_then_figures_tables_and_the_run(finished):
    page = report_page(**finished)
    places = [page.index(f'id="{anchor}"') for anchor in ("claims", "study-small", "tables", "run", "sources")]
    assert places == sorted(places)
    claims = page[places[0] : places[1]]
    assert claims.index('class="verdict failed"') < claims.index('class="verdict held"')
    assert "symlab report: small" in page


def test_it_is_one_file_without_scripts_whose_links_all_lead_somewhere(finished):
    page = report_page(**finished)
    assert "<script" not in page and "@import" not in page and "url(" not in page
    anchors = re.findall(r'\bid="([^"]*)"', page)
    assert len(anchors) == len(set(anchors))
    for link in attributes(page, "a", "href") + attributes(page, "link", "href") + attributes(page, "img", "src"):
        assert link.startswith(("#", "data:", "https://arxiv.org/")), link[:80]
        assert not link.startswith("#") or link[1:] in anchors


def test_every_figure_is_there_with_its_caption_and_its_claims(finished):
    page = report_page(**finished)
    assert len(attributes(page, "img", "src")) == 2
    assert attributes(page, "img", "alt")[1] == "Figure 12 of study small: Swap-cost distributions by variant"
    assert set(attributes(page, "img", "width")) == {"200"} and set(attributes(page, "img", "height")) == {"100"}
    section = page[page.index('id="figure-small-4"') : page.index('id="figure-small-12"')]
    # The claim is about panel 4a, which is a part of Figure 4.
    assert "study <code>small</code>" in section and 'class="verdict failed"' in section
    assert 'href="#figure-small-4">Figure 4a</a>' in page


def test_small_files_are_held_and_large_ones_named(finished):
    page = report_page(**finished)
    assert set(attributes(page, "a", "download")) == {
        *("claims.csv", "config.yaml", "small_curves.csv", "small_figure_4.pdf", "small_figure_12.pdf"),
    }
    assert re.search(
        r'<span class="path">small/tables/swap_costs\.parquet</span> \(\d+ kB, in the results folder\)', page
    )
    assert 'data-heading="Rows">60,000</td>' in page and 'data-heading="Rows">3</td>' in page


def test_the_run_is_told_without_anybody_s_folders(finished):
    page = report_page(**finished)
    run = page[page.index('id="run"') :]
    assert "1,437 train, 180 val, 180 test" in run and "No computing times were kept." in run
    assert "network: {name: mlp, widths: [8]}" in run and "<dt>torch</dt>" in run and "<dt>Git commit</dt>" in run
    assert str(finished["results"].parent) not in page and str(Path.home()) + "/" not in page


def test_all_but_the_run_depends_on_the_files_alone(finished, monkeypatch):
    first = report_page(**finished)
    monkeypatch.setattr(module.provenance, "commit", lambda: "another")
    monkeypatch.setattr(module.provenance, "machine", lambda: {"Processor": "another"})
    monkeypatch.setattr(module.provenance, "versions", lambda: {"symlab": "another"})
    second = report_page(**finished)
    assert first != second
    run = re.compile(r'<section id="run">.*?</section>', re.DOTALL)
    assert run.sub("", first) == run.sub("", second)


def test_sources_cite_every_paper(finished):
    page = report_page(**finished)
    sources = page[page.index('id="sources"') :]
    for paper in PAPERS:
        assert all(text in sources for text in (paper.authors, paper.title, paper.where, f'href="{paper.link}"'))


STUDENTS = """
results: results
studies:
  students:
    teacher_student:
      overlap: {M: [6, 20]}
      widths: {M: 6, d: 8, m: [7, 12, 18], uniform_pairs: 20}
    figures: ["permutation-2"]
"""


def test_a_study_of_students_has_its_figures_and_claims_and_needs_no_data(finished):
    results = finished["results"]
    path = results / "students/figures/figure_permutation-2.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".pdf"):
        path.with_suffix(suffix).write_bytes(finished["figures"]["small"][0].with_suffix(suffix).read_bytes())
    claims = ledger({"students": {"figures": ["permutation-2"], "scale": "20 uniform pairs"}}, {"students": {}})
    told = claims["claim"] == "permutation-2-trained-peak-at-2M"
    claims.loc[told, ["verdict", "value", "study", "why"]] = ["disagrees", 1.5, "students", "because it is balanced"]
    write_table(results / "claims.csv", claims)
    students = {"config": STUDENTS, "ledger": claims, "figures": {"students": [path]}, "tables": {}, "datasets": []}
    page = report_page(**finished | students)
    section = page[page.index('id="study-students"') : page.index('id="tables"')]
    assert "Two-layer students of a teacher with orthonormal neurons (overlap, widths): 20 uniform pairs" in section
    assert "Figure 2 (Zhan et al.)." in section and 'class="verdict disagrees">disagrees</span>' in section
    assert "because it is balanced" in page and "<title>symlab: 0 held, 0 failed, 1 disagrees, " in page
    assert 'href="#figure-students-permutation-2">Figure 2 (Zhan et al.)</a>' in page
    assert "None was read." in page and "neuron-identifiability" not in page[: page.index('id="run"')]


def test_texts_of_the_run_are_escaped(finished):
    hostile = '<script>alert("1")</script>'
    finished["ledger"] = finished["ledger"].assign(statement=hostile, reason=hostile, threshold=hostile)
    finished["config"] = finished["config"] + f"# {hostile}\n"
    page = report_page(**finished)
    assert "<script" not in page and page.count("&lt;script&gt;") > 3


def test_a_damaged_figure_is_named(finished, tmp_path):
    path = tmp_path / "figure_4.png"
    path.write_bytes(b"no image")
    with pytest.raises(ArtifactError, match=r"figure_4\.png is no PNG image"):
        report_page(**finished | {"figures": {"small": [path]}})
