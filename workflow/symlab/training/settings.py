"""The keys of a training recipe; free of torch, so that a config is checked at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from symlab.settings import Positive, Settings


class Constant(Settings):
    """The learning rate stays."""

    name: Literal["constant"]


class Cosine(Settings):
    """To 0 at the last step by half a cosine, after a linear warm-up."""

    name: Literal["cosine"]
    warmup_epochs: Annotated[float, Field(ge=0)] = Field(0, description="Epochs of linear warm-up.")


class Warmup(Settings):
    """Linear over the warm-up, then constant."""

    name: Literal["warmup"]
    warmup_epochs: Annotated[float, Field(ge=0)] = Field(description="Epochs of linear warm-up.")


class Exponential(Settings):
    """lr gamma^epoch over the first epochs, then constant."""

    name: Literal["exponential"]
    gamma: Annotated[float, Field(gt=0)] = Field(description="Factor of the learning rate at each epoch.")
    growth_epochs: Positive = Field(description="Epochs with the factor, constant afterwards.")


SCHEDULES: tuple[type[Settings], ...] = (Constant, Cosine, Warmup, Exponential)
Schedule = Annotated[Constant | Cosine | Warmup | Exponential, Field(discriminator="name")]


class Augment(Settings):
    """Random changes to each training image whenever it is used."""

    flip: bool = Field(True, description="Whether to mirror each image left to right with probability 1/2.")
    crop: int = Field(4, ge=0, description="Pixels of zeros put around an image before it is cropped back at random.")


class Recipe(Settings):
    """How a network is trained."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: Annotated[float, Field(gt=0)] = Field(0.001, description="Learning rate.")
    weight_decay: float = Field(0.01, ge=0, description="Decay of W (not of W_eff).")
    momentum: float = Field(0.9, ge=0, le=1, description="sgd: momentum.")
    decay_bias: bool = Field(True, description="Whether biases and norm parameters are decayed too.")
    epochs: Positive = Field(description="Passes over the training data.")
    batch_size: Positive = Field(64, description="Samples of each step.")
    schedule: Schedule = Field(Constant(name="constant"), description="Course of the learning rate.")
    augment: Augment | None = Field(None, description="Random changes to training images; null for none.")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "float32",
        description="Arithmetic of training; tf32 needs a GPU, bf16 (autocast) halves the time of convolutions on "
        "processors that have it.",
    )
