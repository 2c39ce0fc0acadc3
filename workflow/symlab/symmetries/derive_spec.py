"""The symmetries that a propagation has left: groups, what lies within what, their names, where they are recorded."""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count

from torch import fx

from symlab.errors import UserError
from symlab.symmetries.dependence import Event, LabelledTensor, blocks, contexts, nesting, repeated_along
from symlab.symmetries.forward_graph import operation, place
from symlab.symmetries.index_sets import IndexSet, atoms, product, structure
from symlab.symmetries.propagation import UNKNOWN_SIZES, Propagation
from symlab.symmetries.rules.recorder import CARRIERS, RULES
from symlab.symmetries.symmetry_spec import Axes, Axis, Concat, Group, Point, Product, SymmetrySpec, groups_of
from symlab.symmetries.values import Dim, Value, bound_set

# Scaling does not change which neuron is which, so activations may be recorded before it.
SCALINGS = {"mul", "div"}


def derive_spec(propagation: Propagation) -> SymmetrySpec:
    """The symmetries that no operation contradicts."""
    stored = {value.parameter: value for value in propagation.parameters.values()}
    for value in stored.values():
        sets: dict[Hashable, IndexSet] = {n: bound_set(dim) for n, dim in enumerate(value.dims)}
        propagation.recorder.events.append(Event((LabelledTensor(tuple(sets), whole=True),), sets))
    outputs, order = _outputs(propagation), _movable(propagation)
    stored_atoms = (atom for value in stored.values() for dim in value.dims for atom in atoms(bound_set(dim)))
    fixed = [
        atom
        for atom in dict.fromkeys(stored_atoms)
        if atom.fixed and not atom.mixed and atom.size > 1 and atom in outputs
    ]
    found = contexts(propagation.recorder.events, fixed)
    within = nesting(found, order)
    outermost = repeated_along(found, within, fixed)
    within = {atom: (*([outermost[atom]] if atom in outermost else []), *outers) for atom, outers in within.items()}
    within |= dict.fromkeys(outermost.values(), ())
    names = propagation.names = _group_names(propagation, [*dict.fromkeys(outermost.values()), *order])
    ranked = sorted(names, key=lambda atom: len(within[atom]))
    groups = {
        names[atom]: Group(atom.size, tuple(names[outer] for outer in within[atom]), atom.fixed) for atom in ranked
    }
    axes = {
        name: tuple(_axis(bound_set(dim), names) for dim in value.dims)
        for name, value in propagation.parameters.items()
    }
    points, unsupported = _points(propagation, names, groups), tuple(dict.fromkeys(propagation.unsupported))
    return SymmetrySpec(axes, groups, points, unsupported, _kept(propagation))


def _kept(propagation: Propagation) -> dict[str, tuple[tuple[str, int], ...]]:
    """By the operations that may have moved or combined what is along them the parameters' axes that stay in place."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, value in propagation.parameters.items():
        for n, dim in enumerate(value.dims):
            within = [atom for atom in atoms(bound_set(dim)) if atom.size > 1]
            blamed = next((atom.mixed for atom in within if atom.mixed), "")
            if blamed and all(atom.fixed for atom in within):
                found.setdefault(blamed, []).append((name, n))
    return {operation: tuple(axes) for operation, axes in found.items()}


def axes_of(propagation: Propagation, node: fx.Node) -> Axes | None:
    """The axes of a value in the groups that ``derive_spec`` has found; None if they are not known."""
    value = propagation.values.get(node)
    if not isinstance(value, Value) or any(dim.factors is None or _is_open(dim) for dim in value.dims):
        return None
    return _value_axes([bound_set(dim) for dim in value.dims], propagation.names)


def _outputs(propagation: Propagation) -> set[IndexSet]:
    """Atoms that linear maps have as outputs, or along which parameters are applied."""
    return {
        atom
        for _, sets in (*propagation.recorder.maps, *propagation.recorder.applied)
        for s in sets
        for atom in atoms(s)
    }


def _movable(propagation: Propagation) -> list[IndexSet]:
    """The free atoms in the order of the parameters."""
    # Groups that only weights' inputs have are copies of constants or of each other: nothing tells them apart.
    outputs = _outputs(propagation)
    stored = (atom for value in propagation.parameters.values() for dim in value.dims for atom in atoms(bound_set(dim)))
    return [atom for atom in dict.fromkeys(stored) if not atom.fixed and atom.size > 1 and atom in outputs]


def free_parts(propagation: Propagation) -> dict[tuple[str, int], int]:
    """Of each parameter's axis, by name and number, how many sets of entries it holds that may be permuted."""
    movable = set(_movable(propagation))
    return {
        (name, n): sum(atom in movable for atom in atoms(bound_set(dim)))
        for name, value in propagation.parameters.items()
        if value.parameter == name
        for n, dim in enumerate(value.dims)
    }


