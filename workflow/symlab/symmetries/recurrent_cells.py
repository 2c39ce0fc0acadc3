"""Recurrent layers of a graph taken apart into their cells, so that the states of each are values of the graph.

torch computes all layers and directions in one operation and stacks their last states, so that a permutation of one
cell's hidden units could not be told from the others', and what lower layers compute could not be recorded.
"""

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
RECURRENT = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)


def cells_apart(graph: fx.Graph) -> None:
    """Have each layer and direction of the graph's recurrent layers be an operation."""
    for node in [node for node in graph.nodes if node.target in RECURRENT]:
        given: Any = node.args
        x, _, params, biased, layers, _, _, both, _ = given
        n_cells = layers * (2 if both else 1)
        # Others have one cell, no batch, or states that are projected.
        if n_cells == 1 or x.meta["val"].dim() != 3 or len(params) != (4 if biased else 2) * n_cells:
            continue
        with graph.inserting_before(node):
            output, last = _cells(graph, node)
        for user in list(node.users):
            number: Any = user.args[1]
            if number == 0:
                user.replace_all_uses_with(output)
            else:
                _states(graph, user, [of_cell[number] for of_cell in last])
            graph.erase_node(user)
        graph.erase_node(node)


def _cells(graph: fx.Graph, node: fx.Node) -> tuple[fx.Node, list[list[fx.Node]]]:
    """A recurrent layer's outputs [batch, time, directions x H], and of each cell the outputs and last states."""
    given: Any = node.args
    x, starts, params, biased, layers, _, _, both, batch_first = given
    several, gates, time = isinstance(starts, list | tuple), 4 if biased else 2, int(batch_first)
    kind: Any = node.target
    found: list[list[fx.Node]] = []
    whole, *states = node.meta["val"]
    size = states[0].shape[2]
    for _ in range(layers):
        outputs = []
        for reverse in (False, True) if both else (False,):
            k = len(found)
            own = [
                _call(graph, node, aten.slice.Tensor, start, 0, k, k + 1) for start in (starts if several else [starts])
            ]
            read = _call(graph, node, aten.flip.default, x, [time]) if reverse else x
            of_cell = params[k * gates : (k + 1) * gates]
            options = (biased, 1, 0.0, False, False, batch_first)
            cell = graph.call_function(kind, (read, own if several else own[0], of_cell, *options))
            cell.meta = {**node.meta, "val": (whole[..., :size], *(state[:1] for state in states))}
            h, *ends = (_call(graph, node, operator.getitem, cell, n) for n in range(len(node.meta["val"])))
            outputs.append(_call(graph, node, aten.flip.default, h, [time]) if reverse else h)
            found.append([outputs[-1], *ends])
        x = _call(graph, node, aten.cat.default, outputs, 2) if both else outputs[0]
    return x, found


def _states(graph: fx.Graph, stacked: fx.Node, of_cells: list[fx.Node]) -> None:
    """Have who takes one cell's last state take that, and the others all of them."""
    for user in list(stacked.users):
        at: Any = user.args[2] if user.target is aten.select.int and user.args[1] == 0 else None
        if isinstance(at, int):
            with graph.inserting_before(user):
                one = _call(graph, user, aten.select.int, of_cells[at], 0, 0)
            user.replace_all_uses_with(one)
            graph.erase_node(user)
    if stacked.users:
        with graph.inserting_before(stacked):
            stacked.replace_all_uses_with(_call(graph, stacked, aten.cat.default, of_cells, 0))


def _call(graph: fx.Graph, like: fx.Node, target: Any, *args: Any) -> fx.Node:
    """An operation in the place of another, with the shapes of its result."""
    made = graph.call_function(target, args)
    made.meta = {**like.meta, "val": target(*fx.map_arg(args, lambda other: other.meta["val"]))}
    return made
