"""What each ATen operation does to the axes of its inputs: the rules by which a network's symmetries are traced.

Most rules are written as an einsum: dimensions with the same label are unified, and the output's dimensions are those
of its labels. Operations without a rule are reported, and every axis that meets them stays in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from symlab.symmetries.axis_atoms import (
    ONE,
    Dim,
    IndexSet,
    Unsupported,
    Value,
    bound_set,
    concat,
    cut_dim,
    fix_dim,
    fixed_dim,
    permute_dims,
    uniform_dim,
    unify,
    view,
)
from symlab.symmetries.dependence import Event, LabelledTensor

Labels = Sequence[Hashable]
Sizes = tuple[int, ...]


class Unknown(int):
    """A stand-in for a number that depends on the batch size: no position can be read off it."""


class Recorder:
    """What the rules find out: events, and contractions of activations with parameters.

    Attributes:
        events: see ``dependence``.
        maps: (name of a parameter, the sets of its output axes) for each contraction with a parameter, in order.
        applied: (name of a parameter, the sets of its axes) for each parameter that is added, multiplied, ...
        mixed: names of the arguments of the current operation that enter a contraction.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.maps: list[tuple[str, list[IndexSet]]] = []
        self.applied: list[tuple[str, list[IndexSet]]] = []
        self.mixed: list[str] = []

    def relate(
        self,
        operands: Sequence[tuple[Value, Labels]],
        out: Labels,
        statistics: Sequence[Labels] = (),
        record: bool = True,
        contracts: bool = False,
    ) -> Value:
        """The value with labels ``out`` of an operation that pairs the operands' dimensions by their labels.

        Args:
            statistics: labels of intermediate results that the operation keeps to itself.
            record: whether this is an event.
            contracts: whether parameters are weights of a linear map.

        Raises:
            Unsupported: an operand has another number of dimensions than labels, or paired axes differ in length.
        """
        if any(len(value.dims) != len(labels) for value, labels in operands):
            raise Unsupported("its number of dimensions")
        sizes: dict[Hashable, int] = {}
        sets: dict[Hashable, IndexSet] = {}
        for value, labels in operands:
            for dim, label in zip(value.dims, labels, strict=True):
                sizes[label] = max(dim.size, sizes.get(label, 1))
                if dim.factors:
                    own = bound_set(dim)
                    if label in sets:
                        unify(sets[label], own)
                    sets[label] = own
        dims = tuple(Dim(sizes[label], (sets[label],)) if label in sets else uniform_dim(sizes[label]) for label in out)
        if record:
            # A value that is constant along a dimension is not indexed by it.
            tensors = [
                LabelledTensor(
                    tuple(label if dim.factors else None for dim, label in zip(value.dims, labels, strict=True)),
                    value.whole,
                )
                for value, labels in operands
            ]
            tensors += [LabelledTensor(tuple(labels)) for labels in (out, *statistics)]
            self.events.append(Event(tuple(tensors), sets))
        for value, labels in operands:
            if value.parameter is not None and not contracts:
                along = [sets[label] for dim, label in zip(value.dims, labels, strict=True) if dim.factors]
                self.applied.append((value.parameter, along))
        return Value(dims)

    def contract(
        self, operands: Sequence[tuple[str, Value, Labels]], out: Labels, statistics: Sequence[Labels] = ()
    ) -> Value:
        """As ``relate``, for sums of products; operands come with the name of their argument."""
        result = self.relate([(value, labels) for _, value, labels in operands], out, statistics, contracts=True)
        self.mixed += [name for name, _, _ in operands]
        for _, value, labels in operands:
            if value.parameter is not None:
                outputs = [label for label in out if label in labels]
                sets = [
                    dim.factors[0]
                    for dim, label in zip(result.dims, out, strict=True)
                    if label in outputs and dim.factors
                ]
                self.maps.append((value.parameter, sets))
        return result


Result = Value | list[Value]
Rule = Callable[[Recorder, dict[str, Any], list[Sizes]], Result]
Given = TypeVar("Given", bound=Rule)
RULES: dict[str, Rule] = {}
# Beside the arguments of an operation with several results, the numbers of those that are used.
RESULTS_USED = "results used"
# Operations whose result holds the same activations as their first input, pixel by pixel or summed over fixed axes.
CARRIERS: set[str] = set()


def rule(*names: str, carries: bool = False) -> Callable[[Given], Given]:
    """Register the rule of some operations; ``carries``: see ``CARRIERS``."""

    def register(function: Given) -> Given:
        RULES.update(dict.fromkeys(names, function))
        if carries:
            CARRIERS.update(names)
        return function

    return register


