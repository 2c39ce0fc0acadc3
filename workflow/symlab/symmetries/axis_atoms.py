"""Index sets of tensor axes, merged and refined while a network is traced.

Every axis is an ``IndexSet``. Two axes whose positions an operation pairs are unified: they become one set. A set may
turn out to be made of smaller ones, as a product (heads x dimensions) or a concatenation (query, key, value); what is
left unstructured in the end is an atom. A free atom may be permuted, provided this is done wherever it occurs; a fixed
one stays in place. Whatever cannot be reconciled becomes fixed, so the sets never allow more than they should. Of a
fixed atom it is known whether its indices still stand for what they stood for: they do if it was only paired with an
axis of an input, an output or a constant; they are mixed if an operation may have moved or combined what is along it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod

from torch import Tensor


class Unsupported(Exception):
    """No rule covers this use of an operation; the message says what about it, or is empty."""


OPERATION: ContextVar[str] = ContextVar("operation", default="an operation")
"""What is being applied, for people: it is to blame for what it keeps in place."""


class IndexSet:
    """``size`` indices; a node of a union-find forest whose roots are atoms, products or concatenations.

    ``sorted_by``: the indices stand in the order of these positions, which changes when what they point at is
    renumbered. Such an atom is as free as the set that is pointed at, and fixes it when it is fixed.
    """

    def __init__(self, size: int, fixed: bool = False, mixed: bool = False):
        self.size = size
        self.fixed = fixed
        # By which operation; empty if by none.
        self.mixed = OPERATION.get() if mixed else ""
        self.is_product = False
        self.children: list[IndexSet] = []
        self.split: Split | None = None
        self.sorted_by: Positions | None = None
        self._merged_into: IndexSet | None = None

    def root(self) -> IndexSet:
        """The set that this one has been merged into."""
        node = self
        while node._merged_into is not None:
            node = node._merged_into
        if node is not self:
            self._merged_into = node
        return node

    def merge_into(self, other: IndexSet) -> None:
        """Make ``self``, a root, the same set as ``other``, another root."""
        self._merged_into = other


@dataclass(eq=False)
class Positions:
    """What the integers of one tensor point at: ``of`` is the set whose indices they are.

    Attributes:
        counted: how many there are of each is what the tensor holds: of those in this set, which they sort.
        ends: they are the ends of the stretches of ``counted``.
        own: each is its own index along the one axis of the tensor that is in ``of``.
    """

    of: IndexSet
    counted: IndexSet | None = None
    ends: bool = False
    own: bool = False


@dataclass(eq=False)
class Split:
    """A set seen as the product of ``pieces``, not yet imposed on it: a view that may still be cut or undone."""

    source: IndexSet
    pieces: tuple[IndexSet, ...]
    imposed: bool = False


def fixed_set(size: int, mixed: bool = True) -> IndexSet:
    """A new set whose indices stay in place."""
    return IndexSet(size, fixed=True, mixed=mixed)


def structure(node: IndexSet) -> tuple[str, list[IndexSet]]:
    """("atom" | "product" | "concat", parts): the set as it is known now, without nesting of the same kind."""
    node = node.root()
    if not node.children:
        return "atom", []
    kind = "product" if node.is_product else "concat"
    parts = []
    for child in node.children:
        child_kind, grandchildren = structure(child)
        parts += grandchildren if child_kind == kind else [child.root()]
    node.children = parts
    return kind, parts


def atoms(node: IndexSet) -> list[IndexSet]:
    """The atoms of a set in order; repeated if they occur several times."""
    kind, parts = structure(node)
    return [node.root()] if kind == "atom" else [atom for part in parts for atom in atoms(part)]


def is_fixed(node: IndexSet) -> bool:
    """Whether every index stays in place."""
    return all(atom.fixed or atom.size == 1 for atom in atoms(node))


def fix(node: IndexSet, mixed: bool | str = True) -> None:
    """Keep every index of the set in place; ``mixed`` if what is along it may be moved or combined, or by what."""
    for atom in atoms(node):
        atom.fixed = True
        atom.mixed = atom.mixed or (OPERATION.get() if mixed is True else mixed or "")
        if atom.sorted_by is not None:
            order, atom.sorted_by = atom.sorted_by, None
            fix(order.of)


def product(parts: Sequence[IndexSet]) -> IndexSet:
    """The set of all combinations of the parts' indices, the first part slowest."""
    return _compound([part for part in parts if part.size > 1], is_product=True)


def concat(parts: Sequence[IndexSet]) -> IndexSet:
    """The parts' indices one after another."""
    return _compound([part for part in parts if part.size > 0], is_product=False)


def _compound(parts: list[IndexSet], is_product: bool) -> IndexSet:
    if len(parts) == 1:
        return parts[0].root()
    sizes = [part.size for part in parts]
    node = IndexSet(prod(sizes) if is_product else sum(sizes))
    node.is_product, node.children = is_product, parts
    return node


