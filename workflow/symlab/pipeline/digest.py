"""A digest of the code that a job computes with, so that it runs again when that code changes, and only then."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
SCRIPTS = PACKAGE.parent / "scripts"
# Imported by jobs, but no part of what they compute: how files are written, errors told and devices chosen, and the
# registries, whose lines stand for modules that are named separately.
PLUMBING = {
    "artifacts",
    "device",
    "errors",
    "job",
    "locks",
    "records",
    "data/__init__",
    "networks/__init__",
    "figures/__init__",
    "__init__",
}


def library(script: str, *modules: str) -> str:
    """Digest (16 hex digits) of a workflow script and of the symlab modules that it imports, directly or not.

    Snakemake does not see a changed module that a script imports, and of the script only how new the file is; a rule
    passes this digest as a parameter. ``modules`` are those that a registry names, e.g. ``symlab.networks.mlp:MLP``,
    which no import statement shows. Comments, docstrings and layout do not count, so that explaining a thing better
    trains nothing anew.
    """
    entries = [_file(module.partition(":")[0]) for module in modules]
    found = {"": _code(SCRIPTS / script)}
    waiting = [path for path in (*_imports(SCRIPTS / script), *entries) if path is not None]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        if name in PLUMBING or name in found:
            continue
        found[name] = _code(path)
        waiting += _imports(path)
    text = "".join(f"{name}\x00{found[name]}\x00" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file(module: str) -> Path | None:
    """The file of a dotted module of symlab; None if there is no such module."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _imports(path: Path) -> list[Path]:
    """Files of the symlab modules that a file imports anywhere, its packages included."""
    modules = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # A name taken from a package may be a module of its own.
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = [_file(module) for module in modules if module.partition(".")[0] == "symlab"]
    return [file for file in files if file is not None]


@cache
def _code(path: Path) -> str:
    """The file's code without comments, docstrings and layout."""
    return ast.dump(_tree(path))


@cache
def _tree(path: Path) -> ast.Module:
    """The file's syntax tree without docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_string(statement)]
    return tree


def _is_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
