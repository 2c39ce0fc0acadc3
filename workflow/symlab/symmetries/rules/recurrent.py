"""What recurrent layers do to the axes of their inputs: the hidden units of each layer and direction are one group."""

from typing import Any

from symlab.symmetries.index_sets import Unsupported
from symlab.symmetries.rules.recorder import Recorder, Sizes, combine, rule
from symlab.symmetries.values import ONE, Value, cut_dim, fix_dim, free_dim


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    """The outputs of one layer in one direction, and its states at the last step.

    Every gate has an entry for each hidden unit, and so have the states: one permutation renumbers all of them. Time
    runs along an axis that stays in place.
    """
    x, weights = arguments.get("input"), arguments.get("params")
    if not isinstance(x, Value) or len(x.dims) != 3 or not isinstance(weights, list):
        raise Unsupported("sequences of several lengths, or without a batch")
    if len(weights) != (4 if arguments["has_biases"] else 2):
        raise Unsupported("states that are projected")
    states = arguments["hx"] if isinstance(arguments["hx"], list) else [arguments["hx"]]
    time = 1 if arguments["batch_first"] else 0
    fix_dim(x.dims[time])
    h = _cell(recorder, x, weights, [state.with_dims(state.dims[1:]) for state in states], time)
    recorder.mixed = ["input", *(f"params.{n}" for n in range(len(weights)))]
    return [h, *[Value((ONE, h.dims[1 - time], h.dims[2]))] * (len(shapes) - 1)]


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
