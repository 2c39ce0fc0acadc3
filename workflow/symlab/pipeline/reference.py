"""What the reference says of configs, figures and commands, read from settings classes, cards and parsers."""

import contextlib
import inspect
import io
import json
import os
from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import yaml

from symlab.cli import COMMANDS
from symlab.cli import main as symlab
from symlab.data import SOURCES
from symlab.networks import INITS, NETWORKS
from symlab.papers import PAPERS
from symlab.pipeline.config import Top, Trained, VariantKeys
from symlab.pipeline.registry import EXPERIMENTS, MEASURES, maker_of, switches
from symlab.plotting.settings import Style
from symlab.schemes import SCHEMES
from symlab.settings import Settings, kinds_by_name
from symlab.study.card import drawings_of
from symlab.training.settings import Recipe

KINDS_OF_NUMBERS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def escape(text: str) -> str:
    """A text as a cell of a Markdown table."""
    return " ".join(text.replace("<", "&lt;").replace("|", "\\|").split())


def command_help() -> Iterator[str]:
    """What each command says of itself when asked for help."""
    for command in COMMANDS:
        said = io.StringIO()
        wide = mock.patch.dict(os.environ, {"COLUMNS": "110"})
        with wide, contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            symlab([command, "--help"])
        yield from (f"## symlab {command}", "", "```text", said.getvalue().strip(), "```", "")


def figure_table(presets: Path, reference: Path) -> Iterator[str]:
    """A row a figure: its file, what it shows, the keys that a study needs for it, and which configs draw it."""
    stages = json.loads((reference / "demo" / "provenance.json").read_text())["stages"]
    configs = [presets.parents[1] / "config.yaml", *sorted(presets.glob("*.yaml"))]
    drawn: dict[str, list[str]] = {}
    for path in configs:
        for study in yaml.safe_load(path.read_text())["studies"].values():
            for figure in study.get("figures", []):
                drawn.setdefault(figure, []).append("the demo" if path.name == "config.yaml" else path.stem)
    yield "| Figure | File | Shows | Needs | Minutes | Drawn by |"
    yield "|---|---|---|---|---|---|"
    for paper in PAPERS:
        for figure in paper.figures:
            keys = list(dict.fromkeys(key for table in figure.tables for key in switches(table)))
            needs = ", ".join(f"`{key}`" for key in keys) or "`variants` alone"
            minutes = _minutes(keys, stages) if "the demo" in drawn.get(figure.id, []) else ""
            by = ", ".join(dict.fromkeys(drawn.get(figure.id, ["no preset"])))
            shown = escape(drawings_of(figure.module)[figure.id].title)
            file = figure.module.removeprefix("symlab.papers.").replace(".", "/") + ".py"
            yield f"| `{figure.id}` | `{file}` | {shown} | {needs} | {minutes} | {by} |"


def _minutes(keys: Sequence[str], stages: dict[str, Any]) -> str:
    """How many minutes of a core the demo spent on all that is behind the keys."""
    asked = [measure for measure in MEASURES.values() if measure.key in keys]
    names = {key for key in keys if key in EXPERIMENTS}
    while asked:
        measure = asked.pop()
        names |= {measure.name, "data", "train"}
        asked += [maker_of(output) for output in (*measure.needs, *measure.needs_if)]
    # Exactly, for the order of a set is another in each process.
    return f"{fsum(stages[name]['seconds'] for name in names if name in stages) / 60:.1f}"


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
        yield from ("", escape(inspect.getdoc(kind) or ""))
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
        yield f"| `{name}` | {escape(takes)} | {default} | {escape(field.description or '')} |"


def _in_yaml(kind: type[Settings], name: str) -> str:
    default = kind.model_fields[name].get_default(call_default_factory=True)
    plain = default.spec() if isinstance(default, Settings) else default
    return (
        yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=1000)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


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
