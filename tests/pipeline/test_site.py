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


def test_a_kept_figure_of_which_nothing_is_judged_is_copied_under_the_run_s_name(tmp_path):
    drawn = tmp_path / "run" / "collapse-1.svg"
    drawn.parent.mkdir()
    drawn.touch()
    nothing = pd.DataFrame(columns=COLUMNS)
    assert _copy_figures(drawn.parent, nothing, tmp_path / "site") == {
        "run": [tmp_path / "site/run/figures/collapse-1.svg"]
    }
    also = drawn.rename(drawn.with_name("digits-collapse-1.svg"))
    drawn.touch()
    judged = pd.DataFrame([{"paper": "neural-collapse", "claim": "collapse-1-none", "study": study, "verdict": "held"}
                           for study in ("digits", "whole")], columns=COLUMNS)  # fmt: skip
    assert also.exists() and set(_copy_figures(drawn.parent, judged, tmp_path / "site")) == {"digits", "whole"}


def test_every_page_is_in_the_menu():
    text = (ROOT / "mkdocs.yml").read_text()
    menu = set(re.findall(r": ([\w/-]+\.md)$", text, flags=re.MULTILINE))
    assert menu == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert yaml.safe_load(text)["strict"] is True


def test_every_public_function_is_in_the_reference():
    named = re.findall(r"^::: symlab\.(\w+)$", (ROOT / "docs" / "reference" / "api.md").read_text(), flags=re.MULTILINE)
    assert set(named) == set(symlab.__all__) - {"UserError", "__version__"}
