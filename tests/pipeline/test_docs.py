"""Pages say what is: generated parts are fresh, links and pictures lead somewhere, the config in them is valid."""

import re

import pytest
import yaml

from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline.config import parse_config
from symlab.pipeline.docs import REFERENCE, ROOT, generate, pages, regenerate

PAGES = {str(path.relative_to(ROOT)): path for path in [*pages(), ROOT / "examples" / "align" / "README.md"]}


@pytest.mark.parametrize("name", PAGES)
def test_generated_parts_are_fresh(name):
    assert regenerate(PAGES[name].read_text()) == PAGES[name].read_text(), "run make docs"


@pytest.mark.parametrize("name", PAGES)
def test_links_and_pictures_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)#]+?)\)", PAGES[name].read_text())
    inner = [target for target in targets if not target.startswith("http")]
    assert [target for target in inner if not (PAGES[name].parent / target).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_exist(name):
    text = re.sub(r"```.*?```", "", PAGES[name].read_text(), flags=re.DOTALL)
    named = re.findall(r"`((?:workflow|tests|examples|profiles|docs|envs|results/reference)/[\w./-]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_readme_is_short_and_the_papers_have_pages():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    for paper in PAPERS:
        assert paper.link in (ROOT / "docs" / "papers" / f"{paper.slug}.md").read_text()


def test_every_kept_run_is_told_and_every_kept_figure_shown():
    text = "".join(path.read_text() for path in pages())
    for run in REFERENCE.iterdir():
        assert re.search(rf"generated: verdicts [\w-]+ {run.name} ", text)
        assert {path.name for path in run.iterdir() if path.suffix != ".png"} == {"claims.csv", "provenance.json"}
        assert [path for path in run.glob("*.png") if f"reference/{run.name}/{path.name}" not in text] == []


def test_the_example_config_is_valid():
    example = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "configuration.md").read_text(), re.DOTALL)[1]
    assert len(parse_config(yaml.safe_load(example)).studies["widths"].variants) == 4


@pytest.mark.parametrize("what", ["nothing", "verdicts neuron-identifiability", "verdicts nobody demo"])
def test_a_part_that_there_is_not_is_refused(what):
    with pytest.raises(UserError, match="Nothing is generated"):
        list(generate(what))


def test_what_is_around_generated_parts_is_kept():
    text = "a\n<!-- generated: results -->\nold\n<!-- end of generated -->\nb\n"
    fresh = regenerate(text)
    assert fresh.startswith("a\n<!-- generated: results -->\n| Paper |") and fresh.endswith(
        "<!-- end of generated -->\nb\n"
    )
    assert "old" not in fresh
