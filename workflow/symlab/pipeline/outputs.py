"""Reading what jobs are given and writing what measures, experiments and tables give, by the files' suffixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symlab.artifacts import read_table, read_tensors, write_table, write_tensors
from symlab.errors import UserError
from symlab.measures import is_table

if TYPE_CHECKING:
    import pandas as pd


def read_output(path: str | Path) -> Any:
    """A table, or the tensors and header of a file of tensors, whose kind is the name of what they are."""
    path = Path(path)
    if is_table(path.name):
        # Measures read tensors alone, and their jobs do not read the papers' cards.
        from symlab.pipeline.registry import TEXT_COLUMNS

        return read_table(path, TEXT_COLUMNS)
    # models/0.safetensors, experiments/<name>.safetensors
    return read_tensors(path, path.stem if path.parent.name == "experiments" else path.parent.name)


def write_outputs(paths: Mapping[str, str], outputs: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write what a function gives, each under its name; ``header`` says in tensor files what they are made from."""
    for name, path in paths.items():
        if is_table(name):
            write_table(path, outputs[name])
        else:
            found = outputs[name]
            tensors, own = found if isinstance(found, tuple) else (found, {})
            write_tensors(path, tensors, Path(name).stem, {**header, **own})


def join_parts(study: str, parts: Iterable[str], of_part: Iterable[str], variants: Mapping[str, Any]) -> pd.DataFrame:
    """The parts of one table over variants and blocks, with the columns that say which variant a row is about.

    Args:
        of_part: the variant of each part.
        variants: those columns by variant.
    """
    import pandas as pd

    tables = [read_output(path).assign(variant=name) for path, name in zip(parts, of_part, strict=True)]
    if shared := {"study", *next(iter(variants.values()))} & set(tables[0]):
        raise UserError(f"A measure's table has a column {min(shared)!r}, which describes its variant; rename it.")
    described = pd.DataFrame([{"study": study, "variant": name, **columns} for name, columns in variants.items()])
    return described.merge(pd.concat(tables, ignore_index=True), on="variant", validate="one_to_many")


def with_study(table: pd.DataFrame, study: str) -> pd.DataFrame:
    """The table with the study's name in its first column."""
    if "study" not in table:
        table.insert(0, "study", study)
    return table
