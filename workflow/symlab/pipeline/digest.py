"""Digests of the code that a job computes with, so that it runs again when that code changes, and only then.

Snakemake does not see a changed module that a script imports. Rules pass these digests as a parameter, by module, so
that its reason names the module that changed.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from symlab.errors import UserError

WORKFLOW = Path(__file__).parents[2]
# Part of no job's computation: how files are written, errors told, devices chosen, configs read, logs kept, and which
# function or class has which name.
PLUMBING = (
    *("symlab", "artifacts", "device", "errors", "settings"),
    *("measures/job", "study/card", "study/experiment", "pipeline/job", "pipeline/registry"),
)
# Packages whose own file lists settings by name. Of these files, of papers' cards and of settings counts what is
# imported by name, so that another network or key, next to those that a job uses, changes nothing.
REGISTRIES = ("data", "measures", "networks", "papers", "schemes")
# What the Snakefile asks settings: jobs get the answers as parameters.
ASKED_BEFORE = {"about", "columns", "common", "counts", "files", "misfit", "modules", "points", "scale"}

Place = tuple[Path, str]
"""A file and the name of a definition in it, or "" for the whole file."""


@cache
def code_of(*modules: str) -> dict[str, str]:
    """{module: digest (8 hex digits)} of modules and of all that they import from symlab, directly or not.

    Args:
        modules: dotted names, ``symlab.networks.mlp`` or ``scripts.train``, or what registries hold,
            ``symlab.networks.mlp:MLP``.

    Importing a module runs the packages that it is in, whose own files count too. Comments, docstrings and layout do
    not, so that explaining a thing better trains nothing anew. Of registries and files of settings counts what is
    imported from them, as ``networks:build``: functions, methods, constants and the modules that a class names; their
    fields count by the values that a job is given. ``PLUMBING`` counts where it is named.

    Raises:
        UserError: there is no such module.
    """
    found: dict[str, str] = {}
    waiting: list[Place] = []
    for module in modules:
        if (file := _file(module.partition(":")[0])) is None:
            raise UserError(f"A registry names {module}, but symlab has no such module.")
        waiting.append((file, ""))
    seen = set(waiting)
    while waiting:
        path, name = waiting.pop()
        code, imported = _read_definition(path, name) if name else _read(path)
        if code:
            found[f"{_name(path)}:{name}".rstrip(":")] = hashlib.sha256(code.encode()).hexdigest()[:8]
        new = [place for place in imported if place not in seen and _name(place[0]) not in PLUMBING]
        seen.update(new)
        waiting += new
    return dict(sorted(found.items()))


def digest_of_figure_code(script: str, module: str, modules: Mapping[str, str]) -> str:
    """One digest (8 hex digits) of what draws a figure and tells what is seen.

    That is its file, and those of other figures' claims that it names, by themselves or as places of a text (``{id}``).

    Args:
        modules: each figure's file, by its id.
    """
    file = _file(module)
    constants = [each.value for each in ast.walk(_parse(file)) if isinstance(each, ast.Constant)] if file else []
    texts = [text for text in constants if isinstance(text, str)]
    claims = [claim for text in texts for claim in re.findall(r"(?:^|\{)([a-z]+-[\w.]+-[\w-]+)(?=$|[(:}])", text)]
    named = {other for claim in claims for figure, other in modules.items() if claim.startswith(f"{figure}-")}
    return hashlib.sha256(repr(code_of(script, module, *sorted(named))).encode()).hexdigest()[:8]


def digest_of_files(paths: Iterable[Path]) -> str:
    """Digest (8 hex digits) of files that are read as they are, such as templates."""
    content = hashlib.sha256()
    for path in sorted(paths):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:8]


@cache
def _name(path: Path) -> str:
    return path.relative_to(WORKFLOW).with_suffix("").as_posix().removesuffix("/__init__").removeprefix("symlab/")


@cache
def _counts_by_name(path: Path) -> bool:
    name = _name(path)
    card = path.name == "__init__.py" and name.startswith("papers/")
    return card or name in REGISTRIES or name.endswith("/settings")


@cache
def _file(module: str) -> Path | None:
    """The file of a dotted module; None if there is no such module."""
    path = WORKFLOW.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _parse(path: Path) -> ast.Module:
    """A file's code without comments, docstrings and layout."""
    tree = ast.parse(path.read_text())
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_string(statement)]
    return tree


