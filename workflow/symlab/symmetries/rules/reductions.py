"""Sums, statistics and extremes along axes: normalisation, softmax, pooling."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from symlab.symmetries.index_sets import Positions, is_fixed, structure
from symlab.symmetries.rules.rearrangements import join
from symlab.symmetries.rules.recorder import (
    Labels,
    Recorder,
    Result,
    Rule,
    Sizes,
    combine,
    elementwise,
    fixed_along,
    input_of,
    per_dimension,
    reduced_axes,
    rule,
    windows,
)
from symlab.symmetries.values import ONE, Dim, Value, bound_set, cut_dim, fix_dim, fixed_dim, view


def per_channel(
    recorder: Recorder, x: Value, channel: int, vectors: Sequence[Value | None], statistics: Sequence[Labels] = ()
) -> Value:
    """A value and vectors along its axis of channels, entry by entry."""
    labels = list(range(len(x.dims)))
    operands: list[tuple[Value, Labels]] = [(x, labels)]
    operands += [(vector, [channel] if len(vector.dims) else []) for vector in vectors if vector is not None]
    return recorder.relate(operands, labels, statistics)


@rule("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training", "prelu")
def batch_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Result:
    x = input_of(arguments)
    vectors = [arguments.get(name) for name in ("weight", "bias", "running_mean", "running_var")]
    channel = min(1, len(x.dims) - 1)
    statistics = [[channel], [*range(channel + 1)]] if "running_mean" in arguments else []
    result = per_channel(recorder, x, channel, vectors, statistics)
    return result if len(shapes) == 1 else [result, *(Value(tuple(map(fixed_dim, shape))) for shape in shapes[1:])]


@rule("layer_norm", "rms_norm")
def layer_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = input_of(arguments)
    rank, over = len(x.dims), len(arguments["normalized_shape"])
    vectors = [value for name in ("weight", "bias") if (value := arguments.get(name)) is not None]
    operands = [(x, range(rank)), *((value, range(rank - over, rank)) for value in vectors)]
    return recorder.relate(operands, range(rank), [range(rank - over)])


@rule("group_norm")
def group_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Parts of a concatenation that hold whole groups are normalised apart."""
    x, groups = input_of(arguments), arguments["num_groups"]
    size = x.dims[1].size // groups
    kind, channels = structure(bound_set(x.dims[1]))
    sizes = [part.size for part in channels] if kind == "concat" else [x.dims[1].size]
    ends = [end for end in accumulate(sizes) if end % size == 0]
    lengths = [end - start for start, end in pairwise([0, *ends])]
    vectors = [arguments[name] for name in ("weight", "bias") if arguments.get(name) is not None]
    parts = zip(cut_dim(x, 1, lengths), *(cut_dim(vector, 0, lengths) for vector in vectors), strict=True)
    results = [_normalized_in_groups(recorder, part, own, size) for part, *own in parts]
    return results[0] if len(results) == 1 else join(recorder, results, 1)


