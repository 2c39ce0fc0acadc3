"""Weight matching: the renumbering of B's neurons under which its weights agree best with A's, without any data.

Coordinate descent as in Git Re-Basin (Ainsworth et al. 2023, Algorithm 1), on any network that has a symmetry spec.
Where it ends depends on where it starts. An anchored start is built first: its groups are matched one after another,
each by those weights alone whose other neurons stand in the final order already, from the network's inputs or outputs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.alignment.matching import Permutations, compose, joint, match_all
from symlab.errors import UserError
from symlab.products import fast_products
from symlab.symmetries.symmetry_spec import (
    Axes,
    Block,
    Group,
    SymmetrySpec,
    blocks,
    dim_of,
    groups_of,
    identity,
    inverse,
    permuted,
    permuted_block,
    random_permutations,
    shape,
    validate,
)

# What a batch norm measured, and how often: no parameters of the function that was trained.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
# Sums of n products in float64 are exact to some n eps at worst; a step must gain more than that to count.
SMALLEST_GAIN = 1e-12
# What a correlation of 1 is worth beside a similarity of 1 of all weights: neurons that differ in the former, by more
# than a part in some thousands, are told apart by it.
CORRELATION = 100.0
# A step in tensors of so many entries has its similarities in float32, unless the weights are more precise, and keeps
# them for the next pass, as long as there is room for all kept.
LARGE = 2**20
# Gains from similarities in float32 are off by less than its eps times the product of the norms (measured on ResNet-50:
# 2e-10); smaller gains are computed from the weights.
LARGEST_ERROR = 1e-7
KEPT_BYTES = 2**30


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
        restarts: starts, of which the best is returned: the identity, an anchored start from the inputs, one from the
            outputs, then random permutations (also in place of an anchored start that an earlier one equals).
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
    square = _inner(tensor, tensor)
    if not math.isfinite(square):
        raise UserError(f"{name!r} has entries that are not finite, so its neurons cannot be matched.")
    return square


@dataclass(frozen=True)
class _Step:
    """A root group and the ``groups`` within it, those of them that are matched in one step, and the tensors of theirs.

    Groups within the root that are not ``active`` keep their order inside the outer neurons they are in. The step is
    ``best`` if no tensor has two axes in which its groups act: done once more, it would find nothing.
    """

    root: str
    groups: dict[str, Group]
    active: frozenset[str]
    tensors: tuple[str, ...]
    best: bool


def _steps(root: str, spec: SymmetrySpec, state: Mapping[str, Tensor]) -> list[_Step]:
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
        _Step(
            root,
            {name: spec.groups[name] for name in tree},
            frozenset(active),
            tensors,
            best=all(len(_occurrences(part, active, spec.groups)) < 2 for part in parts),
        )
        for active in rounds
    ]


def _starts(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    steps: Sequence[_Step],
    scale: float,
    rng: np.random.Generator,
) -> Iterator[Permutations]:
    """Starts of the descent: identity, anchored from inputs, from outputs, where they differ; random without end."""
    known, orders = [identity(spec)], []
    yield known[0]
    for from_outputs in (False, True):
        order = _order(spec, A, steps, from_outputs)
        start = random_permutations(spec, rng) if order in orders else _anchored(spec, A, B, steps, scale, order)
        if any(all(np.array_equal(start[group], other[group]) for group in start) for other in known):
            start = random_permutations(spec, rng)
        known.append(start)
        orders.append(order)
        yield start
    while True:
        yield random_permutations(spec, rng)


def _order(
    spec: SymmetrySpec, A: Mapping[str, Tensor], steps: Sequence[_Step], from_outputs: bool
) -> dict[str, frozenset[str]]:
    """In which order an anchored start matches roots, each with those groups beside it which are in order by then.

    Anchored are weights whose other neurons are in order: axes without a group, groups that no step moves, and matched
    ones. Next is the root that has the largest share of its weights anchored, or, from the outputs, the last of the
    network that has any. Biases and weights of norms have no other neurons and do not count here: they say little of
    who is who.
    """
    first: dict[str, _Step] = {}
    for step in steps:
        first.setdefault(step.root, step)
    left = {root: _parts(step, spec, A) for root, step in first.items()}
    settled = spec.groups.keys() - {group for step in steps for group in step.groups}
    order = {}
    while left:
        shares = {
            root: sum(size for size, others in parts if others <= settled) / max(1, sum(size for size, _ in parts))
            for root, parts in left.items()
        }
        begun = [root for root, share in shares.items() if share > 0]
        root = (begun or [*shares])[-1] if from_outputs else max(shares, key=lambda root: shares[root])
        beside: set[str] = set().union(*(others for _, others in left.pop(root)))
        order[root] = frozenset(beside & settled)
        settled |= first[root].groups.keys()
    return order


def _parts(step: _Step, spec: SymmetrySpec, A: Mapping[str, Tensor]) -> list[tuple[int, set[str]]]:
    """For each block in which a step's group acts beside other axes: its number of entries, and the other groups."""
    found = []
    for name in step.tensors:
        for block in blocks(A[name], spec.axes[name], spec.groups):
            for dims in _occurrences(block, step.active, spec.groups):
                if block.tensor.dim() > len(dims):
                    found.append((block.tensor.numel(), _others(block, dims)))
    return found


