"""The mean of networks' weights, and their type."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def average(states: Sequence[Mapping[str, Tensor]], weights: Sequence[float] | None = None) -> dict[str, Tensor]:
    """The mean of states of one architecture, added up in float64 and given in the first one's types.

    Args:
        weights: of each state, of any sum but 0; default equal. Of one state the mean is that state, bit for bit.

    Returns:
        The mean by name; integer entries, which are counters, are the first state's.
    """
    weights = [1.0] * len(states) if weights is None else weights
    mean = {}
    for name, first in states[0].items():
        mean[name] = first
        if first.is_floating_point():
            mean[name] = weighted([state[name].double() for state in states], weights).to(first.dtype)
    return mean


def in_type(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """A state with real numbers of a type."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def weighted(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of some tensors; the weights may have any sum but 0."""
    parts = [weight * tensor for tensor, weight in zip(tensors, weights, strict=True)]
    return sum(parts[1:], parts[0]) / sum(weights)