def _group_names(propagation: Propagation, order: Sequence[IndexSet]) -> dict[IndexSet, str]:
    """Names of the atoms, in the order of the forward pass."""
    named_by_class: Callable[[], dict[str, str]] = getattr(propagation.module, "group_names", dict)
    given = named_by_class()
    proposals: dict[IndexSet, list[str]] = {}
    # What is the output of no linear map is named after the first parameter that is applied along it.
    maps = [*propagation.recorder.maps, *propagation.recorder.applied]
    wanted = set(order)
    for parameter, sets in maps:
        path = parameter.removesuffix(".weight")
        groups = dict.fromkeys(atom for node in sets for atom in atoms(node) if atom in wanted)
        for number, atom in enumerate(groups):
            proposals.setdefault(atom, []).append(f"{path}:{number}" if number else path)
    names: dict[IndexSet, str] = {}
    taken: dict[str, str] = {}
    for atom, paths in proposals.items():
        chosen = next((path for path in paths if path in given), paths[0])
        path, colon, suffix = chosen.partition(":")
        base = given.get(path, path)
        name = given.get(chosen, base + colon + suffix)
        if chosen not in given and name in taken and taken[name].partition(":")[0] == path:
            # Parts of one parameter that are used apart count from one each time.
            name = next(f"{base}:{n}" for n in count(1) if f"{base}:{n}" not in taken)
        if name in taken:
            raise UserError(
                f"two groups of neurons would both be called {name!r}: the outputs of {taken[name]!r} and of "
                f"{chosen!r}; group_names() of {type(propagation.module).__name__} must tell them apart."
            )
        taken[name] = chosen
        names[atom] = name
    return names


def _points(
    propagation: Propagation, names: dict[IndexSet, str], groups: dict[str, Group]
) -> dict[str, tuple[Point, ...]]:
    """Where to record the activations of each group."""
    candidates = dict.fromkeys(
        _traced_back(propagation, node, names) for node in propagation.contracted if node.op != "placeholder"
    )
    points: dict[str, list[Point]] = {name: [] for name, group in groups.items() if not group.fixed}
    ordered = [node for node in propagation.nodes if node in candidates]
    for node in ordered:
        _add_points(propagation, node, names, groups, points, points)
    # Groups whose neurons are told apart by the groups within them need no points.
    covered = {outer for name, of_name in points.items() if of_name for outer in groups[name].within}
    for node in reversed(propagation.nodes):
        missing = [name for name, of_name in points.items() if not of_name and name not in covered]
        if missing and node in propagation.varying:
            _add_points(propagation, node, names, groups, points, missing)
    return {name: tuple(of_name) for name, of_name in points.items() if of_name}


def _add_points(
    propagation: Propagation,
    node: fx.Node,
    names: dict[IndexSet, str],
    groups: dict[str, Group],
    points: dict[str, list[Point]],
    wanted: Iterable[str],
) -> None:
    value, axes = propagation.values.get(node), axes_of(propagation, node)
    if axes is None or not isinstance(value, Value):
        return
    present = set().union(*map(groups_of, axes))
    whole = product([bound_set(dim) for dim in value.dims])
    repeated = {atom for block in blocks(whole) for atom in block if block.count(atom) > 1}
    for atom, name in names.items():
        inner = {other for other in present if name in groups[other].within}
        if name in wanted and name in present and not inner and atom not in repeated:
            points[name].append(Point(node.name, axes, place(node)))


def _traced_back(propagation: Propagation, node: fx.Node, names: dict[IndexSet, str]) -> fx.Node:
    """The earliest value that holds the same activations."""
    while node.op == "call_function":
        tensors = [other for other in node.all_input_nodes if other in propagation.values]
        name = operation(node)
        source = tensors[0] if tensors else node
        carries = node.target is operator.getitem or name in CARRIERS
        carries = carries or (name in SCALINGS and len(tensors) == 1)
        if not carries or source not in propagation.varying or source.op == "placeholder":
            break
        if RULES.get(name) is RULES["sum"] and _groups(propagation, node, names) != _groups(propagation, source, names):
            break
        node = source
    return node


def _groups(propagation: Propagation, node: fx.Node, names: dict[IndexSet, str]) -> set[str]:
    values = propagation.values[node]
    return {
        names[atom]
        for value in (values if isinstance(values, list) else [values])
        for dim in value.dims
        for factor in dim.factors or ()
        for atom in atoms(factor.split.source if factor.split and not factor.split.imposed else factor)
        if atom in names
    }


def _is_open(dim: Dim) -> bool:
    """Whether the dimension is part of a view that nothing made binding."""
    return any(factor.split is not None and not factor.split.imposed for factor in dim.factors or ())


def _axis(node: IndexSet, names: Mapping[IndexSet, str]) -> Axis:
    """The description of an index set; None if it is in place as a whole."""
    described = _described(node, names)
    return None if isinstance(described, int) else described


def _described(node: IndexSet, names: Mapping[IndexSet, str]) -> Axis:
    kind, parts = structure(node)
    if kind == "atom":
        return names.get(node.root(), node.size)
    merged: list[Axis] = []
    for part in parts:
        described = _described(part, names)
        if merged and isinstance(described, int) and isinstance(merged[-1], int):
            described = merged[-1] * described if kind == "product" else merged[-1] + described
            merged.pop()
        merged.append(described)
    if len(merged) == 1:
        return merged[0]
    return Product(tuple(merged)) if kind == "product" else Concat(tuple(merged))


def _value_axes(sets: Sequence[IndexSet], names: Mapping[IndexSet, str]) -> Axes | None:
    """The axes of a value, unknown sizes as None; None if an unknown size is part of a concatenation."""

    def known(axis: Axis, inside_concat: bool) -> Axis:
        if isinstance(axis, int) and any(axis % unknown == 0 for unknown in UNKNOWN_SIZES):
            if inside_concat:
                raise ValueError
            return None
        if isinstance(axis, Product | Concat):
            concatenated = inside_concat or isinstance(axis, Concat)
            return type(axis)(tuple(known(part, concatenated) for part in axis.parts))
        return axis

    try:
        return tuple(known(_axis(node, names), False) for node in sets)
    except ValueError:
        return None
