"""Digests of the code that a job computes with, so that it runs again when that code changes, and only then.

Snakemake does not see a changed module that a script imports. Rules pass these digests as a parameter, by module, so
that its reason names the module that changed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from symlab.errors import UserError

PACKAGE = Path(__file__).parents[1]
# Part of no job's computation: how files are written, errors told, devices chosen and configs read. Registries (the
# packages' own files) stand for modules that are named separately, and settings count by their values.
PLUMBING = ("artifacts", "device", "errors", "settings", "measures/job", "papers/card")


@cache
def code_of(*modules: str) -> dict[str, str]:
    """{module: digest (8 hex digits)} of modules of symlab and of those that they import, directly or not.

    Args:
        modules: dotted names, ``symlab.networks.mlp``, or what registries hold, ``symlab.networks.mlp:MLP``.

    Comments, docstrings and layout do not count, so that explaining a thing better trains nothing anew. What is part of
    no computation counts where it is named.

    Raises:
        UserError: there is no such module.
    """
    found: dict[str, str] = {}
    waiting = []
    for module in modules:
        if (file := _file(module.partition(":")[0])) is None:
            raise UserError(f"A registry names {module}, but symlab has no such module.")
        waiting.append(file)
    while waiting:
        path = waiting.pop()
        if (name := path.relative_to(PACKAGE).with_suffix("").as_posix()) not in found:
            found[name], imported = _read(path)
            waiting += [file for file in imported if not _is_plumbing(file)]
    return dict(sorted(found.items()))


def digest_of_files(paths: Iterable[Path]) -> str:
    """Digest (8 hex digits) of files that are read as they are, such as templates."""
    content = hashlib.sha256()
    for path in sorted(paths):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:8]


@cache
def _is_plumbing(path: Path) -> bool:
    name = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return name in PLUMBING or name.startswith("pipeline/") or name.rpartition("/")[2] in ("__init__", "settings")


@cache
def _file(module: str) -> Path | None:
    """The file of a dotted module of symlab; None if there is no such module."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _read(path: Path) -> tuple[str, list[Path]]:
    """Digest of a file's code without comments, docstrings and layout, and the modules of symlab that it imports."""
    tree = ast.parse(path.read_text())
    modules: list[str] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # A name taken from a package may be a module of its own.
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_string(statement)]
    files = [_file(module) for module in modules if module.partition(".")[0] == "symlab"]
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:8]
    return digest, [file for file in files if file is not None]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all statements in it; expressions, by far the most of a tree, hold none."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, ())
        for each in inner if isinstance(inner, list) else ():
            yield from _statements(each)


def _is_string(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
