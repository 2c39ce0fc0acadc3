"""The generated parts of README.md and docs/: ``make docs`` writes them anew, and a test fails where they drifted.

A part stands between ``<!-- generated: <what> -->`` and ``<!-- end of generated -->``; what is around it is by hand.
What there is: ``results`` (a row a paper), ``verdicts <paper> <run>`` (a table from results/reference) and ``settings``
(every key of a config).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import yaml

from symlab.artifacts import read_table
from symlab.data import SOURCES
from symlab.errors import UserError
from symlab.networks import INITS, NETWORKS
from symlab.papers import PAPERS
from symlab.papers.card import Paper
from symlab.pipeline.config import Top, Trained, VariantKeys
from symlab.pipeline.ledger import DISAGREES, FAILED, NOT_RUN, Judged, count_verdicts, describe_counts, group_claims
from symlab.pipeline.registry import EXPERIMENTS, MEASURES
from symlab.plotting.settings import Style
from symlab.schemes import SCHEMES
from symlab.settings import Settings, kinds_by_name
from symlab.training.settings import Recipe

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "results" / "reference"
PART = re.compile(r"(<!-- generated: ([\w -]+?) -->\n).*?(<!-- end of generated -->)", re.DOTALL)
KINDS_OF_NUMBERS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def pages() -> list[Path]:
    """The files that have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def regenerate(text: str) -> str:
    """The page with its generated parts as they should be.

    Raises:
        UserError: a part asks for what cannot be generated.
    """
    return PART.sub(lambda match: match[1] + "\n".join(generate(match[2])).strip("\n") + "\n" + match[3], text)


def generate(what: str) -> Iterator[str]:
    """Lines of Markdown of one part.

    Raises:
        UserError: there is no such part, paper or run.
    """
    kind, *arguments = what.split()
    if kind == "results":
        return results_table()
    if kind == "settings":
        return settings_tables()
    papers = {paper.slug: paper for paper in PAPERS}
    if kind != "verdicts" or len(arguments) != 2 or arguments[0] not in papers:
        raise UserError(f"Nothing is generated for {what!r}: give results, settings, or verdicts <paper> <run>.")
    return verdict_table(papers[arguments[0]], arguments[1])


def results_table() -> Iterator[str]:
    """A row a paper: the verdicts of the demo and of the larger runs that are kept."""
    provenance = json.loads((REFERENCE / "demo" / "provenance.json").read_text())
    yield "| Paper | `make demo` | kept runs at a larger scale |"
    yield "|---|---|---|"
    larger = sorted(folder.name for folder in REFERENCE.iterdir() if folder.name != "demo")
    for paper in PAPERS:
        kept = [f"{run}: {counts}" for run in larger if (counts := _counts(paper, run))]
        link = f"[{paper.short}](docs/papers/{paper.slug}.md), *{paper.title}*"
        yield f"| {link} | {_counts(paper, 'demo', True)} | {'; '.join(kept)} |"
    yield ""
    yield f"Demo of {provenance['date']}: {provenance['wall_time']}, {provenance['machine']}."


def _counts(paper: Paper, run: str, not_run: bool = False) -> str:
    """A run's verdicts on a paper in words; empty if it judged none of its claims."""
    ledger = _ledger_of(paper, run)
    if (ledger["verdict"] == NOT_RUN).all():
        return ""
    told = describe_counts(count_verdicts(ledger))
    return told if not_run else told.rpartition(", ")[0]


def _ledger_of(paper: Paper, run: str) -> pd.DataFrame:
    ledger = read_table(REFERENCE / run / "claims.csv")
    return ledger[ledger["paper"] == paper.slug]


def verdict_table(paper: Paper, run: str) -> Iterator[str]:
    """Counts, then a row a judged claim and study in the order of the figures, then what was not run."""
    ledger = _ledger_of(paper, run)
    provenance = json.loads((REFERENCE / run / "provenance.json").read_text())
    yield f"`{provenance['command']}`, {provenance['date']}: {provenance['wall_time']}, {provenance['machine']}."
    yield f"{describe_counts(count_verdicts(ledger))}; one verdict a case (a variant, a layer, a k)."
    yield ""
    yield "| Figure | Study | Claim | Measured | Threshold | Verdict |"
    yield "|---|---|---|---|---|---|"
    order = list(dict.fromkeys(ledger["claim"]))
    claims = sorted(group_claims(ledger), key=lambda claim: order.index(claim.claim))
    judged = [claim for claim in claims if claim.verdict != NOT_RUN]
    for claim in judged:
        cells = (claim.study, claim.headline, claim.range, claim.threshold, _verdict_of(claim))
        yield f"| {paper.number(claim.figure)} | {' | '.join(map(_escape, cells))} |"
    drawn = {claim.figure for claim in judged}
    missing = dict.fromkeys(paper.number(claim.figure) for claim in claims if claim.figure not in drawn)
    if missing:
        yield ""
        yield f"Without a verdict in this run: {', '.join(missing)}."


