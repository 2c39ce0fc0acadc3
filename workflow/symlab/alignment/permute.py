"""Renumbering the neurons of a network, and checking that its function is unchanged.

Permutations follow the convention of ``symlab.alignment.matching``: pi[i] is the neuron that is placed at position i.
"""

import copy
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.alignment.averaging import in_type
from symlab.alignment.forward import outputs
from symlab.batches import Inputs, in_precision, leaves
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import SymmetrySpec, permuted, shape, validate

# Renumbering changes the order in which products are added up, nothing else. In float32 that moves the outputs of nets
# of a few layers and hundreds of neurons by some 1e-6 of their size; a wrong permutation moves them by their size.
RELATIVE_TOLERANCE_IN_EPS = 1000
# A wrong renumbering changes nearly all samples, an error of rounding in float64 hardly one.
MOST_CHANGED = 0.05


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
    module: nn.Module,
    state: Mapping[str, Tensor],
    permuted: Mapping[str, Tensor],
    x: Float[Tensor, "n d"] | Inputs,
    jumps: Collection[str] = (),
) -> str:
    """Check on a batch that ``permuted`` computes the same function as ``state``.

    Outputs, tensor by tensor, may differ by ``RELATIVE_TOLERANCE_IN_EPS`` machine epsilons (1.2e-4 in float32) of the
    largest output. Where a network rounds or picks the largest, an error of rounding may carry a sample across an edge:
    then it is computed in float64, and ``MOST_CHANGED`` of the samples may differ by more.

    Args:
        jumps: operations of the network that are not continuous, as ``Traced.jumps`` names them.

    Returns:
        A sentence on the samples that changed; empty if none did.

    Raises:
        AlignmentError: they differ by more, or some output is not finite.
    """
    before, after = outputs(module, state, x), outputs(module, permuted, x)
    scale, difference, allowed = differences(before, after)
    # Written so that a NaN on either side fails the comparison.
    if np.isfinite(scale) and difference <= allowed:
        return ""
    told = ""
    if jumps and np.isfinite(scale):
        changed = _changed(module, state, permuted, x)
        if changed <= MOST_CHANGED * len(x):
            return (
                f"{changed} of {len(x)} samples change when neurons are renumbered: {', '.join(jumps)} may carry an "
                "error of rounding across an edge."
            )
        told = f"{changed} of {len(x)} samples change, "
    raise AlignmentError(
        f"renumbering the neurons changed the network: {told}outputs of size {scale:.3g} differ by {difference:.3g} "
        f"(rounding allows {allowed:.3g}); the symmetry spec does not fit a {type(module).__name__}."
    )


def differences(before: Any, after: Any) -> tuple[float, float, float]:
    """The largest of some outputs, the largest difference of two evaluations, and the one that rounding allows.

    Of several tensors it is those of the one that differs most for its size.
    """
    found = [_difference(*pair) for pair in zip(leaves(before), leaves(after), strict=True) if pair[0].numel()]
    return max(
        found, key=lambda each: np.nan_to_num(each[1] / max(each[2], 1e-300), nan=np.inf), default=(0.0, 0.0, 0.0)
    )


def _difference(before: Tensor, after: Tensor) -> tuple[float, float, float]:
    if not before.is_floating_point():
        return 1.0, float((after != before).any()), 0.0
    # Masked logits are infinite on both sides.
    alike = (before == after) & before.isinf()
    before, after = before.masked_fill(alike, 0), after.masked_fill(alike, 0)
    scale = float(before.abs().max())
    allowed = RELATIVE_TOLERANCE_IN_EPS * torch.finfo(before.dtype).eps * scale
    return scale, float((after - before).abs().max()), allowed


def _changed(module: nn.Module, state: Mapping[str, Tensor], permuted: Mapping[str, Tensor], x: Tensor | Inputs) -> int:
    """How many samples change by more than float32 allows, computed in float64 if the network can be."""
    exact, wide = copy.deepcopy(module).double(), in_precision(x, torch.float64)
    try:
        pair = [outputs(exact, in_type(each, torch.float64), wide) for each in (state, permuted)]
    except RuntimeError:
        # It makes float32 of something itself, which does not go with float64.
        pair = [outputs(module, each, x) for each in (state, permuted)]
    changed = torch.zeros(len(x), dtype=torch.bool)
    for before, after in zip(*map(leaves, pair), strict=True):
        if before.dim() and len(before) == len(x):
            allowed = RELATIVE_TOLERANCE_IN_EPS * torch.finfo(torch.float32).eps * float(before.abs().max())
            moved = (after.double() - before.double()).abs().reshape(len(x), -1).amax(1)
            changed |= ~(moved <= allowed).cpu()
    return int(changed.sum())