def _anchored(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    steps: Sequence[_Step],
    scale: float,
    order: Mapping[str, frozenset[str]],
) -> Permutations:
    """Permutations found root by root, each by its anchored weights alone, as ``_order`` says; one pass of products."""
    similarities = _Similarities(spec, A, B, steps, scale)
    current, moved = identity(spec), dict(B)
    for root, settled in order.items():
        for index, step in enumerate(steps):
            if step.root != root:
                continue
            update = match_all(similarities.anchored(index, moved, settled), step.groups)
            matched = {group: update[group] for group in step.active}
            for name in step.tensors:
                moved[name] = permuted(moved[name], spec.axes[name], matched, spec.groups)
            current |= compose(current, update, step.groups)
            settled |= step.active
    return current


def _descend(
    spec: SymmetrySpec,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    start: Permutations,
    steps: Sequence[_Step],
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
    history = [_agreement(A, moved) / scale]
    similarities = _Similarities(spec, A, B, steps, scale)
    owned: set[str] = set()
    # Steps that may gain: the others would find again what they found, in tensors that have not changed since.
    open_steps = set(range(len(steps)))
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
            if correlations:
                worth = [_correlated(correlations, each, spec.groups) for each in (current, then)]
                gain += CORRELATION * (worth[1] - worth[0])
            if gain > SMALLEST_GAIN:
                similarities.follow(index, update, then)
                matched = {group: update[group] for group in step.active}
                for name in step.tensors:
                    moved[name] = _renumbered(moved[name], spec.axes[name], matched, spec.groups, name in owned)
                owned |= set(step.tensors)
                current = then
                history.append(history[-1] + gain)
                gained = True
                changed = set(step.tensors)
                open_steps |= {other for other, each in enumerate(steps) if not changed.isdisjoint(each.tensors)}
                if step.best:
                    open_steps.remove(index)
    if len(history) > 1 and not correlations:
        history[-1] = _agreement(A, moved) / scale
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


def _agreement(A: Mapping[str, Tensor], B: Mapping[str, Tensor]) -> float:
    """The sum over B's tensors of <A, B>, in float64."""
    return sum(_inner(A[name], b) for name, b in B.items())


def _inner(a: Tensor, b: Tensor) -> float:
    # In parts that stay in the cache while they are in float64.
    parts = zip(a.reshape(-1).split(2**15), b.reshape(-1).split(2**15), strict=True)
    return float(sum(torch.dot(x.double(), y.double()) for x, y in parts))


def _along(S: Float[np.ndarray, "d d"], pi: Int[np.ndarray, " d"]) -> float:
    return float(S[np.arange(len(S)), pi].sum(dtype=np.float64))


def _correlated(
    correlations: Mapping[str, Float[np.ndarray, "d d"]], permutations: Permutations, groups: Mapping[str, Group]
) -> float:
    return sum(_along(S, joint(group, permutations, groups)) for group, S in correlations.items())


@dataclass
class _Kept:
    """What a step's similarities were under some permutations of B."""

    similarities: dict[str, Float[Tensor, "d d"]]
    permutations: Permutations


class _Similarities:
    """For each step's active groups <A's neuron i, B's neuron j> over all blocks in which they are innermost.

    In late passes few neurons move. A step in large tensors therefore keeps its similarities and adds the products of
    what changed in B since: in rounding they may differ from those that are computed anew.
    """

    def __init__(
        self,
        spec: SymmetrySpec,
        A: Mapping[str, Tensor],
        B: Mapping[str, Tensor],
        steps: Sequence[_Step],
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
                if _others(A, dims) <= settled:
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
            gained = sum(_along(S, orders[group]) - _along(S, np.arange(len(S))) for group, S in found.items())
            if index not in self.in_float32 or gained > LARGEST_ERROR * self.scale:
                return gained
        matched = {group: update[group] for group in step.active}
        before = {name: moved[name] for name in step.tensors}
        after = {name: permuted(tensor, self.spec.axes[name], matched, groups) for name, tensor in before.items()}
        return _agreement(self.A, after) - _agreement(self.A, before)

    def follow(self, index: int, update: Permutations, then: Permutations) -> None:
        """Take in that a step was accepted: ``update`` made the permutations ``then``."""
        if index in self.keeping:
            similarities = self.kept[index].similarities
            for group, S in similarities.items():
                order = torch.from_numpy(joint(group, update, self.spec.groups)).to(S.device)
                similarities[group] = S.index_select(1, order)
            self.kept[index] = _Kept(similarities, then)

    def _acted_on(self, step: _Step, name: str, moved: Tensor) -> Iterator[tuple[str, tuple[int, ...], Block, Block]]:
        """Each innermost active group that acts on A's and B's tensor, block by block, and the dimensions of it."""
        axes, groups = self.spec.axes[name], self.spec.groups
        for A, B in zip(blocks(self.A[name], axes, groups), blocks(moved, axes, groups), strict=True):
            for dims in _occurrences(A, step.active, groups):
                group = A.labels[dims[-1]][0]
                assert group is not None
                yield group, dims, A, B


def _add_product(
    found: dict[str, Float[Tensor, "d d"]], group: str, a: Float[Tensor, "d n"], b: Float[Tensor, "d n"]
) -> None:
    product = a @ b.T
    found[group] = found[group].add_(product) if group in found else product


def _others(block: Block, dims: Sequence[int]) -> set[str]:
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


def _occurrences(block: Block, active: Collection[str], groups: Mapping[str, Group]) -> list[tuple[int, ...]]:
    """Where a step's groups act on a block: for each innermost active group the dimensions (outermost first)."""
    chains = []
    for dim, (name, axis) in enumerate(block.labels):
        if name is not None and name in active:
            outer = tuple(dim_of(group, axis, block.labels) for group in groups[name].within)
            chains.append((*outer, dim))
    return [chain for chain in chains if not any(chain == other[: len(chain)] for other in chains if other != chain)]
