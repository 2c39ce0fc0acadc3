"""What a made-up run, wrong configs and planned jobs give is what golden/*.txt hold: every page, row and sentence.

As tests/kernel/cli/test_golden.py: it knows no answer, it notices that one is not what it was. Where they shall be
others:

    python -m tests.pipeline.test_golden --store [CASE ...]
    git diff tests/pipeline/golden
"""

import json
import re
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from symlab.artifacts import read_table
from symlab.errors import UserError
from symlab.pipeline import docs, provenance, report, site
from symlab.pipeline.config import parse_config
from symlab.pipeline.crate import crate_text
from symlab.pipeline.summary import announce, summarise

from ..kernel.golden import differences, once, short
from ..study.measured import measured
from . import made_run, planned
from .conftest import make_card
from .test_config import change

GOLDEN, PROMPT = Path(__file__).parent / "golden", "$ "
# Of what is judged again what the first judgement tells.
SAME = ["paper", "figure", "kind", "statement", "reason", "key", "scale", "spread", "error", "threshold", "unit"]
# Of a sentence that lists all that is known.
LONGEST = 240
# What is of a machine, a version or the page's looks.
MASKED = (
    (r"(<style>|<script>).*?(</style>|</script>)", r"\1\2"),
    (r"sha256-[^&']+", "sha256"),
    (r'<p class="small">symlab .*? products on the CPU: .*?</p>', "<p>versions</p>"),
    (r"(Commit of the workflow: ).*?<", r"\1...<"),
    (r' role="(cell|row|img|rowgroup|columnheader)"| data-heading="[^"]*"| style="flex-grow: \d+"| scope="col"', ""),
    (r"\d\d:\d\d:\d\d ", ""),
    (r"[0-9a-f]{64}", "sha"),
)


def masked(text, folder):
    for pattern, instead in ((re.escape(str(folder)), "."), *MASKED):
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return [line for line in text.splitlines() if not re.fullmatch(r"\s*|(</\w+>)+", line)]


def rows_of(ledger):
    """A ledger's rows, each a line with what is in it; a text that the row above has too is left out."""
    before = {}
    for row in ledger.astype(object).where(ledger.notna(), "").to_dict("records"):
        told = {key: short(value) if isinstance(value, float) else str(value) for key, value in row.items()}
        chosen = {key: text for key, text in told.items() if text or before.get(key)}
        yield " | ".join(f"{key}={text}" for key, text in chosen.items() if before.get(key) != text)
        before = told


def run(folder, patched):
    """A run from its tables to its page, what is told of it, and the same of kept runs."""

    def card(*given, **fields):
        return make_card(patched, *given, **fields)

    papers = made_run.papers_of(card)
    results = made_run.make(folder, papers, patched)
    yield f"{PROMPT}claims.csv"
    yield from rows_of(read_table(results / "claims.csv"))
    for path in sorted(results.glob("logs/**/*.log")):
        yield from (f"{PROMPT}{path.relative_to(results)}", *masked(path.read_text(), folder))
    for path in sorted(results.glob("small/figures/*.json")):
        yield from (f"{PROMPT}{path.name}", " ".join(path.read_text().split()))
        yield from path.with_suffix(".rst").read_text().splitlines()
    yield from (f"{PROMPT}config.yaml", *(results / "config.yaml").read_text().splitlines())
    page = masked((results / "report.html").read_text(), folder)
    yield from (f"{PROMPT}report.html", *page)
    yield from (" ".join(provenance.versions()), *made_run.machines(folder, patched))
    nothing = masked(report.write_page("", read_table(results / "claims.csv")[:0], {}, {}, {}, {}, results), folder)
    yield from (f"{PROMPT}report.html of nothing", *[line for line in nothing if line not in page])
    yield from (f"{PROMPT}summary", *masked(summarise(results / "claims.csv", results / "report.html"), folder))
    of_papers = [f"{kind} {paper.slug} demo" for kind in ("headline", "found", "verdicts") for paper in papers[:2]]
    for what in ("findings", "owners", "runs", "gallery", *of_papers, "found test-paper large"):
        yield from (f"{PROMPT}{what}", *docs.generate(what))
    yield from (f"{PROMPT}crate", *crate_text(docs.REFERENCE / "demo").splitlines())
    before = set()
    for more, ledger in made_run.again(folder, papers, patched):
        told = list(rows_of(ledger.drop(columns=SAME)))
        yield from (f"{PROMPT}rejudge {more}", *[row for row in told if row not in before])
        before.update(told)
    for path in made_run.with_a_fault(folder, card, patched):
        yield f"{PROMPT}{path.name}"
        yield from masked(path.read_text(), folder) if path.suffix == ".log" else rows_of(read_table(path))
    site.on_post_build({"site_dir": str(folder / "site")})
    # Neither .rst, which says what .json does, nor .svg, which the run has been given.
    for path in sorted((folder / "site").rglob("*.[!rs]*")):
        yield f"{PROMPT}{path.relative_to(folder / 'site')}"
        if path.suffix == ".json":
            yield " ".join(path.read_text().split())
        if path.suffix == ".html":
            page = masked(path.read_text(), folder)
            yield from [line for line in page if re.search(r'class="note">symlab|/papers/|<h4>|class="seen"', line)]
    yield from (f"{PROMPT}make docs", *made_run.docs_anew(folder, patched))
    yield from (f"{PROMPT}site", *map(str, made_run.on_site(folder, patched)))


