"""Sums of products: linear maps, convolutions, attention."""

from collections.abc import Hashable
from typing import Any

from symlab.symmetries.index_sets import Unsupported
from symlab.symmetries.rules.recorder import Labels, Recorder, Sizes, combine, input_of, per_dimension, rule
from symlab.symmetries.rules.reductions import per_channel
from symlab.symmetries.values import ONE, Value, fix_dim, fixed_dim, view


@rule("linear")
def linear(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = input_of(arguments)
    batch = list(range(len(x.dims) - 1))
    out = ["out"] if len(arguments["weight"].dims) == 2 else []
    operands: list[tuple[str, Value, Labels]] = [
        ("input", x, [*batch, "in"]),
        ("weight", arguments["weight"], [*out, "in"]),
    ]
    result = recorder.contract(operands, [*batch, *out])
    return _plus(recorder, result, arguments.get("bias"))


def _plus(recorder: Recorder, value: Value, bias: Value | None) -> Value:
    return value if bias is None else combine(recorder, [value, bias])


@rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def matmul(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    (name_a, a), (name_b, b) = ((name, value) for name, value in arguments.items() if isinstance(value, Value))
    return _matmul(recorder, name_a, a, name_b, b)


def _matmul(recorder: Recorder, name_a: str, a: Value, name_b: str, b: Value) -> Value:
    rank = max(len(a.dims), len(b.dims)) - 2
    rows, columns = (["row"] if len(a.dims) > 1 else []), (["column"] if len(b.dims) > 1 else [])
    batch_a, batch_b = (list(range(rank - len(value.dims) + 2, rank)) for value in (a, b))
    operands = [(name_a, a, [*batch_a, *rows, "in"]), (name_b, b, [*batch_b, "in", *columns])]
    return recorder.contract(operands, [*range(rank), *rows, *columns])


@rule("cdist")
def distances(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    points = [(name, arguments[name], where) for name, where in (("x1", "row"), ("x2", "column"))]
    rank = len(shapes[0]) - 2
    operands: list[tuple[str, Value, Labels]]
    operands = [(name, x, [*range(rank - len(x.dims) + 2, rank), where, "in"]) for name, x, where in points]
    return recorder.contract(operands, [*range(rank), "row", "column"])


@rule("addmm", "baddbmm", "addmv")
def addmm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    added, *factors = (item for item in arguments.items() if isinstance(item[1], Value))
    return _plus(recorder, _matmul(recorder, *factors[0], *factors[1]), added[1])


@rule("einsum")
def einsum(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    equation, operands = arguments["equation"].replace(" ", ""), arguments["tensors"]
    inputs, _, out = equation.partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        letters = inputs.replace(",", "").replace(".", "")
        out = ("..." if "..." in inputs else "") + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))

    def labels(term: str, rank: int) -> list[Hashable]:
        before, dots, after = term.partition("...")
        hidden = rank - len(before) - len(after)
        return [*before, *(range(-hidden, 0) if dots else ()), *after]

    labelled = [labels(term, len(value.dims)) for term, value in zip(terms, operands, strict=True)]
    if any(len(set(of_term)) < len(of_term) for of_term in labelled):
        raise Unsupported("a diagonal")
    named = [
        (f"tensors.{n}", value, of_term) for n, (value, of_term) in enumerate(zip(operands, labelled, strict=True))
    ]
    return recorder.contract(named, labels(out, len(shapes[0])))


@rule("bilinear")
def bilinear(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    batch = list(range(len(shapes[0]) - 1))
    operands: list[tuple[str, Value, Labels]] = [
        ("input1", arguments["input1"], [*batch, "in1"]),
        ("input2", arguments["input2"], [*batch, "in2"]),
        ("weight", arguments["weight"], ["out", "in1", "in2"]),
    ]
    return _plus(recorder, recorder.contract(operands, [*batch, "out"]), arguments.get("bias"))


@rule("outer", "ger")
def outer(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    factors: list[tuple[str, Value, Labels]]
    factors = [("self", input_of(arguments), ["row"]), ("vec2", arguments["vec2"], ["column"])]
    return recorder.contract(factors, ["row", "column"])


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return convolution(recorder, {**arguments, "transposed": True}, shapes)


@rule("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
def convolution(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, weight, groups, sizes = input_of(arguments), arguments["weight"], arguments.get("groups", 1), shapes[0]
    transposed = arguments.get("transposed", False)
    n_space = len(weight.dims) - 2
    kernel = weight.dims[2:]
    n_batch = len(x.dims) - n_space - 1
    batch = list(range(n_batch))
    where = [f"pixel{n}" for n in range(n_space)]
    space = x.dims[n_batch + 1 :]
    # Strides and padding may move the pixels even where their number stays.
    strides = per_dimension(arguments, "stride", 1, n_space)
    paddings = per_dimension(arguments, "padding", 0, n_space)
    kept = [
        k.size == 1 and dim.size == size and stride == 1 and padding in (0, "same", "valid")
        for k, dim, size, stride, padding in zip(kernel, space, sizes[n_batch + 1 :], strides, paddings, strict=True)
    ]
    for dim, same_pixels in zip(space, kept, strict=True):
        if not same_pixels:
            fix_dim(dim)
    for dim in kernel:
        fix_dim(dim)
    pixels = tuple(dim if same_pixels else ONE for dim, same_pixels in zip(space, kept, strict=True))
    small = Value((*x.dims[: n_batch + 1], *pixels))
    a, b = weight.dims[0].size, weight.dims[1].size
    bare = Value(weight.dims[:2], weight.parameter, weight.whole)
    if groups == 1:
        w_labels = ["in", "out"] if transposed else ["out", "in"]
        labelled: list[tuple[str, Value, Labels]]
        labelled = [("input", small, [*batch, "in", *where]), ("weight", bare, w_labels)]
        result = recorder.contract(labelled, [*batch, "out", *where])
    else:
        x_sizes = [dim.size for dim in small.dims]
        small = view(small, [*x_sizes[:n_batch], groups, x_sizes[n_batch] // groups, *x_sizes[n_batch + 1 :]])
        bare = view(bare, [groups, a // groups, b])
        w_labels = ["group", "in", "out"] if transposed else ["group", "out", "in"]
        labelled = [("input", small, [*batch, "group", "in", *where]), ("weight", bare, w_labels)]
        result = recorder.contract(labelled, [*batch, "group", "out", *where])
        result = view(result, [*sizes[: n_batch + 1], *(dim.size for dim in result.dims[n_batch + 2 :])])
    dims = [
        dim if same_pixels else fixed_dim(size)
        for dim, same_pixels, size in zip(result.dims[n_batch + 1 :], kept, sizes[n_batch + 1 :], strict=True)
    ]
    result = Value((*result.dims[: n_batch + 1], *dims))
    bias = arguments.get("bias")
    return result if bias is None else per_channel(recorder, result, n_batch, [bias])


@rule("scaled_dot_product_attention")
def attention(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    if arguments.get("enable_gqa"):
        return _grouped_attention(recorder, arguments, shapes)
    query, key, value, mask = (arguments.get(name) for name in ("query", "key", "value", "attn_mask"))
    assert isinstance(query, Value) and isinstance(key, Value) and isinstance(value, Value)
    rank = len(query.dims)

    def labels(operand: Value, *last: str) -> list[Hashable]:
        return [*range(rank - len(operand.dims), rank - 2), *last]

    batch = list(range(rank - 2))
    if arguments.get("is_causal"):
        fix_dim(query.dims[-2])
        fix_dim(key.dims[-2])
    operands = [
        ("query", query, labels(query, "q", "d")),
        ("key", key, labels(key, "k", "d")),
        ("value", value, labels(value, "k", "e")),
    ]
    if isinstance(mask, Value):
        without_names = [(operand, of_operand) for _, operand, of_operand in operands]
        recorder.relate([*without_names, (mask, labels(mask, "q", "k"))], [*batch, "q", "k"])
    return recorder.contract(operands, [*batch, "q", "e"], [[*batch, "q", "k"], [*batch, "q"]])


def _grouped_attention(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Attention whose heads of queries come in groups of equal size, one for each head of keys and values."""
    groups = arguments["key"].dims[-3].size

    def grouped(name: str) -> Value | None:
        operand = arguments.get(name)
        if not isinstance(operand, Value) or len(operand.dims) < 3:
            return operand
        *batch, heads, rows, columns = (dim.size for dim in operand.dims)
        return view(operand, [*batch, groups if heads > 1 else 1, heads // groups or 1, rows, columns])

    changed = {name: grouped(name) for name in ("query", "key", "value", "attn_mask")}
    return view(attention(recorder, {**arguments, **changed, "enable_gqa": False}, shapes), shapes[0])
