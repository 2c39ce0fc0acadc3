"""The generated parts of README.md and docs/: ``make docs`` writes them anew, and a test fails where they drifted.

A part stands between ``<!-- generated: <what> -->`` and ``<!-- end of generated -->``; what is around it is by hand.
What there is: ``results`` (a row a paper), ``found <paper> <run>``, ``verdicts <paper> <run>`` (sentences and a table
of a kept run) and ``settings`` (every key of a config). A run is kept by copying its claims.csv to
results/reference/<run>, beside a provenance.json.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml

from symlab.artifacts import read_table
from symlab.data import SOURCES
from symlab.errors import UserError
from symlab.networks import INITS, NETWORKS
from symlab.papers import PAPERS
from symlab.pipeline.config import Top, Trained, VariantKeys
from symlab.pipeline.ledger import (
    FAILED,
    FINDING,
    HELD,
    NOT_RUN,
    ONE_UNIT,
    OWNERS,
    UNDECIDED,
    Judged,
    count_findings,
    describe_counts,
    group_claims,
    tell,
)
from symlab.pipeline.registry import EXPERIMENTS, MEASURES
from symlab.plotting.settings import Style
from symlab.schemes import SCHEMES
from symlab.settings import Settings, kinds_by_name
from symlab.study.card import Paper
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
    parts = {"found": found_sentences, "verdicts": verdict_table}
    if kind not in parts or len(arguments) != 2 or arguments[0] not in papers:
        raise UserError(
            f"Nothing is generated for {what!r}: give results, settings, or found or verdicts <paper> <run>."
        )
    return parts[kind](papers[arguments[0]], arguments[1])


def results_table() -> Iterator[str]:
    """A row a paper: how many of its own findings have which verdict in the demo, then others', and at what scale."""
    others = {owner: name for owner, name in OWNERS.items() if owner != "paper"}
    names = [
        "Paper",
        HELD,
        FAILED,
        UNDECIDED,
        ONE_UNIT,
        NOT_RUN,
        *(f"held, {each}" for each in others.values()),
    ]
    yield f"| {' | '.join(names)} | Scale |"
    yield "|---" * (len(names) + 1) + "|"
    for paper in PAPERS:
        claims = _claims_of(paper, "demo")
        counts = count_findings(claims, owners=("paper",))
        numbers = [str(counts[verdict]) for verdict in (HELD, FAILED, UNDECIDED, ONE_UNIT, NOT_RUN)]
        numbers += [_held_of_judged(claims, owner) for owner in others]
        link = f"[{paper.short}](docs/papers/{paper.slug}.md), *{paper.title}*"
        yield f"| {link} | {' | '.join(numbers)} | {_escape(_scales(claims))} |"
    yield ""
    yield f"`make demo`, {_provenance('demo')}."


def found_sentences(paper: Paper, run: str) -> Iterator[str]:
    """What a run found, in sentences, and its scale beside the paper's."""
    claims = _claims_of(paper, run)
    for study in dict.fromkeys(claim.study for claim in claims if claim.study):
        for sentence in tell(paper.found, [claim for claim in claims if claim.study == study]):
            yield f"- {sentence}"
    yield ""
    yield f"Here: {_scales(claims)}." + (f" The paper: {paper.scale}." if paper.scale else "")


def verdict_table(paper: Paper, run: str) -> Iterator[str]:
    """Counts, then a row a judged claim and study in the order of the figures, then what was not run."""
    claims = _claims_of(paper, run)
    command = json.loads((REFERENCE / run / "provenance.json").read_text())["command"]
    others = [claim for claim in claims if claim.kind != FINDING and claim.verdict != NOT_RUN]
    held = sum(claim.verdict == HELD for claim in others)
    yield f"`{command}`, {_provenance(run)}. Scale: {_scales(claims)}."
    told = [
        f"{name}: {describe_counts(counts)}"
        for owner, name in OWNERS.items()
        if any((counts := count_findings(claims, owners=(owner,))).values())
    ]
    told += [f"theorems and checks: {held} of {len(others)} held"] if others else []
    yield f"Findings, {'; '.join(told)}."
    yield ""
    yield "| Figure | Study | Claim | Whose | Measured | Threshold | Verdict |"
    yield "|---|---|---|---|---|---|---|"
    order = list(dict.fromkeys(claim.claim for claim in claims))
    judged = [claim for claim in claims if claim.verdict != NOT_RUN]
    for claim in sorted(judged, key=lambda claim: order.index(claim.claim)):
        threshold = f"{claim.threshold} ({claim.origin})"
        cells = (claim.study, claim.statement, claim.owner, claim.range, threshold, _verdict_of(claim))
        yield f"| {paper.number(claim.figure)} | {' | '.join(map(_escape, cells))} |"
    drawn = {claim.figure for claim in judged}
    missing = dict.fromkeys(paper.number(claim.figure) for claim in claims if claim.figure not in drawn)
    if missing:
        yield ""
        yield f"Without a verdict in this run: {', '.join(missing)}."


def _claims_of(paper: Paper, run: str) -> list[Judged]:
    """The paper's claims in a kept run, in the ledger's order."""
    ledger = read_table(REFERENCE / run / "claims.csv")
    order = {name: at for at, name in enumerate(dict.fromkeys(ledger["claim"]))}
    claims = group_claims(ledger[ledger["paper"] == paper.slug])
    return sorted(claims, key=lambda claim: order[claim.claim])


def _provenance(run: str) -> str:
    kept = json.loads((REFERENCE / run / "provenance.json").read_text())
    return f"{kept['date']}: {kept['wall_time']}, {kept['machine']}"


def _scales(claims: Sequence[Judged]) -> str:
    """At which scale each study ran."""
    scales = {claim.study: claim.scale for claim in claims if claim.verdict != NOT_RUN}
    return "; ".join(f"{study}: {scale}" for study, scale in scales.items())


def _held_of_judged(claims: Sequence[Judged], owner: str) -> str:
    """How many of an owner's findings held, of how many that were run: 3 of 5; empty where none was."""
    counts = count_findings(claims, owners=(owner,))
    judged = sum(n for verdict, n in counts.items() if verdict != NOT_RUN)
    return f"{counts[HELD]} of {judged}" if judged else ""


def _verdict_of(claim: Judged) -> str:
    verdict = f"**{claim.verdict}**" if claim.verdict == FAILED else claim.verdict
    verdict += f" in {claim.against} of {len(claim.cases)}" if 0 < claim.against < len(claim.cases) else ""
    return verdict if claim.kind == FINDING else f"{verdict} ({claim.kind})"


def _escape(text: str) -> str:
    return " ".join(text.replace("<", "&lt;").replace("|", "\\|").split())


def settings_tables() -> Iterator[str]:
    """Every key of a config: the top level, studies, data sets, networks, schemes, recipes, measures, experiments."""
    yield from _section("The top level", [("", Top), ("style", Style)])
    yield from _section("Data sets", _named(SOURCES, "source"), "source")
    yield from _section("A study that trains networks", [("", Trained), ("variants.<name>", VariantKeys)])
    yield from _section("network", _named(NETWORKS), "name")
    of_schemes = ((f"scheme.{key}", each) for kind in SCHEMES for key, each in _nested(kind))
    yield from _section("scheme", [*_named(SCHEMES), *of_schemes], "name")
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
