"""Weight matching: the renumbering of B's neurons under which its weights agree best with A's, without any data.

Coordinate descent as in Git Re-Basin (Ainsworth et al. 2023, Algorithm 1), on any network that has a symmetry spec.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.matching import Permutations, joint, match_all
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import (
    Axes,
    Block,
    Group,
    SymmetrySpec,
    blocks,
    dim_of,
    groups_of,
    identity,
    permuted,
    random_permutations,
    shape,
    validate,
)

# What a batch norm measured, and how often: no parameters of the function that was trained.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
# Sums of n products in float64 are exact to some n eps at worst; a step must gain more than that to count.
SMALLEST_GAIN = 1e-12


@dataclass(frozen=True)
class WeightMatching:
    """Permutations of all groups, and what they are worth.

    Attributes:
        permutations: by group, as ``permute`` takes them.
        similarity: sum over tensors of <A, permuted B> over the product of the norms of A and B; 1 if they are equal.
        histories: for each restart the similarity at its start and after every step that was accepted.
    """

    permutations: Permutations
    similarity: float
    histories: tuple[tuple[float, ...], ...]


def weight_matching(
    spec: SymmetrySpec,
    state_A: Mapping[str, Tensor],
    state_B: Mapping[str, Tensor],
    rng: np.random.Generator,
    restarts: int = 1,
) -> WeightMatching:
    """Permutations of B that maximise the sum over tensors of <A, permuted B>, by coordinate descent.

    One step matches a group and those within it, while all others stay as they are, from the similarity of neuron i of
    A and neuron j of B in all tensors and axes in which they act. That is the best step, except where a group acts on
    two axes of a tensor: there the other axis is held at its present order, and a step that would lower the sum is
    refused. Passes over all groups in random order end when none of them gains.

    Args:
        state_A, state_B: states of one architecture; the running statistics of batch norms do not count.
        rng: order of the steps and starts.
        restarts: the first starts at the identity, the others at random permutations; the best is returned.

    Raises:
        UserError: spec and states do not fit together, or some weight is not finite.
    """
    validate(spec, state_A)
    validate(spec, state_B)
    counted = [
        name
        for name, tensor in state_A.items()
        if tensor.is_floating_point() and name.rpartition(".")[2] not in STATISTICS
    ]
    A, B = ({name: state[name].detach().double() for name in counted} for state in (state_A, state_B))
    for state in (A, B):
        for name, tensor in state.items():
            if not tensor.isfinite().all():
                raise UserError(f"{name!r} has entries that are not finite, so its neurons cannot be matched.")
    scale = math.prod(math.sqrt(sum(float(t.square().sum()) for t in state.values())) for state in (A, B)) or 1.0
    steps = [step for root in spec.groups if not spec.groups[root].within for step in _steps(root, spec, A)]
    runs = []
    for restart in range(restarts):
        start = identity(spec) if restart == 0 else random_permutations(spec, rng)
        runs.append(_descend(spec, A, B, start, steps, scale, rng))
    best = max(range(restarts), key=lambda run: runs[run][1][-1])
    return WeightMatching(runs[best][0], runs[best][1][-1], tuple(tuple(history) for _, history in runs))


@dataclass(frozen=True)
class _Step:
    """A root group and the groups within it that are matched in one step, and the tensors in which they act.

    Groups within the root that are not ``active`` keep their order inside the outer neurons they are in.
    """

    root: str
    active: frozenset[str]
    tensors: tuple[str, ...]


def _steps(root: str, spec: SymmetrySpec, state: Mapping[str, Tensor]) -> list[_Step]:
    """The steps that cover a root group and all within it.

    Two groups within the root that act on the same entries of a tensor cannot be matched by one assignment, so they get
    different steps.
    """
    tree = [name for name, group in spec.groups.items() if name == root or root in group.within]
    tensors = tuple(name for name in state if any(root in groups_of(axis) for axis in spec.axes[name]))
    together: set[frozenset[str]] = set()
    for name in tensors:
        for block in blocks(state[name], spec.axes[name], spec.groups):
            present = {label for label, _ in block.labels if label in tree}
            together |= {frozenset((one, other)) for one in present for other in present if one != other}

    def conflict(one: str, other: str) -> bool:
        nested = one in spec.groups[other].within or other in spec.groups[one].within
        return not nested and frozenset((one, other)) in together

    rounds: list[set[str]] = []
    for name in tree:
        outer = set(spec.groups[name].within)
        for active in rounds:
            if outer <= active and not any(conflict(name, other) for other in active):
                active.add(name)
                break
        else:
            # Groups that contain this one are needed for its matching; conflicts of theirs have been seen before.
            rounds.append(outer | {name})
    return [_Step(root, frozenset(active), tensors) for active in rounds]


def _descend(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    start: Permutations,
    steps: Sequence[_Step],
    scale: float,
    rng: np.random.Generator,
) -> tuple[Permutations, list[float]]:
    """Coordinate descent from one start: permutations, and the similarity after each accepted step."""
    current = start
    moved = {name: permuted(tensor, spec.axes[name], current, spec.groups) for name, tensor in B.items()}
    history = [_inner(A, moved, list(A)) / scale]
    gained = True
    while gained:
        gained = False
        for index in rng.permutation(len(steps)):
            step = steps[index]
            # Relative to the present order, so that groups which are not matched in this step are the identity.
            update = match_all(_similarities(step, spec, A, moved), spec.groups)
            matched = {group: update[group] for group in step.active}
            after = {name: permuted(moved[name], spec.axes[name], matched, spec.groups) for name in step.tensors}
            gain = (_inner(A, after, step.tensors) - _inner(A, moved, step.tensors)) / scale
            if gain > SMALLEST_GAIN:
                moved |= after
                current = _compose(current, update, spec.groups)
                history.append(history[-1] + gain)
                gained = True
    return current, history


def _inner(A: Mapping[str, Tensor], B: Mapping[str, Tensor], names: Sequence[str]) -> float:
    return sum(float(torch.dot(A[name].reshape(-1), B[name].reshape(-1))) for name in names)


def _compose(first: Permutations, then: Permutations, groups: Mapping[str, Group]) -> Permutations:
    """The permutations that have the effect of ``first``, and ``then`` on its result."""
    return {
        name: (joint(name, first, groups)[joint(name, then, groups)] % group.size).reshape(shape(name, groups))
        for name, group in groups.items()
    }


def _similarities(
    step: _Step, spec: SymmetrySpec, A: Mapping[str, Tensor], B: Mapping[str, Tensor]
) -> dict[str, Float[np.ndarray, "d d"]]:
    """For each active group <A's neuron i, B's neuron j> over all blocks in which it is the innermost active one."""
    similarities: dict[str, Tensor] = {}
    for name in step.tensors:
        axes: Axes = spec.axes[name]
        for block_A, block_B in zip(
            blocks(A[name], axes, spec.groups), blocks(B[name], axes, spec.groups), strict=True
        ):
            for dims in _occurrences(block_A, step, spec.groups):
                group = block_A.labels[dims[-1]][0]
                assert group is not None
                rest = [dim for dim in range(block_A.tensor.dim()) if dim not in dims]
                d = math.prod(block_A.tensor.shape[dim] for dim in dims)
                a, b = (block.tensor.permute(*dims, *rest).reshape(d, -1) for block in (block_A, block_B))
                S = a @ b.T
                similarities[group] = similarities[group] + S if group in similarities else S
    return {group: S.cpu().numpy() for group, S in similarities.items()}


def _occurrences(block: Block, step: _Step, groups: Mapping[str, Group]) -> list[tuple[int, ...]]:
    """Where the step's groups act on a block: for each innermost active group the dimensions (outermost first)."""
    chains = []
    for dim, (name, axis) in enumerate(block.labels):
        if name in step.active:
            outer = tuple(dim_of(group, axis, block.labels) for group in groups[name].within)
            chains.append((*outer, dim))
    return [chain for chain in chains if not any(chain == other[: len(chain)] for other in chains if other != chain)]
