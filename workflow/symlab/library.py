"""A digest of symlab's own code, so that a job runs again when the modules it uses change, and only then."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
# What every job uses, whatever its stage.
COMMON = ("artifacts", "errors", "job", "seeds")


def library(*names: str) -> str:
    """Digest (16 hex digits) of the named modules and packages of symlab and of those that every job uses.

    Snakemake sees a changed script but not a changed module that the script imports; a rule passes this digest as a
    parameter. Comments, docstrings and layout do not count, so that explaining a thing better trains nothing anew.
    """
    digest = hashlib.sha256()
    for path in sorted({path for name in (*names, *COMMON) for path in _files(name)}):
        digest.update(f"{path.relative_to(PACKAGE)}\x00{_code(path)}\x00".encode())
    return digest.hexdigest()[:16]


def _files(name: str) -> list[Path]:
    folder = PACKAGE / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


@cache
def _code(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:]
    return ast.unparse(tree)
