"""The permutation symmetries of any network, found by following every axis through its forward pass."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_map

from symlab.batches import Inputs, parts_of
from symlab.errors import UserError
from symlab.symmetries.derive_spec import axes_of, derive_spec, free_parts
from symlab.symmetries.evaluated import Evaluated, evaluate, widened
from symlab.symmetries.forward_graph import (
    ForwardGraph,
    ancestors,
    descendants,
    export_forward,
    operation,
    shape_list,
    subgraph,
)
from symlab.symmetries.propagation import Propagation, alike_value, constant_value
from symlab.symmetries.symmetry_spec import SymmetrySpec, validate
from symlab.symmetries.values import Value

# fmt: off
JUMPING = {
    "round", "floor", "ceil", "trunc", "fix", "frac", "sign", "sgn", "heaviside", "argmax", "argmin",
    "topk", "sort", "argsort", "kthvalue", "median", "mode", "max", "min", "bucketize", "searchsorted", "gt",
    "ge", "lt", "le", "eq", "ne", "floor_divide", "remainder", "fmod", "one_hot", "histc",
}
# fmt: on

NO_COMPLEX = "which symlab does not follow: let the module hold, and compute with, real parts and imaginary ones apart."


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
        self, state: Mapping[str, Tensor], x: Tensor | Inputs | tuple[Tensor, ...], names: Iterable[str]
    ) -> dict[str, Tensor]:
        """Values of the forward pass at ``state``, in evaluation mode and without gradients.

        Only what the named values need is computed, and every other value is freed after its last use.

        Args:
            state: the network's parameters and buffers by name.
            x: a batch of inputs.
            names: values of the graph, see ``Point.value``.

        Raises:
            UserError: a name is no value of the graph, or the network cannot be traced at this batch size.
        """
        inputs = parts_of(x)
        exported = self._graph(inputs)
        wanted = tuple(dict.fromkeys(names))
        device = inputs[0].device
        key = (wanted, device, None if self.batch is None else len(inputs[0]))
        if key not in self._parts:
            self._parts[key] = subgraph(exported, wanted, device)
        module, sources = self._parts[key]
        arguments = [
            source if isinstance(source, Tensor) else inputs[int(source[1:])] if source[0] == "#" else state[source[1:]]
            for source in sources
        ]
        with torch.no_grad():
            return dict(zip(wanted, module(*arguments), strict=True))

    def _graph(self, inputs: tuple[Tensor, ...]) -> ForwardGraph:
        """The graph that takes a batch of this size."""
        batch = None if self.batch is None else len(inputs[0])
        if batch not in self._graphs:
            self._graphs[batch] = export_forward(self._module, inputs)
        return self._graphs[batch]

    def kept_by_constants(self) -> tuple[tuple[str, int], ...]:
        """Parameters' axes, by name and number, of which more could be permuted if no constant told entries apart.

        Sinusoids, rotary embeddings, biases of heads do, and random numbers. Every axis is followed twice for this.
        """
        exported = self._graphs[self.batch]
        counts, without = (
            free_parts(Propagation(self._module, exported, constant)) for constant in (constant_value, alike_value)
        )
        return tuple(axis for axis, count in counts.items() if without[axis] > count)

    @torch.no_grad()
    def evaluated(
        self,
        state: Mapping[str, Tensor],
        x: Tensor | Inputs | tuple[Tensor, ...],
        of_constant: Callable[[Tensor], Value] = constant_value,
    ) -> Evaluated:
        """All values of the forward pass at a state, by all names, with their axes; in float64."""
        inputs = parts_of(x)
        exported = self._graph(inputs)
        state, inputs = tree_map(widened, (dict(state), inputs))
        propagation = Propagation(self._module, exported, of_constant)
        spec = derive_spec(propagation)
        first_names = {name: value.parameter or name for name, value in propagation.parameters.items()}
        outputs = tuple(next(node for node in exported.graph.nodes if node.op == "output").all_input_nodes)
        forward = Evaluated(spec, [], {}, {}, {}, first_names, outputs)
        for node in propagation.nodes:
            source = exported.sources.get(node.name, "")
            if node.op != "placeholder":
                forward.nodes.append(node)
                forward.values[node] = evaluate(node, forward.values)
                # Of complex numbers no part is a neuron: what is made of them is asked.
                is_complex = isinstance(value := forward.values[node], Tensor) and value.is_complex()
                forward.axes[node] = None if is_complex else axes_of(propagation, node)
            elif isinstance(source, str) and source[0] == "=":
                name = forward.names[node] = forward.first_names[source[1:]]
                forward.values[node], forward.axes[node] = state[name], spec.axes[name]
            else:
                constant = source if isinstance(source, Tensor) else inputs[int(source[1:])]
                forward.values[node] = widened(constant)
        return forward

    def names_up_to(self, path: str) -> tuple[str, ...]:
        """Names in the state of all that the output of the submodule at a path is computed from.

        Raises:
            UserError: no such submodule computes anything.
        """
        exported = self._graphs[self.batch]
        places = {
            node: [at for at, _ in (node.meta.get("nn_module_stack") or {}).values()] for node in exported.graph.nodes
        }
        inside = [node for node, at in places.items() if node.op == "call_function" and path in at]
        if not inside:
            known = sorted({at for of_node in places.values() for at in of_node} - {""})
            nearest = get_close_matches(path, known, 1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else f": there are {', '.join(known[:6])}."
            raise UserError(f"the network computes nothing in a submodule {path!r}{hint}")
        sources = (exported.sources.get(node.name) for node in ancestors(inside))
        return tuple(source[1:] for source in sources if isinstance(source, str) and source[0] == "=")

    def returned(self) -> int:
        """How many tensors the network returns."""
        output = next(node for node in self._graphs[self.batch].graph.nodes if node.op == "output")
        return len(output.all_input_nodes)

    def jumps(self) -> tuple[str, ...]:
        """Operations on activations whose results jump: those that round, compare, or pick by size."""
        exported = self._graphs[self.batch]
        inputs = [node for node in exported.graph.nodes if str(exported.sources.get(node.name, "")).startswith("#")]
        names = {operation(node) for node in descendants(inputs) if node.op == "call_function"}
        return tuple(sorted(names & JUMPING))

    def nodes(self, names: Iterable[str]) -> list[tuple[fx.Node, str | Tensor | None]]:
        """The operations that compute some values, in order, and of placeholders what they stand for."""
        exported = self._graphs[self.batch]
        wanted = set(names)
        needed = ancestors(node for node in exported.graph.nodes if node.name in wanted)
        return [(node, exported.sources.get(node.name)) for node in exported.graph.nodes if node in needed]


def trace(module: nn.Module, example: Tensor | Inputs | tuple[Tensor, ...]) -> Traced:
    """Follow every axis of a network's parameters through its forward pass in evaluation mode.

    Args:
        module: the network; a method ``group_names() -> dict[str, str]`` may give names to the groups whose neurons are
            the outputs of the linear map, convolution or embedding at a path.
        example: inputs of a batch of any size; only their shapes, types and device matter.

    Raises:
        UserError: the forward pass cannot be traced, or two groups would get the same name.
    """
    inputs = parts_of(example)
    _check_inputs(module, inputs)
    # Exporting treats a batch of one as a special case.
    inputs = tuple(torch.cat([x, x]) if x.dim() and len(x) == 1 else x for x in inputs)
    exported = export_forward(module, inputs)
    spec = derive_spec(Propagation(module, exported))
    validate(spec, module.state_dict())
    batch = next(node.meta["val"].shape[0] for node in exported.graph.nodes if exported.sources.get(node.name) == "#0")
    only = int(batch) if isinstance(batch, int) or not batch.node.expr.free_symbols else None
    return Traced(spec, only, module, {only: exported})


def _check_inputs(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    if not isinstance(module, nn.Module):
        raise UserError(f"only an nn.Module can be traced, not a {type(module).__name__}.")
    if found := next((name for name, each in module.named_parameters() if each.is_complex()), None):
        raise UserError(f"{found!r} holds complex numbers, {NO_COMPLEX}")
    quantising = (name for name, each in module.named_modules() if type(each).__module__.endswith(".fake_quantize"))
    if found := next(quantising, None):
        raise UserError(
            f"{found!r} quantises what the network computes, by scales that fit its own weights: give the network "
            "as it was before it was prepared for quantisation-aware training, and of each state the weights alone."
        )
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
