"""REPAIR: giving an averaged network the channel statistics that its two ends have (Jordan et al. 2023).

The hidden units of an interpolated network vary less than those of its ends ("variance collapse"), which alone makes
for a barrier. REPAIR rescales every channel to the mean and deviation interpolated from the ends.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from symlab.alignment.forward import outputs, watching
from symlab.batches import Inputs, leaves
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
    states: Sequence[Mapping[str, Tensor]],
    x: Float[Tensor, "t d"] | Inputs,
    foldable: bool = False,
) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """A network that rescales the outputs of its hidden linear maps and convolutions, and its states for some ends.

    Every such layer is followed by a batch norm, whose weight and bias at an end are the deviations and means that
    the layer's outputs have there. Averaged states therefore have the averaged goals; what is left to do is to estimate
    running statistics anew, as for any network with batch norm.

    Args:
        x: training inputs on which statistics are measured.
        foldable: rescale those layers alone that have a weight and a bias of their own, so that ``folded`` can.

    Returns:
        The module, and the states, which have the norms' entries beside the ends' own. At an end the network's function
        is the end's up to the noise of batches' statistics.

    Raises:
        UserError: there are no inputs, or no layer can be rescaled where ``foldable`` asks for some.
    """
    if len(x) == 0:
        raise UserError("REPAIR needs training inputs to measure channel statistics on: the data set is empty.")
    rescaling = copy.deepcopy(module)
    names = _hidden_layers(module, states[0], x[:2])
    if foldable:
        names = [name for name in names if _is_foldable(module, name)]
        if not names:
            raise UserError(
                f"REPAIR cannot be written into the weights of a {type(module).__name__}: none of its hidden linear "
                "maps and convolutions has a weight and a bias of its own; leave it out (batch norms get statistics of "
                "their own without it)."
            )
    # A layer's own weight may be made of others, by a norm of weights, and lie in no state.
    like = next(tensor for tensor in states[0].values() if tensor.is_floating_point())
    for name in names:
        layer: Any = module.get_submodule(name)
        linear = isinstance(layer, nn.Linear)
        norm = _Rescaled(layer.out_features if linear else layer.out_channels, channels_last=linear)
        norm.to(like)
        # A part of the layer, applied by a hook: the layer stays where it is, with its weight, for whatever reads it.
        rescaled_layer = rescaling.get_submodule(name)
        rescaled_layer.add_module("rescaled", norm)
        rescaled_layer.register_forward_hook(_rescale)
    return rescaling, [_with_goals(rescaling, names, state, x) for state in states]


def _with_goals(
    rescaling: nn.Module, names: Sequence[str], state: Mapping[str, Tensor], x: Tensor | Inputs
) -> dict[str, Tensor]:
    """An end's state with the entries of the norms behind its layers, as they are measured there."""
    norms = {
        f"{name}.rescaled.{entry}": tensor
        for name in names
        for entry, tensor in rescaling.get_submodule(f"{name}.rescaled").state_dict().items()
    }
    measuring = copy.deepcopy(rescaling)
    for part in measuring.modules():
        if isinstance(part, _Rescaled):
            part.measuring = True
    measured = running_statistics(measuring, {**state, **norms}, x)
    for name in names:
        prefix = f"{name}.rescaled."
        norms[prefix + "weight"] = (measured[prefix + "running_var"] + EPSILON).sqrt()
        norms[prefix + "bias"] = measured[prefix + "running_mean"]
    return {**state, **norms, **measured}


def folded(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The plain network's state that computes what a state for ``with_goal_statistics(..., foldable=True)`` does.

    Layers take up the affine map that the norm behind them is with its running statistics.
    """
    suffix = ".rescaled.weight"
    plain = {entry: tensor for entry, tensor in state.items() if ".rescaled." not in entry}
    for name in (entry.removesuffix(suffix) for entry in state if entry.endswith(suffix)):
        norm = {entry: state[f"{name}.rescaled.{entry}"] for entry in ("weight", "bias", "running_mean", "running_var")}
        scale = norm["weight"] / (norm["running_var"] + EPSILON).sqrt()
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        plain[f"{name}.weight"] = scale.view(-1, *(1 for _ in weight.shape[1:])) * weight
        plain[f"{name}.bias"] = scale * (bias - norm["running_mean"]) + norm["bias"]
    return plain


def _is_foldable(module: nn.Module, name: str) -> bool:
    """Whether a layer has a weight, by rows its outputs, and a bias that no other layer has."""
    layer = module.get_submodule(name)
    own = dict(layer.named_parameters(recurse=False))
    holders = [id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False)]
    return (
        not isinstance(layer, _ConvTransposeNd)
        and own.keys() >= {"weight", "bias"}
        and all(holders.count(id(parameter)) == 1 for parameter in own.values())
    )


def _rescale(layer: Any, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return layer.rescaled(output)


def _hidden_layers(module: nn.Module, state: Mapping[str, Tensor], x: Tensor | Inputs) -> list[str]:
    """The linear maps and convolutions that run once, but for one whose output is the network's."""
    seen: dict[str, list[Tensor]] = {}
    layers = [name for name, part in module.named_modules() if name and isinstance(part, nn.Linear | _ConvNd)]
    with watching(module, layers, lambda name, _, output: seen.setdefault(name, []).append(output)):
        out = outputs(module, state, x)
    # All outputs are kept, so a storage is shared by views of the same output alone.
    given = {leaf.untyped_storage()._cdata for leaf in leaves(out)}
    return [name for name, of in seen.items() if len(of) == 1 and of[0].untyped_storage()._cdata not in given]
