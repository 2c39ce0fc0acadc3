"""The forward pass of a network as a graph of operations that only return results, exported by torch."""

from __future__ import annotations

import inspect
import operator
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import transformer

from symlab.errors import UserError
from symlab.symmetries.recurrent_cells import cells_apart
from symlab.symmetries.rules.recorder import CARRIERS, rule_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram, ExportGraphSignature

# Calls of a part of the forward pass in another mode.
MODES = {"wrap_with_set_grad_enabled", "wrap_with_autocast"}
DROPOUTS = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
# Of their input they take the shape alone.
SHAPED = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
NEW_MEMORY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


@dataclass(frozen=True)
class ForwardGraph:
    """A forward pass without side effects, and what each of its placeholders stands for.

    Attributes:
        sources: by placeholder "#0", "#1", ... for an input, "=name" for an entry of the state, a tensor for itself.
    """

    graph: fx.Graph
    sources: dict[str, str | Tensor]


def export_forward(module: nn.Module, inputs: tuple[Tensor, ...]) -> ForwardGraph:
    """The forward pass in evaluation mode, for batches of any size unless it asks for the size as a number.

    Raises:
        UserError: torch.export cannot follow it.
    """
    from torch.export import Dim as ExportDim
    from torch.export import export
    from torch.export.graph_signature import InputKind

    # Of a view export asks for the tensor that it is a view of.
    inputs = tuple(x.clone() for x in inputs)
    try:
        shapes = tuple({0: ExportDim.AUTO} if x.dim() else None for x in inputs)
        with _evaluating(module):
            program = export(module, inputs, dynamic_shapes=_by_argument(module, shapes), strict=False)
        _inline_modes(program.graph_module, program.graph_signature)
        if not _made_functional(program):
            program.graph_module.recompile()
            program = program.run_decompositions({})
        program = _without_composites(program)
        _zero_new_memory(program.graph)
        _blind(program.graph)
        cells_apart(program.graph)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError) as error:
        # torch.export raises errors of many unrelated types for what it cannot follow.
        raise UserError(
            f"the forward pass of {type(module).__name__} cannot be traced at inputs of shape {shape_list(inputs)}: "
            f"{_why(module, error)}."
        ) from error
    sources: dict[str, str | Tensor] = {}
    n_inputs = 0
    state = module.state_dict()
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            sources[spec.arg.name] = f"#{n_inputs}"
            n_inputs += 1
        elif spec.target in state:
            sources[spec.arg.name] = f"={spec.target}"
        elif spec.target in program.constants:
            sources[spec.arg.name] = program.constants[spec.target]
    return ForwardGraph(program.graph, sources)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Run a module in evaluation mode, without the fused layer, which hides its linear maps, and what asks for values.

    Those are distributions, which check what they are asked about, and nn.Transformer, which looks whether a mask is
    causal, to tell that to attention beside the mask.
    """
    was_training = {part: part.training for part in module.modules()}
    fused, asks = torch.backends.mha.get_fastpath_enabled(), torch.distributions.Distribution._validate_args
    looks = transformer._detect_is_causal_mask
    module.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    torch.distributions.Distribution.set_default_validate_args(False)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        torch.distributions.Distribution.set_default_validate_args(asks)
        transformer._detect_is_causal_mask = looks
        for part, training in was_training.items():
            part.training = training


def _why(module: nn.Module, error: Exception) -> str:
    """Why torch.export cannot follow a network: in our words what people meet often, in its own what they do not."""
    for path, part in module.named_modules():
        where = f" in {path!r}" if path else ""
        if isinstance(part, torch.jit.ScriptModule):
            return f"it is compiled by torch.jit{where}, which hides its operations; give the module it was made from"
        if ".quantized" in type(part).__module__:
            return f"its weights are quantised{where}, packed as integers; give the network before it was quantised"
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(
        frame.f_code.co_filename.endswith("modules/rnn.py") and frame.f_locals.get("batch_sizes") is not None
        for frame in frames
    ):
        return (
            "it packs sequences by their lengths, so that sizes depend on values; give a network that takes them padded"
        )
    library = str(Path(torch.__file__).parent)
    own = [f for f in frames if not f.f_code.co_filename.startswith((library, str(Path(__file__).parents[1])))]
    line = f" (line {own[-1].f_lineno} of {own[-1].f_code.co_filename})" if own else ""
    if "a fake tensor in the exported program" in str(error):
        return f"it differentiates within its forward pass (torch.autograd.grad), or calls what makes no graph{line}"
    if type(error).__name__ == "GuardOnDataDependentSymNode":
        return f"which operations it computes, or on how many numbers, depends on values{line}"
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return f"torch.export, which follows it, stops{line} with {type(error).__name__}: {reason}"


def _by_argument(module: nn.Module, shapes: tuple[Any, ...]) -> Any:
    """Dynamic shapes nested as torch.export wants them for a forward with *args."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    for at, parameter in enumerate(parameters):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and at < len(shapes):
            return (*shapes[:at], shapes[at:])
    return shapes


