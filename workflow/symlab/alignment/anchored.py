"""Anchored starts of weight matching: root groups matched one after another, each by its anchored weights alone.

Anchored are weights whose other neurons stand in the final order already: axes without a group, groups that no step
moves, and matched ones. The starts differ in which root is next, of those that have anchored weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any

from torch import Tensor

from symlab.alignment.matching import Permutations, compose, joint, match_all
from symlab.alignment.similarities import Similarities, Step, along, occurrences_in, other_groups
from symlab.symmetries.symmetry_spec import SymmetrySpec, blocks, identity, permuted

# Next is the root whose match gains most, the network's last, or the one with the largest share of weights anchored.
ORDERS = ("gain", "outputs", "share")
# What matches are worth as <A, permuted B>, and they: by root, groups it was anchored by, and a digest of their orders.
Matches = dict[tuple[Any, ...], tuple[float, Permutations]]


def anchored_starts(
    spec: SymmetrySpec, A: Mapping[str, Tensor], B: Mapping[str, Tensor], steps: Sequence[Step], scale: float
) -> Iterator[Permutations]:
    """A start for each of ``ORDERS``; what one has matched is not matched again for another."""
    similarities, known = Similarities(spec, A, B, steps, scale), Matches()
    return (_anchored(similarities, B, order, known) for order in ORDERS)


def _anchored(similarities: Similarities, B: Mapping[str, Tensor], order: str, known: Matches) -> Permutations:
    spec, steps = similarities.spec, similarities.steps
    current, moved = identity(spec), dict(B)
    settled = spec.groups.keys() - {group for step in steps for group in step.groups}
    left: dict[str, list[tuple[int, set[str]]]] = {}
    for step in steps:
        left.setdefault(step.root, []).extend(_beside(step, similarities))
    while left:
        shares = {root: _share(beside, settled) for root, beside in left.items()}
        candidates = [root for root, share in shares.items() if share > 0] or [*left]
        if order == "share":
            candidates = [max(candidates, key=lambda root: shares[root])]
        elif order == "outputs":
            candidates = candidates[-1:]
        found = {}
        for root in candidates:
            anchors = sorted(settled & set[str]().union(*(others for _, others in left[root])))
            key = (root, *anchors, sha256(b"".join(current[group].tobytes() for group in anchors)).digest())
            if key not in known:
                known[key] = _match_root(similarities, root, moved, settled)
            found[root] = known[key]
        root = max(candidates, key=lambda root: found[root][0])
        update = found[root][1]
        for name in {name for step in steps if step.root == root for name in step.tensors}:
            moved[name] = permuted(moved[name], spec.axes[name], update, spec.groups)
        current |= update
        settled |= update.keys()
        del left[root]
    return current


def _share(beside: Sequence[tuple[int, set[str]]], settled: AbstractSet[str]) -> float:
    """The anchored share of entries."""
    return sum(size for size, others in beside if others <= settled) / max(1, sum(size for size, _ in beside))


def _beside(step: Step, similarities: Similarities) -> list[tuple[int, set[str]]]:
    """For each block in which a step's group acts beside other axes: its number of entries, and the other groups.

    Biases and weights of norms have no other neurons and do not count: they say little of who is who.
    """
    spec, A = similarities.spec, similarities.A
    return [
        (block.tensor.numel(), other_groups(block, dims))
        for name in step.tensors
        for block in blocks(A[name], spec.axes[name], spec.groups)
        for dims in occurrences_in(block, step.active, spec.groups)
        if block.tensor.dim() > len(dims)
    ]


def _match_root(
    similarities: Similarities, root: str, moved: Mapping[str, Tensor], settled: AbstractSet[str]
) -> tuple[float, Permutations]:
    """What the match of a root and all within it, by anchored weights, is worth as <A, permuted B>; and the match."""
    groups, axes = similarities.spec.groups, similarities.spec.axes
    own = [(index, step) for index, step in enumerate(similarities.steps) if step.root == root]
    worth, found = 0.0, dict[str, Any]()
    for index, step in own:
        S = similarities.anchored(index, moved, settled)
        update = match_all(S, step.groups)
        worth += sum(along(S[group], joint(group, update, groups)) for group in S)
        found = compose(found, update, step.groups) if found else update
        if len(own) > 1:
            matched = {group: update[group] for group in step.active}
            of_root = {name: permuted(moved[name], axes[name], matched, groups) for name in step.tensors}
            moved, settled = {**moved, **of_root}, settled | step.active
    return worth, found
