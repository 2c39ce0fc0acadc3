"""Similarities of weights, neuron by neuron: what a step of weight matching is made by; kept while few neurons move."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.alignment.matching import Permutations, compose, joint
from symlab.symmetries.symmetry_spec import (
    Block,
    Group,
    SymmetrySpec,
    blocks,
    dim_of,
    inverse,
    permuted,
    permuted_block,
    shape,
)

# A step in tensors of so many entries has its similarities in float32, unless the weights are more precise, and keeps
# them for the next pass, as long as there is room for all kept.
LARGE = 2**20
# Gains from similarities in float32 are off by less than its eps times the product of the norms (measured on ResNet-50:
# 2e-10); smaller gains are computed from the weights.
LARGEST_ERROR = 1e-7
KEPT_BYTES = 2**30


@dataclass(frozen=True)
class Step:
    """A root group and the ``groups`` within it, those of them that are matched in one step, and the tensors of theirs.

    Groups within the root that are not ``active`` keep their order inside the outer neurons they are in. The step is
    ``best`` if no tensor has two axes in which its groups act: done once more, it would find nothing.
    """

    root: str
    groups: dict[str, Group]
    active: frozenset[str]
    tensors: tuple[str, ...]
    best: bool


def agreement(A: Mapping[str, Tensor], B: Mapping[str, Tensor]) -> float:
    """The sum over B's tensors of <A, B>, in float64."""
    return sum(inner(A[name], b) for name, b in B.items())


def inner(a: Tensor, b: Tensor) -> float:
    # In parts that stay in the cache while they are in float64.
    parts = zip(a.reshape(-1).split(2**15), b.reshape(-1).split(2**15), strict=True)
    return float(sum(torch.dot(x.double(), y.double()) for x, y in parts))


def along(S: Float[np.ndarray, "d d"], pi: Int[np.ndarray, " d"]) -> float:
    return float(S[np.arange(len(S)), pi].sum(dtype=np.float64))


@dataclass
class _Kept:
    """What a step's similarities were under some permutations of B."""

    similarities: dict[str, Float[Tensor, "d d"]]
    permutations: Permutations


class Similarities:
    """For each step's active groups <A's neuron i, B's neuron j> over all blocks in which they are innermost.

    In late passes few neurons move. A step in large tensors therefore keeps its similarities and adds the products of
    what changed in B since: in rounding they may differ from those that are computed anew.
    """

    def __init__(
        self,
        spec: SymmetrySpec,
        A: Mapping[str, Tensor],
        B: Mapping[str, Tensor],
        steps: Sequence[Step],
        scale: float,
    ) -> None:
        self.spec, self.A, self.steps, self.scale = spec, A, steps, scale
        self.in_float32: set[int] = set()
        self.keeping: set[int] = set()
        self.kept: dict[int, _Kept] = {}
        of_root = Counter(step.root for step in steps)
        room = KEPT_BYTES
        for index, step in enumerate(steps):
            if sum(A[name].numel() for name in step.tensors) < LARGE:
                continue
            if all(state[name].element_size() <= 4 for state in (A, B) for name in step.tensors):
                self.in_float32.add(index)
            entries = sum(math.prod(shape(group, spec.groups)) ** 2 for group in step.active)
            needed = entries * self._type(index).itemsize
            # Two steps of one root, or two axes of a tensor, would move what the others' similarities are made of.
            if step.best and of_root[step.root] == 1 and needed <= room:
                self.keeping.add(index)
                room -= needed

    def _type(self, index: int) -> torch.dtype:
        return torch.float32 if index in self.in_float32 else torch.float64

    def of(self, index: int, moved: Mapping[str, Tensor], current: Permutations) -> dict[str, Float[np.ndarray, "d d"]]:
        """The similarities of a step for B as it is now: ``moved``, by the permutations ``current``."""
        step, dtype = self.steps[index], self._type(index)
        kept = self.kept.get(index)
        found = {} if kept is None else kept.similarities
        back = {} if kept is None else _back(kept.permutations, current, self.spec.groups)
        for name in step.tensors:
            for group, dims, A, B in self._acted_on(step, name, moved[name]):
                if kept is None:
                    a, b = (_by_neuron(each, dims).to(dtype) for each in (A.tensor, B.tensor))
                elif back.keys() & {label for label, _ in B.labels}:
                    a, b, c = (each.to(dtype) for each in _changed(A, B, dims, back, self.spec.groups))
                    b = b - c
                else:
                    continue
                if kept is None:
                    _add_product(found, group, a, b)
                else:
                    # By torch itself: what has changed is of another size each time, which oneDNN prepares for.
                    found[group].addmm_(a, b.T)
        if index in self.keeping:
            self.kept[index] = _Kept(found, current)
        return {group: S.cpu().numpy() for group, S in found.items()}

    def anchored(
        self, index: int, moved: Mapping[str, Tensor], settled: AbstractSet[str]
    ) -> dict[str, Float[np.ndarray, "d d"]]:
        """The similarities of a step in those blocks alone whose other groups are ``settled``."""
        step, dtype = self.steps[index], self._type(index)
        found: dict[str, Tensor] = {}
        for name in step.tensors:
            for group, dims, A, B in self._acted_on(step, name, moved[name]):
                if other_groups(A, dims) <= settled:
                    _add_product(found, group, *(_by_neuron(each.tensor, dims).to(dtype) for each in (A, B)))
        return {group: S.cpu().numpy() for group, S in found.items()}

    def gain(
        self,
        index: int,
        moved: Mapping[str, Tensor],
        found: Mapping[str, Float[np.ndarray, "d d"]],
        update: Permutations,
    ) -> float:
        """What a step with similarities ``found`` adds to the sum over tensors of <A, permuted B>."""
        step, groups = self.steps[index], self.spec.groups
        if step.best:
            orders = {group: joint(group, update, groups) for group in found}
            gained = sum(along(S, orders[group]) - along(S, np.arange(len(S))) for group, S in found.items())
            if index not in self.in_float32 or gained > LARGEST_ERROR * self.scale:
                return gained
        matched = {group: update[group] for group in step.active}
        before = {name: moved[name] for name in step.tensors}
        after = {name: permuted(tensor, self.spec.axes[name], matched, groups) for name, tensor in before.items()}
        return agreement(self.A, after) - agreement(self.A, before)

    def follow(self, index: int, update: Permutations, then: Permutations) -> None:
        """Take in that a step was accepted: ``update`` made the permutations ``then``."""
        if index in self.keeping:
            similarities = self.kept[index].similarities
            for group, S in similarities.items():
                order = torch.from_numpy(joint(group, update, self.spec.groups)).to(S.device)
                similarities[group] = S.index_select(1, order)
            self.kept[index] = _Kept(similarities, then)

    def _acted_on(self, step: Step, name: str, moved: Tensor) -> Iterator[tuple[str, tuple[int, ...], Block, Block]]:
        """Each innermost active group that acts on A's and B's tensor, block by block, and the dimensions of it."""
        axes, groups = self.spec.axes[name], self.spec.groups
        for A, B in zip(blocks(self.A[name], axes, groups), blocks(moved, axes, groups), strict=True):
            for dims in occurrences_in(A, step.active, groups):
                group = A.labels[dims[-1]][0]
                assert group is not None
                yield group, dims, A, B


