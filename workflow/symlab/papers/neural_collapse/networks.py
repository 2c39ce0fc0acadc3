"""The networks of a grid of runs, and what they descend beside the kernel's losses."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet, normalise
from symlab.papers.neural_collapse.samples import Samples
from symlab.papers.neural_collapse.settings import Runs
from symlab.training.on_samples import TrainingData
from symlab.training.samples import losses


class EveryToken(CausalTransformer):
    """A transformer that predicts at each token; features are those of all tokens, one below the other."""

    def features(self, x: Float[Tensor, "n c"]) -> list[Float[Tensor, "nc d"]]:
        return [normalise(z).flatten(0, 1) for z in self.streams(x)]

    def forward(self, x: Float[Tensor, "n c"]) -> Float[Tensor, "n c k"]:
        return self.readout(normalise(self.streams(x)[-1]))


class Shift(nn.Module):
    """A linear layer whose weights are 0: its bias, or nothing."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.bias = None if linear.bias is None else nn.Parameter(torch.zeros(linear.out_features))

    def forward(self, z: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        # With what it reads, whose parameters then have gradients, of 0.
        return 0 * z if self.bias is None else 0 * z + self.bias

    def sample_own_parameters(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Uniform between -1 and 1, so that half of those behind a relu have a slope."""
        return {} if self.bias is None else {"bias": 2 * torch.rand(self.bias.shape, generator=generator) - 1}


def with_zeros(network: LayerNormResNet | CausalTransformer) -> nn.Module:
    """The network, changed in place, with hidden weights that are 0 for good; biases stay.

    Every deeper one contains it, at no penalty.
    """
    for module in list(network.blocks.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Shift(child))
    return network


def build_network(grid: Runs, samples: Samples, L: int) -> LayerNormResNet | CausalTransformer:
    """A network of a grid for its samples, with L as the paper counts it."""
    shape = samples.x.shape[1], samples.classes, grid.width, L
    if not grid.transformer:
        return LayerNormResNet(*shape, int(grid.network[2]), grid.pre_norm, grid.has_bias)
    reads: dict[str, Any] = {"vocabulary": samples.words}
    if samples.image is not None:
        reads = {"patch": grid.patch, "channels": samples.image[0]}
    attention, mlp = map(int, grid.network[1:])
    kind = EveryToken if grid.every_token else CausalTransformer
    return kind(*shape, attention, mlp, grid.pre_norm, grid.has_bias, **reads)


def penalties_by_path(network: nn.Module, hidden: float, last: float) -> dict[str, float]:
    """What each parameter is penalised by: neither embeddings and positions nor biases."""
    names = [name for name, _ in network.named_parameters()]
    weights = [name for name in names if name.startswith("blocks.") and "bias" not in name]
    return {**dict.fromkeys(names, 0.0), **dict.fromkeys(weights, hidden), "readout.weight": last}


def margin_loss(outputs: Float[Tensor, "*r n k"], y: Int[Tensor, "*r n"]) -> Float[Tensor, "*r"]:
    """Mean over samples and wrong classes of max(0, m_y - (z_y - z_j))^2 / 2, with margins m_y = 1 + y / K."""
    K = outputs.shape[-1]
    own = outputs.gather(-1, y.unsqueeze(-1))
    short = (1 + y.unsqueeze(-1) / K - (own - outputs)).clamp_min(0)
    others = 1 - functional.one_hot(y, K).to(outputs)
    return (short.square() * others).sum(dim=-1).mean(dim=-1) / (2 * (K - 1))


@dataclass(frozen=True)
class Margins(TrainingData):
    """Samples whose loss is ``margin_loss``."""

    def losses(self, outputs: Float[Tensor, "*r b k"], targets: Int[Tensor, "*r b"]) -> Float[Tensor, "*r"]:
        return margin_loss(outputs, targets)


@dataclass(frozen=True)
class Tokens(TrainingData):
    """Texts [n, c] each of whose tokens is a sample, with the next one as its target [n, c].

    A context that recurs is one sample whose label is the mix of what follows: a causal network gives it one feature.
    """

    def losses(self, outputs: Float[Tensor, "*r b c k"], targets: Int[Tensor, "*r b c"]) -> Float[Tensor, "*r"]:
        return losses("classification", outputs, targets).mean(dim=-1)

    def hits(self, outputs: Float[Tensor, "*r b c k"], targets: Int[Tensor, "*r b c"]) -> Bool[Tensor, "*r b"]:
        return (outputs.argmax(dim=-1) == targets).all(dim=-1)
