"""What lies in the kernel and in study/ is there for more than one paper."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

WORKFLOW = Path(__file__).parents[2] / "workflow"
SHARED = {f"symlab.{path.parent.name}" for path in (WORKFLOW / "symlab").glob("*/__init__.py")} - {
    "symlab.papers",
    "symlab.pipeline",
    "symlab.cli",
}
PUBLIC = {
    # What a paper may be written with, whichever does so now.
    "symlab.study.claim",
    "symlab.study.curves",
    "symlab.study.points.join_grids",
    # These wait: one paper alone uses them, and they are to be moved into its room or taken up by others.
    "symlab.identifiability.gram",
    "symlab.identifiability.realization.InputSensitivities",
    "symlab.identifiability.realization.input_sensitivities",
    "symlab.identifiability.realization.permutation_sensitivity",
}
"""Names, or modules for all of theirs, that nobody or one paper alone uses now. ``symlab.__all__`` counts as used."""


def test_what_papers_share_is_used_by_more_than_one():
    defined, users = survey(WORKFLOW)
    for_one = {name for name in defined if not any(by == "symlab" for by in users[name]) and len(users[name]) < 2}
    excused = {name for name in for_one if {name, name.rpartition(".")[0]} & PUBLIC}
    assert sorted(for_one - excused) == [], "one paper alone (or nobody) uses these: move them to its room"
    needed = {entry for name in excused for entry in (name, name.rpartition(".")[0])}
    assert sorted(PUBLIC - needed) == [], "these are used by others too, or gone: take them off the list"


def survey(workflow: Path) -> tuple[set[str], dict[str, set[str]]]:
    """The public names that the shared packages define, and who uses each, directly or by way of other shared names.

    A user is a paper's room, or ``symlab`` for all else: pipeline, command line, scripts and ``symlab.__all__``.
    """
    uses: dict[str, set[str]] = {}
    defined, first = set(), {}
    for path in workflow.rglob("*.py"):
        parts = path.relative_to(workflow).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text())
        imported = imports_of(tree)
        if ".".join(module.split(".")[:2]) not in SHARED:
            user = ".".join(parts[:3]) if parts[:2] == ("symlab", "papers") and len(parts) > 3 else "symlab"
            first.setdefault(user, set()).update(names_in(tree, imported), imported.values())
            continue
        names = {name: node for node in tree.body for name in names_by(node)}
        own = {name: f"{module}.{name}" for name in names}
        uses |= {f"{module}.{name}": {full} for name, full in imported.items()}
        for name, node in names.items():
            uses[own[name]] = names_in(node, imported | own)
            if isinstance(node, ast.FunctionDef) and any(own_call(each, imported) for each in node.decorator_list):
                # A decorator of ours registers the function.
                first.setdefault("symlab", set()).add(own[name])
        defined |= {full for name, full in own.items() if not name.startswith("_")}
    reached = {user: closure(names, uses) for user, names in first.items()}
    return defined, {name: {user for user, names in reached.items() if name in names} for name in defined}


def imports_of(tree: ast.AST) -> dict[str, str]:
    """Full names of what a module imports from symlab, by the names that it has there."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in found
        if node.module.startswith("symlab.")
        for alias in node.names
    }


def names_by(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]


def names_in(node: ast.AST, known: dict[str, str]) -> set[str]:
    """Full names of what a piece of code mentions: names, attributes of modules, ``symlab.module:name`` in texts."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in known:
            found.add(known[each.id])
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in known:
            found.add(f"{known[each.value.id]}.{each.attr}")
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found |= {name.replace(":", ".") for name in re.findall(r"symlab[\w.]*:\w+", each.value)}
    return found


def own_call(decorator: ast.expr, imported: dict[str, str]) -> bool:
    """Whether a decorator is a function of symlab."""
    return any(isinstance(each, ast.Name) and each.id in imported for each in ast.walk(decorator))


def closure(names: Iterable[str], uses: dict[str, set[str]]) -> set[str]:
    """The names, what they use, what that uses, and so on."""
    found: set[str] = set()
    left = list(names)
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += uses.get(name, ())
    return found