def _verdict_of(claim: Judged) -> str:
    verdict = f"**{claim.verdict}**" if claim.verdict in (FAILED, DISAGREES) else claim.verdict
    return verdict + (f" in {claim.against} of {len(claim.cases)}" if 0 < claim.against < len(claim.cases) else "")


def _escape(text: str) -> str:
    return " ".join(text.replace("<", "&lt;").replace("|", "\\|").split())


def settings_tables() -> Iterator[str]:
    """Every key of a config: the top level, studies, data sets, networks, schemes, recipes, measures, experiments."""
    yield from _section("The top level", [("", Top), ("style", Style)])
    yield from _section("Data sets", _named(SOURCES, "source"), "source")
    yield from _section("A study that trains networks", [("", Trained), ("variants.<name>", VariantKeys)])
    yield from _section("network", _named(NETWORKS), "name")
    yield from _section("scheme", _named(SCHEMES), "name")
    yield from _section("init", _named(INITS), "name")
    yield from _section("recipe", [("", Recipe), *_nested(Recipe)], "name")
    measured = {measure.key: measure.settings for measure in MEASURES.values()}
    yield from _section("Measures of the trained networks", measured.items())
    asked = [(key, experiment.settings) for key, experiment in EXPERIMENTS.items()]
    yield from _section("Experiments, which need no trained networks", asked)


def _named(kinds: Sequence[type[Settings]], key: str = "name") -> list[tuple[str, type[Settings]]]:
    return [(f"{key}: {name}", kind) for name, kind in kinds_by_name(kinds, key).items()]


def _nested(kind: type[Settings]) -> Iterator[tuple[str, type[Settings]]]:
    """The kinds of settings that stand under the keys of others, each with its key and, of several, its name."""
    for key, field in kind.model_fields.items():
        inner = [each for each in _leaves(field.annotation) if isinstance(each, type) and issubclass(each, Settings)]
        for each in inner:
            name = each.model_fields.get("name")
            yield key if name is None else f"{key}.name: {get_args(name.annotation)[0]}", each


def _leaves(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for each in inner:
        yield from _leaves(each)


def _section(title: str, kinds: Any, told_apart_by: str = "") -> Iterator[str]:
    yield from ("", f"## {title}")
    shown: dict[tuple[str, ...], str] = {}
    for name, kind in kinds:
        if name:
            yield from ("", f"### `{name}`")
        yield from ("", _escape(inspect.getdoc(kind) or ""))
        table = tuple(settings_table(kind, told_apart_by))
        yield from ("", f"Keys as of `{shown[table]}`.") if table in shown and table else table
        shown.setdefault(table, name)


def settings_table(kind: type[Settings], without: str = "") -> Iterator[str]:
    """A row a key of one kind of settings: what it takes, its default, what it means."""
    schema = kind.model_json_schema()
    fields = {name: field for name, field in kind.model_fields.items() if name != without}
    if not fields:
        return
    yield from ("", "| key | takes | default | |", "|---|---|---|---|")
    for name, field in fields.items():
        takes = _describe(schema["properties"][name], schema.get("$defs", {}))
        default = "required" if field.is_required() else f"`{_in_yaml(kind, name)}`"
        yield f"| `{name}` | {_escape(takes)} | {default} | {_escape(field.description or '')} |"


def _in_yaml(kind: type[Settings], name: str) -> str:
    default = kind.model_fields[name].get_default(call_default_factory=True)
    plain = default.spec() if isinstance(default, Settings) else default
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")


def _describe(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        of = defs[schema["$ref"].rpartition("/")[2]]
        return "keys as below" if of.get("type") == "object" else _describe(of, defs)
    if "oneOf" in schema:
        return "one of several kinds, see below"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_describe(each, defs) for each in schema["anyOf"]))
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_describe(schema.get('items', {}), defs)}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {_describe(values, defs)}" if isinstance(values, dict) else "keys"
    signs = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "multipleOf": "multiple of",
    }
    bounds = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
    kind = schema.get("type", "anything")
    return " ".join([KINDS_OF_NUMBERS.get(kind, kind), ", ".join(bounds)]).strip()


def main() -> None:
    """Write the generated parts anew and name the files that changed."""
    for path in pages():
        text = path.read_text()
        if (fresh := regenerate(text)) != text:
            path.write_text(fresh)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
