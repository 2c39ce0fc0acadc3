"""Settings of the paper's experiments, every key under ``neural_collapse`` of a study; free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.errors import UserError
from symlab.settings import Amount, Distinct, NotNegative, Positive, Several
from symlab.study.experiment import Point, PointSettings

Penalty = NotNegative


class Runs(PointSettings):
    """Networks of several depths trained to collapse, by full-batch Adam, and their metrics on the way (Figs. 1, 2).

    Every depth is a point, and every hidden penalty where several are given.
    """

    by: ClassVar = {key: key for key in ("dataset", "L", "hidden_penalty")}
    network: Literal["rn1", "rn2", "t11", "t12", "t21", "t22"] = Field(
        description="Residual networks with one or two linear layers a block; transformers with one or two in the "
        "attention (first digit) and in the MLP (second)."
    )
    dataset: str | None = Field(None, description="Which of the study's data sets to train on; null for each of them.")
    L: Distinct[Annotated[int, Field(ge=0)]] = Field(
        [1, 2, 3, 5, 8, 13, 21, 34],
        min_length=1,
        description="Depths as the paper counts them: a residual network has L - 1 blocks, a transformer L; the "
        "smallest, LayerNorm and a linear map alone, is 1 or 0.",
    )
    width: Positive = Field(64, description="d.")
    pre_norm: bool = Field(False, description="Whether blocks read normalised inputs, or normalise their sums.")
    loss: Literal["cross_entropy", "squared_error"] = Field(
        "cross_entropy",
        description="squared_error: half the squared distance from one-hot labels, without output bias.",
    )
    penalty: Penalty = Field(0.005, description="λ of the squared weights, halved; embedding and biases have none.")
    by_depth: Literal["constant", "uniform", "split"] = Field(
        "constant",
        description="constant: λ at every depth; uniform: λ / L; split: λ / L of hidden weights, λ of the last.",
    )
    hidden_penalty: list[Penalty] | None = Field(
        None, description="λ of hidden weights, one network each, instead of what by_depth says; null for none."
    )
    lr: Amount = Field(0.005, description="Learning rate of Adam, to 0 by a half cosine.")
    steps: Positive = Field(5000, description="Steps, each on all samples.")
    seeds: Positive = Field(5, description="Networks of each point; their samples are the same.")
    per_class: Positive = Field(description="Training samples of each class.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    patch: Positive | None = Field(None, description="Side of a transformer's patches in (averaged) pixels.")
    moments: int = Field(20, ge=5, description="How often all is measured on the way.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if min(self.L) < 1 and not self.transformer:
            raise ValueError("a residual network has L of 1 at least")
        return self

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        """Every depth and hidden penalty on each data set, or on the one that is named.

        Raises:
            UserError: the study has no such data set.
        """
        if self.dataset is not None and self.dataset not in datasets:
            raise UserError(f"it names the data set {self.dataset!r}, but the study has {', '.join(datasets)}.")
        found = []
        for name in datasets if self.dataset is None else [self.dataset]:
            for L in self.L:
                hidden, last = self.penalties(L)
                for each in self.hidden_penalty or [hidden]:
                    found.append({"dataset": name, "L": L, "hidden_penalty": each, "last_penalty": last})
        return found

    @property
    def transformer(self) -> bool:
        """Whether it is a transformer."""
        return self.network[0] == "t"

    def penalties(self, L: int) -> tuple[float, float]:
        """λ of hidden weights and of the last layer at a depth, by ``by_depth``."""
        hidden = self.penalty if self.by_depth == "constant" else self.penalty / max(L, 1)
        last = hidden if self.by_depth == "uniform" else self.penalty
        return hidden, last

    def scale(self) -> dict[str, int]:
        return {"samples a class": self.per_class, "steps": self.steps, "seeds": self.seeds}


class CriticalPenalty(PointSettings):
    """The penalty of hidden weights above which branches of two-layer blocks die, from networks without branches."""

    by: ClassVar = {"last_penalty": "last_penalty", "seed": "seeds"}
    last_penalty: Annotated[list[Amount], Field(min_length=1)] = Field([0.005], description="λ of the last layer.")
    width: Positive = Field(64, description="d.")
    per_class: Positive = Field(description="Training samples of each class.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    lr: Amount = Field(0.005, description="Learning rate of Adam, to 0 by a half cosine.")
    steps: Positive = Field(3000, description="Steps, each on all samples.")
    seeds: Positive = Field(2, description="Networks at each penalty.")
    starts: Positive = Field(50, description="Random starts of the search for the best neuron.")

    def scale(self) -> dict[str, int]:
        return {"networks a penalty": self.seeds}


class Growth(PointSettings):
    """Networks grown by splitting: trained with one block, then every block made two and trained on, repeatedly."""

    network: Literal["rn1", "rn2"] = Field("rn1", description="One or two linear layers a block.")
    by_depth: Literal["constant", "split"] = Field(
        "constant", description="constant: λ at every depth; split: λ / L of hidden weights, λ of the last."
    )
    doublings: Positive = Field(5, description="How often blocks are split: depths 2, 3, 5, 9, 17, 33.")
    width: Positive = Field(64, description="d.")
    penalty: Penalty = Field(0.005, description="λ of the squared weights, halved; embedding and biases have none.")
    per_class: Positive = Field(description="Training samples of each class.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    lr: Amount = Field(0.005, description="Learning rate at the first depth, by a half cosine.")
    tuning_lr: Amount = Field(0.001, description="Learning rate after each split, likewise.")
    steps: Positive = Field(3000, description="Steps at each depth, each on all samples.")
    seeds: Positive = Field(4, description="Networks.")

    def scale(self) -> dict[str, int]:
        return {"networks grown by splitting": self.seeds}


class Hysteresis(PointSettings):
    """Two-layer networks whose branches live, trained on at larger penalties of hidden weights."""

    by: ClassVar = {"L": "L"}
    L: Annotated[list[Several], Field(min_length=1)] = Field([2, 5], description="Depths.")
    hidden_penalty: Annotated[list[Penalty], Field(min_length=2)] = Field(
        description="λ of hidden weights, rising; networks trained from random weights at the first go on at each."
    )
    last_penalty: Amount = Field(0.005, description="λ of the last layer.")
    width: Positive = Field(64, description="d.")
    per_class: Positive = Field(description="Training samples of each class.")
    pool: Positive = Field(1, description="Pixels of each side that are averaged into one.")
    lr: Amount = Field(0.005, description="Learning rate of Adam, by a half cosine each time.")
    steps: Positive = Field(3000, description="Steps at each penalty, each on all samples.")
    seeds: Positive = Field(2, description="Networks of each depth.")

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.hidden_penalty != sorted(set(self.hidden_penalty)):
            raise ValueError("hidden_penalty must rise")
        return self


class PerturbedClasses(PointSettings):
    """Appendix C: networks under squared error on one point a class and a perturbation, without a trained embedding."""

    by: ClassVar = {"scheme": "schemes", "L": "L"}
    schemes: ClassVar = ("rn1", "rn2 constant", "rn2 uniform", "rn2 split")
    eps: Annotated[list[Amount], Field(min_length=1)] = Field(
        [0.02, 0.05, 0.1, 0.2, 0.4], description="Norm of each sample's perturbation."
    )
    L: Annotated[list[Several], Field(min_length=1)] = Field([2, 8, 21], description="Depths.")
    classes: Several = Field(3, description="K, which is the dimension of the class space too.")
    per_class: Several = Field(4, description="Samples of each class.")
    width: Positive = Field(16, description="d, of which 2 K + 1 are needed.")
    penalty: Penalty = Field(0.005, description="λ of the squared weights, halved.")
    lr: Amount = Field(0.001, description="Learning rate of Adam, to 0 by a half cosine.")
    steps: Positive = Field(2000, description="Steps, each on all samples.")
    seeds: Positive = Field(2, description="Perturbations and networks of each size.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width < 2 * self.classes + 1:
            raise ValueError("width is at least 2 classes + 1: class space, as many further dimensions, and their mean")
        return self

    def scale(self) -> dict[str, int]:
        return {"perturbations of each size": self.seeds}