def cut(node: IndexSet, sizes: Sequence[int]) -> list[IndexSet]:
    """The set's consecutive parts of the given sizes, each of which may then be permuted only in itself."""
    node = node.root()
    if len(sizes) == 1:
        return [node]
    if node.sorted_by is not None:
        fix(node)
    if is_fixed(node):
        # A slice of one index has no axis left that could tell which one it was.
        fix(node)
        return [fixed_set(size) for size in sizes]
    kind, parts = structure(node)
    if kind == "atom":
        node.children = [IndexSet(size) for size in sizes]
        return list(node.children)
    if kind == "product":
        rest = prod(part.size for part in parts[1:])
        if all(size % rest == 0 for size in sizes):
            return [product([head, *parts[1:]]) for head in cut(parts[0], [size // rest for size in sizes])]
        fix(node)
        return [fixed_set(size) for size in sizes]
    wanted = set(accumulate(sizes))
    refined, start = [], 0
    for part in parts:
        inside = sorted(at - start for at in wanted if start < at < start + part.size)
        refined += cut(part, [b - a for a, b in pairwise([0, *inside, part.size])])
        start += part.size
    node.children = refined
    groups: list[list[IndexSet]] = []
    remaining = iter(refined)
    for size in sizes:
        group: list[IndexSet] = []
        while sum(part.size for part in group) < size:
            group.append(next(remaining))
        groups.append(group)
    return [concat(group) if group else IndexSet(0) for group in groups]


def unify(a: IndexSet, b: IndexSet) -> None:
    """Make two sets of equal size one: index i of one is index i of the other.

    Raises:
        Unsupported: their sizes differ.
    """
    a, b = a.root(), b.root()
    if a is b or a.size == 1:
        return
    if a.size != b.size:
        raise Unsupported(f"axes of {a.size} and {b.size} entries that it pairs")
    # Two orders of the same indices have nothing to do with each other.
    ordered = a.sorted_by is not None or b.sorted_by is not None
    irreconcilable = ordered or bool(a.children and b.children and not _unify_parts(a, b))
    if irreconcilable or is_fixed(a) or is_fixed(b):
        mixed = next((atom.mixed for node in (a, b) for atom in atoms(node) if atom.mixed), irreconcilable)
        fix(a, mixed)
        fix(b, mixed)
    (kept, merged) = (a, b) if a.children else (b, a)
    merged.merge_into(kept)


def _unify_parts(a: IndexSet, b: IndexSet) -> bool:
    (kind_a, parts_a), (kind_b, parts_b) = structure(a), structure(b)
    if kind_a == kind_b == "concat":
        ends = sorted({*accumulate(part.size for part in parts_a), *accumulate(part.size for part in parts_b)})
        sizes = [end - start for start, end in pairwise([0, *ends])]
        _unify_all(cut(a, sizes), cut(b, sizes))
        return True
    if kind_a == kind_b == "product":
        sizes_a, sizes_b = ([part.size for part in parts] for parts in (parts_a, parts_b))
        common = common_factors(sizes_a, sizes_b)
        if common is None:
            return False
        _unify_all(_factored(parts_a, common), _factored(parts_b, common))
        return True
    if kind_a == "concat":
        parts_a, parts_b = parts_b, parts_a
    rest = prod(part.size for part in parts_a[1:])
    if any(part.size % rest for part in parts_b):
        return False
    heads = cut(parts_a[0], [part.size // rest for part in parts_b])
    _unify_all([product([head, *parts_a[1:]]) for head in heads], parts_b)
    return True


def _unify_all(left: Iterable[IndexSet], right: Iterable[IndexSet]) -> None:
    for a, b in zip(left, right, strict=True):
        unify(a, b)


def common_factors(a: Sequence[int], b: Sequence[int]) -> list[int] | None:
    """The coarsest factors that refine two factorisations of one number; None if there are none."""
    ends = sorted({*accumulate(a, operator.mul), *accumulate(b, operator.mul)})
    if any(end % start for start, end in pairwise([1, *ends])):
        return None
    return [end // start for start, end in pairwise([1, *ends])]


def _factored(parts: list[IndexSet], sizes: list[int]) -> list[IndexSet]:
    factors: list[IndexSet] = []
    remaining = list(sizes)
    for part in parts:
        own: list[int] = []
        while prod(own) < part.size:
            own.append(remaining.pop(0))
        if len(own) == 1:
            factors.append(part)
        else:
            pieces = [IndexSet(size) for size in own]
            unify(part, product(pieces))
            factors += pieces
    return factors


def impose(node: IndexSet) -> None:
    """If the set is a piece of a view, make the view binding on the set that it views."""
    split = node.split
    if split is not None and not split.imposed:
        split.imposed = True
        impose(split.source)
        unify(split.source, product(split.pieces))


def _split(source: IndexSet, sizes: Sequence[int]) -> tuple[IndexSet, ...]:
    """Pieces of a view of ``source``; those of size 1 are left out."""
    sizes = [size for size in sizes if size > 1]
    if len(sizes) < 2:
        return (source,) * len(sizes)
    if source.root().sorted_by is not None:
        fix(source)
    pieces = tuple(map(IndexSet, sizes))
    if is_fixed(source):
        unify(source, product(pieces))
        return pieces
    split = Split(source, pieces)
    for piece in pieces:
        piece.split = split
    return pieces


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

    def with_dims(self, dims: Sequence[Dim]) -> Value:
        """The same entries, in order, in other dimensions."""
        positions = self.positions
        if positions is not None and positions.counted is not None:
            fix(positions.of)
            positions = None
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
            new = list(_split(split.source, [size for i in where for size in fine[i]]))
            for i in where:
                pieces[i] = [new.pop(0) for _ in fine[i]]
        else:
            impose(item)
            pieces[at] = list(_split(item, fine[at]))
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
        new = list(_split(source, [count, *tail]))
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
