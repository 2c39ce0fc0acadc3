"""The JSON schema of a config, from the settings classes, for editors: config/schema.json (``make docs``)."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from symlab.data import SOURCES
from symlab.networks import INITS, NETWORKS
from symlab.pipeline.config import STUDY, Top, Trained, VariantKeys
from symlab.pipeline.registry import FIGURES
from symlab.schemes import SCHEMES
from symlab.settings import Settings
from symlab.training.settings import Recipe

Schema = dict[str, Any]
SWEEP = {"type": "object", "description": "Lists of values by dotted keys; one of it is made for each combination."}


def config_schema() -> Schema:
    """Keys, types, bounds and descriptions; what a sweep or a study may supply is not asked of a single block."""
    kinds: list[type[Settings]] = [*SOURCES, *NETWORKS, *INITS, *SCHEMES, Recipe, STUDY, Top, Trained, VariantKeys]
    references, whole = models_json_schema([(kind, "validation") for kind in kinds], title="A config of symlab")
    schemas = {kind: references[kind, "validation"] for kind in kinds}
    definitions: dict[str, Schema] = whole["$defs"]

    def definition(kind: type[Settings]) -> Schema:
        return definitions[schemas[kind]["$ref"].rpartition("/")[2]]

    def hold(named: Schema, block: Schema) -> None:
        """Let a mapping from names to blocks hold blocks of a kind."""
        named["patternProperties"] = dict.fromkeys(named["patternProperties"], block)

    def one_of(of: Sequence[type[Settings]]) -> Schema:
        return {"anyOf": [schemas[kind] for kind in of]}

    for source in SOURCES:
        definition(source)["properties"]["sweep"] = SWEEP
    variant, study, top = definition(VariantKeys), definition(STUDY), definition(Top)
    variant["properties"] |= {"scheme": one_of(SCHEMES), "init": one_of(INITS), "sweep": SWEEP}
    keys = definition(Trained)["properties"]
    keys |= {"network": one_of(NETWORKS), "init": one_of(INITS), "recipe": schemas[Recipe]}
    hold(keys["variants"], schemas[VariantKeys])
    study["properties"] |= keys | {"figures": {"type": "array", "items": {"enum": list(FIGURES)}}}
    hold(top["properties"]["datasets"], one_of(SOURCES))
    hold(top["properties"]["studies"], schemas[STUDY])
    for each in definitions.values():
        _soften(each)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions, **schemas[Top]}


def _soften(schema: Schema) -> None:
    """Ask for no key but the one that names a kind, and take one block where a list of them is allowed."""
    constants = [name for name, value in schema.get("properties", {}).items() if "const" in value]
    if set(schema.get("required", [])) - set(constants):
        schema["required"] = [name for name in schema["required"] if name in constants]
    for value in schema.get("properties", {}).values():
        for choice in list(value.get("anyOf", [])):
            if choice.get("type") == "array" and "$ref" in choice.get("items", {}):
                value["anyOf"].append(choice["items"])


def schema_text() -> str:
    """The schema as its file holds it."""
    return json.dumps(config_schema(), indent=1, ensure_ascii=False) + "\n"
