"""Dimensions of the traced graph's values: index sets, and what views, cuts and transposes make of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from torch import Tensor

from symlab.symmetries.index_sets import (
    IndexSet,
    Positions,
    Split,
    Unsupported,
    common_factors,
    cut,
    fix,
    fixed_set,
    impose,
    product,
    split_set,
    unify,
)


@dataclass(frozen=True)
class Dim:
    """A dimension of a value: the product of its factors; ``factors`` None if the value is constant along it."""

    size: int
    factors: tuple[IndexSet, ...] | None


ONE = Dim(1, ())


@dataclass(frozen=True)
class Value:
    """The axes of a tensor of the traced graph.

    Attributes:
        dims: its dimensions.
        parameter: the name of the parameter or buffer that it is a view of, if it is one.
        whole: whether its dimensions are those of the parameter, each in one piece (in any order).
        known: the tensor itself, if it depends on neither inputs nor parameters.
        positions: what its entries point at, if they are indices of a set that may be permuted.
        picked: entries along a set were picked from another by positions (the last part): which one is no dimension of
            this value any more, but told by its index in the set (the first).
    """

    dims: tuple[Dim, ...]
    parameter: str | None = None
    whole: bool = False
    known: Tensor | None = None
    positions: Positions | None = None
    picked: tuple[tuple[IndexSet, Positions], ...] = ()

    def with_dims(self, dims: Sequence[Dim]) -> "Value":
        """The same entries, in order, in other dimensions."""
        positions = self.positions
        if positions is not None and positions.counted is not None:
            fix(positions.of)
        # As other functions of their indices the positions are others, though they point at the same set.
        positions = positions and replace(positions)
        picked = tuple(pick for pick in self.picked if where_picked(dims, pick[0]) is not None)
        return Value(tuple(dims), self.parameter, positions=positions, picked=picked)


def where_picked(dims: Sequence[Dim], rows: IndexSet) -> int | None:
    """The one dimension whose indices are those of a set; None if there is none or more than one."""
    found = [n for n, dim in enumerate(dims) if dim.factors and rows.root() in [node.root() for node in dim.factors]]
    return found[0] if len(found) == 1 and len(dims[found[0]].factors or ()) == 1 else None


def fixed_dim(size: int, mixed: bool = True) -> Dim:
    """A dimension whose indices stay in place."""
    return Dim(size, (fixed_set(size, mixed),)) if size != 1 else ONE


def uniform_dim(size: int) -> Dim:
    """A dimension along which the value does not change."""
    return Dim(size, None) if size != 1 else ONE


def free_dim(size: int) -> Dim:
    """A dimension of a new set of its own."""
    return Dim(size, (IndexSet(size),)) if size != 1 else ONE


def bound_set(dim: Dim) -> IndexSet:
    """The dimension as one set, with all views that it is a piece of made binding."""
    if dim.factors is None:
        return IndexSet(dim.size)
    for factor in dim.factors:
        impose(factor)
    return product(dim.factors) if dim.factors else IndexSet(dim.size)


def fix_dim(dim: Dim, mixed: bool = True) -> None:
    """Keep the indices of a dimension in place; ``mixed`` as for ``fix``."""
    if dim.factors:
        fix(bound_set(dim), mixed)


def _folded(factors: Sequence[IndexSet | int]) -> tuple[IndexSet, ...] | None:
    """Factors of one dimension; pieces that make up a whole view are the set that it views; integers are uniform."""
    if factors and all(isinstance(factor, int) for factor in factors):
        return None
    nodes = [IndexSet(factor) if isinstance(factor, int) else factor for factor in factors]
    changed = True
    while changed:
        changed = False
        for at, node in enumerate(nodes):
            pieces = node.split.pieces if node.split is not None else ()
            if (
                pieces
                and len(nodes) >= at + len(pieces)
                and all(a is b for a, b in zip(nodes[at:], pieces, strict=False))
            ):
                assert node.split is not None
                nodes[at : at + len(pieces)] = [node.split.source]
                changed = True
                break
    return tuple(nodes)


def _open_split(node: IndexSet, present: Sequence[IndexSet | int]) -> Split | None:
    """The view that ``node`` is a piece of, if it is not yet binding and all its pieces are ``present``."""
    split = node.split
    if split is None or split.imposed:
        return None
    here = {id(other) for other in present}
    return split if all(id(piece) in here for piece in split.pieces) else None


def view(value: Value, sizes: Sequence[int]) -> Value:
    """The value with its entries, in order, in new dimensions; regions that do not factor become fixed.

    Raises:
        Unsupported: the new dimensions hold another number of entries.
    """
    if prod(sizes) != prod(dim.size for dim in value.dims):
        raise Unsupported("a number of entries that changes")
    items: list[IndexSet | int] = []
    for dim in value.dims:
        items += [dim.size] if dim.factors is None else dim.factors
    targets = [(number, size) for number, size in enumerate(sizes) if size != 1]
    fine: dict[int, list[int]] = {at: [_size(item)] for at, item in enumerate(items)}
    contents: dict[int, list[tuple[int, int]]] = {number: [] for number, _ in targets}
    dims: dict[int, Dim] = {}
    at = 0
    while targets:
        region, wanted = [at], [targets.pop(0)]
        at += 1
        have, want = _size(items[region[0]]), wanted[0][1]
        while have != want:
            if have < want:
                region.append(at)
                have *= _size(items[at])
                at += 1
            else:
                wanted.append(targets.pop(0))
                want *= wanted[-1][1]
        common = common_factors([_size(items[i]) for i in region], [size for _, size in wanted])
        if common is None:
            for i in region:
                item = items[i]
                if isinstance(item, IndexSet):
                    impose(item)
                    fix(item)
            dims |= {number: fixed_dim(size) for number, size in wanted}
            continue
        places = []
        remaining = list(common)
        for i in region:
            fine[i] = []
            while prod(fine[i]) < _size(items[i]):
                places.append((i, len(fine[i])))
                fine[i].append(remaining.pop(0))
        for number, size in wanted:
            while prod(fine[i][k] for i, k in contents[number]) < size:
                contents[number].append(places.pop(0))
    pieces = _refined(items, fine)
    for number, places in contents.items():
        if number not in dims:
            dims[number] = Dim(sizes[number], _folded([pieces[i][k] for i, k in places]))
    return value.with_dims([dims.get(number, ONE) for number in range(len(sizes))])


def _size(item: IndexSet | int) -> int:
    return item if isinstance(item, int) else item.size


def _refined(items: list[IndexSet | int], fine: dict[int, list[int]]) -> list[list[IndexSet | int]]:
    """Each item as its pieces of the ``fine`` sizes; a finer view replaces one that is not yet binding."""
    pieces: list[list[IndexSet | int]] = [[] for _ in items]
    for at, item in enumerate(items):
        if pieces[at]:
            continue
        if isinstance(item, int):
            pieces[at] = list(fine[at])
        elif len(fine[at]) == 1:
            pieces[at] = [item]
        elif (split := _open_split(item, items)) is not None:
            where = [next(i for i, other in enumerate(items) if other is piece) for piece in split.pieces]
            new = list(split_set(split.source, [size for i in where for size in fine[i]]))
            for i in where:
                pieces[i] = [new.pop(0) for _ in fine[i]]
        else:
            impose(item)
            pieces[at] = list(split_set(item, fine[at]))
    return pieces


def permute_dims(value: Value, order: Sequence[int]) -> Value:
    """The value with its dimensions in another order."""
    return replace(value.with_dims([value.dims[dim] for dim in order]), whole=value.whole)


def cut_dim(value: Value, at: int, sizes: Sequence[int]) -> list[Value]:
    """Consecutive parts of a value along one dimension."""
    dim = value.dims[at]
    if len(sizes) == 1:
        return [value]

    def parts(dims: Iterable[Dim]) -> list[Value]:
        return [value.with_dims((*value.dims[:at], new, *value.dims[at + 1 :])) for new in dims]

    if not dim.factors:
        return parts(uniform_dim(size) for size in sizes)
    head, *others = dim.factors
    rest = prod(factor.size for factor in others)
    if any(size % rest for size in sizes):
        return parts(Dim(node.size, (node,)) if node.size != 1 else ONE for node in cut(bound_set(dim), sizes))
    heads = [size // rest for size in sizes]
    present = [factor for other in value.dims for factor in other.factors or ()]
    split = _open_split(head, present)
    place = split.pieces.index(head) if split is not None else 0
    if split is None or place == len(split.pieces) - 1:
        impose(head)
        return parts(
            Dim(size, _folded([*([node] if node.size != 1 else []), *others]))
            for size, node in zip(sizes, cut(head, heads), strict=True)
        )
    # A piece of a view is cut: so is what it and those behind it view, and each part is viewed on its own.
    tail = [piece.size for piece in split.pieces[place + 1 :]]
    viewed = split.source
    front: dict[int, list[IndexSet | int]] = {}
    if place:
        impose(split.source)
        viewed = IndexSet(head.size * prod(tail))
        before = [IndexSet(piece.size) for piece in split.pieces[:place]]
        unify(split.source, product([*before, viewed]))
        front = {id(piece): [node] for piece, node in zip(split.pieces[:place], before, strict=True)}
    found = []
    for count, source in zip(heads, cut(viewed, [count * prod(tail) for count in heads]), strict=True):
        new = list(split_set(source, [count, *tail]))
        renamed = front | {id(head): [new.pop(0)] if count > 1 else []}
        renamed |= {id(piece): [other] for piece, other in zip(split.pieces[place + 1 :], new, strict=True)}
        dims = [
            other
            if other.factors is None
            else replace(other, factors=_folded([x for old in other.factors for x in renamed.get(id(old), [old])]))
            for other in value.dims
        ]
        dims[at] = replace(dims[at], size=count * rest)
        found.append(value.with_dims(dims))
    return found
