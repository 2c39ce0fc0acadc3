"""Settings of the kernel's measures; every key of a study that switches one on."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from symlab.settings import Fraction, Positive, Settings


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("an even number has no midpoint among its points; give an odd one")
    return value


Method = Literal["activation", "weight"]


class Matching(Settings):
    """Matching of each pair's neurons."""

    method: Method | list[Method] = Field(
        "activation",
        description="What the aligned path's permutation is found from: correlations of activations over the training "
        "data (activation), or the weights alone (weight). Give a list to align by both; figures and claims of one "
        "aligned path use the first.",
    )
    restarts: Positive = Field(
        5,
        description="weight: starts of the coordinate descent, of which the best is kept: the identity, up to three "
        "that are anchored, then random ones.",
    )
    n_random: Positive = Field(100, description="Random permutations that the baseline averages over.")
    samples: Positive | None = Field(
        None, description="Correlate the activations over the first that many training samples; null for all."
    )

    @property
    def methods(self) -> list[str]:
        """All methods, the first of which figures and claims take."""
        return [*self.method] if isinstance(self.method, list) else [self.method]


class Interpolation(Settings):
    """Loss and accuracy on the line between the networks of a pair."""

    lambdas: Annotated[int, Field(ge=3), AfterValidator(_odd)] = Field(
        25, description="Odd number of points on the path from 0 to 1."
    )
    splits: list[Literal["train", "test"]] = Field(
        ["train", "test"], min_length=1, description="Splits that are evaluated."
    )
    samples: Positive | None = Field(
        None, description="Evaluate on the first that many samples of each split; null for all."
    )
    repair: bool = Field(False, description="Whether to rescale the activations of interpolated networks (REPAIR).")
    aligned: bool = Field(True, description="Whether to walk the path to the permuted network too (needs matching).")


class Identification(Settings):
    """Input subspaces, realization and swap costs."""

    explained_variance: Fraction = Field(0.9, description="Explained variance that defines the input subspaces.")
    models: Positive = Field(2, description="Networks of each job whose swap costs are computed.")
