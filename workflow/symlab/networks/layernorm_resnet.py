"""Residual networks of linear layers with LayerNorm, L-RN1 and L-RN2 (Sukenik, Lampert, Mondelli, eq. 1, 2, 15, 16)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


def normalise(x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """LayerNorm without gain and bias: mean 0 and norm sqrt(d) of every vector."""
    return functional.layer_norm(x, (x.shape[-1],))


class LayerNormResNet(nn.Module):
    """A linear map, L - 1 residual blocks relu(W x + b) or W_2 relu(W_1 x + b_1) + b_2, and a linear readout.

    Args:
        n_inputs: input dimension.
        n_outputs: number of classes K.
        width, ..., output_bias: the keys of ``symlab.networks.LayerNormResNet``; d is the width.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        width: int = 64,
        depth: int = 5,
        block_layers: int = 1,
        pre_norm: bool = False,
        output_bias: bool = True,
    ):
        super().__init__()
        self.pre_norm = pre_norm
        self.embedding = nn.Linear(n_inputs, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(block_layers)) for _ in range(depth - 1)
        )
        self.readout = nn.Linear(width, n_outputs, bias=output_bias)

    def features(self, x: Float[Tensor, "n i"]) -> list[Float[Tensor, "n d"]]:
        """X_1, .., X_L, normalised; the readout reads the last."""
        stream = normalise(self.embedding(x))
        layers = [stream]
        for linears in self.blocks:
            # What a pre-LN block reads, and what is measured, is the stream normalised.
            branch = functional.relu(linears[0](layers[-1]))  # type: ignore[index]
            for linear in linears[1:]:  # type: ignore[index]
                branch = linear(branch)
            if self.pre_norm:
                stream = stream + branch
                layers.append(normalise(stream))
            else:
                layers.append(normalise(layers[-1] + branch))
        return layers

    def forward(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n k"]:
        return self.readout(self.features(x)[-1])

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``stream`` for the residual stream, ``block<l>`` for inner neurons of two-layer blocks."""
        names = {"embedding": "stream"}
        for place, linears in enumerate(self.blocks):
            names[f"blocks.{place}.{len(linears) - 1}"] = "stream"  # type: ignore[arg-type]
            if len(linears) > 1:  # type: ignore[arg-type]
                names[f"blocks.{place}.0"] = f"block{place + 1}"
        return names
