"""Tracing a network of the user's, as a function: ``from symlab import trace``."""

from typing import Any

from torch import Tensor, nn

from symlab.own.models import load_models, trace_quietly
from symlab.own.modules import bare, wants_names
from symlab.symmetries.trace import Traced


def trace(module: nn.Module | str, example: Any) -> Traced:
    """Follow every axis of a network's parameters through its forward pass in evaluation mode.

    Args:
        module: the network, or ``pkg.module:function`` that builds it; a method ``group_names() -> dict[str, str]`` may
            name the groups whose neurons are the outputs of the linear map, convolution or embedding at a path.
        example: inputs of a batch of any size, in any form that ``align`` takes (a tuple holds several inputs); only
            their shapes, types and device matter.

    Raises:
        UserError: the forward pass cannot be traced, or two groups would get the same name.
    """
    if isinstance(example, Tensor | tuple) and not wants_names(network := bare(module)):
        return trace_quietly(network, example)
    models = load_models(module, {}, example)
    return trace_quietly(models.module, models.inputs()[:2])
