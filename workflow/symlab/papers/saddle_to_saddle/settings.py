"""Settings of the paper's experiments, every key under ``saddle_escape`` of a study; free of torch."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from symlab.settings import Amount, Listed, NotNegative, Positive, ProperFraction, Several
from symlab.study.experiment import Point, PointSettings

STILL_BELOW = 1e-2
"""A descent whose mean projected gradient is below this has ended."""
LEFT = 0.1
"""Drop of the loss at which the first saddle is left, and from which on the next one is looked for."""


def _with_kinks_on_the_grid(values: list[int]) -> list[int]:
    if wrong := [N for N in values if N < 4 or N % 2 or 720 % N]:
        raise ValueError(f"N = {wrong[0]} is not an even divisor of 720 of 4 and more, as the certificate's grid needs")
    return values


Corners = Annotated[Listed[int], AfterValidator(_with_kinks_on_the_grid)]


class Polygons(PointSettings):
    """Escape directions of networks on polygons with alternating gradients, from random starts (Example 1, Figs. 2, 6).

    Every combination of N, L and a width is a point.
    """

    by: ClassVar = {"N": "N", "L": "L", "width": "widths"}
    counts: ClassVar = {"starts a width": "runs"}
    N: Corners = Field([8], description="Corners of the polygon; 8 is the paper's circle.")
    L: Listed[Several] = Field([3], description="Depths of the networks.")
    widths: Listed[Positive] = Field([1, 2, 4, 8, 16, 32, 64], description="Neurons of every hidden layer.")
    runs: Several = Field(200, description="Random starts of each point.")
    steps: Annotated[int, Field(ge=100)] = Field(
        2500, description="Steps of projected gradient descent; doubled where more than 5 % of the runs still move."
    )
    doublings: Annotated[int, Field(ge=0)] = Field(3, description="How often at most.")


class NearRankOne(PointSettings):
    """Escape directions for inputs u v^T + E, with E from small to large (how tight Proposition 3.3 is)."""

    by: ClassVar = {"noise": "noise", "seed": "seeds"}
    noise: list[Amount] = Field(
        [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.5], min_length=1, description="Norms of E in units of that of u v^T."
    )
    seeds: Positive = Field(5, description="Draws of u, v, E and G.")
    d: Positive = Field(4, description="Inputs.")
    n: Positive = Field(12, description="Samples.")
    outputs: Positive = Field(2, description="Outputs.")
    L: Several = Field(3, description="Depth.")
    width: Positive = Field(8, description="Neurons of every hidden layer.")
    runs: Several = Field(60, description="Random starts at each norm; the fastest counts.")
    steps: Annotated[int, Field(ge=100)] = Field(2500, description="Steps of projected gradient descent.")


class Descents(PointSettings):
    """Descents from near the origin, along the flow or by SGD, and what weights are at given drops of the loss.

    Every combination of a depth, an initial scale, an activation, a rule, a step and a seed is a point. A seed's
    initial weights are one draw, times each scale. The loss is the cross-entropy of the study's data set.
    """

    revision: ClassVar = 1
    by: ClassVar = {"L": "L", "std": "std", "activation": "activation", "rule": "rule", "h": "h", "seed": "seeds"}
    L: Listed[Several] = Field([3, 4, 6], description="Depths of the networks.")
    width: Positive = Field(32, description="Neurons of every hidden layer.")
    std: Listed[Amount] = Field([1e-2, 1e-3, 1e-4], description="Standard deviations of the initial weights.")
    activation: Listed[Literal["relu", "identity"]] = Field(
        ["relu"], description="identity: a linear network, as a control."
    )
    rule: Listed[Literal["flow", "sgd", "gd"]] = Field(
        ["flow"],
        description="Steps along the flow, or at a rate of lr over |theta|^(L-2): of batches (sgd), all samples (gd).",
    )
    h: Listed[ProperFraction] = Field([0.03], description="flow: a step as a share of |theta|.")
    seeds: Positive = Field(5, description="Networks of each point.")
    heun: bool = Field(True, description="flow: steps of two gradients; false: of one.")
    rate: NotNegative = Field(0.05, description="flow: the rate below which no step is shortened.")
    lr: Amount = Field(10.0, description="sgd, gd: rate at |theta| = 1.")
    batch_size: Positive = Field(32, description="sgd: samples of each step.")
    drops: Listed[ProperFraction] = Field(
        [1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1],
        description="Drops of the loss, as shares of log k, at which weights are measured; a run ends at the last.",
    )
    gradients: Positive = Field(20_000, description="Gradients after which a run ends that has not come so far.")
    every: Positive = Field(
        10, description="The course, and the first seed's singular values, are kept at every so many steps."
    )
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    samples: Positive | None = Field(400, description="Training on the first that many; null for all.")
    precision: Literal["float32", "float64"] = Field("float64", description="Arithmetic of the descent.")

    def scale(self) -> dict[str, int]:
        return {f"networks of width {self.width} a point": self.seeds}


class DataSpeeds(PointSettings):
    """Escape directions of a study's data set, from random starts on the sphere, beside what trained networks reach."""

    by: ClassVar = {"L": "L", "width": "width"}
    counts: ClassVar = {"starts on the sphere a depth": "runs"}
    L: Listed[Several] = Field([3, 4, 5, 6], description="Depths of the networks; one neuron at depth 2 comes besides.")
    width: Positive = Field(8, description="Neurons of every hidden layer.")
    runs: Several = Field(10, description="Random starts at each depth.")
    steps: Annotated[int, Field(ge=100)] = Field(1500, description="Steps of projected gradient descent.")
    samples: Positive | None = Field(
        1000, description="Training on the first that many, those on which descents are measured; null for all."
    )
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        sizes = [(2, 1), *((L, self.width) for L in self.L)]
        return [{"dataset": name, "L": L, "width": width} for name in datasets for L, width in sizes]
