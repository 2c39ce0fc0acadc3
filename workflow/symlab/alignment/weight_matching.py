"""Weight matching: the renumbering of B's neurons under which its weights agree best with A's, without any data.

Coordinate descent as in Git Re-Basin (Ainsworth et al. 2023, Algorithm 1), on any network that has a symmetry spec.
Where it ends depends on where it starts; see ``anchored``.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.anchored import anchored_starts
from symlab.alignment.matching import Permutations, compose, joint, match_all
from symlab.alignment.similarities import Similarities, Step, agreement, along, inner, occurrences_in
from symlab.errors import UserError
from symlab.products import fast_products
from symlab.symmetries.symmetry_spec import (
    Axes,
    Group,
    SymmetrySpec,
    blocks,
    groups_of,
    identity,
    permuted,
    random_permutations,
    validate,
)

# What a batch norm measured, and how often: no parameters of the function that was trained.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
# Sums of n products in float64 are exact to some n eps at worst; a step must gain more than that to count.
SMALLEST_GAIN = 1e-12
# What a correlation of 1 is worth beside a similarity of 1 of all weights: neurons that differ in the former, by more
# than a part in some thousands, are told apart by it.
CORRELATION = 100.0


@dataclass(frozen=True)
class WeightMatching:
    """Permutations of all groups, and what they are worth.

    Attributes:
        permutations: by group, as ``permute`` takes them.
        similarity: sum over tensors of <A, permuted B> over the product of the norms of A and B; 1 if they are equal.
        histories: for each start the similarity there and after every step that was accepted, the last of them exact,
            those before to ``LARGEST_ERROR``. No other start follows one that ends at 1, which none could exceed.
    """

    permutations: Permutations
    similarity: float
    histories: tuple[tuple[float, ...], ...]


@fast_products()
def weight_matching(
    spec: SymmetrySpec,
    state_A: Mapping[str, Tensor],
    state_B: Mapping[str, Tensor],
    rng: np.random.Generator,
    restarts: int = 1,
    roots: Collection[str] | None = None,
    correlations: Mapping[str, Float[np.ndarray, "d d"]] | None = None,
) -> WeightMatching:
    """Permutations of B that maximise the sum over tensors of <A, permuted B>, by coordinate descent.

    One step matches a group and those within it, while all others stay as they are, from the similarity of neuron i of
    A and neuron j of B in all tensors and axes in which they act. That is the best step, except where a group acts on
    two axes of a tensor: there the other axis is held at its present order, and a step that would lower the sum is
    refused. Passes over all groups in random order end when none of them gains; a step is left out while no tensor
    changes in which it acts. Sums are in float64, but for the similarities of large float32 tensors. States stay in
    their types and B's tensors where they are until they move: beside the states there are, at most, a renumbered copy
    of B in its type, similarities and a few tensors in float64.

    Args:
        state_A, state_B: states of one architecture; the running statistics of batch norms do not count.
        rng: order of the steps and starts.
        restarts: starts, of which the best is returned: the identity, the anchored ones (by gain, from the outputs,
            by share; those that differ), then random permutations.
        roots: groups within no others, to be matched with all within them while the rest stays in place; default all.
        correlations: S of some groups, for B as it is, which come before the weights: these only decide between
            neurons that S does not tell apart. The histories hold ``CORRELATION`` times what a match gains in S.

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
    A, B = ({name: state[name].detach() for name in counted} for state in (state_A, state_B))
    scale = math.prod(math.sqrt(sum(_square(name, state[name]) for name in counted)) for state in (A, B)) or 1.0
    wanted = [root for root in spec.groups if not spec.groups[root].within and (roots is None or root in roots)]
    steps = [step for root in wanted for step in _steps(root, spec, A)]
    runs = []
    for _, start in zip(range(restarts), _starts(spec, A, B, steps, scale, rng), strict=False):
        runs.append(_descend(spec, A, B, start, steps, scale, rng, correlations or {}))
        if not correlations and runs[-1][1][-1] > 1 - SMALLEST_GAIN:
            break
    best = max(range(len(runs)), key=lambda run: runs[run][1][-1])
    return WeightMatching(runs[best][0], runs[best][1][-1], tuple(tuple(history) for _, history in runs))


def _square(name: str, tensor: Tensor) -> float:
    square = inner(tensor, tensor)
    if not math.isfinite(square):
        raise UserError(f"{name!r} has entries that are not finite, so its neurons cannot be matched.")
    return square


