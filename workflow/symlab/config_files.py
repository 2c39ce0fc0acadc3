"""Config files read a second time, strictly, for what Snakemake lets pass: keys that come twice, and code.

Snakemake has read the files when this module does. It takes the last of two equal keys without a word, and evaluates
Python in a YAML file that asks for it (yte); both end the run here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from symlab.errors import UserError

DEEPEST = 50
MOST_VALUES = 100_000


def check_files(paths: Iterable[str | Path]) -> None:
    """Refuse config files (YAML or JSON) that are not plain data with each key once.

    Raises:
        UserError: names the file and, where there is one, the line.
    """
    for path in paths:
        _check_file(Path(path))


def check_mapping(config: Any) -> None:
    """Refuse a config that is no mapping, or that is too large or too deep, as aliases in YAML can make a small file.

    Raises:
        UserError: says which.
    """
    if not isinstance(config, Mapping):
        raise UserError(
            f"Config: it must be a mapping of keys to values, not a {type(config).__name__}; start it like config.yaml."
        )
    if _count(config, 0, {}) > MOST_VALUES:
        raise UserError(f"Config: it holds more than {MOST_VALUES} values (aliases counted where they are used).")


def _count(value: Any, depth: int, known: dict[int, int]) -> int:
    """Values within a value, shared ones as often as they are used."""
    if depth > DEEPEST:
        raise UserError(f"Config: it is nested more than {DEEPEST} levels deep, or an alias contains itself.")
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, Mapping):
        inner: Iterable[Any] = value.values()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inner = value
    else:
        return 1
    known[id(value)] = 1 + sum(_count(item, depth + 1, known) for item in inner)
    return known[id(value)]


def _check_file(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"Config: {path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"Config: {path} cannot be read ({error.strerror}); name another config file.") from None
    try:
        # As Snakemake does: JSON first, for a tab is white space there.
        content = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except ValueError:
        content = _read_yaml(text, path)
    except RecursionError:
        raise UserError(f"Config: {path} is nested too deep; flatten it.") from None
    if not isinstance(content, dict):
        raise UserError(
            f"Config: {path} is no mapping of keys to values but a {type(content).__name__}; start it like config.yaml."
        )
    if "__use_yte__" in content:
        raise UserError(f"Config: {path} asks for Python in YAML by __use_yte__; write the values out.")


def _read_yaml(text: str, path: Path) -> Any:
    try:
        return _Strict(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        problem = " ".join((error.problem or error.context or "it cannot be parsed").split())
        raise UserError(f"Config: {path}{line}: {problem}; a config is plain YAML, mend that line.") from None
    except yaml.YAMLError as error:
        raise UserError(
            f"Config: {path} is not YAML ({str(error).partition(chr(10))[0]}); save it as plain text."
        ) from None
    except RecursionError:
        raise UserError(f"Config: {path} is nested too deep; flatten it.") from None
    except ValueError as error:
        raise UserError(f"Config: {path} holds a value that cannot be read ({error}); mend it.") from None


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"Config: {path} gives the key {name!r} twice in one place; keep one of the two.")
    return dict(pairs)


class _Strict(yaml.SafeLoader):
    """Plain data only, and no key twice in a mapping (one that a merge brings may be given again)."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (known := (key.tag, key.value)) in lines:
                problem = f"the key {key.value!r} comes twice, first in line {lines[known]}"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            lines[known] = key.start_mark.line + 1
        return node
