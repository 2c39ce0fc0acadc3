"""The networks symlab can train, by their names in a config: a class of settings each, which names the module.

The Snakefile reads this registry on every start, so the modules, which import torch, are named and not imported.
"""

from __future__ import annotations

import inspect
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from symlab.errors import UserError
from symlab.networks.images import side_of
from symlab.settings import Amount, Positive, Settings

if TYPE_CHECKING:
    from torch import nn


class Network(Settings):
    """A network's keys, and facts about it that decide which data sets and measures it goes with."""

    name: str
    module: ClassVar[str]
    """Where its nn.Module is, as ``module:Class``; it takes n_inputs, n_outputs and these keys but ``name``."""
    reads_images: ClassVar[bool] = False
    chain: ClassVar[bool] = False
    """Whether networks of this kind are a chain of linear maps."""

    @property
    def chain_of_linear_maps(self) -> bool:
        """Whether realization and swap costs are defined for it: no convolutions, gates, attention, residual sums."""
        return self.chain

    def about(self) -> str:
        """What it is, in a phrase."""
        return f"{inspect.getdoc(type(self))}".partition("\n")[0].rstrip(".")

    def columns(self) -> dict[str, Any]:
        """What tables tell of it: its keys of these names, and None for those that it does not have."""
        return {key: getattr(self, key, None) for key in ("activation", "norm", "width", "depth")}

    def misfit(self, image: tuple[int, int, int] | None) -> str | None:
        """Why it cannot read images of that (channels, height, width), as the end of a sentence; None if it can."""
        if not self.reads_images:
            return None
        if image is None:
            return f"network.name = {self.name} reads images, but its samples are none; use mlp"
        return _misfit(getattr(self, "channels", image[0]), image)


def _misfit(channels: int, image: tuple[int, int, int]) -> str | None:
    if channels != image[0]:
        return f"network.channels = {channels}, but its images have {image[0]}"
    if image[1] != image[2]:
        return f"it reads square images, but these have {image[1]} x {image[2]} pixels; use mlp"
    return None


def _uncut(patch: int, image: tuple[int, int, int]) -> str | None:
    if image[1] % patch:
        return f"network.patch = {patch} does not divide the {image[1]} pixels of a side of its images"
    return None


class MLP(Network):
    """Linear layers, each but the last followed by a norm and an activation."""

    name: Literal["mlp"]
    widths: list[Positive] = Field(min_length=1, description="Neurons of each hidden layer.")
    norm: Literal["layernorm", "batchnorm", "none"] = Field(
        "layernorm", description="Normalisation after each hidden linear map."
    )
    activation: Literal["gelu", "relu", "sigma", "identity"] = Field(
        "gelu", description="Nonlinearity; sigma is x * sigmoid(Cx) with C fixed, identity a linear network."
    )
    bias: bool = Field(True, description="Whether linear maps have biases.")
    residual: bool = Field(
        False, description="Whether each hidden layer after the first adds its input, where their widths are equal."
    )
    module: ClassVar[str] = "symlab.networks.mlp:MLP"

    def about(self) -> str:
        return f"MLPs of {' + '.join(map(str, self.widths))} neurons"

    @property
    def chain_of_linear_maps(self) -> bool:
        return self.bias and not self.residual

    def columns(self) -> dict[str, Any]:
        width = self.widths[0] if len(set(self.widths)) == 1 else None
        return {**super().columns(), "width": width, "depth": len(self.widths) + 1}


class CoherenceStudent(Network):
    """sum_i relu(w_i x + b_i), the one-hidden-layer student of the coherence experiment."""

    name: Literal["coherence_student"]
    width: Positive = Field(128, description="Hidden neurons.")
    module: ClassVar[str] = "symlab.networks.coherence_student:CoherenceStudent"
    chain: ClassVar[bool] = True


class ResNet20(Network):
    """ResNet20 with GroupNorm."""

    name: Literal["resnet20"]
    width_multiplier: Positive = Field(1, description="The block groups have 16, 32 and 64 times this many channels.")
    norm_groups: Positive = Field(1, description="Channel groups of every GroupNorm; they divide 16 width_multiplier.")
    channels: Positive = Field(3, description="Colour channels of the images.")
    module: ClassVar[str] = "symlab.networks.resnet:ResNet20"
    reads_images: ClassVar[bool] = True

    def columns(self) -> dict[str, Any]:
        return {**super().columns(), "width": self.width_multiplier}

    def misfit(self, image: tuple[int, int, int] | None) -> str | None:
        if 16 * self.width_multiplier % self.norm_groups:
            return (
                f"network.norm_groups = {self.norm_groups} does not divide the {16 * self.width_multiplier} channels "
                "of resnet20's first block group"
            )
        return super().misfit(image)


class ResNet18(Network):
    """ResNet18 with BatchNorm and a stem for small images."""

    name: Literal["resnet18"]
    width: Positive = Field(64, description="Channels of the first of four groups; each further one has twice as many.")
    head: Positive | None = Field(None, description="Neurons of a hidden layer before the readout; null for none.")
    channels: Positive = Field(3, description="Colour channels of the images.")
    module: ClassVar[str] = "symlab.networks.resnet:ResNet18"
    reads_images: ClassVar[bool] = True


