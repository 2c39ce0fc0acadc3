"""The vision transformer of the main paper's Appendix G.4 (Dosovitskiy et al. 2021, at the size of CIFAR-10)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from symlab.networks.images import cut, side_of

EMBEDDING_STD = 0.02


class Attention(nn.Module):
    """Multi-head self-attention with separate maps; head h owns the h-th block of dim / heads rows of each map."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Float[Tensor, "n t e"]) -> Float[Tensor, "n t e"]:
        query, key, value = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a GELU MLP, each after a LayerNorm and added to the residual stream."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def forward(self, x: Float[Tensor, "n t e"]) -> Float[Tensor, "n t e"]:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches and a class token pass pre-norm transformer blocks; the class token is read out.

    Args:
        n_inputs: channels * side^2; inputs are flat and become square patches, row by row.
        n_outputs: number of logits.
        patch, ..., channels: the keys of ``symlab.networks.ViT``, which checks that they go together.

    Raises:
        UserError: the inputs are no square images of ``channels`` channels.
    """

    def __init__(
        self, n_inputs: int, n_outputs: int, patch: int, dim: int, depth: int, heads: int, mlp_ratio: int, channels: int
    ):
        super().__init__()
        side = side_of("vit", n_inputs, channels)
        per_side = side // patch
        self.grid = (channels, per_side, patch, per_side, patch)
        self.patch_embedding = nn.Linear(channels * patch * patch, dim)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, per_side * per_side + 1, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, n_outputs)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        tokens = self.patch_embedding(cut(x, self.grid))
        x = torch.cat([self.class_token.expand(tokens.shape[0], -1, -1), tokens], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.readout(self.norm(x)[:, 0])

    def sample_own_parameters(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Initial class token and position embeddings, N(0, 0.02^2); the linear maps are drawn with everyone's."""
        return {
            name: torch.randn(parameter.shape, generator=generator) * EMBEDDING_STD
            for name, parameter in (("class_token", self.class_token), ("positions", self.positions))
        }

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``stream`` for the residual stream, ``mlp<b>`` for the hidden neurons of block b."""
        names = {"patch_embedding": "stream"}
        for b in range(len(self.blocks)):
            path = f"blocks.{b}"
            names |= {f"{path}.attention.output": "stream", f"{path}.mlp.0": f"mlp{b + 1}", f"{path}.mlp.2": "stream"}
        return names