def _steps(root: str, spec: SymmetrySpec, state: Mapping[str, Tensor]) -> list[Step]:
    """The steps that cover a root group and all within it.

    Two groups within the root that act on the same entries of a tensor cannot be matched by one assignment, so they get
    different steps.
    """
    tree = [name for name, group in spec.groups.items() if name == root or root in group.within]
    tensors = tuple(name for name in state if any(root in groups_of(axis) for axis in spec.axes[name]))
    parts = [block for name in tensors for block in blocks(state[name], spec.axes[name], spec.groups)]
    together: set[frozenset[str]] = set()
    for block in parts:
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
    return [
        Step(
            root,
            {name: spec.groups[name] for name in tree},
            frozenset(active),
            tensors,
            best=all(len(occurrences_in(part, active, spec.groups)) < 2 for part in parts),
        )
        for active in rounds
    ]


def _starts(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    steps: Sequence[Step],
    scale: float,
    rng: np.random.Generator,
) -> Iterator[Permutations]:
    """Starts of the descent: the identity, the anchored ones that differ from those before, then random ones."""
    known = [identity(spec)]
    yield known[0]
    for start in anchored_starts(spec, A, B, steps, scale):
        if not any(all(np.array_equal(start[group], other[group]) for group in start) for other in known):
            known.append(start)
            yield start
    while True:
        yield random_permutations(spec, rng)


def _descend(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    start: Permutations,
    steps: Sequence[Step],
    scale: float,
    rng: np.random.Generator,
    correlations: Mapping[str, Float[np.ndarray, "d d"]],
) -> tuple[Permutations, list[float]]:
    """Coordinate descent from one start: permutations, and the similarity after each accepted step."""
    current, stays = start, identity(spec)
    # As contiguous as what is renumbered, so that sums are added up in the same order.
    moved = {name: tensor.contiguous() for name, tensor in B.items()}
    if any(not np.array_equal(start[group], stays[group]) for group in start):
        moved = {name: permuted(tensor, spec.axes[name], start, spec.groups) for name, tensor in B.items()}
    history = [agreement(A, moved) / scale]
    similarities = Similarities(spec, A, B, steps, scale)
    owned: set[str] = set()
    # Steps that may gain: the others would find again what they found, in tensors that have not changed since.
    open_steps = set(range(len(steps)))

    def correlation(orders: Permutations) -> float:
        return sum(along(S, joint(group, orders, spec.groups)) for group, S in correlations.items())

    gained = True
    while gained:
        gained = False
        for index in rng.permutation(len(steps)):
            if index not in open_steps:
                continue
            open_steps.remove(index)
            step = steps[index]
            # Relative to the present order, so that groups which are not matched in this step are the identity.
            of_weights = similarities.of(index, moved, current)
            scores = dict(of_weights)
            for group in step.active & correlations.keys():
                S = CORRELATION * scale * correlations[group][:, joint(group, current, spec.groups)]
                scores[group] = scores[group] + S if group in scores else S
            update = match_all(scores, step.groups)
            if all(np.array_equal(update[group], stays[group]) for group in step.active):
                continue
            then = current | compose(current, update, step.groups)
            gain = similarities.gain(index, moved, of_weights, update) / scale
            gain += CORRELATION * (correlation(then) - correlation(current))
            if gain > SMALLEST_GAIN:
                similarities.follow(index, update, then)
                matched = {group: update[group] for group in step.active}
                for name in step.tensors:
                    moved[name] = _renumbered(moved[name], spec.axes[name], matched, spec.groups, name in owned)
                owned |= set(step.tensors)
                current, gained = then, True
                history.append(history[-1] + gain)
                changed = set(step.tensors)
                open_steps |= {other for other, each in enumerate(steps) if not changed.isdisjoint(each.tensors)}
                if step.best:
                    open_steps.remove(index)
    if len(history) > 1 and not correlations:
        history[-1] = agreement(A, moved) / scale
    return current, history


def _renumbered(
    tensor: Tensor, axes: Axes, matched: Permutations, groups: Mapping[str, Group], in_place: bool
) -> Tensor:
    """The tensor with its neurons renumbered; the same, if that is allowed, where few neurons of one group move."""
    pi, *within = matched.values()
    rows = np.flatnonzero(pi != np.arange(pi.shape[-1]))
    if within or not in_place or 2 * len(rows) > len(pi):
        return permuted(tensor, axes, matched, groups)
    to, source = (torch.from_numpy(each).to(tensor.device) for each in (rows, pi[rows]))
    for block in blocks(tensor, axes, groups):
        for dim, (label, _) in enumerate(block.labels):
            if label in matched:
                block.tensor.index_copy_(dim, to, block.tensor.index_select(dim, source))
    return tensor
