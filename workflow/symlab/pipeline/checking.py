"""A block of the config as settings, or one sentence that says what is wrong: key, value and what is allowed."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from symlab.errors import UserError
from symlab.settings import Kind, kinds_by_name


def check(
    kind: type[Kind], block: Any, where: str, elsewhere: Mapping[str, str] | None = None, also: Collection[str] = ()
) -> Kind:
    """The settings that a block of the config gives.

    Args:
        elsewhere: of keys that stand in another block of the config, in which.
        also: keys that may stand in the block too and were taken out of it.

    Raises:
        UserError: a key that is not known, else the first thing that is wrong with it.
    """
    try:
        return kind.model_validate(block)
    except ValidationError as error:
        raise UserError(_sentence(error, block, where, elsewhere or {}, also)) from None


def check_one_of(
    kinds: Sequence[type[Kind]],
    block: Any,
    where: str,
    key: str = "name",
    elsewhere: Mapping[str, str] | None = None,
    also: Collection[str] = (),
) -> Kind:
    """As ``check``, of the one of several kinds that the block names.

    Raises:
        UserError: as for ``check``, or there is no kind of that name.
    """
    by_name = kinds_by_name(kinds, key)
    if not isinstance(block, dict) or key not in block:
        known = dict.fromkeys(field for kind in kinds for field in kind.model_fields)
        refuse_unknown(block if isinstance(block, dict) else {}, [*known, *also], where)
        raise UserError(f"{where} lacks {key}; it is one of {', '.join(by_name)}.")
    if block[key] not in by_name:
        place = (elsewhere or {}).get(key, where)
        raise UserError(f"{place}.{key} = {block[key]!r} is not known; it is one of {', '.join(by_name)}.")
    return check(by_name[block[key]], block, where, elsewhere, also)


def _sentence(
    error: ValidationError, block: Any, where: str, elsewhere: Mapping[str, str], also: Collection[str]
) -> str:
    errors = error.errors()
    first = next((each for each in errors if each["type"] == "unknown_key"), errors[0])
    path = _path(block, first["loc"], missing=first["type"] == "missing")
    key = first["ctx"]["key"] if first["type"] == "unknown_key" else None
    above = elsewhere.get(str([*path, key][0]), where)
    place = ".".join(filter(None, [above, *path])) or "the top level"
    if key is not None:
        return _unknown(str(key), [*first["ctx"]["known"], *(() if path else also)], ".".join([above, *path]))
    if first["type"] == "missing":
        return f"{place} is missing; add it."
    if first["type"] == "union_tag_invalid":
        which = first["ctx"]["discriminator"].strip("'")
        return f"{place}.{which} = {first['ctx']['tag']!r} is not known; it is one of {first['ctx']['expected_tags']}."
    if first["type"] == "union_tag_not_found":
        which = first["ctx"]["discriminator"].strip("'")
        misspelt = difflib.get_close_matches(which, map(str, first["input"]), 1)
        return _unknown(misspelt[0], [which], place) if misspelt else f"{place}.{which} is missing; add it."
    reason = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    value = first["input"]
    if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?e[+-]?\d+", value):
        return f"{place} = {value!r} is text in YAML; write the number as {float(value):g}."
    shown = f" = {value!r}" if not isinstance(value, dict) else ""
    # Words begin small within a sentence; M and m, of one letter, are two sizes.
    reason = reason[0].lower() + reason[1:] if reason[1:2].islower() else reason
    return f"{place}{shown} is not allowed: {reason.rstrip('.')}."


def _path(block: Any, loc: Iterable[int | str], missing: bool) -> list[str]:
    """The keys that lead to a place in a block; pydantic also lists which of several kinds a block was taken for."""
    *above, last = [*loc] or [""]
    path = []
    for part in [*above, *([] if missing else [last])]:
        inside = range(len(block)) if isinstance(block, list) else block
        if isinstance(block, dict | list) and part in inside:
            block = block[part]  # type: ignore[index]
            path.append(str(part))
    return [*path, str(last)] if missing else path


def refuse_unknown(block: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse a block with a key that is not known.

    Raises:
        UserError: names the key and the nearest known one.
    """
    for key in block:
        if key not in known:
            raise UserError(_unknown(str(key), known, where))


def _unknown(key: str, known: Collection[str], where: str) -> str:
    place = f"{where}.{key}".removeprefix(".")
    if nearest := difflib.get_close_matches(key, known, 1):
        return f"unknown key {place}; the nearest known key is {nearest[0]}, of {', '.join(known)}."
    return f"unknown key {place}; known keys are {', '.join(known)}."
