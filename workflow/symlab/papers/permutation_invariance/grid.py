"""The settings that a grid of students asks for; plain Python, because every start of the workflow reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

# Training stops, and writes checkpoints, at multiples of so many steps.
STEPS_PER_EPOCH = 250
# Roles of the grids in a config, each with the kinds of tables it gives.
TABLES_OF_ROLE = {
    "widths": ("runs", "barriers"),
    "ratios": ("barriers",),
    "sparsity": ("runs",),
    "learning_rates": ("runs", "barriers"),
    "doubled_types": ("runs",),
    "column": ("entries",),
    "dimensions": ("barriers",),
    "teachers": ("barriers",),
}
# How the standard deviation of the initial weights follows from width and dimension.
INIT_STD = {
    "one_over_md": lambda m, d: 1 / (m * d),
    "one_over_sqrt_d": lambda m, d: 1 / math.sqrt(d),
}


@dataclass(frozen=True)
class Point:
    """Students of one width and learning rate, and their teacher: M teacher neurons, d inputs, m student neurons."""

    M: int
    d: int
    m: int
    lr: float
    init_std: float

    @property
    def c(self) -> float:
        """The learning rate in units of d / m, in which the stability limit of dense minima is nearly constant."""
        return self.lr * self.m / self.d

    @property
    def name(self) -> str:
        """Names the point in artifacts and seeds its generators."""
        return f"M{self.M}_d{self.d}_m{self.m}_lr{self.lr:.6g}"


def points(grid: dict[str, Any]) -> list[Point]:
    """All combinations of a grid's teachers, dimensions, widths and learning rates.

    Widths are ``m``, or ``ratio`` times M, rounded; learning rates are ``lr``, or ``c`` d / m.
    """
    found = []
    for M, d in product(grid["M"], grid["d"]):
        widths = grid["m"] if grid.get("m") else [round(ratio * M) for ratio in grid["ratio"]]
        for m in widths:
            rates = grid["lr"] if grid.get("lr") else [c * d / m for c in grid["c"]]
            std = grid["init_std"]
            init_std = INIT_STD[std](m, d) if isinstance(std, str) else float(std)
            found += [Point(M, d, m, float(lr), init_std) for lr in rates]
    return found


def teachers_and_widths(grid: dict[str, Any]) -> list[Point]:
    """One point for each (M, d, m), whatever the learning rates: uniform samples of the minima know none."""
    return list({(point.M, point.d, point.m): point for point in points(grid)}.values())
