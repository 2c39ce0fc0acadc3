"""The teacher_student block of a study: grids of students, completed and checked, before anything is computed."""

from __future__ import annotations

from typing import Any

from symlab.errors import UserError
from symlab.permutation_invariance.grid import TABLES_OF_ROLE, points
from symlab.study import Config

# What each role's figures are about; the other source would be computed for nothing.
NEEDS_RUNS = ("sparsity", "learning_rates", "doubled_types", "column")
NEEDS_UNIFORM = ("ratios", "dimensions", "teachers")
MOST_POINTS = 10_000


def complete_students(block: Config, where: str) -> Config:
    """The block with every role's grids as a list, and every key of a grid that may be one value or several as a list.

    Raises:
        UserError: keys that do not fit together; names them.
    """
    complete: Config = {"overlap": None}
    if block.get("overlap"):
        complete["overlap"] = {**block["overlap"], "M": _listed(block["overlap"]["M"])}
    for role in TABLES_OF_ROLE:
        grids = block.get(role)
        complete[role] = [
            _complete_grid(grid, role, f"{where}.{role}" + (f"[{number}]" if isinstance(grids, list) else ""))
            for number, grid in enumerate(_listed(grids) if grids else [])
        ] or None
    if not any(complete.values()):
        raise UserError(f"Config: {where} asks for nothing; add overlap or one of {', '.join(TABLES_OF_ROLE)}.")
    return complete


def _complete_grid(grid: Config, role: str, where: str) -> Config:
    lists: Config = {key: _listed(grid[key]) for key in ("M", "d", "m", "ratio", "lr", "c") if key in grid}
    complete: Config = {**grid, **lists}
    for one, other in (("m", "ratio"), ("lr", "c")):
        if one in grid and other in grid:
            raise UserError(f"Config: {where} has both {one} and {other}; give one of them.")
    if "m" not in grid and "ratio" not in grid:
        raise UserError(f"Config: {where} lacks m, the students' widths (or ratio, in units of M).")
    if "lr" not in grid and "c" not in grid:
        complete["c"] = [1.0]
    runs, pairs = grid["runs"], grid["uniform_pairs"]
    if role in NEEDS_RUNS and not runs:
        raise UserError(f"Config: {where} is about trained students, so it needs {where}.runs.")
    if role in NEEDS_UNIFORM and not pairs:
        raise UserError(f"Config: {where} is about uniform samples of the minima, so it needs {where}.uniform_pairs.")
    if not runs and not pairs:
        raise UserError(f"Config: {where} needs runs (students to train) or uniform_pairs (samples of the minima).")
    _check_points(complete, role, where)
    return complete


def _check_points(grid: Config, role: str, where: str) -> None:
    if min(grid["d"]) < max(grid["M"]):
        raise UserError(
            f"Config: {where}.d = {min(grid['d'])} is below {where}.M = {max(grid['M'])}; the teacher's neurons are "
            "orthonormal, so d is at least M."
        )
    if "ratio" in grid and round(min(grid["ratio"]) * min(grid["M"])) < 1:
        raise UserError(f"Config: {where} has students without neurons; raise ratio.")
    found = points(grid)
    if len(found) > MOST_POINTS:
        raise UserError(f"Config: {where} has {len(found)} combinations, more than {MOST_POINTS}; list fewer.")
    if len({point.name for point in found}) < len(found):
        raise UserError(f"Config: {where} has the same student twice (equal widths or learning rates); list each once.")
    if role in NEEDS_UNIFORM and (narrow := [point for point in found if point.m < point.M]):
        raise UserError(
            f"Config: {where} asks for students of m = {narrow[0].m} neurons, fewer than the teacher's M = "
            f"{narrow[0].M}; such students have no minima of zero loss to draw from."
        )
    if grid["lambdas"][0] != 0 or grid["lambdas"][-1] != 1 or sorted(grid["lambdas"]) != grid["lambdas"]:
        raise UserError(f"Config: {where}.lambdas must rise from 0 to 1.")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