def told_of(project):
    """What of a project differs from settings as they are written: names, specs, tables, jobs and words."""
    yield announce(project)
    yield json.dumps({name: source.spec() for name, source in project.datasets.items()})
    of_run = ("results", "data_dir", "device", "checkpoint_minutes", "points_per_job")
    yield f"{', '.join(f'{name} {getattr(project, name)}' for name in of_run)}, style {project.style.spec()}"
    for name, study in project.studies.items():
        yield f"{name}: {study.about()}; {study.scale()}; data {study.datasets()}; figures {study.figures}"
        yield f"  tables {study.tables()}, joined {len(study.joined_tables())}, blocks {study.blocks()}"
        for key, chosen in study.settings.items():
            specs = [each.spec() for each in chosen] if isinstance(chosen, list) else chosen.spec()
            yield f"  {key}: {json.dumps(specs)}"
        for experiment in study.experiments():
            points = study.points(experiment)
            yield f"  {experiment.key}: {len(points)} points, {points[0]} to {points[-1]}"
        yield f"  variants {', '.join(study.variants)}"
        for variant in [*study.variants.values()][-1:]:
            yield from (f"  {json.dumps(study.training_spec(variant.name, block))}" for block in study.blocks())
            columns = {name: value for name, value in variant.columns().items() if value is not None}
            yield f"  {variant.shape} of {[*study.shapes()]} {json.dumps(columns)}"


def configs(folder, patched):
    """Each line of a stored transcript is what is changed in the tiny preset, by dotted keys."""
    stored, seen = (GOLDEN / "configs.txt").read_text().splitlines(), set()
    for line in [each for each in stored if each.startswith(PROMPT)]:
        yield line
        try:
            told = "\n".join(told_of(parse_config(change(yaml.safe_load(line.removeprefix(PROMPT)))))).splitlines()
        except UserError as error:
            told = [str(error)[:LONGEST]]
        yield from [each for each in told if each not in seen]
        seen.update(told)


CASES = {"run": run, "configs": configs, "jobs": planned.jobs, "study": measured}


def transcript(case, folder, patched):
    lines = "\n".join(CASES[case](folder, patched)).splitlines()
    return "\n".join(once([line.rstrip() for line in lines], PROMPT)) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_what_is_given_is_what_it_was(case, tmp_path, monkeypatch):
    here, there = transcript(case, tmp_path, monkeypatch), (GOLDEN / f"{case}.txt").read_text()
    found = list(differences(here, there, PROMPT, rtol=1e-4, atol=1e-9))
    assert not found, "\n".join([f"{len(found)} lines of {case} are not what they were:", *found[:5]])


def test_no_config_is_lost():
    """They are read from the transcript itself, which does not miss one."""
    assert f"\n{(GOLDEN / 'configs.txt').read_text()}".count(f"\n{PROMPT}") >= 112


if __name__ == "__main__" and sys.argv[1:2] == ["--store"]:
    for case in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patched:
            (GOLDEN / f"{case}.txt").write_text(transcript(case, Path(temporary), patched))
