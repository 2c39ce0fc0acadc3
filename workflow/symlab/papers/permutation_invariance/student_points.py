"""The points of a grid of students: which sizes, learning rates and first weights its values stand for.

Fields of settings are in no digest of code; what follows from them here is. Plain Python, read on every start.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

# Training stops, and writes checkpoints, at multiples of so many steps.
STEPS_PER_EPOCH = 250
# How the standard deviation of the initial weights follows from width and dimension.
INIT_STD = {"one_over_md": lambda m, d: 1 / (m * d), "one_over_sqrt_d": lambda m, d: 1 / math.sqrt(d)}


@dataclass(frozen=True)
class Size:
    """Students of one width and their teacher: M teacher neurons, d inputs, m student neurons."""

    M: int
    d: int
    m: int


@dataclass(frozen=True)
class Point(Size):
    """Students that are trained at one learning rate from weights of one standard deviation."""

    lr: float
    init_std: float

    @property
    def c(self) -> float:
        """The learning rate in units of d / m, in which the stability limit of dense minima is nearly constant."""
        return self.lr * self.m / self.d

    @property
    def name(self) -> str:
        """Seeds the point's generators: other first weights are the same draws on another scale."""
        return f"M{self.M}_d{self.d}_m{self.m}_lr{self.lr:.6g}"


def expand_sizes(
    M: Sequence[int], d: Sequence[int], m: Sequence[int] | None, ratio: Sequence[float] | None
) -> list[Size]:
    """All combinations of teachers, dimensions and widths; these are ``m``, or ``ratio`` times M, rounded."""
    return [
        Size(teacher, inputs, width)
        for teacher, inputs in product(M, d)
        for width in (m if m is not None else [round(each * teacher) for each in ratio or []])
    ]


def expand_points(
    sizes: Sequence[Size], lr: Sequence[float] | None, c: Sequence[float] | None, init_std: str | float
) -> list[Point]:
    """Every size at every learning rate; these are ``lr``, or ``c`` d / m, or d / m without both."""
    found = []
    for size in sizes:
        M, d, m = size.M, size.d, size.m
        rates = lr if lr is not None else [each * d / m for each in c or [1.0]]
        std = INIT_STD[init_std](m, d) if isinstance(init_std, str) else float(init_std)
        found += [Point(M, d, m, float(rate), std) for rate in rates]
    return found
