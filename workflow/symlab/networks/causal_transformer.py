"""Causal transformers of one head without LayerNorm gains: T11, T12, T21, T22 (Sukenik et al., eq. 3-6, 17-20)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from symlab.errors import UserError
from symlab.networks.images import cut, side_of
from symlab.networks.layernorm_resnet import normalise

POSITION_STD = 0.02


class CausalAttention(nn.Module):
    """W_VO Z A with A = softmax(Z^T W_QK Z / sqrt(d)) over the tokens up to each; W_VO and W_QK are one map or two."""

    def __init__(self, width: int, layers: int):
        super().__init__()
        if layers == 1:
            self.query_key = nn.Linear(width, width, bias=False)
            self.value_output = nn.Linear(width, width, bias=False)
        else:
            self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.layers = layers

    def forward(self, z: Float[Tensor, "n c d"], last: bool = False) -> Float[Tensor, "n q d"]:
        """At every token, or at the last alone."""
        asks = z[:, -1:] if last else z
        query, key = (self.query_key(asks), z) if self.layers == 1 else (self.query(asks), self.key(z))
        scores = query @ key.mT / math.sqrt(z.shape[-1])
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=z.device).triu(1 + z.shape[1] - asks.shape[1])
        mixed = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
        if self.layers == 1:
            return self.value_output(mixed @ z)
        return self.output(mixed @ self.value(z))


class Block(nn.Module):
    """Attention and relu(W z + b), or W_2 relu(W_1 z + b_1) + b_2, each added to what it reads or to the stream."""

    def __init__(self, width: int, attention_layers: int, block_layers: int, pre_norm: bool):
        super().__init__()
        self.attention = CausalAttention(width, attention_layers)
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(block_layers))
        self.pre_norm = pre_norm

    def _mlp(self, z: Float[Tensor, "n c d"]) -> Float[Tensor, "n c d"]:
        branch = functional.relu(self.linears[0](z))
        for linear in self.linears[1:]:
            branch = linear(branch)
        return branch

    def forward(self, z: Float[Tensor, "n c d"], last: bool = False) -> Float[Tensor, "n q d"]:
        """Every token, or the last alone, which is all that the last block of a network needs to give."""
        normed = normalise(z)
        stream = z if self.pre_norm else normed
        z = (stream[:, -1:] if last else stream) + self.attention(normed, last)
        if self.pre_norm:
            return z + self._mlp(normalise(z))
        z = normalise(z)
        return z + self._mlp(z)


class CausalTransformer(nn.Module):
    """Token embeddings and positions, L blocks, LayerNorm, and a readout of the last token.

    Inputs are flat square images, cut into patches row by row, or token ids.

    Args:
        n_inputs: channels * side^2, or tokens of a text.
        n_outputs: number of classes K.
        width, ..., vocabulary: the keys of ``symlab.networks.CausalTransformer``; d is the width and L the depth.

    Raises:
        UserError: ``patch`` does not divide the images' side, or not exactly one of ``patch`` and ``vocabulary`` is
            given.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        width: int = 64,
        depth: int = 4,
        attention_layers: int = 1,
        block_layers: int = 1,
        pre_norm: bool = False,
        output_bias: bool = True,
        patch: int | None = None,
        channels: int = 1,
        vocabulary: int | None = None,
    ):
        super().__init__()
        if (patch is None) == (vocabulary is None):
            raise UserError("network.patch (images) or network.vocabulary (tokens) has to be given, and not both.")
        self.grid: tuple[int, ...] | None = None
        self.pre_norm = pre_norm
        self.embedding: nn.Linear | nn.Embedding
        if patch is not None:
            side = side_of("causal_transformer", n_inputs, channels)
            if side % patch:
                raise UserError(f"network.patch = {patch} does not divide the images' side of {side} pixels.")
            self.grid = (channels, side // patch, patch, side // patch, patch)
            tokens = (side // patch) ** 2
            self.embedding = nn.Linear(channels * patch * patch, width)
        else:
            tokens = n_inputs
            self.embedding = nn.Embedding(vocabulary, width)  # type: ignore[arg-type]
        self.positions = nn.Parameter(torch.zeros(1, tokens, width))
        self.blocks = nn.ModuleList(Block(width, attention_layers, block_layers, pre_norm) for _ in range(depth))
        self.readout = nn.Linear(width, n_outputs, bias=output_bias)

    def features(self, x: Float[Tensor, "n i"]) -> list[Float[Tensor, "n d"]]:
        """The last token after the embedding and after each block, normalised; the readout reads the last."""
        return [normalise(z[:, -1]) for z in self.streams(x, last=True)]

    def streams(self, x: Float[Tensor, "n i"], last: bool = False) -> list[Float[Tensor, "n c d"]]:
        """All tokens after the embedding and after each block, or after the last one the ``last`` alone."""
        z = self.embedding(x.long() if self.grid is None else cut(x, self.grid)) + self.positions
        streams = [normalise(z) if self.pre_norm else z]
        for number, block in enumerate(self.blocks, 1):
            streams.append(block(streams[-1], last and number == len(self.blocks)))
        return streams

    def forward(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n k"]:
        return self.readout(self.features(x)[-1])

    def sample_own_parameters(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Initial positions, N(0, 0.02^2), and token embeddings, N(0, 1); linear maps are drawn with everyone's."""
        drawn = {"positions": torch.randn(self.positions.shape, generator=generator) * POSITION_STD}
        if self.grid is None:
            drawn["embedding.weight"] = torch.randn(self.embedding.weight.shape, generator=generator)
        return drawn

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``stream`` for the residual stream, ``block<l>`` for inner neurons of two-layer MLPs."""
        names = {"embedding": "stream"}
        for place, block in enumerate(self.blocks):
            last = len(block.linears) - 1  # type: ignore[arg-type]
            names[f"blocks.{place}.linears.{last}"] = "stream"
            if last:
                names[f"blocks.{place}.linears.0"] = f"block{place + 1}"
        return names