def _normalized_in_groups(recorder: Recorder, x: Value, vectors: Sequence[Value], size: int) -> Value:
    sizes = [dim.size for dim in x.dims]
    batch, channels, *space = sizes
    x = view(x, [batch, channels // size, size, *space])
    labels = list(range(len(x.dims)))
    operands: list[tuple[Value, Labels]] = [(x, labels)]
    operands += [(view(vector, [channels // size, size]), [1, 2]) for vector in vectors]
    return view(recorder.relate(operands, labels, [[0, 1]]), sizes)


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "softmin")
def softmax(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = input_of(arguments)
    rank = len(x.dims)
    return combine(recorder, [x], [[n for n in range(rank) if n != arguments["dim"] % rank]])


@rule(
    *("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "linalg_vector_norm", "norm", "any", "all"),
    *("nansum", "nanmean", "count_nonzero"),
    carries=True,
)
def reduction(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x = input_of(arguments)
    gone = reduced_axes(arguments, len(x.dims))
    result = recorder.relate([(x, range(len(x.dims)))], [n for n in range(len(x.dims)) if n not in gone])
    kept = list(result.dims)
    if arguments.get("keepdim"):
        kept = [ONE if n in gone else kept.pop(0) for n in range(len(x.dims))]
    return Value(tuple(kept))


@rule("var_mean", "std_mean", "aminmax")
def reductions(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    return [reduction(recorder, arguments, shapes)] * 2


@rule("cumprod", "logcumsumexp", "cummax", "cummin")
def ordered(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
    """What depends on the order along one dimension, and on the others only through their entries."""
    x = input_of(arguments)
    at = arguments.get("dim", -1) % len(x.dims)
    result = fixed_along(combine(recorder, [x]), at, shapes[0][at])
    return result if len(shapes) == 1 else [result] * len(shapes)


@rule("max", "min", "median", "nanmedian")
def max_or_elementwise(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
    if isinstance(arguments.get("other"), Value):
        return elementwise(recorder, arguments, shapes)
    if "dim" not in arguments:
        return reduction(recorder, arguments, shapes)
    largest = reduction(recorder, arguments, shapes)
    return [largest, replace(largest, positions=pointing_at(input_of(arguments).dims[arguments["dim"]]))]


@rule("argmax", "argmin")
def argmax(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Where the largest entry is: positions in the reduced dimension."""
    x = input_of(arguments)
    gone = reduced_axes(arguments, len(x.dims))
    if len(gone) > 1:
        for dim in gone:
            fix_dim(x.dims[dim])
        return reduction(recorder, arguments, shapes)
    (at,) = gone
    return replace(reduction(recorder, arguments, shapes), positions=pointing_at(x.dims[at]))


def pointing_at(dim: Dim) -> Positions | None:
    """What positions in a dimension point at; None if that stays in place anyway."""
    return None if dim.factors is None or is_fixed(bound_set(dim)) else Positions(bound_set(dim))


def _pool(n_dims: int) -> Rule:
    def pool(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value | list[Value]:
        x = input_of(arguments)
        result = windows(x, n_dims, shapes[0], kept=_windows_of_one(arguments, x, n_dims, shapes[0]))
        return result if len(shapes) == 1 else [result] * len(shapes)

    return pool


def _windows_of_one(arguments: dict[str, Any], x: Value, n_dims: int, sizes: Sizes) -> list[bool]:
    """For each of the last dimensions whether every window of a pooling is one entry, in its place."""
    same_sizes = [dim.size == size for dim, size in zip(x.dims[-n_dims:], sizes[-n_dims:], strict=True)]
    if "kernel_size" not in arguments:
        return [same and "output_size" in arguments for same in same_sizes]
    kernel = per_dimension(arguments, "kernel_size", 1, n_dims)
    strides, paddings = (
        per_dimension(arguments, "stride", kernel, n_dims),
        per_dimension(arguments, "padding", 0, n_dims),
    )
    windows = zip(kernel, strides, paddings, same_sizes, strict=True)
    return [size == stride == 1 and padding == 0 and same for size, stride, padding, same in windows]


for _n in (1, 2, 3):
    rule(
        *(f"{kind}_pool{_n}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max", "_adaptive_avg")),
        f"_adaptive_avg_pool{_n}d",
        f"max_pool{_n}d_with_indices",
        carries=True,
    )(_pool(_n))
    rule(
        *(f"upsample_{kind}{_n}d" for kind in ("nearest", "linear", "bilinear", "bicubic", "trilinear")),
        *(f"_upsample_{kind}" for kind in (f"nearest_exact{_n}d", f"bilinear{_n}d_aa", f"bicubic{_n}d_aa")),
        *(f"{kind}_pad{_n}d" for kind in ("reflection", "replication")),
    )(_pool(_n))


@rule("_weight_norm")
def weight_norm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    v, g = arguments["v"], arguments["g"]
    result = combine(recorder, [v, g], [[arguments.get("dim", 0) % len(v.dims)]])
    return Value(result.dims, v.parameter)


@rule("_weight_norm_interface")
def weight_norm_interface(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    return [weight_norm(recorder, arguments, shapes), arguments["g"]]
