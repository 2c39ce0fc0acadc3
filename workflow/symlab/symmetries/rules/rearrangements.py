"""Entries that are moved, repeated, cut out, joined or filled in, and stay what they are."""

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

from symlab.symmetries.index_sets import IndexSet, Unsupported, concat
from symlab.symmetries.rules.recorder import (
    Recorder,
    Sizes,
    Unknown,
    combine,
    elementwise,
    fixed_along,
    has_unknown,
    input_of,
    reduced_axes,
    rule,
    several,
    windows,
)
from symlab.symmetries.values import (
    ONE,
    Dim,
    Value,
    bound_set,
    cut_dim,
    fix_dim,
    fixed_dim,
    permute_dims,
    uniform_dim,
    view,
)


@rule(
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "native_dropout",
    "clone",
    "contiguous",
    "alias",
    "detach",
    "lift_fresh_copy",
    "lift",
    "to",
    "_to_copy",
    "type_as",
    "positive",
    "real",
    carries=True,
    points=True,
)
def same(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return next(value for value in arguments.values() if isinstance(value, Value))


@rule(
    "view",
    "reshape",
    "_unsafe_view",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "view_as",
    "reshape_as",
    "ravel",
    carries=True,
    points=True,
)
def reshape(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """New dimensions; where sizes that vary make up others, those behind them are the same from the end."""
    value, sizes = input_of(arguments), shapes[0]
    if prod(sizes) == prod(dim.size for dim in value.dims):
        return view(value, sizes)
    same = 0
    while same < min(len(sizes), len(value.dims)) and sizes[-1 - same] == value.dims[-1 - same].size:
        same += 1
    front, back = value.dims[: len(value.dims) - same], value.dims[len(value.dims) - same :]
    if not any(isinstance(dim.size, Unknown) for dim in front):
        raise Unsupported("a number of entries that changes")
    for dim in front:
        fix_dim(dim)
    return value.with_dims((*(fixed_dim(size) for size in sizes[: len(sizes) - same]), *back))


@rule("numpy_T", carries=True, points=True)
def reverse(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    return permute_dims(value, range(len(value.dims))[::-1])


@rule(
    "permute",
    "transpose",
    "t",
    "mT",
    "matrix_H",
    "adjoint",
    "movedim",
    "swapaxes",
    "swapdims",
    carries=True,
    points=True,
)
def reorder(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    rank = len(value.dims)
    order = list(range(rank))
    if "dims" in arguments:
        order = [dim % rank for dim in arguments["dims"]]
    elif "source" in arguments:
        source, destination = ([dim % rank for dim in several(arguments[key])] for key in ("source", "destination"))
        others = iter(dim for dim in order if dim not in source)
        order = [source[destination.index(dim)] if dim in destination else next(others) for dim in range(rank)]
    elif rank >= 2:
        first, second = (
            arguments.get(f"dim{n}", arguments.get(f"axis{n}", default)) for n, default in ((0, -2), (1, -1))
        )
        order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
    return permute_dims(value, order)


@rule("expand", "expand_as", "broadcast_to", points=True)
def expand(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, sizes = input_of(arguments), shapes[0]
    dims = (ONE,) * (len(sizes) - len(value.dims)) + value.dims
    new = tuple(uniform_dim(size) if dim.size == 1 else dim for dim, size in zip(dims, sizes, strict=True))
    return value.with_dims(new)


@rule("repeat", "tile")
def repeat(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, sizes = input_of(arguments), shapes[0]
    dims = (ONE,) * (len(sizes) - len(value.dims)) + value.dims
    pairs = [(uniform_dim(size // max(1, dim.size)), dim) for dim, size in zip(dims, sizes, strict=True)]
    return view(Value(tuple(dim for pair in pairs for dim in pair), value.parameter), sizes)


@rule("diagonal", "diagonal_scatter")
def diagonal(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = input_of(arguments)
    rank = len(x.dims)
    both = {arguments.get("dim1", 0) % rank, arguments.get("dim2", 1) % rank}
    if arguments.get("offset", 0) or len({x.dims[at].size for at in both}) > 1:
        raise Unsupported("other than the main diagonal of squares")
    labels: list[Hashable] = ["both" if at in both else at for at in range(rank)]
    of_diagonal: list[Hashable] = [at for at in range(rank) if at not in both] + ["both"]
    written = arguments.get("src")
    if written is None:
        return recorder.relate([(x, labels)], of_diagonal)
    return recorder.relate([(x, labels), (written, of_diagonal)], labels)


@rule("flip", "roll", "narrow_copy", "diff", *(f"fft_{kind}" for kind in ("fftn", "ifftn", "rfftn", "irfftn")))
def along_fixed(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    dims = list(value.dims)
    for at in [arguments.get("dim", -1) % len(dims)] if "n" in arguments else reduced_axes(arguments, len(dims)):
        fix_dim(dims[at])
        dims[at] = fixed_dim(shapes[0][at])
    return Value(tuple(dims), value.parameter)


@rule("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = input_of(arguments), shapes[0]
    *batch, channels, height, width = (dim.size for dim in x.dims)
    inner = channels // sizes[-3]
    if inner > 1:
        x = view(x, [*batch, sizes[-3], inner, height, width])
        fix_dim(x.dims[-3])
        x = Value((*x.dims[:-3], *x.dims[-2:]))
    spaced = windows(x, 2, (*batch, x.dims[-3].size, *sizes[-2:]))
    if inner > 1:
        return spaced
    outer = sizes[-3] // channels
    dims = (*spaced.dims[:-2], fixed_dim(outer), *spaced.dims[-2:])
    return view(Value(dims), sizes)


@rule("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    batch, channels, *space = shapes[0]
    split = view(input_of(arguments), [batch, arguments["groups"], channels // arguments["groups"], *space])
    return view(permute_dims(split, [0, 2, 1, *range(3, 3 + len(space))]), shapes[0])


@rule("im2col")
def im2col(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = input_of(arguments), shapes[0]
    for dim in x.dims[-2:]:
        fix_dim(dim)
    kernel = sizes[-2] // x.dims[-3].size
    return view(Value((*x.dims[:-2], fixed_dim(kernel), fixed_dim(sizes[-1]))), sizes)


@rule("col2im")
def col2im(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = input_of(arguments), shapes[0]
    *batch, columns, patches = (dim.size for dim in x.dims)
    x = view(x, [*batch, sizes[-3], columns // sizes[-3], patches])
    for dim in x.dims[-2:]:
        fix_dim(dim)
    return Value((*x.dims[:-2], *(fixed_dim(size) for size in sizes[-2:])))


@rule("unfold", carries=True)
def unfold(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = input_of(arguments), shapes[0]
    at = arguments["dimension"] % len(x.dims)
    fix_dim(x.dims[at])
    return Value((*x.dims[:at], fixed_dim(sizes[at]), *x.dims[at + 1 :], fixed_dim(sizes[-1])))


@rule("repeat_interleave")
def repeat_interleave(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Every entry several times, one after another."""
    value, times, dim = input_of(arguments), arguments.get("repeats"), arguments.get("dim")
    if type(times) is not int or dim is None:
        raise Unsupported("repeats that are no number, or no dimension")
    at = dim % len(value.dims) + 1
    return view(Value((*value.dims[:at], uniform_dim(times), *value.dims[at:]), value.parameter), shapes[0])


@rule("cat", "concat", "concatenate")
def cat(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    values = [value for value in arguments["tensors"] if all(dim.size for dim in value.dims)]
    return join(recorder, values, arguments.get("dim", 0) % len(shapes[0]))


def join(recorder: Recorder, values: Sequence[Value], at: int) -> Value:
    """Values one after another along a dimension."""
    rank = len(values[0].dims)

    def labels(number: int) -> list[Hashable]:
        return [("part", number) if n == at else n for n in range(rank)]

    operands = [(value, labels(number)) for number, value in enumerate(values)]
    others = [n for n in range(rank) if n != at]
    result = list(recorder.relate(operands, others, record=False).dims)
    for operand in operands:
        recorder.relate([operand], operand[1])
    parts = [value.dims[at] for value in values]
    whole = Dim(sum(dim.size for dim in parts), (concat([bound_set(dim) for dim in parts]),))
    parameters = {value.parameter for value in values}
    result.insert(at, whole if whole.size > 1 else ONE)
    return Value(tuple(result), parameters.pop() if len(parameters) == 1 else None)


@rule("stack")
def stack(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    at = arguments.get("dim", 0) % len(shapes[0])
    values = [Value((*v.dims[:at], ONE, *v.dims[at:]), v.parameter) for v in arguments["tensors"]]
    return join(recorder, values, at)


@rule("constant_pad_nd", "pad")
def pad(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, amounts = input_of(arguments), list(arguments["pad"])
    if has_unknown(arguments):
        raise Unsupported("a length that depends on the input")
    constant = arguments.get("mode", "constant") == "constant" and min(amounts) >= 0
    for n, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        at = len(value.dims) - 1 - n
        if before == after == 0:
            continue
        dims = list(value.dims)
        if constant:
            parts = [IndexSet(before), bound_set(dims[at]), IndexSet(after)]
            dims[at] = Dim(shapes[0][at], (concat(parts),))
        else:
            fix_dim(dims[at])
            dims[at] = fixed_dim(shapes[0][at])
        value = Value(tuple(dims))
    return value


@rule("split", "chunk", "split_with_sizes", "tensor_split", "unsafe_chunk", "unsafe_split", carries=True, points=True)
def split(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    value = input_of(arguments)
    at = arguments.get("dim", 0) % len(value.dims)
    sizes = [shape[at] for shape in shapes]
    if has_unknown(arguments) or sum(sizes) != value.dims[at].size:
        return [fixed_along(value, at, size) for size in sizes]
    return cut_dim(value, at, sizes)


@rule("unbind", carries=True, points=True)
def unbind(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    value = input_of(arguments)
    at = arguments.get("dim", 0) % len(value.dims)
    return [_without(part, at) for part in cut_dim(value, at, [1] * value.dims[at].size)]


def _without(value: Value, at: int) -> Value:
    return value.with_dims((*value.dims[:at], *value.dims[at + 1 :]))


@rule("select", carries=True, points=True)
def select(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    at = arguments["dim"] % len(value.dims)
    if has_unknown(arguments):
        return _without(fixed_along(value, at, 1), at)
    return _without(between(value, at, arguments["index"] % value.dims[at].size, 1), at)


@rule("slice", "narrow", carries=True, points=True)
def take(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    at, size = arguments.get("dim", 0) % len(value.dims), value.dims[arguments.get("dim", 0)].size
    start = arguments.get("start") or 0
    if isinstance(start, Value):
        raise Unsupported("a start that depends on the input")
    step = arguments.get("step", 1)
    if step != 1 and not has_unknown(arguments) and 0 <= start < step and step * shapes[0][at] == size:
        # Every second entry: one of the columns of a matrix of two.
        sizes = [dim.size for dim in value.dims]
        columns = view(value, [*sizes[:at], shapes[0][at], step, *sizes[at + 1 :]])
        return _without(between(columns, at + 1, start, 1), at + 1)
    if (step != 1 and shapes[0][at] != size) or has_unknown(arguments):
        return fixed_along(value, at, shapes[0][at])
    return between(value, at, max(start + size, 0) if start < 0 else min(start, size), shapes[0][at])


def between(value: Value, at: int, start: int, size: int) -> Value:
    """``size`` entries of a dimension from ``start`` on."""
    sizes = [start, size, value.dims[at].size - start - size]
    if size == 0:
        return Value((*value.dims[:at], Dim(0, None), *value.dims[at + 1 :]))
    return cut_dim(value, at, [n for n in sizes if n])[1 if start else 0]


@rule("slice_scatter", "select_scatter")
def scatter(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """The first input with one stretch of a dimension replaced."""
    value, new = input_of(arguments), arguments["src"]
    at = arguments.get("dim", 0) % len(value.dims)
    size = value.dims[at].size
    start = arguments.get("index", arguments.get("start")) or 0
    start = max(start + size, 0) if start < 0 else min(start, size)
    if arguments.get("step", 1) != 1 or has_unknown(arguments):
        raise Unsupported("a step or a length that depends on the input")
    if "index" in arguments:
        new = Value((*new.dims[:at], ONE, *new.dims[at:]), new.parameter)
    length = new.dims[at].size
    if length == size:
        return combine(recorder, [new])
    pieces = [(0, start, None), (start, length, new), (start + length, size - start - length, None)]
    parts = [part or between(value, at, begin, n) for begin, n, part in pieces if n]
    return join(recorder, parts, at)


@rule("glu")
def glu(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    at = arguments.get("dim", -1) % len(value.dims)
    return combine(recorder, cut_dim(value, at, [value.dims[at].size // 2] * 2))


@rule(
    *("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"),
    *("zeros", "ones", "full", "empty", "scalar_tensor", "zero"),
)
def uniform(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return Value(tuple(map(uniform_dim, shapes[0])))


@rule("fill")
def fill(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    if isinstance(arguments["value"], Value):
        return elementwise(recorder, arguments, shapes)
    return uniform(recorder, arguments, shapes)


@rule("linspace", "eye", "tril_indices", "triu_indices")
def not_uniform(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return Value(tuple(map(fixed_dim, shapes[0])))


@rule("tril", "triu")
def triangle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    for dim in value.dims[-2:]:
        fix_dim(dim)
    return Value((*value.dims[:-2], *map(fixed_dim, shapes[0][-2:])), value.parameter)
