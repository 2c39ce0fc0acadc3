"""The continuous symmetries of a network: found and proven, and counted against what its outputs allow."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from symlab.batches import Inputs
from symlab.symmetries.actions import Action, find_actions, find_planes
from symlab.symmetries.completeness import Dimensions, dimensions
from symlab.symmetries.proof import GAINS, general_passes
from symlab.symmetries.propagation import alike_value
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
    found = find_actions(general_passes(module, traced, x, like, seed), seed)
    return found + find_planes(general_passes(module, traced, x, like, seed, alike_value), seed)


def dimensions_of(
    module: nn.Module,
    traced: Traced,
    x: Tensor | Inputs,
    like: Mapping[str, Tensor],
    actions: Sequence[Action],
    seed: int = 0,
) -> dict[str, Dimensions]:
    """By group the dimensions of its maps, claimed and measured; of those where weights and inputs are enough to tell.

    Args:
        x: many inputs.
        module, traced, like, actions, seed: as of ``actions_of``, and what that gave.
    """
    (forward,) = general_passes(module, traced, x, like, seed, gains=GAINS[:1])
    outer = {name for group in forward.spec.groups.values() for name in group.within}
    found: dict[str, Dimensions] = {}
    for group in forward.spec.free:
        mine = [action for action in actions if action.group == group and not action.planes]
        told = None if group in outer else dimensions(forward, group, mine, seed)
        found |= {} if told is None else {group: told}
    return found