def operation(node: fx.Node) -> str:
    """Name of a node's ATen operation without overload, or of whatever else it calls."""
    schema = getattr(node.target, "_schema", None)
    return schema.name.removeprefix("aten::") if schema is not None else str(node.target)


def _inline_modes(module: fx.GraphModule, signature: ExportGraphSignature | None = None) -> None:
    """Put what runs without gradients or under autocast into the graph itself: neither tells neurons apart."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or str(node.target) not in MODES:
            continue
        at = next(n for n, argument in enumerate(node.args) if isinstance(argument, fx.Node))
        inner = getattr(module, node.args[at].target)
        _inline_modes(inner)
        if any(other.op == "get_attr" for other in inner.graph.nodes):
            continue
        operands = iter(node.args[at + 1 :])
        copies: dict[fx.Node, Any] = {}
        results: Any = ()
        with graph.inserting_before(node):
            for other in inner.graph.nodes:
                if other.op == "output":
                    results = fx.map_arg(other.args[0], copies.__getitem__)
                else:
                    copies[other] = (
                        next(operands) if other.op == "placeholder" else graph.node_copy(other, copies.__getitem__)
                    )
        for user in list(node.users):
            _replace(user, results[user.args[1]] if user.target is operator.getitem else results, signature)
        holder = node.args[at]
        graph.erase_node(node)
        if not holder.users:
            graph.erase_node(holder)


def _without_composites(program: ExportedProgram) -> ExportedProgram:
    """The program with operations that no rule knows and torch composes of others replaced by these."""
    from torch.export import default_decompositions

    replaced: set[Any] = set()
    while composites := {node.target for node in program.graph.nodes if _is_composite(node)} - replaced:
        known = default_decompositions()
        program = program.run_decompositions({target: known[target] for target in composites if target in known})
        replaced |= composites
    return program


def _zero_new_memory(graph: fx.Graph) -> None:
    """Have memory hold 0 before it is written: what lies there differs by process, and may drown what is written."""
    for node in [node for node in graph.nodes if node.op == "call_function" and operation(node) in NEW_MEMORY]:
        with graph.inserting_after(node):
            zeroed = graph.call_function(torch.ops.aten.zero.default, (node,))
        zeroed.meta = dict(node.meta)
        node.replace_all_uses_with(zeroed, delete_user_cb=lambda user, zeroed=zeroed: user is not zeroed)


def _blind(graph: fx.Graph) -> None:
    """Have values of which only the shape is read, a column in ``ones_like(x[:, :1])``, tell no neurons apart."""
    unread: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        makes = node.op == "call_function" and isinstance(node.meta.get("val"), Tensor)
        if makes and node.users and all(user in unread or operation(user) in SHAPED for user in node.users):
            unread.add(node)
    for node in [node for node in graph.nodes if node in unread]:
        for read in [each for each in node.all_input_nodes if each not in unread]:
            if not isinstance(read.meta.get("val"), Tensor):
                continue
            with graph.inserting_before(node):
                shape = graph.call_function(torch.ops.aten.zeros_like.default, (read,))
            shape.meta = dict(read.meta)
            node.replace_input_with(read, shape)


def _is_composite(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or rule_of(operation(node), target.tags) is not None:
        return False
    # Numbers have no axes; of a Fourier transform no part is known either, and its own name tells more.
    if not isinstance(node.meta.get("val"), Tensor | list | tuple) or operation(node).startswith("fft_"):
        return False
    return target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _replace(node: fx.Node, other: fx.Node, signature: ExportGraphSignature | None) -> None:
    """Put another value in a node's place."""
    node.replace_all_uses_with(other)
    if signature is not None:
        signature.replace_all_uses(node.name, other.name)
    node.graph.erase_node(node)


