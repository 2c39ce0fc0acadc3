"""Settings of the paper's experiments, every key under ``neural_collapse`` of a study; free of torch."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.errors import UserError
from symlab.settings import Amount, Distinct, NotNegative, Positive, Several
from symlab.study.experiment import Point, PointSettings


class OnSamples(PointSettings):
    """What networks are trained on, and how long."""

    counts: ClassVar = {"samples a class": "per_class", "seeds": "seeds"}
    width: Positive = Field(64, description="d.")
    per_class: Positive = Field(description="Training samples of each class; of texts by token, of all texts.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    lr: Amount = Field(0.005, description="Learning rate of Adam from random weights, to 0 by a half cosine.")
    steps: Positive = Field(300, description="Steps of Adam from random weights, each on all samples.")
    effort: Positive = Field(
        4000,
        description="Iterations of L-BFGS times the depth, so many at depth 1 and half at depth 2; with "
        "``grown: false`` so many at every depth.",
    )
    seeds: Positive = Field(3, description="Networks of each point; their samples are the same.")


class Runs(OnSamples):
    """Networks of several depths minimised to collapse (Figs. 1, 2); of each depth one more, the reference, for longer.

    Every depth is a point. Grown networks begin with those of the depth before, some of their blocks split in two: as
    they were minimised and as they were young; the lower goes on.
    """

    revision: ClassVar = 1
    network: Literal["rn1", "rn2", "t11", "t12", "t21", "t22"] = Field(
        description="Residual networks with one or two linear layers a block; transformers with one or two in the "
        "attention (first digit) and in the MLP (second)."
    )
    dataset: str | None = Field(None, description="Which of the study's data sets to train on; null for each of them.")
    L: Distinct[Annotated[int, Field(ge=1)]] = Field(
        [2, 3, 5, 8, 13, 21, 34],
        min_length=1,
        description="Depths as the paper counts them, rising: a residual network has L - 1 blocks, a transformer L.",
    )
    pre_norm: bool = Field(False, description="Whether blocks read normalised inputs, or normalise their sums.")
    loss: Literal["cross_entropy", "squared_error", "margins"] = Field(
        "cross_entropy",
        description="squared_error: half the squared distance from one-hot labels; margins: squared hinges whose "
        "margins differ from class to class, which is neither and not symmetric.",
    )
    output_bias: bool | None = Field(
        None, description="Whether the last layer has a bias, without penalty; null: with cross_entropy alone."
    )
    penalty: NotNegative = Field(0.005, description="λ of the squared weights, halved; embedding, biases have none.")
    by_depth: Literal["constant", "uniform", "split"] = Field(
        "constant",
        description="constant: λ at every depth; uniform: λ / L; split: λ / L of hidden weights, λ of the last.",
    )
    grown: bool = Field(
        True,
        description="Whether depths grow from one another; else from random weights, with ``effort`` iterations at "
        "every depth.",
    )
    first: Positive = Field(
        2, description="Times the effort that the first depth of grown networks has: theirs is the longest way."
    )
    optimizer: Literal["lbfgs", "sgd", "adamw"] = Field(
        "lbfgs",
        description="lbfgs: Adam, then L-BFGS. Controls, from random weights: sgd, which takes ``steps`` epochs of "
        "batches of 32 with momentum 0.9; adamw, the same with decay λ of all weights instead of penalties.",
    )
    reference: NotNegative = Field(
        2, description="Effort of the reference, from the best network of each depth, as a multiple of theirs."
    )
    patch: Positive | None = Field(None, description="Side of a transformer's patches in (averaged) pixels.")
    every_token: bool = Field(
        False, description="Whether each token of a text is a sample, labelled by the next, or the text is."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if min(self.L) < 2 and not self.transformer:
            raise ValueError("a residual network has L of 2 at least")
        if sorted(self.L) != self.L:
            raise ValueError("L must rise")
        if self.grown and self.optimizer != "lbfgs":
            raise ValueError(f"optimizer: {self.optimizer} goes with grown: false")
        if (self.every_token or self.patch) and not self.transformer:
            raise ValueError("every_token and patch need a transformer")
        if self.every_token and self.loss != "cross_entropy":
            raise ValueError("every_token goes with loss: cross_entropy")
        return self

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        """Every depth on each data set, or on the one that is named; grown ones with the depth ``after`` which it is.

        Raises:
            UserError: the study has no such data set.
        """
        if self.dataset is not None and self.dataset not in datasets:
            raise UserError(f"it names the data set {self.dataset!r}, but the study has {', '.join(datasets)}.")
        names = datasets if self.dataset is None else [self.dataset]
        before = [0, *self.L[:-1]] if self.grown else [0] * len(self.L)
        return [
            {"dataset": name, "L": L, "after": each} for name in names for L, each in zip(self.L, before, strict=True)
        ]

    def follows(self, point: Point) -> Point | None:
        return next((each for each in self.points([point["dataset"]]) if each["L"] == point["after"]), None)

    def common(self) -> dict[str, Any]:
        return {key: value for key, value in self.spec().items() if key not in ("L", "dataset")}

    @property
    def transformer(self) -> bool:
        """Whether it is a transformer."""
        return self.network[0] == "t"

    @property
    def has_bias(self) -> bool:
        """Whether the last layer has a bias."""
        return self.loss == "cross_entropy" if self.output_bias is None else self.output_bias


def penalties_of(penalty: float, by_depth: str, L: int) -> tuple[float, float]:
    """λ of hidden weights and of the last layer at a depth, as ``Runs.by_depth`` has them."""
    hidden = penalty if by_depth == "constant" else penalty / L
    return hidden, hidden if by_depth == "uniform" else penalty


class CriticalPenalty(OnSamples):
    """The penalty of hidden weights above which branches of two-layer blocks die: predicted, and found by bisection."""

    revision: ClassVar = 2
    by: ClassVar = {"last_penalty": "last_penalty"}
    L: Annotated[list[Several], Field(min_length=1)] = Field([2, 3, 5], description="Depths.")
    last_penalty: Annotated[list[Amount], Field(min_length=1)] = Field(
        [0.00125, 0.0025, 0.005, 0.01], description="λ of the last layer."
    )
    halvings: Positive = Field(
        5, description="Of the interval from a quarter of the predicted penalty to four times it, in its logarithm."
    )
    starts: Positive = Field(200, description="Random starts of the search for the best neuron.")


class PerturbedClasses(PointSettings):
    """Appendix C: networks under squared error on one point a class and a perturbation, without a trained embedding."""

    revision: ClassVar = 1
    by: ClassVar = {"scheme": "schemes", "L": "L"}
    counts: ClassVar = {"perturbations of each size": "seeds"}
    schemes: ClassVar = ("rn1", "rn2 constant", "rn2 uniform", "rn2 split")
    eps: Annotated[list[Amount], Field(min_length=1)] = Field(
        [0.02, 0.05, 0.1, 0.2, 0.4], description="Norm of each sample's perturbation."
    )
    L: Annotated[list[Several], Field(min_length=1)] = Field([2, 8, 21], description="Depths.")
    classes: Several = Field(3, description="K, which is the dimension of the class space too.")
    per_class: Several = Field(4, description="Samples of each class.")
    width: Positive = Field(16, description="d, of which 2 K + 1 are needed.")
    penalty: NotNegative = Field(0.005, description="λ of the squared weights, halved.")
    lr: Amount = Field(0.001, description="Learning rate of Adam, to 0 by a half cosine.")
    steps: Positive = Field(300, description="Steps of Adam, each on all samples.")
    iterations: Positive = Field(500, description="Of L-BFGS after it.")
    seeds: Positive = Field(3, description="Perturbations and networks of each size.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width < 2 * self.classes + 1:
            raise ValueError("width is at least 2 classes + 1: class space, as many further dimensions, and their mean")
        return self


class Lemmas(PointSettings):
    """Lemma 4.2 with its converse, and the example of one dimension of Sections 4.2 and 4.3."""

    revision: ClassVar = 1
    by: ClassVar = {"loss": "losses", "seed": "seeds"}
    counts: ClassVar = {"random starts": "seeds"}
    losses: ClassVar = ("cross_entropy", "squared_error", "squared_error with bias")
    classes: Several = Field(10, description="K.")
    per_class: Positive = Field(5, description="Samples of each class.")
    width: Positive = Field(64, description="d, more than K.")
    penalty: Amount = Field(0.1, description="λ of the last layer; the smaller, the slower scatter goes.")
    iterations: Positive = Field(
        10_000, description="Of L-BFGS at most; under squared error of the order of 8000 are needed."
    )
    L: Annotated[list[Positive], Field(min_length=2)] = Field([2, 5, 13, 34, 89], description="Depths of the example.")
    exponent: Amount = Field(1.0, description="a of the example, which has to give exp(a).")
    seeds: Positive = Field(5, description="Random starts.")
