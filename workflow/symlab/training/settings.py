"""The keys of a training recipe; free of torch, so that a config is checked at once."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from symlab.settings import Amount, NotNegative, Positive, Settings, Share


class Constant(Settings):
    """The learning rate stays."""

    name: Literal["constant"]


class Cosine(Settings):
    """To 0 at the last step by half a cosine, after a linear warm-up."""

    name: Literal["cosine"]
    warmup_epochs: NotNegative = Field(0, description="Epochs of linear warm-up.")


class Warmup(Settings):
    """Linear over the warm-up, then constant."""

    name: Literal["warmup"]
    warmup_epochs: NotNegative = Field(description="Epochs of linear warm-up.")


class Exponential(Settings):
    """lr gamma^epoch over the first epochs, then constant."""

    name: Literal["exponential"]
    gamma: Amount = Field(description="Factor of the learning rate at each epoch.")
    growth_epochs: Positive = Field(description="Epochs with the factor, constant afterwards.")


Schedule = Annotated[Constant | Cosine | Warmup | Exponential, Field(discriminator="name")]


class Augment(Settings):
    """Random changes to each training image whenever it is used."""

    flip: bool = Field(True, description="Whether to mirror each image left to right with probability 1/2.")
    crop: int = Field(4, ge=0, description="Pixels of zeros put around an image before it is cropped back at random.")


class Polish(Settings):
    """L-BFGS on all samples, in float64 at last, after the last epoch and before what is kept of it."""

    iterations: Positive = Field(300, description="At most so many.")
    single: float = Field(
        0,
        ge=0,
        le=1,
        description="The share of the iterations, the first ones, in float32, at half the cost. A network of which no "
        "step lowers the loss there goes on in float64 before.",
    )
    gradient: Amount = Field(1e-4, description="It ends where the gradient's norm is at most so many times the loss.")
    memory: Positive = Field(20, description="Steps that are remembered.")


UPDATES: dict[str, str] = {
    "adamw": "symlab.training.updates:AdamW",
    "sgd": "symlab.training.updates:SGD",
    "adam": "symlab.training.updates:Adam",
}
"""Where each optimizer's arithmetic is, as ``module:class``."""
Beta = Share


class Recipe(Settings):
    """How a network is trained."""

    optimizer: Literal["adamw", "sgd", "adam"] = Field(
        "adamw", description="adam couples its decay (L2 added to the gradient), adamw does not."
    )
    lr: Amount = Field(0.001, description="Learning rate.")
    weight_decay: float = Field(0.01, ge=0, description="Decay of what is trained (W, not W_eff).")
    momentum: float = Field(0.9, ge=0, le=1, description="sgd: momentum.")
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = Field(
        [0.9, 0.999], description="adam, adamw: decay rates of the moments; the first may be 0."
    )
    eps: Amount = Field(1e-8, description="adam, adamw: added to the root of the second moment.")
    decay_bias: bool = Field(True, description="Whether biases and norm parameters are decayed too.")
    penalties: dict[str, NotNegative] = Field(
        {},
        description="Patterns on parameters' paths to lambda: lambda/2 |theta|^2 of what is trained there is added to "
        "the loss that is descended (not to the one that is reported). Of several patterns the first counts.",
    )
    l1: NotNegative = Field(
        0,
        description="sgd: lambda of a penalty lambda |theta|_1 on all that decays, by its proximal map after each step "
        "(soft thresholds of lr lambda / (1 - momentum)), which sets to 0.",
    )
    epochs: int = Field(ge=0, description="Passes over the training data; 0 needs polish.")
    batch_size: Positive | None = Field(64, description="Samples of each step; null for all of them, in their order.")
    schedule: Schedule = Field(Constant(name="constant"), description="Course of the learning rate.")
    augment: Augment | None = Field(None, description="Random changes to training images; null for none.")
    polish: Polish | None = Field(
        None, description="How the loss with its penalties is minimised after the epochs; null for not at all."
    )
    precision: Literal["float32", "tf32", "bf16", "float64"] = Field(
        "float32",
        description="Arithmetic of training; tf32 needs a GPU, bf16 (autocast) halves the time of convolutions on "
        "processors that have it.",
    )

    @model_validator(mode="after")
    def _proximal_steps(self) -> Self:
        if self.l1 and (self.optimizer != "sgd" or self.momentum == 1):
            raise ValueError("l1 goes with optimizer: sgd and a momentum below 1")
        return self

    @model_validator(mode="after")
    def _deterministic(self) -> Self:
        if not self.epochs and self.polish is None:
            raise ValueError("epochs: 0 trains nothing without polish")
        random = self.batch_size is not None or self.augment is not None
        if self.polish is not None and (random or self.weight_decay or self.l1):
            raise ValueError(
                "polish minimises one loss: it goes with batch_size: null and weight_decay: 0 (penalties may decay), "
                "without augment and l1"
            )
        return self
