"""Index sets of tensor axes, merged and refined while a network is traced.

Every axis is an ``IndexSet``. Two axes whose positions an operation pairs are unified: they become one set. A set may
turn out to be made of smaller ones, as a product (heads x dimensions) or a concatenation (query, key, value); what is
left unstructured in the end is an atom. A free atom may be permuted, provided this is done wherever it occurs; a fixed
one stays in place. Whatever cannot be reconciled becomes fixed, so the sets never allow more than they should. Of a
fixed atom it is known whether its indices still stand for what they stood for: they do if it was only paired with an
axis of an input, an output or a constant; they are mixed if an operation may have moved or combined what is along it.
"""

import operator
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod


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

    def root(self) -> "IndexSet":
        """The set that this one has been merged into."""
        node = self
        while node._merged_into is not None:
            node = node._merged_into
        if node is not self:
            self._merged_into = node
        return node


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
    merged._merged_into = kept


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


def split_set(source: IndexSet, sizes: Sequence[int]) -> tuple[IndexSet, ...]:
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