def _made_functional(program: ExportedProgram) -> bool:
    """Replace operations that write into an intermediate result nobody else sees; False if others are left.

    Raises:
        UserError: something is written into a view that the exporter takes for a copy.
    """
    graph = program.graph
    if not any(_writes(node) for node in graph.nodes):
        return True
    for node in list(graph.nodes):
        # In evaluation mode the result of a dropout is its input itself, which the exporter does not know.
        if operation(node).removesuffix("_") in DROPOUTS and len(node.args) > 2 and not node.args[2]:
            _replace(node, node.args[0], program.graph_signature)
    writing = [node for node in graph.nodes if _writes(node)]
    written_storages = {_storage(node.args[0]) for node in writing if operation(node) != "detach_"} - {None}
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or any(result.alias_info is not None for result in schema.returns):
            continue
        if operation(node) == "lift_fresh_copy":
            continue
        if _storage(node) in written_storages & {_storage(source) for source in node.all_input_nodes}:
            raise UserError(
                f"the forward pass writes in place into a result of {operation(node)} in {place(node)!r}, which "
                "is a view of its input; write out of place there, or clone the result."
            )
    renewed: set[fx.Node] = set()
    for node in writing:
        written, name = node.args[0], operation(node)
        alone = isinstance(written, fx.Node) and written.op == "call_function" and list(written.users) == [node]
        fresh = alone and operation(written) not in CARRIERS | {"expand", "expand_as", "broadcast_to"}
        fresh = fresh and "getitem" not in str(written.target)
        # What was written in place is new now, though the exporter saw it in the memory of its input.
        fresh = fresh and (
            written in renewed or _storage(written) not in {_storage(source) for source in written.all_input_nodes}
        )
        functional = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
        overload = getattr(functional, node.target._overloadname, None)
        if overload is None or not (fresh or name == "detach_"):
            return False
        node.target = overload
        renewed.add(node)
    return True


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _storage(node: Any) -> int | None:
    """The memory that a node's result lies in; None if it is no single tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.untyped_storage()._cdata if isinstance(value, Tensor) else None


def subgraph(
    exported: ForwardGraph, wanted: Sequence[str], device: torch.device
) -> tuple[fx.GraphModule, list[str | Tensor]]:
    """The part of the graph that computes some values, as a module, and the sources of its arguments."""
    graph, sources = exported.graph, exported.sources
    by_name = {node.name: node for node in graph.nodes}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise UserError(f"the traced network has no value {unknown[0]!r}; recording points are listed in its spec.")
    needed = ancestors(by_name[name] for name in wanted)
    copy = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    used: list[str | Tensor] = []
    for node in graph.nodes:
        if node not in needed:
            continue
        copies[node] = copy.node_copy(node, copies.__getitem__)
        if node.op == "placeholder":
            source = sources[node.name]
            used.append(source.to(device) if isinstance(source, Tensor) else source)
        elif "device" in node.kwargs:
            copies[node].kwargs = {**copies[node].kwargs, "device": device}
    copy.output([copies[by_name[name]] for name in wanted])
    return fx.GraphModule(nn.Module(), copy), used


def ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes and everything that they are computed from."""
    return _reached(nodes, lambda node: node.all_input_nodes)


def descendants(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes and everything that is computed from them."""
    return _reached(nodes, lambda node: node.users)


def _reached(nodes: Iterable[fx.Node], neighbours: Callable[[fx.Node], Iterable[fx.Node]]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += neighbours(node)
    return found


def place(node: fx.Node) -> str:
    """Path of the module that computes a node."""
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return stack[-1] if stack else ""


def shape_list(inputs: Iterable[Tensor]) -> str:
    """The shapes of some tensors, for people."""
    return ", ".join(str(tuple(x.shape)) for x in inputs) or "()"
