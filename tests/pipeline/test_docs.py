"""Pages say what is: generated parts are fresh, links and pictures lead somewhere, the config in them is valid."""

import json
import re

import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator

from symlab import __version__
from symlab.errors import UserError
from symlab.papers import PAPERS
from symlab.pipeline import docs, reference
from symlab.pipeline.config import parse_config
from symlab.pipeline.crate import FILE, crate_text
from symlab.pipeline.docs import REFERENCE, ROOT, generate, kept_figures, pages, regenerate
from symlab.pipeline.ledger import COLUMNS, NOT_RUN, group_claims
from symlab.pipeline.schema import schema_text

OTHERS = ("examples/align/README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "config/README.md")
PAGES = {str(path.relative_to(ROOT)): path for path in [*pages(), *map(ROOT.joinpath, OTHERS)]}


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
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    for paper in PAPERS:
        assert paper.link in (ROOT / "docs" / "explanation" / "papers" / f"{paper.slug}.md").read_text()


def test_the_papers_are_cited():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    cited = [(each["title"], each["url"]) for each in citation["references"]]
    assert cited == [(paper.title, paper.link) for paper in PAPERS]
    latest = re.search(r"^## ([\d.]+), ([\d-]+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == latest.groups()
    assert citation["version"] == __version__


def test_every_kept_run_is_told_and_every_kept_figure_shown():
    text = "".join(path.read_text() for path in pages())
    for run in REFERENCE.iterdir():
        assert re.search(rf"generated: verdicts [\w-]+ {run.name} ", text)
        pictures = {f"reference/{run.name}/{path.name}" for path in run.glob("*.svg")}
        assert {each for each in pictures if each not in text} == set()
        assert {
            each for each in pictures if f"({'../results/' + each})" not in PAGES["docs/gallery.md"].read_text()
        } == set()


def claims_of_studies(**claims):
    """A claim of each study, by its id; none is judged."""
    rows = [
        {"figure": "-".join(name.split("-")[:2]), "claim": name, "study": study, "verdict": NOT_RUN}
        for study, name in claims.items()
    ]
    return group_claims(pd.DataFrame(rows, columns=COLUMNS))


def test_a_kept_figure_is_of_the_study_in_its_name_or_of_the_one_with_claims_about_it(tmp_path):
    studies = {
        "digits-collapse-1": "digits",
        "my-own-identifiability-4": "my-own",
        # Its own claims come before those of another figure that are also about it.
        "collapse-2": "paper",
        "identifiability-4": "mlp",
        "mirror-1": "",
    }
    for name in studies:
        (tmp_path / f"{name}.svg").touch()
    names = {"digits": "collapse-1-falls", "paper": "collapse-2-control", "mlp": "identifiability-4a-barrier"}
    found = kept_figures(tmp_path, claims_of_studies(**names))
    assert {path.stem: study for path, (_, study) in found.items()} == studies
    assert {figure for figure, _ in found.values()} == {"collapse-1", "collapse-2", "identifiability-4", "mirror-1"}
    (tmp_path / "collapse-1-digits.svg").touch()
    with pytest.raises(UserError, match=r"collapse-1-digits\.svg is called after no figure: rename it"):
        kept_figures(tmp_path, [])


def test_a_kept_figure_that_several_studies_have_claims_of_says_whose_it_is(tmp_path):
    (tmp_path / "collapse-2.svg").touch()
    claims = claims_of_studies(paper="collapse-2-control", digits="collapse-2-gap")
    refused = (
        r"collapse-2\.svg does not say of which study it is \(digits, paper\): rename it to <study>-collapse-2\.svg"
    )
    with pytest.raises(UserError, match=refused):
        kept_figures(tmp_path, claims)


def test_every_preset_is_in_the_guide():
    text = (ROOT / "docs" / "how-to" / "studies.md").read_text()
    presets = [path.name for path in (ROOT / "workflow" / "presets").glob("*.yaml")]
    assert [name for name in presets if f"`{name}`" not in text] == []


# The whole configs that pages show.
CONFIGS = {
    f"{name}-{at}": yaml.safe_load(text)
    for name in ("docs/reference/configuration.md", "docs/tutorial/first-study.md")
    for at, text in enumerate(re.findall(r"```yaml\n(.*?)```", PAGES[name].read_text(), re.DOTALL))
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_configs_in_pages_are_valid(config):
    assert all(study.variants or study.settings for study in parse_config(config).studies.values())


@pytest.mark.parametrize("run", sorted(path.parent.name for path in REFERENCE.glob("*/provenance.json")))
def test_a_kept_run_has_a_record_of_its_files(run):
    record = REFERENCE / run / FILE
    assert record.read_text() == crate_text(record.parent), "run make docs"
    graph = {each["@id"]: each for each in json.loads(record.read_text())["@graph"]}
    assert graph[graph[FILE]["about"]["@id"]]["@type"] == "Dataset"
    refers = [each["@id"] for each in (*graph["./"]["hasPart"], *graph["#run"]["result"], graph["#run"]["instrument"])]
    assert set(refers) <= set(graph) and "claims.csv" in refers
    assert all((record.parent / name).exists() for name in refers if not name.startswith("#"))


def test_the_schema_of_a_config_is_fresh_and_takes_every_preset():
    assert docs.SCHEMA.read_text() == schema_text(), "run make docs"
    schema = Draft202012Validator(json.loads(schema_text()))
    for path in (ROOT / "config.yaml", *(ROOT / "workflow" / "presets").glob("*.yaml")):
        assert list(schema.iter_errors(yaml.safe_load(path.read_text()))) == [], path


@pytest.mark.parametrize(
    "change",
    [
        lambda study: study.update(netwrok={"name": "mlp"}),
        lambda study: study["network"].update(width=3),
        lambda study: study["recipe"].update(epochs="many"),
        lambda study: study["variants"]["w"]["scheme"].update(name="w_symmetric"),
        lambda study: study["figures"].append("identifiability-99"),
    ],
)
def test_the_schema_refuses_what_the_workflow_refuses(change):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    change(config["studies"]["digits"])
    with pytest.raises(UserError):
        parse_config(config)
    assert not Draft202012Validator(json.loads(schema_text())).is_valid(config)


@pytest.mark.parametrize("what", ["nothing", "found neuron-identifiability", "verdicts nobody demo", "owners demo"])
def test_a_part_that_there_is_not_is_refused(what):
    with pytest.raises(UserError, match="Nothing is generated"):
        list(generate(what))


def test_what_is_around_generated_parts_is_kept():
    text = "a\n<!-- generated: owners -->\nold\n<!-- end of generated -->\nb\n"
    fresh = regenerate(text)
    assert fresh.startswith("a\n<!-- generated: owners -->\n| Claims in the demo |") and fresh.endswith(
        "<!-- end of generated -->\nb\n"
    )
    assert "\nold\n" not in fresh


def test_minutes_are_summed_exactly(monkeypatch):
    """Ten times 0.3 s are 3 s, 0.05 min; added one by one they are a little less, which rounds to 0.0."""
    names = list("abcdefghij")
    monkeypatch.setattr(reference, "EXPERIMENTS", dict.fromkeys(names))
    assert reference._minutes(names, {name: {"seconds": 0.3} for name in names}) == "0.1"
