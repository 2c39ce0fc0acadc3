"""Continuous symmetries of a network: found, proven, and (``align``) undone."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from symlab.alignment.signs import general_position
from symlab.batches import Inputs
from symlab.symmetries.actions import Action, find_actions
from symlab.symmetries.trace import Traced


def actions_of(
    module: nn.Module, traced: Traced, x: Tensor | Inputs, like: Mapping[str, Tensor], seed: int = 0
) -> list[Action]:
    """The linear maps of neurons that change nothing, each proven by a random one at random weights in float64.

    Args:
        module: the network that was traced.
        x: a few inputs.
        like: a state of it, by all names, near which the random weights are drawn.
        seed: of weights and maps that are drawn.
    """
    return find_actions(traced.evaluated(general_position(module, like, seed), x, wide=True), seed)
