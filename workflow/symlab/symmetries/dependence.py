"""Which atoms may be permuted separately for each position of others: dimensions within heads, channels within groups.

The forward pass is recorded as events. An event is a few tensors whose dimensions carry labels, as in an einsum: where
the same label occurs, the indices are the same. Atom D may be permuted separately for each index of H if D nowhere
occurs without an H that belongs to it, and all tensors of an event that share a D also share its H. H may be fixed
itself, as heads are whose biases are constants.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod

from symlab.symmetries.index_sets import IndexSet, structure

# More combinations of concatenated parts than this are not looked at one by one; nothing in them counts as separate.
MAX_BLOCKS = 4096

Occurrence = tuple[Hashable, int]


@dataclass(frozen=True)
class LabelledTensor:
    """The labels of a tensor's dimensions; ``whole`` if these are the axes of a parameter as it is stored."""

    labels: tuple[Hashable, ...]
    whole: bool = False


@dataclass(frozen=True)
class Event:
    """Tensors that an operation reads or writes, and the index set of each label."""

    tensors: tuple[LabelledTensor, ...]
    sets: dict[Hashable, IndexSet]


def blocks(node: IndexSet, fixed: Collection[IndexSet] = ()) -> list[tuple[IndexSet, ...]]:
    """The free atoms, and some fixed ones, that index each block of an axis: one block unless it is a concatenation."""
    kind, parts = structure(node)
    if kind == "atom":
        atom = node.root()
        return [() if (atom.fixed or atom.size == 1) and atom not in fixed else (atom,)]
    if kind == "concat":
        return list(dict.fromkeys(block for part in parts for block in blocks(part, fixed)))
    return [sum(chosen, ()) for chosen in combinations(*(blocks(part, fixed) for part in parts))]


def contexts(events: Sequence[Event], fixed: Collection[IndexSet] = ()) -> dict[IndexSet, set[IndexSet]]:
    """For each atom, the free and some fixed ones, those that index everything it indexes."""
    found: dict[IndexSet, set[IndexSet]] = {}
    for event in events:
        of_label = {label: blocks(node, fixed) for label, node in event.sets.items()}
        if prod(map(len, of_label.values())) > MAX_BLOCKS:
            found |= {atom: set() for of_set in of_label.values() for block in of_set for atom in block}
            continue
        for chosen in combinations(*of_label.values()):
            for (atom, _), partners in _partners(event, dict(zip(of_label, chosen, strict=True))).items():
                found[atom] = found[atom] & partners if atom in found else partners
    return found


def _partners(
    event: Event, block: dict[Hashable, tuple[IndexSet, ...]]
) -> dict[tuple[IndexSet, Occurrence], set[IndexSet]]:
    """For each occurrence of an atom the atoms whose same occurrence belongs to it in every tensor of the event."""
    common: dict[tuple[IndexSet, Occurrence], set[tuple[IndexSet, Occurrence]]] = {}
    for tensor in event.tensors:
        here = [
            (atom, (label, place), dim)
            for dim, label in enumerate(tensor.labels)
            for place, atom in enumerate(block.get(label, ()))
        ]
        for atom, occurrence, dim in here:
            partners = set()
            for other in {candidate for candidate, _, _ in here} - {atom}:
                places = [(where, at) for candidate, where, at in here if candidate is other]
                # A stored parameter's axis belongs together; in other tensors two candidates are an ambiguity.
                same_axis = [place for place in places if place[1] == dim] if tensor.whole else []
                candidates = same_axis or places
                if len(candidates) == 1:
                    partners.add((other, candidates[0][0]))
            key = (atom, occurrence)
            common[key] = common[key] & partners if key in common else partners
    return {key: {other for other, _ in partners} for key, partners in common.items()}


def nesting(found: dict[IndexSet, set[IndexSet]], order: Sequence[IndexSet]) -> dict[IndexSet, tuple[IndexSet, ...]]:
    """For each atom of ``order`` the atoms it lies within, outermost first; of two that are always together, the first
    one in ``order`` is the outer one."""
    rank = {atom: number for number, atom in enumerate(order)}
    within = {
        atom: {
            outer
            for outer in found.get(atom, set())
            if outer in rank and (atom not in found.get(outer, set()) or rank[outer] < rank[atom])
        }
        for atom in order
    }
    changed = True
    while changed:
        changed = False
        for outers in within.values():
            for outer in sorted(outers, key=rank.__getitem__):
                if not within[outer] <= outers:
                    outers.discard(outer)
                    changed = True
    return {atom: tuple(sorted(outers, key=lambda o: (len(within[o]), rank[o]))) for atom, outers in within.items()}


def repeated_along(
    found: Mapping[IndexSet, set[IndexSet]], within: Mapping[IndexSet, tuple[IndexSet, ...]], fixed: Sequence[IndexSet]
) -> dict[IndexSet, IndexSet]:
    """For each atom that lies within none, and all within it, the fixed atom for whose every index they may be permuted
    separately; those of which there is none are missing. Of several the largest is taken."""
    chosen: dict[IndexSet, IndexSet] = {}
    for root in (atom for atom, outers in within.items() if not outers):
        tree = [atom for atom, outers in within.items() if atom is root or root in outers]
        around = [outer for outer in fixed if all(outer in found.get(atom, set()) for atom in tree)]
        if around:
            chosen |= dict.fromkeys(tree, max(around, key=lambda outer: outer.size))
    return chosen
