"""REPAIR: giving an averaged network the channel statistics that its two ends have (Jordan et al. 2023).

The hidden units of an interpolated network vary less than those of its ends ("variance collapse"), which alone makes
for a barrier. REPAIR rescales every channel to the mean and deviation interpolated from the ends.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from symlab.alignment.forward import outputs
from symlab.connectivity.norm_statistics import running_statistics
from symlab.errors import UserError

# Variances far below this are left as they are. Ends keep their function for any value, because the goal has it too.
EPSILON = 1e-10


class _Rescaled(_BatchNorm):
    """A batch norm over the channels of a linear map's [..., m] or a convolution's [n, m, ...] outputs.

    While ``measuring``, it takes statistics and lets its input through.
    """

    measuring = False

    def __init__(self, channels: int, channels_last: bool):
        super().__init__(channels, eps=EPSILON)
        self.channels_last = channels_last

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        flat = input.flatten(0, -2) if self.channels_last else input
        rescaled = super().forward(flat)
        return input if self.measuring else rescaled.view_as(input)


def with_goal_statistics(
    module: nn.Module,
    state_A: Mapping[str, Tensor],
    state_B: Mapping[str, Tensor],
    x: Float[Tensor, "t d"],
    batch_size: int | None = None,
) -> tuple[nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    """A network that rescales the outputs of its hidden linear maps and convolutions, and its states for A and B.

    Every such layer is followed by a batch norm, whose weight and bias at A are the deviations and means that the
    layer's outputs have in A. Interpolated states therefore have the interpolated goals; what is left to do at each
    lambda is to estimate running statistics anew, as for any network with batch norm.

    Args:
        x: training inputs on which statistics are measured.

    Returns:
        The module, and the states, which have the norms' entries beside those of A and B.
        At lambda 0 and 1 the network's function is that of A and B up to the noise of batches' statistics.

    Raises:
        UserError: there are no inputs.
    """
    if len(x) == 0:
        raise UserError("REPAIR needs training inputs to measure channel statistics on: the data set is empty.")
    rescaling = copy.deepcopy(module)
    names = _hidden_layers(module, state_A, x[:2])
    for name in names:
        layer: Any = module.get_submodule(name)
        linear = isinstance(layer, nn.Linear)
        norm = _Rescaled(layer.out_features if linear else layer.out_channels, channels_last=linear)
        norm.to(state_A[f"{name}.weight"])
        # A part of the layer, applied by a hook: the layer stays where it is, with its weight, for whatever reads it.
        rescaled_layer = rescaling.get_submodule(name)
        rescaled_layer.add_module("rescaled", norm)
        rescaled_layer.register_forward_hook(_rescale)
    states = []
    for state in (state_A, state_B):
        norms = {
            f"{name}.rescaled.{entry}": tensor
            for name in names
            for entry, tensor in rescaling.get_submodule(f"{name}.rescaled").state_dict().items()
        }
        measuring = copy.deepcopy(rescaling)
        for part in measuring.modules():
            if isinstance(part, _Rescaled):
                part.measuring = True
        measured = running_statistics(measuring, {**state, **norms}, x, batch_size)
        for name in names:
            prefix = f"{name}.rescaled."
            norms[prefix + "weight"] = (measured[prefix + "running_var"] + EPSILON).sqrt()
            norms[prefix + "bias"] = measured[prefix + "running_mean"]
        states.append({**state, **norms, **measured})
    return rescaling, states[0], states[1]


def _rescale(layer: Any, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return layer.rescaled(output)


def _hidden_layers(module: nn.Module, state: Mapping[str, Tensor], x: Float[Tensor, "n d"]) -> list[str]:
    """The linear maps and convolutions that run once, but for one whose output is the network's."""
    seen: dict[str, list[Tensor]] = {}

    def recorder(name: str):
        return lambda _module, _inputs, output: seen.setdefault(name, []).append(output)

    handles = [
        submodule.register_forward_hook(recorder(name))
        for name, submodule in module.named_modules()
        if name and isinstance(submodule, nn.Linear | _ConvNd)
    ]
    try:
        out = outputs(module, state, x)
    finally:
        for handle in handles:
            handle.remove()
    # All outputs are kept, so memory is shared by views of the same output alone.
    given = out.untyped_storage().data_ptr()
    return [name for name, of in seen.items() if len(of) == 1 and of[0].untyped_storage().data_ptr() != given]