@cache
def _read(path: Path) -> tuple[str, list[Place]]:
    """A file's code, "" if there is none, and what it imports from symlab."""
    tree = _parse(path)
    return ast.dump(tree) if tree.body else "", [place for each in _names_imported(path).values() for place in each]


@cache
def _read_definition(path: Path, name: str) -> tuple[str, list[Place]]:
    """The same of a definition in a registry or a file of settings, and of what that needs."""
    here, imported = _definitions(path), _names_imported(path)
    if name not in here:
        # Taken from elsewhere by this file.
        return "", imported.get(name, [])
    node = here[name]
    counted = [each for each in node.body if _is_computed_with(each)] if isinstance(node, ast.ClassDef) else [node]
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    used = [each for part in (*counted, *bases) for each in ast.walk(part)]
    names = {each.id for each in used if isinstance(each, ast.Name)} - {name}
    texts = [each.value for each in used if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    named = [_file(text.partition(":")[0]) for text in texts if re.fullmatch(r"symlab[\w.]+:\w+", text)]
    modules = [(file, "") for file in named if file is not None]
    if isinstance(node, ast.Assign | ast.AnnAssign) and (
        named or any(isinstance(here.get(each), ast.ClassDef) for each in names)
    ):
        # A list to choose from. Of classes the one that is chosen counts, by the rule that knows which.
        return "", modules
    places = [(path, each) for each in names if each in here]
    places += [place for each in names for place in imported.get(each, [])]
    return "".join(map(ast.dump, counted)), modules + places


@cache
def _definitions(path: Path) -> dict[str, ast.stmt]:
    """The statement that defines each name of a file, imports apart."""
    return {name: statement for statement in _parse(path).body for name in _defined(statement)}


@cache
def _names_imported(path: Path) -> dict[str, list[Place]]:
    """What each name that a file takes from symlab counts as."""
    return {name: places for node in _statements(_parse(path)) for name, places in _imports(node).items()}


def _defined(statement: ast.stmt) -> list[str]:
    """Names that a statement defines."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return [statement.name]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_computed_with(statement: ast.stmt) -> bool:
    """Whether a statement of a class of settings is a method that jobs call, or a constant, and no field."""
    if not ASKED_BEFORE.isdisjoint(_defined(statement)):
        return False
    if isinstance(statement, ast.FunctionDef):
        return not any("validator" in ast.dump(decorator) for decorator in statement.decorator_list)
    return isinstance(statement, ast.AnnAssign) and "ClassVar" in ast.dump(statement.annotation)


def _imports(node: ast.AST) -> dict[str, list[Place]]:
    """What a statement imports from symlab, by the name that it gives it."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name: _places(alias.name) for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return {alias.asname or alias.name: _places(node.module, alias.name) for alias in node.names}
    return {}


@cache
def _places(module: str, name: str = "") -> list[Place]:
    """What counts where a module, or a name from it, is imported."""
    parts = module.split(".")
    if parts[0] != "symlab":
        return []
    *packages, file = [_file(".".join(parts[:depth])) for depth in range(1, len(parts) + 1)]
    # A name taken from a package may be a module of its own.
    if name and (within := _file(f"{module}.{name}")) is not None:
        packages, file, name = [*packages, file], within, ""
    found = [(package, "") for package in packages if package is not None and not _counts_by_name(package)]
    if file is not None and _counts_by_name(file):
        return found + [(file, each) for each in ([name] if name else _definitions(file))]
    return found if file is None else [*found, (file, "")]


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
