"""The multilayer perceptron of the main paper (Appendix F.1), and its sigma-asymmetric relative."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layernorm": nn.LayerNorm,
    "batchnorm": nn.BatchNorm1d,
    "none": lambda width: nn.Identity(),
}


class SigmaActivation(nn.Module):
    """x * sigmoid(C x), C a fixed matrix: a nonlinearity that is not elementwise (sigma-asymmetry, Lim et al. 2024).

    ``C`` is a buffer, drawn from N(0, 1) by ``schemes.fixed_parts.sample_buffers`` once for each mask seed.
    """

    C: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("C", torch.zeros(width, width))

    def forward(self, x: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        return x * torch.sigmoid(x @ self.C.mT)


ACTIVATIONS: dict[str, Callable[[int], nn.Module]] = {
    "gelu": lambda width: nn.GELU(),
    "relu": lambda width: nn.ReLU(),
    "sigma": SigmaActivation,
    "identity": lambda width: nn.Identity(),
}


class MLP(nn.Module):
    """Linear layers, each but the last followed by a norm and an activation.

    Args:
        n_inputs: input dimension d.
        n_outputs: number of logits.
        widths, norm, ..., residual: the keys of ``symlab.networks.MLP``.
    """

    def __init__(
        self,
        n_inputs: int,
        widths: Sequence[int],
        n_outputs: int,
        norm: str = "layernorm",
        activation: str = "gelu",
        bias: bool = True,
        residual: bool = False,
    ):
        super().__init__()
        self.residual = residual
        sizes = [n_inputs, *widths, n_outputs]
        self.linears = nn.ModuleList(nn.Linear(fan_in, fan_out, bias=bias) for fan_in, fan_out in pairwise(sizes))
        self.norms = nn.ModuleList(NORMS[norm](width) for width in widths)
        self.activations = nn.ModuleList(ACTIVATIONS[activation](width) for width in widths)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        *hidden, readout = self.linears
        for layer, (linear, norm, activation) in enumerate(zip(hidden, self.norms, self.activations, strict=True)):
            features = activation(norm(linear(x)))
            x = x + features if self.residual and layer and features.shape == x.shape else features
        return readout(x)

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``hidden1``, ``hidden2``, ... for the neurons of the hidden layers."""
        return {f"linears.{layer}": f"hidden{layer + 1}" for layer in range(len(self.norms))}
