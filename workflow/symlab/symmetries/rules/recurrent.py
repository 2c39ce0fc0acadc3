"""What recurrent layers do to the axes of their inputs: the hidden units of each layer and direction are one group."""

from typing import Any

from symlab.symmetries.index_sets import Unsupported
from symlab.symmetries.rules.rearrangements import join
from symlab.symmetries.rules.recorder import RESULTS_USED, Recorder, Sizes, combine, rule
from symlab.symmetries.values import ONE, Value, cut_dim, fix_dim, fixed_dim, free_dim


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    """Outputs, and for the last step the states of all layers and directions.

    Every gate has an entry for each hidden unit, and so have the states: one permutation renumbers all of them. Time
    runs along an axis that stays in place.
    """
    x, weights = arguments.get("input"), arguments.get("params")
    if not isinstance(x, Value) or len(x.dims) != 3 or not isinstance(weights, list):
        raise Unsupported("sequences of several lengths, or without a batch")
    states = arguments["hx"] if isinstance(arguments["hx"], list) else [arguments["hx"]]
    directions = 2 if arguments["bidirectional"] else 1
    n_cells = arguments["num_layers"] * directions
    per_cell = 4 if arguments["has_biases"] else 2
    if len(weights) != per_cell * n_cells:
        raise Unsupported("states that are projected")
    time = 1 if arguments["batch_first"] else 0
    fix_dim(x.dims[time])
    last: list[Value] = []
    for layer in range(arguments["num_layers"]):
        outputs = []
        for cell in range(layer * directions, (layer + 1) * directions):
            starts = [_cell_of(state, cell) for state in states]
            h = _cell(recorder, x, weights[cell * per_cell : (cell + 1) * per_cell], starts, time)
            outputs.append(h)
            last.append(Value((ONE, h.dims[1 - time], h.dims[2])))
        x = join(recorder, outputs, 2)
    recorder.mixed = ["input", *(f"params.{n}" for n in range(len(weights)))]
    # Other layers' states are other groups: who wants all of them as one tensor gets one group.
    kept = any(number > 0 for number in arguments[RESULTS_USED])
    final = join(recorder, last, 0) if kept else Value(tuple(map(fixed_dim, shapes[1])))
    return [x, *[final] * (len(shapes) - 1)]


def _cell(recorder: Recorder, x: Value, weights: list[Value], starts: list[Value], time: int) -> Value:
    """The hidden states [batch, time, H], or [time, batch, H], of one direction of a layer."""
    from_x, from_h, *biases = weights
    size = from_h.dims[1].size
    hidden = Value((*x.dims[:2], free_dim(size)))
    gates = []
    for value, weight, bias in zip((x, hidden), (from_x, from_h), biases or (None, None), strict=True):
        mapped = recorder.contract([("input", value, [0, 1, "in"]), ("params", weight, ["out", "in"])], [0, 1, "out"])
        mapped = mapped if bias is None else combine(recorder, [mapped, bias])
        gates += cut_dim(mapped, 2, [size] * (weight.dims[0].size // size))
    for start in starts:
        gates.append(Value((*start.dims[:time], ONE, *start.dims[time:])))
    return combine(recorder, [hidden, *gates])


def _cell_of(state: Value, cell: int) -> Value:
    """The initial state [batch, H] of one direction of a layer."""
    part = cut_dim(state, 0, [1] * state.dims[0].size)[cell]
    return part.with_dims(part.dims[1:])