def _elementwise(recorder: Recorder, operands: Sequence[Value], statistics: Sequence[Labels] = ()) -> Value:
    rank = max(len(value.dims) for value in operands)
    labelled = [(value, range(rank - len(value.dims), rank)) for value in operands]
    return recorder.relate(labelled, range(rank), statistics)


def elementwise(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Any pointwise operation, with broadcasting."""
    operands = [value for value in arguments.values() if isinstance(value, Value)]
    result = _elementwise(recorder, operands)
    parameters = {value.parameter for value in operands if value.parameter}
    if len(parameters) == 1 and all(
        value.parameter or all(d.factors is None for d in value.dims) for value in operands
    ):
        return Value(result.dims, parameters.pop())
    return result


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
)
def reshape(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return view(_input(arguments), shapes[0])


@rule("numpy_T", carries=True)
def reverse(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    return permute_dims(value, range(len(value.dims))[::-1])


@rule("permute", "transpose", "t", "mT", "matrix_H", "adjoint", "movedim", "swapaxes", "swapdims", carries=True)
def reorder(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    rank = len(value.dims)
    order = list(range(rank))
    if "dims" in arguments:
        order = [dim % rank for dim in arguments["dims"]]
    elif "source" in arguments:
        source, destination = ([dim % rank for dim in _several(arguments[key])] for key in ("source", "destination"))
        others = iter(dim for dim in order if dim not in source)
        order = [source[destination.index(dim)] if dim in destination else next(others) for dim in range(rank)]
    elif rank >= 2:
        first, second = (
            arguments.get(f"dim{n}", arguments.get(f"axis{n}", default)) for n, default in ((0, -2), (1, -1))
        )
        order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
    return permute_dims(value, order)


@rule("expand", "expand_as", "broadcast_to")
def expand(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, sizes = _input(arguments), shapes[0]
    dims = (ONE,) * (len(sizes) - len(value.dims)) + value.dims
    new = tuple(uniform_dim(size) if dim.size == 1 else dim for dim, size in zip(dims, sizes, strict=True))
    return Value(new, value.parameter)


@rule("repeat", "tile")
def repeat(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, sizes = _input(arguments), shapes[0]
    dims = (ONE,) * (len(sizes) - len(value.dims)) + value.dims
    pairs = [(uniform_dim(size // dim.size), dim) for dim, size in zip(dims, sizes, strict=True)]
    return view(Value(tuple(dim for pair in pairs for dim in pair), value.parameter), sizes)


@rule("linear")
def linear(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
    batch = list(range(len(x.dims) - 1))
    out = ["out"] if len(arguments["weight"].dims) == 2 else []
    operands: list[tuple[str, Value, Labels]] = [
        ("input", x, [*batch, "in"]),
        ("weight", arguments["weight"], [*out, "in"]),
    ]
    result = recorder.contract(operands, [*batch, *out])
    return _plus(recorder, result, arguments.get("bias"))


def _plus(recorder: Recorder, value: Value, bias: Value | None) -> Value:
    return value if bias is None else _elementwise(recorder, [value, bias])


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


def _several(number: Any) -> Sequence[Any]:
    return number if isinstance(number, list | tuple) else [number]


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
    factors = [("self", _input(arguments), ["row"]), ("vec2", arguments["vec2"], ["column"])]
    return recorder.contract(factors, ["row", "column"])


@rule("diagonal", "diagonal_scatter")
def diagonal(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
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


def _windows(recorder: Recorder, value: Value, n_dims: int, sizes: Sizes) -> Value:
    """The value with its last dimensions fixed and of other sizes."""
    for dim in value.dims[len(value.dims) - n_dims :]:
        fix_dim(dim)
    kept = len(value.dims) - n_dims
    return Value((*value.dims[:kept], *(fixed_dim(size) for size in sizes[kept:])))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return convolution(recorder, {**arguments, "transposed": True}, shapes)


@rule("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
def convolution(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, weight, groups, sizes = _input(arguments), arguments["weight"], arguments.get("groups", 1), shapes[0]
    transposed = arguments.get("transposed", False)
    n_space = len(weight.dims) - 2
    kernel = weight.dims[2:]
    n_batch = len(x.dims) - n_space - 1
    batch = list(range(n_batch))
    where = [f"pixel{n}" for n in range(n_space)]
    space = x.dims[n_batch + 1 :]
    # Strides and padding may move the pixels even where their number stays.
    still = {*_several(arguments.get("stride", 1))} <= {1}
    still = still and {*_several(arguments.get("padding", 0))} <= {0, "same", "valid"}
    kept = [
        k.size == 1 and dim.size == size and still
        for k, dim, size in zip(kernel, space, sizes[n_batch + 1 :], strict=True)
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
    return result if bias is None else _per_channel(recorder, result, n_batch, [bias])


def _per_channel(
    recorder: Recorder, x: Value, channel: int, vectors: Sequence[Value | None], statistics: Sequence[Labels] = ()
) -> Value:
    labels = list(range(len(x.dims)))
    operands: list[tuple[Value, Labels]] = [(x, labels)]
    operands += [(vector, [channel] if len(vector.dims) else []) for vector in vectors if vector is not None]
    return recorder.relate(operands, labels, statistics)


@rule("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training", "prelu")
def batch_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Result:
    x = _input(arguments)
    vectors = [arguments.get(name) for name in ("weight", "bias", "running_mean", "running_var")]
    channel = min(1, len(x.dims) - 1)
    statistics = [[channel], [*range(channel + 1)]] if "running_mean" in arguments else []
    result = _per_channel(recorder, x, channel, vectors, statistics)
    return result if len(shapes) == 1 else [result, *(Value(tuple(map(fixed_dim, shape))) for shape in shapes[1:])]


@rule("layer_norm", "rms_norm")
def layer_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
    rank, over = len(x.dims), len(arguments["normalized_shape"])
    vectors = [value for name in ("weight", "bias") if (value := arguments.get(name)) is not None]
    operands = [(x, range(rank)), *((value, range(rank - over, rank)) for value in vectors)]
    return recorder.relate(operands, range(rank), [range(rank - over)])


@rule("group_norm")
def group_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, groups = _input(arguments), arguments["num_groups"]
    batch, channels, *space = (dim.size for dim in x.dims)
    x = view(x, [batch, groups, channels // groups, *space])
    labels = list(range(len(x.dims)))
    operands: list[tuple[Value, Labels]] = [(x, labels)]
    for name in ("weight", "bias"):
        if arguments.get(name) is not None:
            operands.append((view(arguments[name], [groups, channels // groups]), [1, 2]))
    return view(recorder.relate(operands, labels, [[0, 1]]), shapes[0])


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "softmin")
def softmax(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
    rank = len(x.dims)
    return _elementwise(recorder, [x], [[n for n in range(rank) if n != arguments["dim"] % rank]])


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


@rule("embedding")
def embedding(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    weight, indices = arguments["weight"], arguments["indices"]
    fix_dim(weight.dims[0])
    batch = list(range(len(indices.dims)))
    table = Value(weight.dims[1:], weight.parameter)
    result = recorder.relate([(indices, batch), (table, ["out"])], [*batch, "out"], contracts=True)
    recorder.relate([(weight, ["row", "out"])], ["out"], contracts=True)
    if weight.parameter is not None:
        recorder.maps.append((weight.parameter, list(result.dims[-1].factors or ())))
    return result


@rule("index")
def index(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Rows picked by one tensor of positions."""
    value, indices = _input(arguments), arguments["indices"]
    used = [(dim, of_dim) for dim, of_dim in enumerate(indices) if of_dim is not None]
    if len(used) != 1:
        raise Unsupported("more than one tensor of positions")
    dim, positions = used[0]
    fix_dim(value.dims[dim])
    new = tuple(fixed_dim(other.size) for other in positions.dims)
    for other in positions.dims:
        fix_dim(other)
    return Value((*value.dims[:dim], *new, *value.dims[dim + 1 :]), value.parameter)


@rule("index_select", "flip", "roll", "narrow_copy")
def along_fixed(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    dims = list(value.dims)
    if isinstance(positions := arguments.get("index"), Value):
        for dim in positions.dims:
            fix_dim(dim)
    for at in _reduced(arguments, len(dims)):
        fix_dim(dims[at])
        dims[at] = fixed_dim(shapes[0][at])
    return Value(tuple(dims), value.parameter)


def _reduced(arguments: dict[str, Any], rank: int) -> set[int]:
    dims = arguments.get("dim", arguments.get("dims"))
    if dims is None or dims == []:
        return set(range(rank))
    return {dim % rank for dim in _several(dims)}


@rule(
    *("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "linalg_vector_norm", "norm", "any", "all"),
    carries=True,
)
def reduction(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
    gone = _reduced(arguments, len(x.dims))
    result = recorder.relate([(x, range(len(x.dims)))], [n for n in range(len(x.dims)) if n not in gone])
    kept = list(result.dims)
    if arguments.get("keepdim"):
        kept = [ONE if n in gone else kept.pop(0) for n in range(len(x.dims))]
    return Value(tuple(kept))


@rule("var_mean", "std_mean", "aminmax")
def reductions(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    return [reduction(recorder, arguments, shapes)] * 2


@rule("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "argsort")
def ordered(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
    """What depends on the order along one dimension, and on the others only through their entries."""
    x = _input(arguments)
    at = arguments.get("dim", -1) % len(x.dims)
    result = _fixed_along(_elementwise(recorder, [x]), at, shapes[0][at])
    return result if len(shapes) == 1 else [result] * len(shapes)


@rule("max", "min")
def max_or_elementwise(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
    if isinstance(arguments.get("other"), Value):
        return elementwise(recorder, arguments, shapes)
    if "dim" not in arguments:
        return reduction(recorder, arguments, shapes)
    if 1 in arguments[RESULTS_USED]:
        # It says where in the reduced dimension the maximum is.
        fix_dim(_input(arguments).dims[arguments["dim"]])
    return [reduction(recorder, arguments, shapes)] * 2


@rule("argmax", "argmin")
def argmax(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = _input(arguments)
    for dim in _reduced(arguments, len(x.dims)):
        fix_dim(x.dims[dim])
    return reduction(recorder, arguments, shapes)


def _pool(n_dims: int) -> Rule:
    def pool(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
        result = _windows(recorder, _input(arguments), n_dims, shapes[0])
        return result if len(shapes) == 1 else [result] * len(shapes)

    return pool


for _n in (1, 2, 3):
    rule(
        *(f"{kind}_pool{_n}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max", "_adaptive_avg")),
        f"_adaptive_avg_pool{_n}d",
        f"max_pool{_n}d_with_indices",
        carries=True,
    )(_pool(_n))
    rule(
        *(f"upsample_{kind}{_n}d" for kind in ("nearest", "linear", "bilinear", "bicubic", "trilinear")),
        *(f"_upsample_{kind}{_n}d" for kind in ("nearest_exact", "bilinear_aa", "bicubic_aa")),
        *(f"{kind}_pad{_n}d" for kind in ("reflection", "replication")),
    )(_pool(_n))


@rule("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = _input(arguments), shapes[0]
    *batch, channels, height, width = (dim.size for dim in x.dims)
    inner = channels // sizes[-3]
    if inner > 1:
        x = view(x, [*batch, sizes[-3], inner, height, width])
        fix_dim(x.dims[-3])
        x = Value((*x.dims[:-3], *x.dims[-2:]))
    spaced = _windows(recorder, x, 2, (*batch, x.dims[-3].size, *sizes[-2:]))
    if inner > 1:
        return spaced
    outer = sizes[-3] // channels
    dims = (*spaced.dims[:-2], fixed_dim(outer), *spaced.dims[-2:])
    return view(Value(dims), sizes)


@rule("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    batch, channels, *space = shapes[0]
    split = view(_input(arguments), [batch, arguments["groups"], channels // arguments["groups"], *space])
    return view(permute_dims(split, [0, 2, 1, *range(3, 3 + len(space))]), shapes[0])


@rule("im2col")
def im2col(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = _input(arguments), shapes[0]
    for dim in x.dims[-2:]:
        fix_dim(dim)
    kernel = sizes[-2] // x.dims[-3].size
    return view(Value((*x.dims[:-2], fixed_dim(kernel), fixed_dim(sizes[-1]))), sizes)


@rule("unfold", carries=True)
def unfold(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, sizes = _input(arguments), shapes[0]
    at = arguments["dimension"] % len(x.dims)
    fix_dim(x.dims[at])
    return Value((*x.dims[:at], fixed_dim(sizes[at]), *x.dims[at + 1 :], fixed_dim(sizes[-1])))


@rule("repeat_interleave")
def repeat_interleave(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Every entry several times, one after another."""
    value, times, dim = _input(arguments), arguments.get("repeats"), arguments.get("dim")
    if type(times) is not int or dim is None:
        raise Unsupported("repeats that are no number, or no dimension")
    at = dim % len(value.dims) + 1
    return view(Value((*value.dims[:at], uniform_dim(times), *value.dims[at:]), value.parameter), shapes[0])


@rule("cat", "concat", "concatenate")
def cat(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    values = [value for value in arguments["tensors"] if all(dim.size for dim in value.dims)]
    return _cat(recorder, values, arguments.get("dim", 0) % len(shapes[0]))


def _cat(recorder: Recorder, values: Sequence[Value], at: int) -> Value:
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
    return _cat(recorder, values, at)


@rule("constant_pad_nd", "pad")
def pad(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value, amounts = _input(arguments), list(arguments["pad"])
    if _unknown(arguments):
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


@rule("split", "chunk", "split_with_sizes", "tensor_split", "unsafe_chunk", "unsafe_split", carries=True)
def split(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    value = _input(arguments)
    at = arguments.get("dim", 0) % len(value.dims)
    sizes = [shape[at] for shape in shapes]
    if _unknown(arguments) or sum(sizes) != value.dims[at].size:
        return [_fixed_along(value, at, size) for size in sizes]
    return cut_dim(value, at, sizes)


@rule("unbind", carries=True)
def unbind(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    value = _input(arguments)
    at = arguments.get("dim", 0) % len(value.dims)
    return [_without(part, at) for part in cut_dim(value, at, [1] * value.dims[at].size)]


def _without(value: Value, at: int) -> Value:
    return Value((*value.dims[:at], *value.dims[at + 1 :]), value.parameter)


@rule("select", carries=True)
def select(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    at = arguments["dim"] % len(value.dims)
    if _unknown(arguments):
        return _without(_fixed_along(value, at, 1), at)
    return _without(_between(value, at, arguments["index"] % value.dims[at].size, 1), at)


@rule("slice", "narrow", carries=True)
def take(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    at, size = arguments.get("dim", 0) % len(value.dims), value.dims[arguments.get("dim", 0)].size
    start = arguments.get("start") or 0
    if isinstance(start, Value):
        raise Unsupported("a start that depends on the input")
    if (arguments.get("step", 1) != 1 and shapes[0][at] != size) or _unknown(arguments):
        return _fixed_along(value, at, shapes[0][at])
    return _between(value, at, max(start + size, 0) if start < 0 else min(start, size), shapes[0][at])


def _fixed_along(value: Value, at: int, size: int) -> Value:
    """Any entries of the value along one dimension."""
    fix_dim(value.dims[at])
    return Value((*value.dims[:at], fixed_dim(size), *value.dims[at + 1 :]), value.parameter)


def _unknown(arguments: dict[str, Any]) -> bool:
    """Whether a position or length depends on the batch size."""
    return any(isinstance(number, Unknown) for argument in arguments.values() for number in _several(argument))


def _between(value: Value, at: int, start: int, size: int) -> Value:
    sizes = [start, size, value.dims[at].size - start - size]
    if size == 0:
        return Value((*value.dims[:at], Dim(0, None), *value.dims[at + 1 :]))
    return cut_dim(value, at, [n for n in sizes if n])[1 if start else 0]


@rule("slice_scatter", "select_scatter")
def scatter(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """The first input with one stretch of a dimension replaced."""
    value, new = _input(arguments), arguments["src"]
    at = arguments.get("dim", 0) % len(value.dims)
    size = value.dims[at].size
    start = arguments.get("index", arguments.get("start")) or 0
    start = max(start + size, 0) if start < 0 else min(start, size)
    if arguments.get("step", 1) != 1 or _unknown(arguments):
        raise Unsupported("a step or a length that depends on the input")
    if "index" in arguments:
        new = Value((*new.dims[:at], ONE, *new.dims[at:]), new.parameter)
    length = new.dims[at].size
    if length == size:
        return _elementwise(recorder, [new])
    pieces = [(0, start, None), (start, length, new), (start + length, size - start - length, None)]
    parts = [part or _between(value, at, begin, n) for begin, n, part in pieces if n]
    return _cat(recorder, parts, at)


@rule("glu")
def glu(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    at = arguments.get("dim", -1) % len(value.dims)
    return _elementwise(recorder, cut_dim(value, at, [value.dims[at].size // 2] * 2))


@rule("_weight_norm")
def weight_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    v, g = arguments["v"], arguments["g"]
    result = _elementwise(recorder, [v, g], [[arguments.get("dim", 0) % len(v.dims)]])
    return Value(result.dims, v.parameter)


@rule("_weight_norm_interface")
def weight_norm_interface(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    return [weight_norm(recorder, arguments, shapes), arguments["g"]]


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


@rule("arange", "linspace", "eye", "tril_indices", "triu_indices")
def not_uniform(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return Value(tuple(map(fixed_dim, shapes[0])))


@rule("tril", "triu")
def triangle(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = _input(arguments)
    for dim in value.dims[-2:]:
        fix_dim(dim)
    return Value((*value.dims[:-2], *map(fixed_dim, shapes[0][-2:])), value.parameter)


def _input(arguments: dict[str, Any]) -> Value:
    value = arguments.get("self", arguments.get("input"))
    if not isinstance(value, Value):
        raise Unsupported("no tensor as its input")
    return value
