"""The teacher_student block of a study: grids of students, completed and checked, before anything is computed."""

from __future__ import annotations

from typing import Any

from symlab.errors import UserError
from symlab.permutation_invariance.grid import STEPS_PER_EPOCH, TABLES_OF_ROLE, points
from symlab.study import Config

# What each role's figures are about; the other source would be computed for nothing.
NEEDS_RUNS = ("sparsity", "learning_rates", "doubled_types", "column")
NEEDS_UNIFORM = ("ratios", "dimensions", "teachers")
RATES = ("ratio", "lr", "c")
MOST_POINTS = 10_000
WIDEST = 100_000
MOST_TYPES = 1000
# Numbers that the inputs of an epoch of online SGD may hold, 4 GB.
MOST_INPUTS = 500_000_000


def complete_students(block: Config, where: str) -> Config:
    """The block with every role's grids as a list, and every key of a grid that may be one value or several as a list.

    Raises:
        UserError: keys that do not fit together; names them.
    """
    complete: Config = {"overlap": None}
    if block.get("overlap"):
        complete["overlap"] = {**block["overlap"], "M": _listed(block["overlap"]["M"])}
        if (M := max(complete["overlap"]["M"])) > MOST_TYPES:
            raise UserError(f"Config: {where}.overlap.M = {M} exceeds {MOST_TYPES}, beyond which draws take hours.")
    for role in TABLES_OF_ROLE:
        grids = block.get(role)
        complete[role] = [
            _complete_grid(grid, role, f"{where}.{role}" + (f"[{number}]" if isinstance(grids, list) else ""))
            for number, grid in enumerate(_listed(grids) if grids else [])
        ] or None
        _check_overlaps(complete[role] or [], f"{where}.{role}")
    if not any(complete.values()):
        raise UserError(f"Config: {where} asks for nothing; add overlap or one of {', '.join(TABLES_OF_ROLE)}.")
    return complete


def _complete_grid(grid: Config, role: str, where: str) -> Config:
    sizes: Config = {key: _listed(grid[key]) for key in ("M", "d", "m") if key in grid}
    amounts: Config = {key: [float(value) for value in _listed(grid[key])] for key in RATES if key in grid}
    complete: Config = {**grid, **sizes, **amounts}
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
    if role == "column" and complete["M"] != [1]:
        raise UserError(f"Config: {where} is about how one teacher neuron is split, so {where}.M must be 1.")
    if role != "column" and min(complete["M"]) < 2:
        raise UserError(f"Config: {where}.M = 1 has no barriers, since all minima are one up to permutation; raise M.")
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
    if (widest := max(point.m for point in found)) > WIDEST:
        raise UserError(f"Config: {where} has students of {widest} neurons, more than {WIDEST}; lower ratio.")
    if (grid["batch"] or 0) * grid["runs"] * max(grid["d"]) * STEPS_PER_EPOCH > MOST_INPUTS:
        raise UserError(
            f"Config: {where}.batch = {grid['batch']} for {grid['runs']} runs takes more than 4 GB of inputs at a "
            "time; lower batch, runs or d."
        )
    if len({point.name for point in found}) < len(found):
        raise UserError(f"Config: {where} has the same student twice (equal widths or learning rates); list each once.")
    if role in NEEDS_UNIFORM and (narrow := [point for point in found if point.m < point.M]):
        raise UserError(
            f"Config: {where} asks for students of m = {narrow[0].m} neurons, fewer than the teacher's M = "
            f"{narrow[0].M}; such students have no minima of zero loss to draw from."
        )
    if grid["lambdas"][0] != 0 or grid["lambdas"][-1] != 1 or sorted(grid["lambdas"]) != grid["lambdas"]:
        raise UserError(f"Config: {where}.lambdas must rise from 0 to 1.")


def _check_overlaps(grids: list[Config], where: str) -> None:
    """Refuse the same students in two grids of a role, which figures and claims could not tell apart."""
    seen: set[tuple[Any, ...]] = set()
    for grid in grids:
        sources = [("sgd" if grid["batch"] else "gd", grid["runs"]), ("uniform", grid["uniform_pairs"])]
        named = {(source, p.M, p.d, p.m) for source, count in sources if count for p in points(grid)}
        for source, M, d, m in sorted(named & seen):
            raise UserError(
                f"Config: {where} has students of M = {M}, d = {d}, m = {m} ({source}) in two grids, whose rows would "
                "be taken together; leave them out of one, or put one grid into another study."
            )
        seen |= named


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
