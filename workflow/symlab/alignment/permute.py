"""Renumbering the neurons of a network, and checking that its function is unchanged.

Permutations follow the convention of ``symlab.alignment.matching``: pi[i] is the neuron that is placed at position i.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.alignment.forward import outputs
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import SymmetrySpec, permuted, shape, validate

# Renumbering changes the order in which products are added up, nothing else. In float32 that moves the outputs of nets
# of a few layers and hundreds of neurons by some 1e-6 of their size; a wrong permutation moves them by their size.
RELATIVE_TOLERANCE_IN_EPS = 1000


class AlignmentError(UserError):
    """A permuted network is not the network it was made from."""


def permute(
    state: Mapping[str, Tensor], spec: SymmetrySpec, permutations: Mapping[str, Int[np.ndarray, "*within d"]]
) -> dict[str, Tensor]:
    """The state of the same network with its neurons renumbered, one permutation a group.

    Raises:
        AlignmentError: a permutation is missing, or is not a bijection of its group's neurons.
        UserError: state and spec do not fit together.
    """
    validate(spec, state)
    if permutations.keys() != spec.groups.keys():
        raise AlignmentError(
            f"permutations are given for {sorted(permutations)}, but groups are {sorted(spec.groups)}."
        )
    for name, pi in permutations.items():
        expected = np.broadcast_to(np.arange(spec.groups[name].size), shape(name, spec.groups))
        if not np.array_equal(np.sort(pi, axis=-1), expected):
            raise AlignmentError(f"the permutation of {name!r} is not a bijection of its {len(expected.T)} neurons.")
    return {name: permuted(tensor, spec.axes[name], permutations, spec.groups) for name, tensor in state.items()}


def check_alignment(
    module: nn.Module, state: Mapping[str, Tensor], permuted: Mapping[str, Tensor], x: Float[Tensor, "n d"]
) -> None:
    """Check on a batch that ``permuted`` computes the same function as ``state``.

    Outputs may differ by ``RELATIVE_TOLERANCE_IN_EPS`` machine epsilons (1.2e-4 in float32) of the largest output.

    Raises:
        AlignmentError: they differ by more, or some output is not finite.
    """
    before, after = outputs(module, state, x), outputs(module, permuted, x)
    scale, difference, allowed = differences(before, after)
    # Written so that a NaN on either side fails the comparison.
    if not (np.isfinite(scale) and difference <= allowed):
        raise AlignmentError(
            f"renumbering the neurons changed the network: outputs of size {scale:.3g} differ by {difference:.3g} "
            f"(rounding allows {allowed:.3g}); the symmetry spec does not fit a {type(module).__name__}."
        )


def differences(before: Tensor, after: Tensor) -> tuple[float, float, float]:
    """The largest of some outputs, the largest difference of two evaluations, and the one that rounding allows."""
    scale = float(before.abs().max())
    allowed = RELATIVE_TOLERANCE_IN_EPS * torch.finfo(before.dtype).eps * scale
    return scale, float((after - before).abs().max()), allowed
