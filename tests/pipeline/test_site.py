"""The site: links that lead out of docs/ are put right, each page is in the menu; .ci/run builds it."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

import symlab
from symlab.pipeline import site
from symlab.pipeline.docs import REFERENCE, ROOT
from symlab.pipeline.ledger import COLUMNS
from symlab.pipeline.site import _copy_figures, on_page_markdown, on_post_build


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("gallery.md", "../results/reference/demo/a.svg", "results/reference/demo/a.svg"),
        ("explanation/papers/a.md", "../../../results/reference/demo/a.svg", "../../results/reference/demo/a.svg"),
        ("how-to/a.md", "../../CHANGELOG.md", "https://host/symlab/blob/main/CHANGELOG.md"),
        ("how-to/a.md", "../explanation/design.md#3", "../explanation/design.md#3"),
        ("how-to/a.md", "https://arxiv.org/abs/1", "https://arxiv.org/abs/1"),
        ("how-to/a.md", "#below", "#below"),
    ],
)
def test_links_lead_to_the_site_or_to_the_repository(page, link, there):
    on_site = on_page_markdown(
        f"see [this]({link}).",
        SimpleNamespace(file=SimpleNamespace(src_uri=page)),
        {"repo_url": "https://host/symlab"},
        [],
    )
    assert on_site == f"see [this]({there})."


def test_a_kept_run_has_its_report(tmp_path, monkeypatch):
    """Two of them here; .ci/run builds the site with all."""
    runs = [REFERENCE / name for name in ("demo", "mirror")]
    monkeypatch.setattr(site, "REFERENCE", SimpleNamespace(glob=lambda _: [run / "claims.csv" for run in runs]))
    on_post_build({"site_dir": str(tmp_path)})
    assert {path.parent.name for path in tmp_path.glob("reports/*/report.html")} == {"demo", "mirror"}
    page = (tmp_path / "reports" / "demo" / "report.html").read_text()
    assert '<article class="paper"' in page and 'href="../../explanation/papers/mirror-symmetry/"' in page
    beside = {link for link in re.findall(r'href="([^"#:]+)"', page) if not link.startswith("../")}
    for run in runs:
        shown = re.findall(r'href="([^"#:]+\.svg)"', (tmp_path / "reports" / run.name / "report.html").read_text())
        assert len(set(shown)) == len(list(run.glob("*.svg"))), run.name
    config = (tmp_path / "reports" / "mirror" / "config.yaml").read_text()
    assert config == (ROOT / "workflow" / "presets" / "mirror.yaml").read_text()
    assert (tmp_path / "reports" / "mirror" / "attention" / "figures" / "mirror-9.svg").exists()
    assert {"claims.csv", "config.yaml"} <= beside and all(
        (tmp_path / "reports/demo" / name).exists() for name in beside
    )


def test_a_kept_figure_without_claims_is_copied_under_the_run_s_name(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("collapse-1", "digits-collapse-2"):
        (run / f"{name}.svg").touch()
    there = {"run": "run/figures/collapse-1.svg", "digits": "digits/figures/collapse-2.svg"}
    copied = _copy_figures(run, pd.DataFrame(columns=COLUMNS), tmp_path / "site")
    assert copied == {study: [tmp_path / "site" / path] for study, path in there.items()}
    claims = pd.DataFrame([{"figure": "collapse-1", "study": "whole", "verdict": "held"}], columns=COLUMNS)
    assert set(_copy_figures(run, claims, tmp_path / "site")) == {"whole", "digits"}


def test_every_page_is_in_the_menu():
    text = (ROOT / "mkdocs.yml").read_text()
    menu = set(re.findall(r": ([\w/-]+\.md)$", text, flags=re.MULTILINE))
    assert menu == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert yaml.safe_load(text)["strict"] is True


def test_every_public_function_is_in_the_reference():
    named = re.findall(r"^::: symlab\.(\w+)$", (ROOT / "docs" / "reference" / "api.md").read_text(), flags=re.MULTILINE)
    assert set(named) == set(symlab.__all__) - {"UserError", "__version__"}