class VGG(Network):
    """VGG of a given width and depth."""

    name: Literal["vgg"]
    width: Positive = Field(description="Channels of the first stage.")
    depth: Literal[8, 11, 13, 16] = Field(description="Weight layers.")
    channels: Positive = Field(3, description="Colour channels of the images.")
    module: ClassVar[str] = "symlab.networks.vgg:VGG"
    reads_images: ClassVar[bool] = True

    def misfit(self, image: tuple[int, int, int] | None) -> str | None:
        if image is not None and image[1] < 32:
            return f"network.name = vgg halves images five times, but its images have {image[1]} pixels a side, not 32"
        return super().misfit(image)


class ViT(Network):
    """Vision transformer."""

    name: Literal["vit"]
    patch: Positive = Field(4, description="Side of a patch in pixels.")
    dim: Positive = Field(384, description="Width of the residual stream.")
    depth: Positive = Field(8, description="Number of blocks.")
    heads: Positive = Field(6, description="Attention heads of each block; they divide dim.")
    mlp_ratio: Positive = Field(4, description="Hidden width of each block's MLP as a multiple of dim.")
    channels: Positive = Field(3, description="Colour channels of the images.")
    module: ClassVar[str] = "symlab.networks.vit:ViT"
    reads_images: ClassVar[bool] = True

    def misfit(self, image: tuple[int, int, int] | None) -> str | None:
        if self.dim % self.heads:
            return f"network.heads = {self.heads} does not divide network.dim = {self.dim}"
        return (image and _uncut(self.patch, image)) or super().misfit(image)


class LayerNormResNet(Network):
    """Residual network of linear layers with LayerNorm."""

    name: Literal["layernorm_resnet"]
    width: Positive = Field(64, description="Neurons of every layer.")
    depth: Positive = Field(5, description="L: L - 1 residual blocks; 1 is LayerNorm and a linear readout.")
    block_layers: Literal[1, 2] = Field(1, description="Linear layers of each block.")
    pre_norm: bool = Field(False, description="Whether blocks read normalised inputs, or normalise their sums.")
    output_bias: bool = Field(True, description="Whether the readout has a bias.")
    module: ClassVar[str] = "symlab.networks.layernorm_resnet:LayerNormResNet"


class CausalTransformer(Network):
    """Causal transformer of one head, read at its last token."""

    name: Literal["causal_transformer"]
    width: Positive = Field(64, description="Width of the residual stream.")
    depth: Positive = Field(4, description="Number of blocks.")
    attention_layers: Literal[1, 2] = Field(1, description="Linear maps that W_VO and W_QK are made of.")
    block_layers: Literal[1, 2] = Field(1, description="Linear layers of each MLP.")
    pre_norm: bool = Field(False, description="Whether blocks read normalised inputs, or normalise their sums.")
    output_bias: bool = Field(True, description="Whether the readout has a bias.")
    patch: Positive | None = Field(None, description="Side of a patch in pixels; null for tokens.")
    channels: Positive = Field(1, description="Colour channels of the images.")
    vocabulary: Positive | None = Field(None, description="Number of token ids; null for images.")
    module: ClassVar[str] = "symlab.networks.causal_transformer:CausalTransformer"

    def misfit(self, image: tuple[int, int, int] | None) -> str | None:
        if self.patch is None:
            return None
        if image is None:
            return "network.patch cuts images, but its samples are none"
        return _uncut(self.patch, image) or _misfit(self.channels, image)


NETWORKS: tuple[type[Network], ...] = (
    *(MLP, CoherenceStudent, ResNet20, ResNet18, VGG, ViT, LayerNormResNet, CausalTransformer),
)


class Init(Settings):
    """How W and biases are drawn."""

    name: str


class Lecun(Init):
    """W from N(0, 1/d_in), biases from Unif(+-1/sqrt(d_in))."""

    name: Literal["lecun"]


class TorchDefault(Init):
    """W and biases from Unif(+-1/sqrt(d_in)), PyTorch's default."""

    name: Literal["torch"]


class Kaiming(Init):
    """W from N(0, 2/d_in), biases 0."""

    name: Literal["kaiming"]


class Normal(Init):
    """W from N(0, std^2), biases 0."""

    name: Literal["normal"]
    std: Amount = Field(description="Standard deviation of W.")


INITS: tuple[type[Init], ...] = (Lecun, TorchDefault, Kaiming, Normal)


def build(network: Network, n_inputs: int, n_outputs: int) -> nn.Module:
    """The module that a network's settings describe, with parameters of torch's own initialisation.

    Raises:
        UserError: the network cannot read such inputs.
    """
    options = network.model_dump(exclude={"name"})
    if network.reads_images:
        side = side_of(network.name, n_inputs, options["channels"])
        if misfit := network.misfit((options["channels"], side, side)):
            raise UserError(f"{misfit}.")
    return resolve_name(network.module)(n_inputs=n_inputs, n_outputs=n_outputs, **options)