def _add_product(
    found: dict[str, Float[Tensor, "d d"]], group: str, a: Float[Tensor, "d n"], b: Float[Tensor, "d n"]
) -> None:
    product = a @ b.T
    found[group] = found[group].add_(product) if group in found else product


def other_groups(block: Block, dims: Sequence[int]) -> set[str]:
    """The groups that act on a block, but for those of some dimensions."""
    return {group for dim, (group, _) in enumerate(block.labels) if dim not in dims and group is not None}


def _by_neuron(tensor: Tensor, dims: Sequence[int]) -> Float[Tensor, "d n"]:
    rest = [dim for dim in range(tensor.dim()) if dim not in dims]
    return tensor.permute(*dims, *rest).reshape(math.prod(tensor.shape[dim] for dim in dims), -1)


def _changed(
    A: Block, B: Block, dims: Sequence[int], back: Permutations, groups: Mapping[str, Group]
) -> Iterator[Float[Tensor, "d n"]]:
    """Of A, of B and of B as it was before, by neuron, the columns in which B's other axes have been renumbered."""
    others = [(dim, label) for dim, (label, _) in enumerate(B.labels) if label in back and dim not in dims]
    if len(others) == 1 and not groups[others[0][1]].within:
        dim, label = others[0]
        source = torch.from_numpy(back[label]).to(B.tensor.device)
        changed = (source != torch.arange(len(source), device=source.device)).nonzero().flatten()
        places = (A, changed), (B, changed), (B, source[changed])
        return (_by_neuron(block.tensor.index_select(dim, at), dims) for block, at in places)
    rest = [dim for dim in range(B.tensor.dim()) if dim not in dims]
    numbers = torch.arange(math.prod(B.tensor.shape[dim] for dim in rest), device=B.tensor.device)
    columns = Block(numbers.reshape([B.tensor.shape[dim] for dim in rest]), tuple(B.labels[dim] for dim in rest))
    source = permuted_block(columns, back, groups).flatten()
    changed = (source != numbers).nonzero().flatten()
    places = (A, changed), (B, changed), (B, source[changed])
    return (_by_neuron(block.tensor, dims).index_select(1, at) for block, at in places)


def _back(
    before: Mapping[str, Int[np.ndarray, "*within d"]],
    now: Mapping[str, Int[np.ndarray, "*within d"]],
    groups: Mapping[str, Group],
) -> Permutations:
    """The permutations that take what is in the order ``now`` to the order ``before``, of groups that differ."""
    differ = {name for name in groups if not np.array_equal(before[name], now[name])}
    differ |= {name for name, group in groups.items() if not differ.isdisjoint(group.within)}
    differ |= {outer for name in differ for outer in groups[name].within}
    concerned = {name: group for name, group in groups.items() if name in differ}
    return compose(inverse(now, concerned), before, concerned)


def occurrences_in(block: Block, active: Collection[str], groups: Mapping[str, Group]) -> list[tuple[int, ...]]:
    """Where a step's groups act on a block: for each innermost active group the dimensions (outermost first)."""
    chains = []
    for dim, (name, axis) in enumerate(block.labels):
        if name is not None and name in active:
            outer = tuple(dim_of(group, axis, block.labels) for group in groups[name].within)
            chains.append((*outer, dim))
    return [chain for chain in chains if not any(chain == other[: len(chain)] for other in chains if other != chain)]
