"""Following every axis of a network's parameters through its forward pass."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from symlab.errors import UserError
from symlab.symmetries.forward_graph import ForwardGraph, ancestors, descendants, operation, place
from symlab.symmetries.index_sets import OPERATION, IndexSet, Positions, Unsupported, fix, is_fixed
from symlab.symmetries.rules.recorder import (
    CARRIERS,
    MASKS,
    POINTING,
    Recorder,
    Unknown,
    rule_of,
)
from symlab.symmetries.values import Dim, Value, bound_set, fix_dim, fixed_dim, free_dim, uniform_dim

# Stand-ins for sizes that are not known, such as the batch's: primes, so that no view can split them.
UNKNOWN_SIZES = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117, 1_000_121)
# Operations that draw random numbers only for dropout, of which there is none in evaluation mode.
DROPPING = {"scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"}
# Parameters' axes that are listed of those that an unknown operation keeps in place.
AXES_SHOWN = 4


def constant_value(tensor: Tensor) -> Value:
    """A tensor whose entries are known: an axis along which they do not change is free to be permuted."""

    def dim(n: int, size: int) -> Dim:
        same = size > 0 and torch.equal(tensor, tensor.narrow(n, 0, 1).expand_as(tensor))
        return uniform_dim(size) if same else fixed_dim(size, mixed=False)

    dims = tuple(dim(n, size) for n, size in enumerate(tensor.shape))
    # Counted as integers, for a mask of booleans has no arange.
    wide = next((dim for dim in dims if dim.factors and dim.size == tensor.numel()), None)
    counts = wide and torch.equal(tensor.flatten(), torch.arange(tensor.numel()).to(tensor.dtype))
    return Value(dims, known=tensor, positions=Positions(bound_set(wide), own=True) if wide and counts else None)


def alike_value(tensor: Tensor) -> Value:
    """As ``constant_value``, but as if all numbers were equal; integers and masks, which pick entries, stay."""
    if tensor.is_floating_point():
        return Value(tuple(map(uniform_dim, tensor.shape)), known=tensor)
    return constant_value(tensor)


class Propagation:
    """The axes of all values of a graph, followed from the parameters on.

    Attributes:
        exported: the graph.
        nodes: its operations and placeholders that the output needs, in order.
        varying: those that depend on the inputs.
        values: their axes.
        parameters: the axes of every entry of the network's state; entries that share their storage share their axes.
        recorder: what was seen on the way: what repeats along what, and along which axes parameters are applied.
        contracted: values that are contracted with a trained parameter or with each other.
        unsupported: a sentence for each operation that is not known and cost an axis.
        names: of the groups, by atom, when they are derived.
    """

    def __init__(self, module: nn.Module, exported: ForwardGraph, constant: Callable[[Tensor], Value] = constant_value):
        self.constant = constant
        graph, sources = exported.graph, exported.sources
        self.module = module
        self.recorder = Recorder()
        self.stand_ins: dict[Any, int] = {}
        self.unsupported: list[str] = []
        self.names: dict[IndexSet, str] = {}
        self.values: dict[fx.Node, Value | list[Value]] = {}
        self.constants: dict[fx.Node, Tensor] = {}
        self.contracted: list[fx.Node] = []
        self.parameters = self._parameters()
        self.trained = {name for name, _ in module.named_parameters(remove_duplicate=False)}
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
        self._fix(output.all_input_nodes, mixed=False)
        state = module.state_dict()
        OPERATION.set("no operation that reads it")
        for name, value in self.parameters.items():
            if value.parameter not in self.used or not state[name].is_floating_point():
                for dim in value.dims:
                    fix_dim(dim)

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
            self.values[node] = self.constant(self.constants[node])
        elif source.startswith("#"):
            sizes = [size for shape in self._shapes(node) for size in shape]
            self.values[node] = Value(tuple(fixed_dim(size, mixed=False) for size in sizes))
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
        apply = rule_of(name, tags)
        if torch.Tag.nondeterministic_seeded in tags and name not in CARRIERS | DROPPING:
            apply = None
        self.recorder.mixed = []
        where = place(node) or type(self.module).__name__
        OPERATION.set(f"{name} in {where!r}")
        try:
            if apply is None:
                raise Unsupported
            arguments = {**self._arguments(node), MASKS: _has_masks(node)}
            if name not in POINTING:
                self._fix_positions(node.all_input_nodes)
            result = apply(self.recorder, arguments, shapes)
            results = result if isinstance(result, list) else [result]
            if [tuple(dim.size for dim in value.dims) for value in results] != shapes:
                raise Unsupported("its shape")
        except Unsupported as problem:
            # Overloads are many: one that a rule was not written for is as good as an unknown operation.
            free = self._free_axes()
            self._fix(node.all_input_nodes)
            if lost := [axis for axis in free if axis not in self._free_axes()]:
                detail = f" ({problem})" if str(problem) else ""
                self.unsupported.append(
                    f"operation {name}{detail} in {where!r} (value {node.name}) is not known to the tracer: what meets "
                    f"it there stays in place, which is {listed(lost)}."
                )
            fixed = [Value(tuple(map(self._unknown_dim(node), shape))) for shape in shapes]
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
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
            return False
        arguments, options = fx.map_arg((node.args, node.kwargs), self.constants.__getitem__)
        if "device" in options:
            options = {**options, "device": "cpu"}
        with torch.no_grad():
            self.constants[node] = target(*arguments, **options).cpu()
        self.values[node] = self.constant(self.constants[node])
        return True

    def _unknown_dim(self, node: fx.Node) -> Callable[[int], Dim]:
        """Makes the dimensions of what no rule tells; random numbers are all equal where constants' are."""
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        alone = not any(other in self.values for other in node.all_input_nodes)
        return uniform_dim if draws and alone and self.constant is alike_value else fixed_dim

    def _bound(self, node: fx.Node) -> dict[str, Any]:
        names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
        return {**dict(zip(names, node.args, strict=False)), **node.kwargs}

    def _mixed_activations(self, node: fx.Node) -> list[fx.Node]:
        """Inputs that the operation contracts with a trained parameter or with each other."""
        named = self._named_nodes(node)
        operands = [named[argument] for argument in self.recorder.mixed]
        # Correlations are of real numbers.
        varying = [node for node in operands if node in self.varying and not node.meta["val"].is_complex()]
        sources = {value.parameter for operand in operands if isinstance(value := self.values[operand], Value)}
        return varying if len(varying) > 1 or sources & self.trained else []

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

    def _free_axes(self) -> list[tuple[str, int]]:
        """The parameters' axes, by name and number, that may be permuted as far as is known."""
        return [
            (name, n)
            for name, value in self.parameters.items()
            for n, dim in enumerate(value.dims)
            if dim.factors and not is_fixed(bound_set(dim))
        ]

    def _fix(self, nodes: Iterable[fx.Node], mixed: bool = True) -> None:
        for node in nodes:
            values = self.values.get(node, [])
            for value in values if isinstance(values, list) else [values]:
                for dim in value.dims:
                    fix_dim(dim, mixed)
        self._fix_positions(nodes)

    def _fix_positions(self, nodes: Iterable[fx.Node]) -> None:
        """Keep in place what the values of some nodes point at: they are used as numbers."""
        for node in nodes:
            values = self.values.get(node, [])
            for value in values if isinstance(values, list) else [values]:
                if value.positions is not None:
                    fix(value.positions.of)

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


def listed(axes: Sequence[tuple[str, int]]) -> str:
    """The first of some parameters' axes, given by name and number, and how many more there are."""
    shown = ", ".join(f"axis {n} of {name!r}" for name, n in axes[:AXES_SHOWN])
    more = len(axes) - AXES_SHOWN
    return shown if more <= 0 else f"{shown} and {more} more {'axis' if more == 1 else 'axes'}"


def _has_masks(node: fx.Node) -> bool:
    """Whether an operation's tensors of positions are masks."""
    indices = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], list | tuple) else []
    values = [x.meta["val"] for x in indices if isinstance(x, fx.Node)]
    return any(isinstance(x, Tensor) and x.dtype in (torch.bool, torch.uint8) for x in values)
