"""Settings of the paper's experiments, every key under ``saddle_escape`` of a study; free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from symlab.settings import Amount, Distinct, Positive, Several
from symlab.study.experiment import Point, PointSettings

STILL_BELOW = 1e-2
"""A descent whose mean projected gradient is below this has ended."""


def _with_kinks_on_the_grid(values: list[int]) -> list[int]:
    if wrong := [N for N in values if N < 4 or N % 2 or 720 % N]:
        raise ValueError(f"N = {wrong[0]} is not an even divisor of 720 of 4 and more, as the certificate's grid needs")
    return values


Corners = Annotated[Distinct[int], Field(min_length=1), AfterValidator(_with_kinks_on_the_grid)]
Sizes = Annotated[Distinct[Positive], Field(min_length=1)]
Depths = Annotated[Distinct[Several], Field(min_length=1)]


class Polygons(PointSettings):
    """Escape directions of networks on polygons with alternating gradients, from random starts (Example 1, Figs. 2, 6).

    Every combination of N, L and a width is a point.
    """

    by: ClassVar = {"N": "N", "L": "L", "width": "widths"}
    N: Corners = Field([8], description="Corners of the polygon; 8 is the paper's circle.")
    L: Depths = Field([3], description="Depths of the networks.")
    widths: Sizes = Field([1, 2, 4, 8, 16, 32, 64], description="Neurons of every hidden layer.")
    runs: Several = Field(200, description="Random starts of each point.")
    steps: Annotated[int, Field(ge=100)] = Field(
        2500, description="Steps of projected gradient descent; doubled where more than 5 % of the runs still move."
    )
    doublings: Annotated[int, Field(ge=0)] = Field(3, description="How often at most.")

    def scale(self) -> dict[str, int]:
        return {"starts a width": self.runs}


class NearRankOne(PointSettings):
    """Escape directions for inputs u v^T + E, with E from small to large (how tight Proposition 3.3 is)."""

    by: ClassVar = {"noise": "noise"}
    noise: list[Amount] = Field(
        [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.5], min_length=1, description="Norms of E in units of that of u v^T."
    )
    d: Positive = Field(4, description="Inputs.")
    n: Positive = Field(12, description="Samples.")
    outputs: Positive = Field(2, description="Outputs.")
    L: Several = Field(3, description="Depth.")
    width: Positive = Field(8, description="Neurons of every hidden layer.")
    runs: Several = Field(60, description="Random starts at each norm; the fastest counts.")
    steps: Annotated[int, Field(ge=100)] = Field(2500, description="Steps of projected gradient descent.")


class Descents(PointSettings):
    """Training from near the origin by SGD at a rate of 10 / |theta|^(L-2), and what is measured meanwhile (Figs. 1-4).

    Every combination of a depth, an initial scale and an activation is a point; the study's data set is trained on.
    """

    by: ClassVar = {"L": "L", "std": "std", "activation": "activation"}
    L: Distinct[Annotated[int, Field(ge=3)]] = Field([6, 4], min_length=1, description="Depths of the networks.")
    width: Positive = Field(64, description="Neurons of every hidden layer.")
    std: Distinct[Amount] = Field([0.01], min_length=1, description="Standard deviations of the initial weights.")
    activation: Distinct[Literal["relu", "identity"]] = Field(
        ["relu"], min_length=1, description="identity: a linear network, as a control."
    )
    seeds: Positive = Field(3, description="Networks of each point.")
    lr: Amount = Field(10.0, description="Rate at |theta| = 1.")
    batch_size: Positive | None = Field(32, description="Samples of each step; null for all of them.")
    steps: Annotated[int, Field(ge=1)] = Field(description="Steps, rounded up to whole epochs.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    samples: Positive | None = Field(None, description="Training on the first that many; null for all.")
    measured: Positive = Field(1000, description="Samples on which losses, gradients and activations are measured.")
    first_measured: Positive = Field(10, description="The first step at which all is measured, after 0.")
    per_decade: Positive = Field(40, description="Measurements for each factor of ten in the steps.")

    def scale(self) -> dict[str, int]:
        return {f"networks of width {self.width} a depth": self.seeds, "steps": self.steps}


class DataSpeeds(PointSettings):
    """Escape directions of a study's data set, from random starts on the sphere, beside what trained networks reach."""

    by: ClassVar = {"L": "L", "width": "width"}
    L: Depths = Field([3, 4, 5, 6], description="Depths of the networks; one neuron at depth 2 comes besides.")
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

    def scale(self) -> dict[str, int]:
        return {"starts on the sphere a depth": self.runs}


class InitialScales(PointSettings):
    """Descents of the full and of the localized loss from the same draw, scaled by alpha: how their directions part."""

    by: ClassVar = {"L": "L", "seed": "seeds"}
    L: Depths = Field([3, 4], description="Depths of the networks.")
    width: Positive = Field(16, description="Neurons of every hidden layer.")
    std: Amount = Field(0.1, description="Standard deviation of the weights at alpha = 1.")
    alpha: Distinct[Amount] = Field([1, 0.5, 0.25, 0.125], min_length=2, description="Factors of the initial weights.")
    seeds: Positive = Field(5, description="Draws.")
    rate: Amount = Field(0.5, description="Rate at |theta| = 1.")
    steps: Sizes = Field([10, 20, 40], description="Steps after which directions are compared.")
    samples: Positive | None = Field(500, description="Training on the first that many; null for all.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")

    def scale(self) -> dict[str, int]:
        return {"draws a depth": self.seeds}
