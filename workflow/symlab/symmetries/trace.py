"""The permutation symmetries of any network, found by following every axis through its forward pass."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from symlab.errors import UserError
from symlab.symmetries.axis_atoms import (
    Dim,
    IndexSet,
    Unsupported,
    Value,
    atoms,
    bound_set,
    fix_dim,
    fixed_dim,
    free_dim,
    structure,
    uniform_dim,
)
from symlab.symmetries.dependence import Event, LabelledTensor, blocks, contexts, nesting
from symlab.symmetries.forward_graph import (
    ForwardGraph,
    ancestors,
    descendants,
    export_forward,
    operation,
    place,
    shape_list,
    subgraph,
)
from symlab.symmetries.operations import CARRIERS, RESULTS_USED, RULES, Recorder, Unknown, elementwise
from symlab.symmetries.symmetry_spec import Axes, Axis, Concat, Group, Point, Product, SymmetrySpec, groups_of, validate

# Stand-ins for sizes that are not known, such as the batch's: primes, so that no view can split them.
UNKNOWN_SIZES = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117, 1_000_121)
# Scaling does not change which neuron is which, so activations may be recorded before it.
SCALINGS = {"mul", "div"}
# Pointwise operations that torch does not mark as such.
POINTWISE = {
    *("hardswish", "hardsigmoid", "hardtanh", "relu6", "selu", "celu", "mish", "softplus", "softsign", "tanhshrink"),
    *("softshrink", "hardshrink", "log_sigmoid", "threshold", "rrelu", "where", "copy", "masked_fill", "square"),
}


@dataclass
class Traced:
    """A network's forward pass as a graph, and its symmetries; made by ``trace``.

    Attributes:
        spec: the symmetries; its points name values of the graph.
        batch: None if one graph takes batches of any size; else the forward pass asks for the size as a number
            (``len(x)``), this is the example's, and ``values`` traces again for each other one.
    """

    spec: SymmetrySpec
    batch: int | None
    _module: nn.Module
    _graphs: dict[int | None, ForwardGraph]
    _parts: dict[tuple[Any, ...], tuple[fx.GraphModule, list[str | Tensor]]] = field(default_factory=dict)

    def values(
        self, state: Mapping[str, Tensor], x: Tensor | tuple[Tensor, ...], names: Iterable[str]
    ) -> dict[str, Tensor]:
        """Values of the forward pass at ``state``, in evaluation mode and without gradients.

        Only what the named values need is computed, and every other value is freed after its last use.

        Args:
            state: the network's parameters and buffers by name.
            x: a batch of inputs (a tuple if the network takes several).
            names: values of the graph, see ``Point.value``.

        Raises:
            UserError: a name is no value of the graph, or the network cannot be traced at this batch size.
        """
        inputs = x if isinstance(x, tuple) else (x,)
        batch = None if self.batch is None else len(inputs[0])
        if batch not in self._graphs:
            self._graphs[batch] = export_forward(self._module, inputs)
        wanted = tuple(dict.fromkeys(names))
        device = inputs[0].device
        key = (wanted, device, batch)
        if key not in self._parts:
            self._parts[key] = subgraph(self._graphs[batch], wanted, device)
        module, sources = self._parts[key]
        arguments = [
            source if isinstance(source, Tensor) else inputs[int(source[1:])] if source[0] == "#" else state[source[1:]]
            for source in sources
        ]
        with torch.no_grad():
            return dict(zip(wanted, module(*arguments), strict=True))

    def nodes(self, names: Iterable[str]) -> list[tuple[fx.Node, str | Tensor | None]]:
        """The operations that compute some values, in order, and of placeholders what they stand for."""
        exported = self._graphs[self.batch]
        wanted = set(names)
        needed = ancestors(node for node in exported.graph.nodes if node.name in wanted)
        return [(node, exported.sources.get(node.name)) for node in exported.graph.nodes if node in needed]


def trace(module: nn.Module, example: Tensor | tuple[Tensor, ...]) -> Traced:
    """Follow every axis of a network's parameters through its forward pass in evaluation mode.

    Args:
        module: the network; a method ``group_names() -> dict[str, str]`` may give names to the groups whose neurons are
            the outputs of the linear map, convolution or embedding at a path.
        example: inputs of a batch of any size; only their shapes, types and device matter.

    Raises:
        UserError: the forward pass cannot be traced, or two groups would get the same name.
    """
    inputs = example if isinstance(example, tuple) else (example,)
    _check_inputs(module, inputs)
    # Exporting treats a batch of one as a special case.
    inputs = tuple(torch.cat([x, x]) if x.dim() and len(x) == 1 else x for x in inputs)
    exported = export_forward(module, inputs)
    spec = _Propagation(module, exported).spec()
    validate(spec, module.state_dict())
    batch = next(node.meta["val"].shape[0] for node in exported.graph.nodes if exported.sources.get(node.name) == "#0")
    only = int(batch) if isinstance(batch, int) or not batch.node.expr.free_symbols else None
    return Traced(spec, only, module, {only: exported})


def _check_inputs(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    if not isinstance(module, nn.Module):
        raise UserError(f"only an nn.Module can be traced, not a {type(module).__name__}.")
    for x in inputs:
        if not isinstance(x, Tensor):
            raise UserError(
                f"the example of an input is a {type(x).__name__}: give a tensor, or a tuple of tensors for a network "
                "with several inputs."
            )
    if not inputs or inputs[0].dim() == 0 or any(0 in x.shape for x in inputs):
        raise UserError(
            f"the example inputs have shapes {shape_list(inputs)}: there must be at least one input, the first one "
            "with the batch as its first dimension, and none may be empty."
        )


def _constant(tensor: Tensor) -> Value:
    """A tensor whose entries are known: an axis along which they do not change is free to be permuted."""

    def dim(n: int, size: int) -> Dim:
        same = size > 0 and torch.equal(tensor, tensor.narrow(n, 0, 1).expand_as(tensor))
        return uniform_dim(size) if same else fixed_dim(size)

    return Value(tuple(dim(n, size) for n, size in enumerate(tensor.shape)))


class _Propagation:
    """The axes of all values of a graph."""

    def __init__(self, module: nn.Module, exported: ForwardGraph):
        graph, sources = exported.graph, exported.sources
        self.module = module
        self.recorder = Recorder()
        self.stand_ins: dict[Any, int] = {}
        self.unsupported: list[str] = []
        self.values: dict[fx.Node, Value | list[Value]] = {}
        self.constants: dict[fx.Node, Tensor] = {}
        self.contracted: list[fx.Node] = []
        self.parameters = self._parameters()
        output = next(node for node in graph.nodes if node.op == "output")
        self.live = ancestors([output])
        self.nodes = [node for node in graph.nodes if node in self.live and node is not output]
        self.inputs = [node for node in self.nodes if str(sources.get(node.name, "")).startswith("#")]
        self.varying = descendants(self.inputs)
        self.used: set[str] = set()
        for node in self.nodes:
            if node.op == "placeholder":
                self._enter(node, sources[node.name])
            elif self._shapes(node):
                self._apply(node)
        for node in output.all_input_nodes:
            self._fix([node])

    def _parameters(self) -> dict[str, Value]:
        """The axes of every entry of the state; entries that share their storage share their axes."""
        found: dict[str, Value] = {}
        seen: dict[int, list[tuple[tuple[Any, ...], str]]] = {}
        for name, tensor in self.module.state_dict(keep_vars=True).items():
            if not isinstance(tensor, Tensor):
                raise UserError(f"{name!r} in the network's state is no tensor, so it has no axes to permute.")
            layout = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            sharing = seen.setdefault(tensor.untyped_storage()._cdata, [])
            twin = next((other for known, other in sharing if known == layout), None)
            if tensor.numel() == 0:
                twin = None
            if twin is not None:
                found[name] = found[twin]
                continue
            found[name] = Value(tuple(map(free_dim, tensor.shape)), parameter=name, whole=True)
            if sharing and tensor.numel():
                for other in (name, *(other for _, other in sharing)):
                    for dim in found[other].dims:
                        fix_dim(dim)
            sharing.append((layout, name))
        return found

    def _enter(self, node: fx.Node, source: str | Tensor) -> None:
        if isinstance(source, Tensor):
            self.constants[node] = source.cpu()
            self.values[node] = _constant(self.constants[node])
        elif source.startswith("#"):
            self.values[node] = Value(tuple(fixed_dim(size) for shape in self._shapes(node) for size in shape))
        else:
            self.values[node] = self.parameters[source[1:]]
            self.used.add(self.parameters[source[1:]].parameter or "")

    def _apply(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            several = self.values[node.args[0]]  # type: ignore[index]
            assert isinstance(several, list)
            self.values[node] = several[node.args[1]]  # type: ignore[index]
            return
        if self._folded(node):
            return
        name, shapes = operation(node), self._shapes(node)
        tags = getattr(node.target, "tags", ())
        apply = RULES.get(name, elementwise if torch.Tag.pointwise in tags or name in POINTWISE else None)
        if torch.Tag.nondeterministic_seeded in tags and name not in CARRIERS | {"scaled_dot_product_attention"}:
            apply = None
        self.recorder.mixed = []
        try:
            if apply is None:
                raise Unsupported
            used = {user.args[1] for user in node.users if user in self.live and user.target is operator.getitem}
            arguments = {**self._arguments(node), RESULTS_USED: used}
            result = apply(self.recorder, arguments, shapes)
            results = result if isinstance(result, list) else [result]
            if [tuple(dim.size for dim in value.dims) for value in results] != shapes:
                raise Unsupported("its shape")
        except Unsupported as problem:
            # Overloads are many: one that a rule was not written for is as good as an unknown operation.
            detail = f" ({problem})" if str(problem) else ""
            where = place(node) or type(self.module).__name__
            self.unsupported.append(
                f"operation {name}{detail} in {where!r} (value {node.name}) is not known to the tracer: "
                "every axis that meets it there stays in place."
            )
            self._fix(node.all_input_nodes)
            fixed = [Value(tuple(map(fixed_dim, shape))) for shape in shapes]
            result = fixed if isinstance(node.meta["val"], list | tuple) else fixed[0]
            self.recorder.mixed = []
        self.values[node] = result
        self.contracted += self._mixed_activations(node)

    def _folded(self, node: fx.Node) -> bool:
        """Evaluate operations on constants, such as a causal mask."""
        shape = getattr(node.meta["val"], "shape", None)
        if shape is None or not all(isinstance(size, int) for size in shape):
            return False
        if not all(other in self.constants for other in node.all_input_nodes):
            return False
        if not isinstance(node.target, torch._ops.OpOverload):
            return False
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            return False
        arguments, options = fx.map_arg((node.args, node.kwargs), self.constants.__getitem__)
        if "device" in options:
            options = {**options, "device": "cpu"}
        with torch.no_grad():
            self.constants[node] = node.target(*arguments, **options).cpu()
        self.values[node] = _constant(self.constants[node])
        return True

    def _bound(self, node: fx.Node) -> dict[str, Any]:
        names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
        return {**dict(zip(names, node.args, strict=False)), **node.kwargs}

    def _mixed_activations(self, node: fx.Node) -> list[fx.Node]:
        """Inputs that the operation contracts with a trained parameter or with each other."""
        named = self._named_nodes(node)
        operands = [named[argument] for argument in self.recorder.mixed]
        varying = [operand for operand in operands if operand in self.varying]
        trained = {name for name, _ in self.module.named_parameters(remove_duplicate=False)}
        sources = {value.parameter for operand in operands if isinstance(value := self.values[operand], Value)}
        return varying if len(varying) > 1 or sources & trained else []

    def _named_nodes(self, node: fx.Node) -> dict[str, fx.Node]:
        """A node's tensor arguments by name; those in a list by name and position."""
        found = {}
        if self.recorder.mixed:
            for name, argument in self._bound(node).items():
                if isinstance(argument, fx.Node):
                    found[name] = argument
                elif isinstance(argument, list | tuple):
                    found |= {f"{name}.{n}": item for n, item in enumerate(argument) if isinstance(item, fx.Node)}
        return found

    def _arguments(self, node: fx.Node) -> dict[str, Any]:
        """A node's arguments by name, with axes in place of tensors and numbers in place of sizes."""

        def resolved(argument: Any) -> Any:
            if isinstance(argument, fx.Node):
                if argument in self.values:
                    return self.values[argument]
                value = argument.meta.get("val")
                return self._size(value) if isinstance(value, int | torch.SymInt) else value
            if isinstance(argument, list | tuple):
                return [resolved(item) for item in argument]
            return argument

        return {name: resolved(argument) for name, argument in self._bound(node).items()}

    def _fix(self, nodes: Iterable[fx.Node]) -> None:
        for node in nodes:
            values = self.values.get(node, [])
            for value in values if isinstance(values, list) else [values]:
                for dim in value.dims:
                    fix_dim(dim)

    def _size(self, size: Any) -> int:
        """A size as a number, with a stand-in for each symbol in what is unknown."""
        if isinstance(size, int) or not size.node.expr.free_symbols:
            return int(size)
        expression = size.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            if symbol not in self.stand_ins:
                if len(self.stand_ins) == len(UNKNOWN_SIZES):
                    raise UserError(f"the forward pass has more than {len(UNKNOWN_SIZES)} sizes that vary.")
                self.stand_ins[symbol] = UNKNOWN_SIZES[len(self.stand_ins)]
        return Unknown(expression.subs(self.stand_ins))

    def _shapes(self, node: fx.Node) -> list[tuple[int, ...]]:
        """Shapes of a node's tensor results; empty if it has none."""
        value = node.meta.get("val")
        results = value if isinstance(value, list | tuple) else [value]
        return [tuple(map(self._size, result.shape)) for result in results if isinstance(result, Tensor)]

    def spec(self) -> SymmetrySpec:
        """The symmetries that no operation contradicts."""
        for name, value in self.parameters.items():
            if value.parameter not in self.used or not self.module.state_dict()[name].is_floating_point():
                for dim in value.dims:
                    fix_dim(dim)
        stored = {value.parameter: value for value in self.parameters.values()}
        for value in stored.values():
            sets: dict[Hashable, IndexSet] = {n: bound_set(dim) for n, dim in enumerate(value.dims)}
            self.recorder.events.append(Event((LabelledTensor(tuple(sets), whole=True),), sets))
        # Groups that only weights' inputs have are copies of constants or of each other: nothing tells them apart.
        outputs = {atom for _, sets in (*self.recorder.maps, *self.recorder.applied) for s in sets for atom in atoms(s)}
        order = list(
            dict.fromkeys(
                atom
                for value in stored.values()
                for dim in value.dims
                for atom in atoms(bound_set(dim))
                if not atom.fixed and atom.size > 1 and atom in outputs
            )
        )
        within = nesting(contexts(self.recorder.events), order)
        names = self._group_names(order)
        ranked = sorted(names, key=lambda atom: len(within[atom]))
        groups = {names[atom]: Group(atom.size, tuple(names[outer] for outer in within[atom])) for atom in ranked}
        axes = {
            name: tuple(_axis(bound_set(dim), names) for dim in value.dims) for name, value in self.parameters.items()
        }
        return SymmetrySpec(axes, groups, self._points(names, groups), tuple(dict.fromkeys(self.unsupported)))

    def _group_names(self, order: Sequence[IndexSet]) -> dict[IndexSet, str]:
        """Names of the atoms, in the order of the forward pass."""
        named_by_class: Callable[[], dict[str, str]] = getattr(self.module, "group_names", dict)
        given = named_by_class()
        proposals: dict[IndexSet, list[str]] = {}
        # What is the output of no linear map is named after the first parameter that is applied along it.
        maps = [*self.recorder.maps, *self.recorder.applied]
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
            name = given.get(chosen, given.get(path, path) + colon + suffix)
            if name in taken:
                raise UserError(
                    f"two groups of neurons would both be called {name!r}: the outputs of {taken[name]!r} and of "
                    f"{chosen!r}; group_names() of {type(self.module).__name__} must tell them apart."
                )
            taken[name] = chosen
            names[atom] = name
        return names

    def _points(self, names: dict[IndexSet, str], groups: dict[str, Group]) -> dict[str, tuple[Point, ...]]:
        """Where to record the activations of each group."""
        candidates = dict.fromkeys(
            self._traced_back(node, names) for node in self.contracted if node.op != "placeholder"
        )
        points: dict[str, list[Point]] = {name: [] for name in groups}
        ordered = [node for node in self.nodes if node in candidates]
        for node in ordered:
            self._add_points(node, names, groups, points, groups)
        # Groups whose neurons are told apart by the groups within them need no points.
        covered = {outer for name, of_name in points.items() if of_name for outer in groups[name].within}
        for node in reversed(self.nodes):
            missing = [name for name, of_name in points.items() if not of_name and name not in covered]
            if missing and node in self.varying:
                self._add_points(node, names, groups, points, missing)
        return {name: tuple(of_name) for name, of_name in points.items() if of_name}

    def _add_points(
        self,
        node: fx.Node,
        names: dict[IndexSet, str],
        groups: dict[str, Group],
        points: dict[str, list[Point]],
        wanted: Iterable[str],
    ) -> None:
        value = self.values.get(node)
        if not isinstance(value, Value) or any(dim.factors is None or _is_open(dim) for dim in value.dims):
            return
        sets = [bound_set(dim) for dim in value.dims]
        axes = _value_axes(sets, names)
        if axes is None:
            return
        present = set().union(*map(groups_of, axes))
        repeated = {atom for block in _value_blocks(sets) for atom in block if block.count(atom) > 1}
        for atom, name in names.items():
            inner = {other for other in present if name in groups[other].within}
            if name in wanted and name in present and not inner and atom not in repeated:
                points[name].append(Point(node.name, axes, place(node)))

    def _traced_back(self, node: fx.Node, names: dict[IndexSet, str]) -> fx.Node:
        """The earliest value that holds the same activations."""
        while node.op == "call_function":
            tensors = [other for other in node.all_input_nodes if other in self.values]
            name = operation(node)
            source = tensors[0] if tensors else node
            carries = node.target is operator.getitem or name in CARRIERS
            carries = carries or (name in SCALINGS and len(tensors) == 1)
            if not carries or source not in self.varying or source.op == "placeholder":
                break
            if not self._groups(node, names) <= self._groups(source, names):
                break
            if self._operation_reduces(name) and self._groups(node, names) != self._groups(source, names):
                break
            node = source
        return node

    @staticmethod
    def _operation_reduces(name: str) -> bool:
        return RULES.get(name) is RULES["sum"]

    def _groups(self, node: fx.Node, names: dict[IndexSet, str]) -> set[str]:
        values = self.values[node]
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


def _value_blocks(sets: Sequence[IndexSet]) -> list[tuple[IndexSet, ...]]:
    found: list[tuple[IndexSet, ...]] = [()]
    for node in sets:
        found = [(*block, *other) for block in found for other in blocks(node)]
    return found


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
