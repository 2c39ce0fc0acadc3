"""Layers of a merged network by least squares (PLeaS, Nasery et al. 2024): fitted to what the networks' layers do.

After matching, a linear map or convolution gets the weights with which the mean of the networks' inputs to it gives the
mean of its outputs in them: W = argmin E |W z + b - y|^2, where z and y are these means. Where features of networks
differ by more than their order, as by any invertible map, this undoes what the mean of the weights does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from symlab.alignment.averaging import average, weighted
from symlab.alignment.forward import batch_rows, outputs, watching
from symlab.batches import Inputs

# Directions in which a layer's inputs deviate by less than this share of the largest deviation keep the mean weights:
# float32 and few samples tell nothing of them.
RESOLVED = 1e-4


class _Moments:
    """Sums of products, in float64, of a layer's mean inputs z and mean outputs y."""

    def __init__(self, z: Float[Tensor, "n d"], y: Float[Tensor, "n o"]):
        self.n = 0
        (self.sum_z, self.sum_y), d = (t.new_zeros(t.shape[1], dtype=torch.float64) for t in (z, y)), z.shape[1]
        self.zz, self.yz = (t.new_zeros(t.shape[1], d, dtype=torch.float64) for t in (z, y))

    def add(self, z: Float[Tensor, "n d"], y: Float[Tensor, "n o"]) -> None:
        """Take in a batch."""
        z, y = z.double(), y.double()
        self.n += len(z)
        self.sum_z += z.sum(0)
        self.sum_y += y.sum(0)
        self.zz += z.T @ z
        self.yz += y.T @ z

    def solved(
        self, weight: Float[Tensor, "o d"], bias: Float[Tensor, " o"] | None
    ) -> tuple[Float[Tensor, "o d"], Float[Tensor, " o"] | None]:
        """Weights and biases that fit best; in directions in which inputs hardly vary as they are given."""
        mean_z, mean_y = self.sum_z / self.n, self.sum_y / self.n
        zz, yz = self.zz / self.n, self.yz / self.n
        if bias is not None:
            zz, yz = zz - torch.outer(mean_z, mean_z), yz - torch.outer(mean_y, mean_z)
        size, direction = torch.linalg.eigh(zz)
        inverse = torch.where(size > RESOLVED**2 * size[-1], 1 / size, 0.0)
        weight = weight + (yz - weight @ zz) @ (direction * inverse) @ direction.T
        return weight, None if bias is None else mean_y - weight @ mean_z


def least_squares(
    module: nn.Module,
    states: Sequence[Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."] | Inputs,
    weights: Sequence[float] | None = None,
    rows: int | None = None,
) -> dict[str, Tensor]:
    """Networks in one order as one, its linear maps and convolutions fitted, everything else their mean.

    Args:
        weights: of each network in all means, of any sum but 0; default equal.
        rows: inputs in one forward pass.
    """
    layers = _fitted_layers(module, states[0])
    weights = [1.0] * len(states) if weights is None else weights
    moments: dict[str, _Moments] = {}
    for batch in x.split(rows or batch_rows(x)):
        calls: dict[str, list[list[tuple[Tensor, Tensor]]]] = {}
        for state in states:
            for path, pairs in _recorded(module, layers, state, batch).items():
                calls.setdefault(path, []).append(pairs)
        for path, of_states in calls.items():
            for of_call in zip(*of_states, strict=True):
                z, y = (weighted(tensors, weights) for tensors in zip(*of_call, strict=True))
                moments.setdefault(path, _Moments(z, y)).add(z, y)
    result = average(states, weights)
    for path, of_layer in moments.items():
        weight, bias = result[f"{path}.weight"], result.get(f"{path}.bias")
        fitted, of_bias = of_layer.solved(weight.double().flatten(1), None if bias is None else bias.double())
        result[f"{path}.weight"] = fitted.reshape(weight.shape).to(weight.dtype)
        if bias is not None and of_bias is not None:
            result[f"{path}.bias"] = of_bias.to(bias.dtype)
    return result


def unfitted(module: nn.Module, state: Mapping[str, Tensor]) -> list[str]:
    """Names of matrices that ``least_squares`` leaves their mean.

    They are those of grouped or transposed convolutions, of layers that share their weights, and of what is no linear
    map or convolution of torch.
    """
    fitted = _fitted_layers(module, state)
    matrices = [name for name, tensor in module.named_parameters() if tensor.dim() > 1]
    return [name for name in matrices if name.removesuffix(".weight") not in fitted]


def _fitted_layers(module: nn.Module, state: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """Linear maps and convolutions by their paths, whose weights are their own alone and parameters themselves."""
    holders: dict[int, int] = {}
    for _, parameter in module.named_parameters(remove_duplicate=False):
        holders[id(parameter)] = holders.get(id(parameter), 0) + 1
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d)
    return {
        path: layer
        for path, layer in module.named_modules()
        if isinstance(layer, kinds)
        and f"{path}.weight" in state
        and holders.get(id(layer.weight)) == 1
        and getattr(layer, "groups", 1) == 1
    }


def _recorded(
    module: nn.Module, layers: Mapping[str, nn.Module], state: Mapping[str, Tensor], x: Tensor | Inputs
) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Inputs [n, d] and outputs [n, o] of each call of the layers, by path."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def see(path: str, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        # Copies, for what follows may change them in place.
        found.setdefault(path, []).append(_rows(layers[path], inputs[0].clone(), output.clone()))

    with watching(module, layers, see):
        outputs(module, state, x)
    return found


def _rows(layer: Any, z: Tensor, y: Tensor) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n o"]]:
    """A row for each place: of a convolution's input the patch that it sees there."""
    if isinstance(layer, nn.Linear):
        return z.reshape(-1, z.shape[-1]), y.reshape(-1, y.shape[-1])
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    sides = layer._reversed_padding_repeated_twice
    if any(sides):
        z = functional.pad(z, sides, mode=mode)
    if len(kernel) == 1:
        z, kernel, stride, dilation = z[..., None, :], (1, *kernel), (1, *stride), (1, *dilation)
    patches = functional.unfold(z, kernel, dilation, 0, stride)
    return patches.transpose(1, 2).reshape(-1, patches.shape[1]), y.flatten(2).transpose(1, 2).reshape(-1, y.shape[1])
